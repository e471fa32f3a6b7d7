/* SPDX-License-Identifier: Apache-2.0 */
/* int8.c - a signed byte a value and one scale a slice, stochastically rounded.
 *
 * scale = m / 127, m the largest finite magnitude; v = x / scale is rounded up
 * with the probability of its fraction, so that the mean over keys is v. NaN is
 * written as 0, an infinity as +-127. When the scale is 0 (m is 0, or so small
 * that m / 127 vanishes) all bytes are 0.
 */
#include "common/codec/codec.h"
#include "common/codec/kernels.h"

#include <math.h>
#include <string.h>

static size_t int8_size(const ps_params *params, size_t n)
{
    (void)params;
    return n;
}

static void int8_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                        uint8_t *out, ps_encoding *head)
{
    const ps_kernels *k = ps_kernels_best();
    float scale = k->finite_max(x, n) / 127.0f;

    (void)params;
    psgd__v1__int8__init(&head->u.int8);
    head->u.int8.scale = scale;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_INT8;
    head->msg.int8 = &head->u.int8;
    if (scale > 0.0f) {
        k->int8_encode(x, scale, (uint32_t)(key ^ (key >> 32)), out, n);
    } else {
        memset(out, 0, n);
    }
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
    .wire = PSGD__V1__ENCODING__CODEC_INT8,
    .bits_per_value = 8,
    .unbiased = true,
    .is_identity = false,
    .error_of_value = 0x1p-22, /* scale, quotient and product are rounded */
    .error_of_max = 1.0 / 127 + 0x1p-22,
    .size = int8_size,
    .encode = int8_encode,
    .check = int8_check,
    .decode = int8_decode,
};
