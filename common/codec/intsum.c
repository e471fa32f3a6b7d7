/* SPDX-License-Identifier: Apache-2.0 */
/* intsum.c - integers times a power of two, which receivers add without decoding (homomorphic
 * compression as in THC, Li et al. 2024).
 *
 * The value is q * 2^e, q in -L..L with L = 2^(bits-1) - 1, and e the least exponent with
 * max|x| <= L 2^e. q is rounded stochastically so that its mean is x / 2^e. The senders of THC
 * agree on a common scale first. Here scales are powers of two, so numbers with different
 * scales are added after a shift, in 64 bits. The sum is exact, and independent of the order,
 * while exponents differ by at most 24. Magnitudes above 2^127 are clipped to that.
 */
#include "common/codec/bitpack.h"
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/levels.h"
#include "common/codec/wrap.h"

#include <math.h>

enum { APART_MOST = 24, EXPONENT_MIN = -126, EXPONENT_MAX = 127 };

static const ps_param intsum_params[] = {
    {"bits", 8, 2, 16, true, "bits a value"},
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts intsum_facts(const ps_params *params)
{
    /* 2^e is below twice max|x| / L. */
    double step = 2.0 / ((1u << ((unsigned)params->v[0] - 1)) - 1);

    return (ps_codec_facts){
        .is_unbiased = true,
        .is_summable = true,
        .keeps_zeros = true,
        .error_of_max = step,
    };
}

static size_t intsum_size(const ps_params *params, size_t n)
{
    return ps_pack_bytes(n, (unsigned)params->v[0]);
}

/* Returns the least e with most <= limit 2^e, most > 0. */
static int exponent_of(float most, uint32_t limit)
{
    int e;

    (void)frexpf(most, &e);
    e -= 32 - __builtin_clz(limit); /* limit 2^(e - 1) is now below most: e is not too large */
    while (ldexp((double)limit, e) < (double)most) {
        e++;
    }
    return e;
}

static size_t intsum_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                            uint8_t *out, ps_encoding *head)
{
    unsigned bits = (unsigned)params->v[0];
    uint32_t limit = (1u << (bits - 1)) - 1;
    float room[PS_CODEC_VALUES], most;
    int e = 0;

    x = ps_finite(x, n, room, &most);
    if (most > 0x1p127f) {
        for (size_t i = 0; i < n; i++) {
            room[i] = fabsf(x[i]) > 0x1p127f ? copysignf(0x1p127f, x[i]) : x[i];
        }
        x = room;
        most = 0x1p127f;
    }
    if (most > 0.0f) {
        e = exponent_of(most, limit);
    }
    ps_levels_write(x, n, most > 0.0f ? ldexpf(1.0f, -e) : 0.0f, limit, bits, most > 0.0f,
                    ps_key32(key), 0, out);
    psgd__v1__intsum__init(&head->u.intsum);
    head->u.intsum.bits = bits;
    head->u.intsum.exponent = e;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_INTSUM;
    head->msg.intsum = &head->u.intsum;
    return ps_pack_bytes(n, bits);
}

static ps_status intsum_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                              size_t n)
{
    int32_t e = head->intsum->exponent;

    (void)in;
    if (e < EXPONENT_MIN || e > EXPONENT_MAX) {
        return ps_fail(PS_DATA_LOSS, "slice %u: intsum: exponent %d", head->slice, (int)e);
    }
    return ps_levels_check("intsum", head->slice, head->intsum->bits, 0, len, n);
}

static float intsum_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)in;
    (void)n;
    return ps_levels_most(head->intsum->bits, ldexpf(1.0f, head->intsum->exponent));
}

static ps_status intsum_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                               ps_into into, float *y, size_t n)
{
    ps_status st = intsum_check(head, in, len, n);

    if (ps_is_ok(&st)) {
        ps_levels_read(in, n, (1u << (head->intsum->bits - 1)) - 1, head->intsum->bits,
                       ldexpf(1.0f, head->intsum->exponent), into, y);
    }
    return st;
}

