/* SPDX-License-Identifier: Apache-2.0 */
/* vote.c - the sign of each value, one bit; the receiver takes the majority (signSGD with
 * majority vote, Bernstein et al. 2019).
 *
 * A single contribution is its signs times the mean of its magnitudes, as in `sign`. The
 * receiver adds up votes of +1 or -1 without decoding. The result is the sign of that count
 * times the sum of the scales, and 0 in a tie. It is a sum of scales so that it is comparable
 * with the sums of other codecs: a mean over contributors has the mean scale.
 */
#include "common/codec/bitpack.h"
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/codec/wrap.h"

#include <float.h>
#include <math.h>

static const ps_param vote_params[] = {
    PS_WRAP_PARAMS,
    {0},
};

static ps_codec_facts vote_facts(const ps_params *params)
{
    (void)params;
    return (ps_codec_facts){.is_summable = true, .error_of_max = 1.0 + 0x1p-22};
}

static size_t vote_size(const ps_params *params, size_t n)
{
    (void)params;
    return ps_pack_bytes(n, 1);
}

static size_t vote_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                          uint8_t *out, ps_encoding *head)
{
    float room[PS_CODEC_VALUES], most;
    double scale = 0;

    (void)params;
    (void)key;
    x = ps_finite(x, n, room, &most);
    if (most > 0.0f) {
        scale = ps_kernels_best()->sum_abs(x, n) / (double)n;
    }
    ps_kernels_best()->signs_pack(x, out, n);
    psgd__v1__vote__init(&head->u.vote);
    head->u.vote.scale = (float)(scale < (double)most ? scale : (double)most);
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_VOTE;
    head->msg.vote = &head->u.vote;
    return ps_pack_bytes(n, 1);
}

static ps_status vote_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    float scale = head->vote->scale;

    (void)in;
    if (len != ps_pack_bytes(n, 1)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: vote: %zu bytes for %zu values", head->slice, len,
                       n);
    }
    if (!isfinite(scale) || scale < 0.0f) {
        return ps_fail(PS_DATA_LOSS, "slice %u: vote: scale %g", head->slice, (double)scale);
    }
    return ps_ok();
}

static float vote_most(const Psgd__V1__Encoding *head, const uint8_t *in, size_t n)
{
    (void)in;
    (void)n;
    return head->vote->scale;
}

static ps_status vote_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                             ps_into into, float *y, size_t n)
{
    ps_status st = vote_check(head, in, len, n);
    const ps_kernels *k = ps_kernels_best();
    float scale = head->vote->scale;

    if (ps_is_ok(&st)) {
        (into == PS_INTO_SET ? k->signs_set : k->signs_add)(in, scale, -scale, y, n);
    }
    return st;
}

/* The sum of contributions. Votes are integers below 2^24, which float32 adds exactly. */
typedef struct tally {
    double scale; /* sum of the scales */
    float votes[];
} tally;

static size_t vote_sum_bytes(size_t n)
{
    return sizeof(tally) + n * sizeof(float);
}

static void vote_sum_add(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, void *sum,
                         size_t n)
{
    tally *t = sum;

    (void)len;
    t->scale += (double)head->vote->scale;
    ps_kernels_best()->signs_add(in, 1.0f, -1.0f, t->votes, n);
}

static void vote_sum_value(const void *sum, float *y, size_t n)
{
    const tally *t = sum;
    float scale = t->scale < (double)FLT_MAX ? (float)t->scale : FLT_MAX;

    for (size_t i = 0; i < n; i++) {
        y[i] = t->votes[i] > 0.0f ? scale : t->votes[i] < 0.0f ? -scale : 0.0f;
    }
}

const ps_codec ps_codec_vote = {
    .name = "vote",
    .summary = "+-mean|x| by the sign of x; servers take the majority of signs",
    .params = vote_params,
    .wire = PSGD__V1__ENCODING__CODEC_VOTE,
    .facts = vote_facts,
    .size = vote_size,
    .encode = vote_encode,
    .sum_bytes = vote_sum_bytes,
    .sum_add = vote_sum_add,
    .sum_value = vote_sum_value,
    .sum_is_vote = true,
    .check = vote_check,
    .most = vote_most,
    .decode = vote_decode,
};
