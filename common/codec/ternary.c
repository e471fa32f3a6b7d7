/* SPDX-License-Identifier: Apache-2.0 */
/* ternary.c - -1, 0 or 1 times a scale (TernGrad, Wen et al. 2017).
 *
 * With a clip c, values are first clipped to c times the root mean square of the slice. The
 * scale is the largest remaining magnitude. A value becomes its sign times the scale with
 * probability |x| / scale, else 0. Five values are one byte.
 */
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/codec/trits.h"
#include "common/codec/wrap.h"

#include <math.h>

static const ps_param ternary_params[] = {
    {"clip", 2.5, 0, 100, false, "values are clipped to so many root mean squares; 0: not clipped"},
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts ternary_facts(const ps_params *params)
{
    return (ps_codec_facts){
        .is_unbiased = params->v[0] == 0,
        .keeps_zeros = true,
        .error_of_value = 0x1p-22,
        .error_of_max = 1.0 + 0x1p-22,
    };
}

static size_t ternary_size(const ps_params *params, size_t n)
{
    (void)params;
    return ps_trits_bytes(n);
}

static size_t ternary_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                             uint8_t *out, ps_encoding *head)
{
    float room[PS_CODEC_VALUES], scale;

    x = ps_finite(x, n, room, &scale);
    if (scale > 0.0f && params->v[0] > 0) {
        double cut = params->v[0] * sqrt(ps_kernels_best()->sum_square(x, n) / (double)n);

        scale = cut < (double)scale ? (float)cut : scale;
        scale = scale < 0x1p-100f ? 0.0f : scale;
    }
    ps_trits_write(x, n, scale > 0.0f ? 1.0f / scale : 0.0f, scale > 0.0f, ps_key32(key), out);
    psgd__v1__ternary__init(&head->u.ternary);
    head->u.ternary.scale = scale;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_TERNARY;
    head->msg.ternary = &head->u.ternary;
    return ps_trits_bytes(n);
}

static ps_status ternary_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                               size_t n)
{
    return ps_trits_check("ternary", head->slice, head->ternary->scale, in, len, n);
}

static float ternary_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)in;
    (void)n;
    return head->ternary->scale;
}

static ps_status ternary_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                                ps_into into, float *y, size_t n)
{
    ps_status st = ternary_check(head, in, len, n);

    if (ps_is_ok(&st)) {
        ps_trits_read(in, n, head->ternary->scale, into, y);
    }
    return st;
}

const ps_codec ps_codec_ternary = {
    .name = "ternary",
    .summary =
        "q * scale with q in -1, 0, 1, stochastically rounded; scale = max|x| after clipping",
    .params = ternary_params,
    .own = 1,
    .wire = PSGD__V1__ENCODING__CODEC_TERNARY,
    .facts = ternary_facts,
    .size = ternary_size,
    .encode = ternary_encode,
    .check = ternary_check,
    .most = ternary_most,
    .decode = ternary_decode,
};
