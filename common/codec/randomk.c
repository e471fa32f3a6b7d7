/* SPDX-License-Identifier: Apache-2.0 */
/* randomk.c - sends values at random positions, the others as 0, without positions on the wire.
 *
 * k = ceil(fraction * n). The slice is cut into k runs of about n / k values, from floor(j n /
 * k) to floor((j + 1) n / k). The key in the head draws one value of each run. With `scaled` it
 * is multiplied by the length of its run, so the slice is right on average; unscaled it suits
 * error feedback.
 */
#include "common/codec/codec_type.h"

#include "common/base/draw.h"
#include "common/base/nonfinite.h"
#include "common/codec/finite.h"
#include "common/codec/wrap.h"

#include <math.h>
#include <string.h>

enum { FRACTION, SCALED };

static const ps_param randomk_params[] = {
    [FRACTION] = {"fraction", 0.01, 0.0001, 0.5, false, "share of the values that is sent"},
    [SCALED] = {"scaled", 1, 0, 1, true, "1: values times 1 / share, unbiased; 0: unchanged"},
    PS_WRAP_PARAMS,
    {0},
};

static size_t count_of(const ps_params *params, size_t n)
{
    return (size_t)ceil(params->v[FRACTION] * (double)n);
}

static ps_codec_facts randomk_facts(const ps_params *params)
{
    bool scaled = params->v[SCALED] != 0;

    return (ps_codec_facts){
        .is_unbiased = scaled,
        .is_summable = true,
        .is_sparse = true,
        .keeps_zeros = true,
        .error_of_value = scaled ? 1 / params->v[FRACTION] + 1 : 1,
    };
}

static size_t randomk_size(const ps_params *params, size_t n)
{
    return count_of(params, n) * sizeof(float);
}

/* A run: successive values of a slice, of which one is sent. `start` and `chosen` are indices in
 * the slice. */
typedef struct run {
    uint32_t start, length, chosen;
} run;

static run run_of(uint32_t key, uint32_t n, uint32_t k, uint32_t j)
{
    run r = {.start = j * n / k}; /* j * n is below 2^28 and does not overflow */

    r.length = (j + 1) * n / k - r.start;
    r.chosen = r.start + (uint32_t)((uint64_t)ps_draw_u32(key, j) * r.length >> 32);
    return r;
}

static size_t randomk_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                             uint8_t *out, ps_encoding *head)
{
    uint32_t k = (uint32_t)count_of(params, n);
    bool scaled = params->v[SCALED] != 0;

    for (uint32_t j = 0; j < k; j++) {
        run r = run_of(ps_key32(key), (uint32_t)n, k, j);
        float v = x[r.chosen] * (scaled ? (float)r.length : 1.0f);

        memcpy(out + j * sizeof v, &v, sizeof v);
    }
    psgd__v1__randomk__init(&head->u.randomk);
    head->u.randomk.key = ps_key32(key);
    head->u.randomk.count = k;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_RANDOMK;
    head->msg.randomk = &head->u.randomk;
    return k * sizeof(float);
}

static ps_status randomk_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                               size_t n)
{
    (void)in;
    if (head->randomk->count > n || len != head->randomk->count * sizeof(float)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: randomk: %zu bytes for %u of %zu values",
                       head->slice, len, head->randomk->count, n);
    }
    return ps_ok();
}

static size_t randomk_first_nonfinite(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    uint32_t count = head->randomk->count, first = (uint32_t)ps_first_nonfinite(in, count);

    return first < count ? run_of(head->randomk->key, (uint32_t)n, count, first).chosen : n;
}

static ps_status randomk_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                                ps_into into, float *y, size_t n)
{
    ps_status st = randomk_check(head, in, len, n);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (into == PS_INTO_SET) {
        memset(y, 0, n * sizeof *y);
    }
    for (uint32_t j = 0; j < head->randomk->count; j++) {
        run r = run_of(head->randomk->key, (uint32_t)n, head->randomk->count, j);
        float v;

        memcpy(&v, in + j * sizeof v, sizeof v);
        y[r.chosen] = into == PS_INTO_SET ? v : y[r.chosen] + v;
    }
    return st;
}

const ps_codec ps_codec_randomk = {
    .name = "randomk",
    .summary = "values at positions drawn from a key, one in each run of n / k, others 0",
    .params = randomk_params,
    .own = 2,
    .wire = PSGD__V1__ENCODING__CODEC_RANDOMK,
    .facts = randomk_facts,
    .size = randomk_size,
    .encode = randomk_encode,
    .check = randomk_check,
    .first_nonfinite = randomk_first_nonfinite,
    .decode = randomk_decode,
};
