/* SPDX-License-Identifier: Apache-2.0 */
/* natural.c - a sign and a power of two, stochastically rounded (natural compression, Horvath
 * et al. 2019).
 *
 * With `bits` bits a value there are M = 2^(bits-1) - 1 powers: the one above max|x| and those
 * below it. A magnitude between two powers, or between 0 and the lowest, becomes one of them so
 * that its mean is the magnitude. Magnitudes above 2^127, where there is no next power, become
 * 2^127.
 */
#include "common/codec/bitpack.h"
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/codec/wrap.h"

#include <string.h>

enum { RUN = 1024, TOP_EXPONENT = 254 };

static const ps_param natural_params[] = {
    {"bits", 8, 3, 8, true, "bits a value: the sign and one of 2^(bits-1) - 1 powers"},
    PS_WRAP_PARAMS,
    {0},
};

static unsigned bits_of(const ps_params *params)
{
    return (unsigned)params->v[0];
}

static ps_codec_facts natural_facts(const ps_params *params)
{
    /* The highest power may be twice max|x|; the lowest is M - 1 powers below it. */
    double lowest = 2.0;

    for (uint32_t i = 2; i < 1u << (bits_of(params) - 1); i++) {
        lowest /= 2;
    }
    return (ps_codec_facts){
        .is_unbiased = true,
        .keeps_zeros = true,
        .error_of_value = 1.0,
        .error_of_max = lowest,
    };
}

static size_t natural_size(const ps_params *params, size_t n)
{
    return ps_pack_bytes(n, bits_of(params));
}

static size_t natural_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                             uint8_t *out, ps_encoding *head)
{
    unsigned bits = bits_of(params);
    uint32_t powers = (1u << (bits - 1)) - 1, top, lowest;
    float room[PS_CODEC_VALUES], most;
    uint8_t codes[RUN];

    x = ps_finite(x, n, room, &most);
    memcpy(&top, &most, sizeof top);
    top = (top >> 23) + 1 < TOP_EXPONENT ? (top >> 23) + 1 : TOP_EXPONENT;
    lowest = top > powers ? top - powers + 1 : 1;
    for (size_t i = 0; i < n; i += RUN) {
        size_t m = n - i < RUN ? n - i : RUN;

        if (most > 0.0f) {
            ps_kernels_best()->powers(x + i, lowest, bits,
                                      ps_key32(key) + (uint32_t)i * UINT32_C(0x9e3779b9), codes, m);
        } else {
            memset(codes, 0, m);
        }
        ps_pack8(codes, m, bits, out + i * bits / 8);
    }
    psgd__v1__natural__init(&head->u.natural);
    head->u.natural.bits = bits;
    head->u.natural.lowest = lowest;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_NATURAL;
    head->msg.natural = &head->u.natural;
    return ps_pack_bytes(n, bits);
}

static ps_status natural_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                               size_t n)
{
    const Psgd__V1__Natural *natural = head->natural;

    (void)in;
    if (natural->bits < 3 || natural->bits > 8) {
        return ps_fail(PS_DATA_LOSS, "slice %u: natural: has %u bits a value; 3 to 8 are allowed",
                       head->slice, natural->bits);
    }
    if (len != ps_pack_bytes(n, natural->bits)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: natural: %zu bytes for %zu values of %u bits",
                       head->slice, len, n, natural->bits);
    }
    if (natural->lowest < 1 || natural->lowest > TOP_EXPONENT + 2 - (1u << (natural->bits - 1))) {
        return ps_fail(PS_DATA_LOSS, "slice %u: natural: lowest exponent %u", head->slice,
                       natural->lowest);
    }
    return ps_ok();
}

static float natural_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)head;
    (void)in;
    (void)n;
    return 0x1p127f; /* the power of TOP_EXPONENT */
}

static ps_status natural_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                                ps_into into, float *y, size_t n)
{
    ps_status st = natural_check(head, in, len, n);
    const ps_kernels *k = ps_kernels_best();
    uint8_t codes[RUN];

    if (!ps_is_ok(&st)) {
        return st;
    }
    for (size_t i = 0; i < n; i += RUN) {
        size_t m = n - i < RUN ? n - i : RUN;

        ps_unpack8(in + i * head->natural->bits / 8, m, head->natural->bits, codes);
        (into == PS_INTO_SET ? k->power_set : k->power_add)(codes, head->natural->lowest,
                                                            head->natural->bits, y + i, m);
    }
    return st;
}

const ps_codec ps_codec_natural = {
    .name = "natural",
    .summary = "sign and power of two, stochastically rounded",
    .params = natural_params,
    .own = 1,
    .wire = PSGD__V1__ENCODING__CODEC_NATURAL,
    .facts = natural_facts,
    .size = natural_size,
    .encode = natural_encode,
    .check = natural_check,
    .most = natural_most,
    .decode = natural_decode,
};
