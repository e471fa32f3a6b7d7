/* SPDX-License-Identifier: Apache-2.0 */
/* f16.c - IEEE 754 binary16, little-endian, rounded to nearest even.
 *
 * It has 10 bits of fraction. A value from 2^-14 to 65504 loses at most 2^-11 of itself, a
 * smaller one at most 2^-25. 65520 and above become infinite; infinities and NaN are preserved.
 */
#include "common/codec/codec_type.h"

#include "common/base/nonfinite.h"
#include "common/codec/kernels.h"
#include "common/codec/wrap.h"

static const ps_param f16_params[] = {
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts f16_facts(const ps_params *params)
{
    (void)params;
    return (ps_codec_facts){.keeps_zeros = true, .error_of_value = 0x1p-11};
}

static size_t f16_size(const ps_params *params, size_t n)
{
    (void)params;
    return n * 2;
}

static size_t f16_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                         uint8_t *out, ps_encoding *head)
{
    (void)params;
    (void)key;
    psgd__v1__f16__init(&head->u.f16);
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_F16;
    head->msg.f16 = &head->u.f16;
    ps_kernels_best()->f16_encode(x, out, n);
    return n * 2;
}

static ps_status f16_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    (void)in;
    if (len != n * 2) {
        return ps_fail(PS_DATA_LOSS, "slice %u: f16: %zu bytes for %zu values", head->slice, len,
                       n);
    }
    return ps_ok();
}

static size_t f16_first_nonfinite(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)head;
    return ps_first_nonfinite16(in, n, PS_EXPONENT_F16);
}

static ps_status f16_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                            ps_into into, float *y, size_t n)
{
    ps_status st = f16_check(head, in, len, n);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (into == PS_INTO_SET) {
        ps_kernels_best()->f16_set(in, y, n);
    } else {
        ps_kernels_best()->f16_add(in, y, n);
    }
    return st;
}

const ps_codec ps_codec_f16 = {
    .name = "f16",
    .summary = "IEEE 754 binary16, rounded to nearest even",
    .params = f16_params,
    .wire = PSGD__V1__ENCODING__CODEC_F16,
    .facts = f16_facts,
    .size = f16_size,
    .encode = f16_encode,
    .check = f16_check,
    .first_nonfinite = f16_first_nonfinite,
    .decode = f16_decode,
};
