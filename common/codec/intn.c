/* SPDX-License-Identifier: Apache-2.0 */
/* intn.c - integers of 2 to 16 bits and one scale per slice.
 *
 * L = 2^(bits-1) - 1, scale = max|x| / L. The value is q * scale, q in -L..L, written as q + L.
 * q is x / scale, rounded stochastically so that its mean is x / scale, or to nearest.
 */
#include "common/codec/bitpack.h"
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/levels.h"
#include "common/codec/wrap.h"

enum { BITS, STOCHASTIC };

static const ps_param intn_params[] = {
    [BITS] = {"bits", 4, 2, 16, true, "bits a value"},
    [STOCHASTIC] = {"stochastic", 1, 0, 1, true, "1: stochastic rounding, unbiased; 0: to nearest"},
    PS_WRAP_PARAMS,
    {0},
};

static unsigned bits_of(const ps_params *params)
{
    return (unsigned)params->v[BITS];
}

static ps_codec_facts intn_facts(const ps_params *params)
{
    double step = 1.0 / ((1u << (bits_of(params) - 1)) - 1);
    bool draws = params->v[STOCHASTIC] != 0;

    return (ps_codec_facts){
        .is_unbiased = draws,
        .keeps_zeros = true,
        .error_of_value = 0x1p-22, /* scale, quotient and product are rounded */
        .error_of_max = (draws ? step : step / 2) + 0x1p-22,
    };
}

static size_t intn_size(const ps_params *params, size_t n)
{
    return ps_pack_bytes(n, bits_of(params));
}

static size_t intn_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                          uint8_t *out, ps_encoding *head)
{
    unsigned bits = bits_of(params);
    uint32_t limit = (1u << (bits - 1)) - 1;
    float room[PS_CODEC_VALUES], most;

    x = ps_finite(x, n, room, &most);
    ps_levels_write(x, n, most > 0.0f ? (float)limit / most : 0.0f, limit, bits,
                    most > 0.0f && params->v[STOCHASTIC] != 0, ps_key32(key), 0, out);
    psgd__v1__intn__init(&head->u.intn);
    head->u.intn.bits = bits;
    head->u.intn.scale = most / (float)limit;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_INTN;
    head->msg.intn = &head->u.intn;
    return ps_pack_bytes(n, bits);
}

static ps_status intn_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    (void)in;
    return ps_levels_check("intn", head->slice, head->intn->bits, head->intn->scale, len, n);
}

static float intn_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)in;
    (void)n;
    return ps_levels_most(head->intn->bits, head->intn->scale);
}

static ps_status intn_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                             ps_into into, float *y, size_t n)
{
    ps_status st = intn_check(head, in, len, n);

    if (ps_is_ok(&st)) {
        ps_levels_read(in, n, (1u << (head->intn->bits - 1)) - 1, head->intn->bits,
                       head->intn->scale, into, y);
    }
    return st;
}

const ps_codec ps_codec_intn = {
    .name = "intn",
    .summary = "q * max|x| / L with q in -L..L, L = 2^(bits-1) - 1, packed",
    .params = intn_params,
    .own = 2,
    .wire = PSGD__V1__ENCODING__CODEC_INTN,
    .facts = intn_facts,
    .size = intn_size,
    .encode = intn_encode,
    .check = intn_check,
    .most = intn_most,
    .decode = intn_decode,
};
