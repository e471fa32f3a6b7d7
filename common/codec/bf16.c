/* SPDX-License-Identifier: Apache-2.0 */
/* bf16.c - the upper half of binary32, little-endian, rounded to nearest even.
 *
 * It has 7 bits of fraction and the range of binary32. A normal value loses at most 2^-8 of
 * itself. The largest values round to infinity; infinities and NaN are preserved.
 */
#include "common/codec/codec_type.h"

#include "common/base/nonfinite.h"
#include "common/codec/kernels.h"
#include "common/codec/wrap.h"

static const ps_param bf16_params[] = {
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts bf16_facts(const ps_params *params)
{
    (void)params;
    return (ps_codec_facts){.keeps_zeros = true, .error_of_value = 0x1p-8};
}

static size_t bf16_size(const ps_params *params, size_t n)
{
    (void)params;
    return n * 2;
}

static size_t bf16_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                          uint8_t *out, ps_encoding *head)
{
    (void)params;
    (void)key;
    psgd__v1__bf16__init(&head->u.bf16);
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_BF16;
    head->msg.bf16 = &head->u.bf16;
    ps_kernels_best()->bf16_encode(x, out, n);
    return n * 2;
}

static ps_status bf16_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    (void)in;
    if (len != n * 2) {
        return ps_fail(PS_DATA_LOSS, "slice %u: bf16: %zu bytes for %zu values", head->slice, len,
                       n);
    }
    return ps_ok();
}

static size_t bf16_first_nonfinite(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)head;
    return ps_first_nonfinite16(in, n, PS_EXPONENT_BF16);
}

static ps_status bf16_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                             ps_into into, float *y, size_t n)
{
    ps_status st = bf16_check(head, in, len, n);

    if (ps_is_ok(&st)) {
        (into == PS_INTO_SET ? ps_kernels_best()->bf16_set : ps_kernels_best()->bf16_add)(in, y, n);
    }
    return st;
}

const ps_codec ps_codec_bf16 = {
    .name = "bf16",
    .summary = "upper half of IEEE 754 binary32, rounded to nearest even",
    .params = bf16_params,
    .wire = PSGD__V1__ENCODING__CODEC_BF16,
    .facts = bf16_facts,
    .size = bf16_size,
    .encode = bf16_encode,
    .check = bf16_check,
    .first_nonfinite = bf16_first_nonfinite,
    .decode = bf16_decode,
};
