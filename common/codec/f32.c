/* SPDX-License-Identifier: Apache-2.0 */
/* f32.c - the identity codec: IEEE 754 binary32, little-endian. */
#include "common/codec/codec_type.h"

#include "common/base/nonfinite.h"
#include "common/codec/kernels.h"
#include "common/codec/wrap.h"

#include <string.h>

static const ps_param f32_params[] = {
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts f32_facts(const ps_params *params)
{
    (void)params;
    return (ps_codec_facts){.is_unbiased = true, .is_summable = true, .keeps_zeros = true};
}

static size_t f32_size(const ps_params *params, size_t n)
{
    (void)params;
    return n * sizeof(float);
}

static size_t f32_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                         uint8_t *out, ps_encoding *head)
{
    (void)params;
    (void)key;
    psgd__v1__f32__init(&head->u.f32);
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_F32;
    head->msg.f32 = &head->u.f32;
    if (n > 0) { /* x may be NULL if n is 0 */
        memcpy(out, x, n * sizeof *x);
    }
    return n * sizeof *x;
}

static ps_status f32_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    (void)in;
    if (len != n * sizeof(float)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: f32: %zu bytes for %zu values", head->slice, len,
                       n);
    }
    return ps_ok();
}

static size_t f32_first_nonfinite(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)head;
    return ps_first_nonfinite(in, n);
}

static ps_status f32_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                            ps_into into, float *y, size_t n)
{
    ps_status st = f32_check(head, in, len, n);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (into == PS_INTO_SET) {
        memcpy(y, in, len);
    } else {
        ps_kernels_best()->f32_add(in, y, n);
    }
    return st;
}

const ps_codec ps_codec_f32 = {
    .name = "f32",
    .summary = "IEEE 754 binary32, unchanged",
    .params = f32_params,
    .wire = PSGD__V1__ENCODING__CODEC_F32,
    .is_identity = true,
    .facts = f32_facts,
    .size = f32_size,
    .encode = f32_encode,
    .check = f32_check,
    .first_nonfinite = f32_first_nonfinite,
    .decode = f32_decode,
};
