/* SPDX-License-Identifier: Apache-2.0 */
/* topk.c - sends the largest values of a slice unchanged, the others as 0.
 *
 * k = ceil(fraction * n). Of equal magnitudes the first are taken. Infinities and NaN count as
 * the largest.
 */
#include "common/codec/codec_type.h"
#include "common/codec/largest.h"
#include "common/codec/sparse.h"
#include "common/codec/wrap.h"

#include <math.h>

static const ps_param topk_params[] = {
    {"fraction", 0.01, 0.0001, 0.5, false, "share of the values that is sent"},
    PS_WRAP_PARAMS,
    {0},
};

static size_t count_of(const ps_params *params, size_t n)
{
    return (size_t)ceil(params->v[0] * (double)n);
}

static ps_codec_facts topk_facts(const ps_params *params)
{
    (void)params;
    return (ps_codec_facts){.is_sparse = true, .keeps_zeros = true, .error_of_value = 1.0};
}

static size_t topk_size(const ps_params *params, size_t n)
{
    return ps_sparse_bytes(n, count_of(params, n));
}

static size_t topk_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                          uint8_t *out, ps_encoding *head)
{
    size_t k = count_of(params, n);
    uint16_t positions[PS_CODEC_VALUES];

    (void)key;
    if (k > 0) {
        ps_choose_largest(x, n, k, positions);
    }
    psgd__v1__topk__init(&head->u.topk);
    head->u.topk.count = (uint32_t)k;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_TOPK;
    head->msg.topk = &head->u.topk;
    return ps_sparse_write(x, n, positions, k, out);
}

static ps_status topk_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    return ps_sparse_check("topk", head->slice, in, len, n, head->topk->count, NULL);
}

static size_t topk_first_nonfinite(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    return ps_sparse_first_nonfinite(in, n, head->topk->count);
}

static ps_status topk_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                             ps_into into, float *y, size_t n)
{
    return ps_sparse_decode("topk", head->slice, in, len, n, head->topk->count, into, y);
}

const ps_codec ps_codec_topk = {
    .name = "topk",
    .summary = "the largest values of the slice as float32 with their positions, others 0",
    .params = topk_params,
    .own = 1,
    .wire = PSGD__V1__ENCODING__CODEC_TOPK,
    .facts = topk_facts,
    .size = topk_size,
    .encode = topk_encode,
    .check = topk_check,
    .first_nonfinite = topk_first_nonfinite,
    .decode = topk_decode,
};
