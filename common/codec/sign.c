/* SPDX-License-Identifier: Apache-2.0 */
/* sign.c - the sign of each value, one bit, and one scale per slice.
 *
 * The value is scale or -scale. The scale is the mean of |x| (EF-signSGD, Karimireddy et al.
 * 2019: the least squared error) or the standard deviation of x. The sign of 0 is its sign bit;
 * that of NaN is +.
 */
#include "common/codec/bitpack.h"
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/codec/wrap.h"

#include <math.h>

static const ps_param sign_params[] = {
    {"scale", 0, 0, 1, true, "0: mean of |x|; 1: standard deviation of x"},
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts sign_facts(const ps_params *params)
{
    (void)params;
    return (ps_codec_facts){.error_of_max = 1.0 + 0x1p-22};
}

static size_t sign_size(const ps_params *params, size_t n)
{
    (void)params;
    return ps_pack_bytes(n, 1);
}

static double deviation(const float *x, size_t n)
{
    const ps_kernels *k = ps_kernels_best();
    double mean = (k->sum_abs(x, n) - 2 * k->sum_negative(x, n)) / (double)n;
    double variance = k->sum_square(x, n) / (double)n - mean * mean;

    return variance > 0 ? sqrt(variance) : 0;
}

static size_t sign_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                          uint8_t *out, ps_encoding *head)
{
    float room[PS_CODEC_VALUES], most;
    double scale = 0;

    (void)key;
    x = ps_finite(x, n, room, &most);
    if (most > 0.0f) {
        scale = params->v[0] == 0 ? ps_kernels_best()->sum_abs(x, n) / (double)n : deviation(x, n);
    }
    ps_kernels_best()->signs_pack(x, out, n);
    psgd__v1__sign__init(&head->u.sign);
    head->u.sign.scale = (float)(scale < (double)most ? scale : (double)most);
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_SIGN;
    head->msg.sign = &head->u.sign;
    return ps_pack_bytes(n, 1);
}

static ps_status sign_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    (void)in;
    if (len != ps_pack_bytes(n, 1)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: sign: %zu bytes for %zu values", head->slice, len,
                       n);
    }
    if (!isfinite(head->sign->scale) || head->sign->scale < 0.0f) {
        return ps_fail(PS_DATA_LOSS, "slice %u: sign: scale %g", head->slice,
                       (double)head->sign->scale);
    }
    return ps_ok();
}

static float sign_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)in;
    (void)n;
    return head->sign->scale;
}

static ps_status sign_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                             ps_into into, float *y, size_t n)
{
    ps_status st = sign_check(head, in, len, n);
    const ps_kernels *k = ps_kernels_best();

    if (ps_is_ok(&st)) {
        (into == PS_INTO_SET ? k->signs_set : k->signs_add)(in, head->sign->scale,
                                                            -head->sign->scale, y, n);
    }
    return st;
}

const ps_codec ps_codec_sign = {
    .name = "sign",
    .summary = "+-scale by the sign of x; scale is mean|x| or the standard deviation",
    .params = sign_params,
    .own = 1,
    .wire = PSGD__V1__ENCODING__CODEC_SIGN,
    .facts = sign_facts,
    .size = sign_size,
    .encode = sign_encode,
    .check = sign_check,
    .most = sign_most,
    .decode = sign_decode,
};
