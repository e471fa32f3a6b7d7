/* SPDX-License-Identifier: Apache-2.0 */
/* onebit.c - one bit per value and two means per slice (Seide et al. 2014).
 *
 * Values without the sign bit become their mean, values with it become theirs. NaN counts as 0.
 */
#include "common/codec/bitpack.h"
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/codec/wrap.h"

#include <math.h>

static const ps_param onebit_params[] = {
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts onebit_facts(const ps_params *params)
{
    (void)params;
    return (ps_codec_facts){.error_of_max = 1.0 + 0x1p-22};
}

static size_t onebit_size(const ps_params *params, size_t n)
{
    (void)params;
    return ps_pack_bytes(n, 1);
}

static size_t count_bits(const uint8_t *bytes, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i++) {
        count += (size_t)__builtin_popcount(bytes[i]);
    }
    return count;
}

static float mean(double sum, size_t n, float most)
{
    double m = n > 0 ? sum / (double)n : 0;

    return (float)(m < 0 ? 0 : m < (double)most ? m : (double)most);
}

static size_t onebit_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                            uint8_t *out, ps_encoding *head)
{
    const ps_kernels *k = ps_kernels_best();
    float room[PS_CODEC_VALUES], most;
    double negative;
    size_t minus;

    (void)params;
    (void)key;
    x = ps_finite(x, n, room, &most);
    k->signs_pack(x, out, n);
    minus = count_bits(out, ps_pack_bytes(n, 1));
    negative = k->sum_negative(x, n);
    psgd__v1__onebit__init(&head->u.onebit);
    head->u.onebit.plus = mean(k->sum_abs(x, n) - negative, n - minus, most);
    head->u.onebit.minus = -mean(negative, minus, most);
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_ONEBIT;
    head->msg.onebit = &head->u.onebit;
    return ps_pack_bytes(n, 1);
}

static ps_status onebit_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                              size_t n)
{
    (void)in;
    if (len != ps_pack_bytes(n, 1)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: onebit: %zu bytes for %zu values", head->slice, len,
                       n);
    }
    if (!isfinite(head->onebit->plus) || !isfinite(head->onebit->minus)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: onebit: means %g and %g", head->slice,
                       (double)head->onebit->plus, (double)head->onebit->minus);
    }
    return ps_ok();
}

static float onebit_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)in;
    (void)n;
    return fmaxf(fabsf(head->onebit->plus), fabsf(head->onebit->minus));
}

static ps_status onebit_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                               ps_into into, float *y, size_t n)
{
    ps_status st = onebit_check(head, in, len, n);
    const ps_kernels *k = ps_kernels_best();

    if (ps_is_ok(&st)) {
        (into == PS_INTO_SET ? k->signs_set : k->signs_add)(in, head->onebit->plus,
                                                            head->onebit->minus, y, n);
    }
    return st;
}

const ps_codec ps_codec_onebit = {
    .name = "onebit",
    .summary = "the mean of the positive or of the negative values, by the sign of x",
    .params = onebit_params,
    .wire = PSGD__V1__ENCODING__CODEC_ONEBIT,
    .facts = onebit_facts,
    .size = onebit_size,
    .encode = onebit_encode,
    .check = onebit_check,
    .most = onebit_most,
    .decode = onebit_decode,
};
