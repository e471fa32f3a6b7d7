/* SPDX-License-Identifier: Apache-2.0 */
/* norm.c - integers times a step of the slice's Euclidean norm: the quantiser of JSAC's DQLOSP,
 * with its errors corrected.
 *
 * step = range * |x|_2 / L, L = 2^(bits-1) - 1. The value is q * step, with the nearest q in
 * -L..L. Unlike the published quantiser, its levels are symmetric about 0 (mid-tread, so
 * nothing is shifted by half a step), values beyond the range are clipped and do not wrap, a
 * slice of zeros stays zeros, and the input is not modified.
 */
#include "common/codec/bitpack.h"
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/codec/levels.h"
#include "common/codec/wrap.h"

#include <float.h>
#include <math.h>

enum { BITS, RANGE };

static const ps_param norm_params[] = {
    [BITS] = {"bits", 16, 2, 16, true, "bits a value"},
    [RANGE] = {"range", 1, 0.001, 1, false, "share of the norm that the levels reach"},
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts norm_facts(const ps_params *params)
{
    double limit = (1u << ((unsigned)params->v[BITS] - 1)) - 1;
    /* The error is half a step, and the norm is at most the root of n times max|x|. A value
     * that is clipped, or below half a step, loses at most itself. */
    double half = sqrt((double)PS_CODEC_VALUES) / 2 / limit;

    return (ps_codec_facts){
        .keeps_zeros = true,
        .error_of_value = 0x1p-20,
        .error_of_max = (params->v[RANGE] == 1 && half < 1 ? half : 1.0) + 0x1p-20,
    };
}

static size_t norm_size(const ps_params *params, size_t n)
{
    return ps_pack_bytes(n, (unsigned)params->v[BITS]);
}

static size_t norm_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                          uint8_t *out, ps_encoding *head)
{
    unsigned bits = (unsigned)params->v[BITS];
    uint32_t limit = (1u << (bits - 1)) - 1;
    float room[PS_CODEC_VALUES], most, step = 0;

    (void)key;
    x = ps_finite(x, n, room, &most);
    if (most > 0.0f) {
        double exact = params->v[RANGE] * sqrt(ps_kernels_best()->sum_square(x, n)) / (double)limit;

        step = exact < (double)FLT_MAX ? (float)exact : FLT_MAX;
    }
    ps_levels_write(x, n, step > 0.0f ? 1.0f / step : 0.0f, limit, bits, false, 0, 0, out);
    psgd__v1__norm__init(&head->u.norm);
    head->u.norm.bits = bits;
    head->u.norm.scale = step;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_NORM;
    head->msg.norm = &head->u.norm;
    return ps_pack_bytes(n, bits);
}

static ps_status norm_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    (void)in;
    return ps_levels_check("norm", head->slice, head->norm->bits, head->norm->scale, len, n);
}

static float norm_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)in;
    (void)n;
    return ps_levels_most(head->norm->bits, head->norm->scale);
}

static ps_status norm_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                             ps_into into, float *y, size_t n)
{
    ps_status st = norm_check(head, in, len, n);

    if (ps_is_ok(&st)) {
        ps_levels_read(in, n, (1u << (head->norm->bits - 1)) - 1, head->norm->bits,
                       head->norm->scale, into, y);
    }
    return st;
}

const ps_codec ps_codec_norm = {
    .name = "norm",
    .summary = "q * range * |x|_2 / L with q in -L..L, the nearest, packed",
    .params = norm_params,
    .own = 2,
    .wire = PSGD__V1__ENCODING__CODEC_NORM,
    .facts = norm_facts,
    .size = norm_size,
    .encode = norm_encode,
    .check = norm_check,
    .most = norm_most,
    .decode = norm_decode,
};
