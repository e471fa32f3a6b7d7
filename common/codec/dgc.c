/* SPDX-License-Identifier: Apache-2.0 */
/* dgc.c - sends the values above a sampled threshold unchanged, the others as 0 (Deep Gradient
 * Compression, Lin et al. 2018).
 *
 * The share that is sent falls from `first` to `fraction` over the first `warmup` encodings of
 * a slice, by the same factor each time; k = ceil(share * n). About 512 values at random places
 * (all values of a short slice) estimate the magnitude of the k-th largest. Values that reach
 * it are sent. If they are more than k and a quarter, the largest k of them are selected
 * exactly, like DGC's hierarchical selection, so the size is bounded. Error feedback (on by
 * default), momentum correction and factor masking are in feedback.h. Infinities and NaN count
 * as the largest.
 */
#include "common/codec/codec_type.h"

#include "common/base/draw.h"
#include "common/codec/codec_state.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/codec/largest.h"
#include "common/codec/sparse.h"
#include "common/codec/wrap.h"

#include <math.h>
#include <string.h>

enum { FRACTION, WARMUP, FIRST };
enum { SAMPLES = 512 };

static const ps_param dgc_params[] = {
    [FRACTION] = {"fraction", 0.01, 0.0001, 0.4, false,
                  "approximate share of the values that is sent"},
    [WARMUP] = {"warmup", 0, 0, 1e6, true, "encodings of a slice until the share is `fraction`"},
    [FIRST] = {"first", 0.25, 0.0001, 0.4, false, "share of the values in the first encoding"},
    PS_WRAP_STAGES,
    PS_WRAP_SENDER(1),
    {0},
};

static ps_codec_facts dgc_facts(const ps_params *params)
{
    (void)params;
    return (ps_codec_facts){.is_sparse = true, .keeps_zeros = true, .error_of_value = 1.0};
}

/* Returns how many values are sent at most if the aim is k: a quarter more. */
static size_t most_of(size_t k, size_t n)
{
    return k + k / 4 < n ? k + k / 4 : n;
}

static size_t count_of(double share, size_t n)
{
    size_t k = (size_t)ceil(share * (double)n);

    return k < n ? k : n;
}

static size_t dgc_size(const ps_params *params, size_t n)
{
    double share = params->v[FRACTION];

    share = params->v[WARMUP] > 0 && params->v[FIRST] > share ? params->v[FIRST] : share;
    return ps_sparse_most(n, most_of(count_of(share, n), n));
}

/* Returns the share of the values at which encoding number `step` (from 0) aims. */
static double share_at(const ps_params *params, double step)
{
    double part = params->v[WARMUP] > 0 ? step / params->v[WARMUP] : 1;

    return part >= 1 ? params->v[FRACTION]
                     : params->v[FIRST] * pow(params->v[FRACTION] / params->v[FIRST], part);
}

/* Estimates the magnitude that k of n values reach. Returns its bits, at least those of the
 * smallest positive number. */
static uint32_t threshold_of(const float *x, size_t n, size_t k, uint32_t key)
{
    uint32_t some[2 * SAMPLES], least;
    size_t every = n > SAMPLES ? n / SAMPLES : 1, m = 0, rank, ties;

    for (size_t i = 0; i < n; i += every, m++) {
        size_t run = n - i < every ? n - i : every;
        size_t at = i + (size_t)((uint64_t)ps_draw_u32(key, (uint32_t)m) * run >> 32);

        some[m] = ps_magnitude_bits(x[at]);
    }
    rank = (k * m + n - 1) / n;
    least = ps_kth_largest(some, m, rank > 0 ? rank : 1, &ties);
    return least > 0 ? least : 1;
}

static size_t choose(const float *x, size_t n, size_t k, uint32_t key, uint16_t *positions)
{
    size_t count = ps_kernels_best()->above(x, threshold_of(x, n, k, key), positions, n);

    return count > most_of(k, n) ? ps_keep_largest(x, positions, count, k) : count;
}

static size_t encode(const ps_params *params, uint64_t key, double step, const float *x, size_t n,
                     uint8_t *out, ps_encoding *head)
{
    uint16_t positions[PS_CODEC_VALUES];
    size_t k = count_of(share_at(params, step), n);

    k = k > 0 ? choose(x, n, k, ps_key32(key), positions) : 0;
    psgd__v1__dgc__init(&head->u.dgc);
    head->u.dgc.count = (uint32_t)k;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_DGC;
    head->msg.dgc = &head->u.dgc;
    return ps_sparse_write(x, n, positions, k, out);
}

/* The state is a tag and the number of encodings so far, the present one included. Without a
 * warm-up there is no state. */
static size_t dgc_state(const ps_params *params, size_t n)
{
    (void)n;
    return params->v[WARMUP] > 0 ? PS_STATE_TAG + 1 : 0;
}

static size_t dgc_encode_with(const ps_params *params, uint64_t key, float *state, const float *x,
                              size_t n, uint8_t *out, ps_encoding *head)
{
    float *steps = state + PS_STATE_TAG; /* counts from 1 and stays at 2^24 */

    if (ps_state_is_new(state, key) && *steps < 0x1p24f) {
        *steps += 1.0f;
    }
    return encode(params, key, (double)*steps - 1, x, n, out, head);
}

/* Encodes without state, as after the warm-up. */
static size_t dgc_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                         uint8_t *out, ps_encoding *head)
{
    return encode(params, key, params->v[WARMUP], x, n, out, head);
}

static ps_status dgc_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    return ps_sparse_check("dgc", head->slice, in, len, n, head->dgc->count, NULL);
}

static size_t dgc_first_nonfinite(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    return ps_sparse_first_nonfinite(in, n, head->dgc->count);
}

static ps_status dgc_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                            ps_into into, float *y, size_t n)
{
    return ps_sparse_decode("dgc", head->slice, in, len, n, head->dgc->count, into, y);
}

const ps_codec ps_codec_dgc = {
    .name = "dgc",
    .summary = "values above a sampled threshold as float32 with their positions, others 0",
    .params = dgc_params,
    .own = 3,
    .wire = PSGD__V1__ENCODING__CODEC_DGC,
    .facts = dgc_facts,
    .depends_on_data = true,
    .size = dgc_size,
    .encode = dgc_encode,
    .state = dgc_state,
    .encode_with = dgc_encode_with,
    .check = dgc_check,
    .first_nonfinite = dgc_first_nonfinite,
    .decode = dgc_decode,
};