/* ---- Sums ---- */

/* The sum is v * 2^low. `high` is the greatest exponent so far, and high - low is at most
 * APART_MOST, so each addition changes |v| by less than 2^(15 + APART_MOST). */
typedef struct sum_of {
    int32_t low, high, is_open;
    int64_t v[];
} sum_of;

static size_t intsum_sum_bytes(size_t n)
{
    return sizeof(sum_of) + n * sizeof(int64_t);
}

/* Returns v / 2^by, rounded to nearest, ties away from 0. */
static int64_t halved(int64_t v, int by)
{
    int64_t half = by > 0 && by < 62 ? INT64_C(1) << (by - 1) : 0;

    if (by >= 62) {
        return 0;
    }
    return v < 0 ? -((-v + half) >> by) : (v + half) >> by;
}

/* Prepares the sum for numbers times 2^e. `low` follows e down, but stays within APART_MOST of
 * `high`. */
static void reach(sum_of *s, int32_t e, size_t n)
{
    int32_t low;

    if (!s->is_open) {
        s->is_open = 1;
        s->low = s->high = e;
        return;
    }
    s->high = e > s->high ? e : s->high;
    low = e < s->low ? e : s->low;
    low = s->high - low > APART_MOST ? s->high - APART_MOST : low;
    for (size_t i = 0; low != s->low && i < n; i++) {
        s->v[i] =
            low < s->low ? s->v[i] * (INT64_C(1) << (s->low - low)) : halved(s->v[i], low - s->low);
    }
    s->low = low;
}

static void intsum_sum_add(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, void *sum,
                           size_t n)
{
    uint32_t bits = head->intsum->bits;
    int64_t limit = (INT64_C(1) << (bits - 1)) - 1;
    uint16_t codes[PS_CODEC_VALUES];
    sum_of *s = sum;
    int32_t shift;

    (void)len;
    reach(s, head->intsum->exponent, n);
    shift = head->intsum->exponent - s->low;
    ps_unpack16(in, n, bits, codes);
    for (size_t i = 0; i < n; i++) {
        int64_t q = (int64_t)codes[i] - limit;

        s->v[i] += shift >= 0 ? q * (INT64_C(1) << shift) : halved(q, -shift);
    }
}

/* Returns whether a saved sum is accepted: its exponents are in range, and each magnitude leaves
 * room in 64 bits for `reach`, which can still multiply it by 2^(APART_MOST - (high - low)). */
static bool intsum_sum_check(const void *sum, size_t n)
{
    const sum_of *s = sum;
    int64_t most;

    if (s->is_open < 0 || s->is_open > 1 || s->low < EXPONENT_MIN || s->high > EXPONENT_MAX ||
        s->low > s->high || s->high - s->low > APART_MOST) {
        return false;
    }
    most = INT64_C(1) << (62 - APART_MOST + (s->high - s->low));
    for (size_t i = 0; i < n; i++) {
        if (s->v[i] > most || s->v[i] < -most) {
            return false;
        }
    }
    return true;
}

static void intsum_sum_value(const void *sum, float *y, size_t n)
{
    const sum_of *s = sum;
    double step = ldexp(1.0, s->low);

    for (size_t i = 0; i < n; i++) {
        y[i] = (float)((double)s->v[i] * step);
    }
}

const ps_codec ps_codec_intsum = {
    .name = "intsum",
    .summary =
        "q * 2^e with q in -L..L, stochastically rounded, packed; servers add q without decoding",
    .params = intsum_params,
    .own = 1,
    .wire = PSGD__V1__ENCODING__CODEC_INTSUM,
    .facts = intsum_facts,
    .size = intsum_size,
    .encode = intsum_encode,
    .sum_bytes = intsum_sum_bytes,
    .sum_add = intsum_sum_add,
    .sum_value = intsum_sum_value,
    .sum_check = intsum_sum_check,
    .check = intsum_check,
    .most = intsum_most,
    .decode = intsum_decode,
};
