/* SPDX-License-Identifier: Apache-2.0 */
/* int8.c - a signed byte per value and one scale per slice, stochastically rounded.
 *
 * scale = m / 127, where m is the largest finite magnitude. q = floor(v + u), v = x * 127 / m,
 * u uniform in (0, 1) with 16 bits. So the mean of q over keys is v to within 2^-17, the
 * rounding error of float32 at m. NaN becomes 0, an infinity +-127. If the scale is 0 (m is 0,
 * or so small that m / 127 underflows), all bytes are 0.
 */
#include "common/codec/codec_type.h"
#include "common/codec/kernels.h"
#include "common/codec/wrap.h"

#include <math.h>
#include <string.h>

static const ps_param int8_params[] = {
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts int8_facts(const ps_params *params)
{
    (void)params;
    return (ps_codec_facts){
        .is_unbiased = true,
        .keeps_zeros = true,
        .error_of_value = 0x1p-22, /* scale, quotient and product are rounded */
        .error_of_max = 1.0 / 127 + 0x1p-22,
    };
}

static size_t int8_size(const ps_params *params, size_t n)
{
    (void)params;
    return n;
}

/* Writes the bytes of finite values whose largest magnitude is `most`. 127 / most must be
 * finite. */
static void quantise(const float *x, size_t n, float most, uint64_t key, uint8_t *out)
{
    float inverse = 127.0f / most;

    while (most * inverse > 127.0f) { /* the quotient was rounded up: one or two steps down */
        uint32_t bits;

        memcpy(&bits, &inverse, sizeof bits);
        bits--;
        memcpy(&inverse, &bits, sizeof bits);
    }
    ps_kernels_best()->int8_encode(x, inverse, (uint32_t)(key ^ (key >> 32)), out, n);
}

/* Writes the bytes of a slice that has non-finite values or only tiny ones. Returns the scale. */
static float quantise_odd(const float *x, size_t n, uint64_t key, uint8_t *out)
{
    float clean[PS_CODEC_VALUES], most = 0, scale, lift;

    for (size_t i = 0; i < n; i++) {
        float magnitude = fabsf(x[i]);

        most = magnitude > most && isfinite(magnitude) ? magnitude : most;
    }
    scale = most / 127.0f;
    if (scale == 0.0f) {
        memset(out, 0, n);
        return scale;
    }
    lift = most < 0x1p-64f ? 0x1p64f : 1.0f; /* a power of two, so no value is rounded */
    for (size_t i = 0; i < n; i++) {
        clean[i] = isnan(x[i]) ? 0.0f : isinf(x[i]) ? copysignf(most, x[i]) : x[i];
        clean[i] *= lift;
    }
    quantise(clean, n, most * lift, key, out);
    return scale;
}

static size_t int8_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                          uint8_t *out, ps_encoding *head)
{
    uint32_t bits = ps_kernels_best()->largest(x, n);
    float most, scale;

    (void)params;
    memcpy(&most, &bits, sizeof most);
    if (isfinite(most) && most >= 0x1p-64f) {
        quantise(x, n, most, key, out);
        scale = most / 127.0f;
    } else {
        scale = quantise_odd(x, n, key, out);
    }
    psgd__v1__int8__init(&head->u.int8);
    head->u.int8.scale = scale;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_INT8;
    head->msg.int8 = &head->u.int8;
    return n;
}

static ps_status int8_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    float scale = head->int8->scale;

    (void)in;
    if (len != n) {
        return ps_fail(PS_DATA_LOSS, "slice %u: int8: %zu bytes for %zu values", head->slice, len,
                       n);
    }
    if (!isfinite(scale) || scale < 0.0f) {
        return ps_fail(PS_DATA_LOSS, "slice %u: int8: scale %g", head->slice, (double)scale);
    }
    return ps_ok();
}

static float int8_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)in;
    (void)n;
    return head->int8->scale * 128.0f; /* q is at least -128 */
}

static ps_status int8_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                             ps_into into, float *y, size_t n)
{
    ps_status st = int8_check(head, in, len, n);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (into == PS_INTO_SET) {
        ps_kernels_best()->int8_set(in, head->int8->scale, y, n);
    } else {
        ps_kernels_best()->int8_add(in, head->int8->scale, y, n);
    }
    return st;
}

const ps_codec ps_codec_int8 = {
    .name = "int8",
    .summary = "q * max|x| / 127 with q in -127..127, stochastically rounded",
    .params = int8_params,
    .wire = PSGD__V1__ENCODING__CODEC_INT8,
    .facts = int8_facts,
    .size = int8_size,
    .encode = int8_encode,
    .check = int8_check,
    .most = int8_most,
    .decode = int8_decode,
};
