/* SPDX-License-Identifier: Apache-2.0 */
/* threshold.c - sends values above a magnitude unchanged, the others as 0.
 *
 * The number of such values depends on the data. If they and their positions would take as much
 * as the whole slice, all values are sent.
 */
#include "common/codec/codec_type.h"
#include "common/codec/kernels.h"
#include "common/codec/sparse.h"
#include "common/codec/wrap.h"

#include <string.h>

static const ps_param threshold_params[] = {
    {"magnitude", 0.001, 0, 1e30, false, "values with a larger magnitude are sent; NaN always is"},
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts threshold_facts(const ps_params *params)
{
    (void)params;
    return (ps_codec_facts){.is_sparse = true, .keeps_zeros = true, .error_of_value = 1.0};
}

static size_t threshold_size(const ps_params *params, size_t n)
{
    (void)params;
    return n * sizeof(float);
}

static size_t threshold_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                               uint8_t *out, ps_encoding *head)
{
    float most_small = (float)params->v[0];
    uint16_t positions[PS_CODEC_VALUES];
    uint32_t bits;
    size_t k;

    (void)key;
    memcpy(&bits, &most_small, sizeof bits);
    k = ps_kernels_best()->above(x, bits + 1, positions, n);
    if (ps_sparse_bytes(n, k) >= n * sizeof(float)) {
        for (k = 0; k < n; k++) {
            positions[k] = (uint16_t)k;
        }
    }
    psgd__v1__threshold__init(&head->u.threshold);
    head->u.threshold.count = (uint32_t)k;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_THRESHOLD;
    head->msg.threshold = &head->u.threshold;
    return ps_sparse_write(x, n, positions, k, out);
}

static ps_status threshold_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                                 size_t n)
{
    return ps_sparse_check("threshold", head->slice, in, len, n, head->threshold->count, NULL);
}

static size_t threshold_first_nonfinite(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    return ps_sparse_first_nonfinite(in, n, head->threshold->count);
}

static ps_status threshold_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                                  ps_into into, float *y, size_t n)
{
    return ps_sparse_decode("threshold", head->slice, in, len, n, head->threshold->count, into, y);
}

const ps_codec ps_codec_threshold = {
    .name = "threshold",
    .summary = "values above a magnitude as float32 with their positions, others 0",
    .params = threshold_params,
    .own = 1,
    .wire = PSGD__V1__ENCODING__CODEC_THRESHOLD,
    .facts = threshold_facts,
    .depends_on_data = true,
    .size = threshold_size,
    .encode = threshold_encode,
    .check = threshold_check,
    .first_nonfinite = threshold_first_nonfinite,
    .decode = threshold_decode,
};
