/* SPDX-License-Identifier: Apache-2.0 */
/* laq.c - integers times a scale that is fitted to the loss (loss-aware quantisation, Hou and
 * Kwok 2018); the older systems' `laq`.
 *
 * q = x / a, rounded and clipped to -L..L with L = 2^(bits-1) - 1. a minimises sum(d (x - a
 * q)^2): a = sum(d q x) / sum(d q q), repeated with the new q until a changes by less than 1e-4
 * of itself, at most ten times (the older system's loop need not end). d stands for the
 * curvature: the root of a running mean of x^2, v = 0.9 v + 0.1 x^2, d = sqrt(v), which is the
 * sender's state. Without state d is |x|. a begins at the best value of a uniform quantiser for
 * normal values. Sums are over a quarter of a long slice.
 */
#include "common/codec/bitpack.h"
#include "common/codec/codec_state.h"
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/codec/levels.h"
#include "common/codec/wrap.h"

#include <math.h>

enum { BITS, STOCHASTIC };
enum { FITS_MOST = 10 };

static const float keep = 0.9f;
static const double close_enough = 1e-4;

static const ps_param laq_params[] = {
    [BITS] = {"bits", 4, 2, 16, true, "bits a value"},
    [STOCHASTIC] = {"stochastic", 0, 0, 1, true, "1: stochastic rounding; 0: to nearest"},
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts laq_facts(const ps_params *params)
{
    (void)params;
    return (ps_codec_facts){.keeps_zeros = true,
                            .error_of_value = 0x1p-20,
                            /* values are clipped to a L, and a <= max|x| */
                            .error_of_max = 1.0 + 0x1p-20};
}

static size_t laq_size(const ps_params *params, size_t n)
{
    return ps_pack_bytes(n, (unsigned)params->v[BITS]);
}

static double fitted(const float *x, const float *d, size_t n, unsigned bits, double most)
{
    const ps_kernels *k = ps_kernels_best();
    double limit = (1u << (bits - 1)) - 1;
    double a = sqrt(k->sum_square(x, n) / (double)n) * (1.2 + 0.5 * (bits - 2)) / limit;

    for (int i = 0; i < FITS_MOST; i++) {
        double sums[2], before = a;

        k->fit(x, d, (float)(1 / a), (float)limit, ps_fit_stride(n), sums, n);
        if (!(sums[0] > 0 && sums[1] > 0 && isfinite(sums[0] / sums[1]))) {
            return most / limit;
        }
        a = sums[0] / sums[1];
        if (fabs(a - before) <= close_enough * a) {
            break;
        }
    }
    return a > most / limit * 0x1p-20 ? a : most / limit; /* keeps 1 / a finite */
}

/* Computes the weights d (n), multiplied by `inverse`, 1 / max|x|, so that no square underflows or
 * overflows. v (n; NULL: there is no state) is the running mean of squares, to which x is added if
 * is_new. */
static void weigh(const float *x, float inverse, float *v, bool is_new, float *d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float m = fabsf(x[i]) * inverse;

        if (v != NULL) {
            /* v is a mean of squares of x, not scaled; squares that underflow get no weight. */
            v[i] = is_new ? keep * v[i] + (1.0f - keep) * fminf(x[i] * x[i], 0x1p100f) : v[i];
            m = sqrtf(v[i]) * inverse;
        }
        d[i] = fminf(m, 0x1p20f);
    }
}

static size_t laq_encode_with(const ps_params *params, uint64_t key, float *state, const float *x,
                              size_t n, uint8_t *out, ps_encoding *head)
{
    unsigned bits = (unsigned)params->v[BITS];
    float room[PS_CODEC_VALUES], d[PS_CODEC_VALUES], most;
    bool is_new = state != NULL && ps_state_is_new(state, key);
    double a = 0;

    x = ps_finite(x, n, room, &most);
    if (most > 0.0f) {
        weigh(x, 1.0f / most, state != NULL ? state + PS_STATE_TAG : NULL, is_new, d, n);
        a = fitted(x, d, n, bits, (double)most);
    }
    ps_levels_write(x, n, a > 0 ? (float)(1 / a) : 0.0f, (1u << (bits - 1)) - 1, bits,
                    a > 0 && params->v[STOCHASTIC] != 0, ps_key32(key), 0, out);
    psgd__v1__laq__init(&head->u.laq);
    head->u.laq.bits = bits;
    head->u.laq.scale = (float)a;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_LAQ;
    head->msg.laq = &head->u.laq;
    return ps_pack_bytes(n, bits);
}

static size_t laq_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                         uint8_t *out, ps_encoding *head)
{
    return laq_encode_with(params, key, NULL, x, n, out, head);
}

static size_t laq_state(const ps_params *params, size_t n)
{
    (void)params;
    return PS_STATE_TAG + n;
}

static ps_status laq_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    (void)in;
    return ps_levels_check("laq", head->slice, head->laq->bits, head->laq->scale, len, n);
}

static float laq_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)in;
    (void)n;
    return ps_levels_most(head->laq->bits, head->laq->scale);
}

static ps_status laq_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                            ps_into into, float *y, size_t n)
{
    ps_status st = laq_check(head, in, len, n);

    if (ps_is_ok(&st)) {
        ps_levels_read(in, n, (1u << (head->laq->bits - 1)) - 1, head->laq->bits, head->laq->scale,
                       into, y);
    }
    return st;
}

const ps_codec ps_codec_laq = {
    .name = "laq",
    .summary = "q * a with q in -L..L; a fitted with the root of mean x^2 as weights",
    .params = laq_params,
    .own = 2,
    .wire = PSGD__V1__ENCODING__CODEC_LAQ,
    .facts = laq_facts,
    .size = laq_size,
    .encode = laq_encode,
    .state = laq_state,
    .encode_with = laq_encode_with,
    .check = laq_check,
    .most = laq_most,
    .decode = laq_decode,
};
