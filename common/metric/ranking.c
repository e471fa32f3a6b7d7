/* SPDX-License-Identifier: Apache-2.0 */
/* ranking.c - see ranking.h. */
#include "common/metric/ranking.h"

#include "common/base/bytes.h"
#include "common/base/xalloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct ps_ranked {
    float score;
    bool is_positive;
} ps_ranked;

enum { FRESH_MIN = 4096, HEAD_BYTES = 24, RANK_BYTES = 20 };

/* Most samples that a saved ranking may count. Up to this limit no sum of counts overflows 64 bits,
 * and no product of two sums 128 bits. No test set has more samples. */
static const uint64_t count_max = UINT64_C(1) << 48;

void ps_ranking_fini(ps_ranking *ranking)
{
    free(ranking->ranks);
    free(ranking->fresh);
    *ranking = (ps_ranking){0};
}

void ps_ranking_add(ps_ranking *ranking, float score, bool is_positive)
{
    if (isnan(score)) {
        ranking->nan[is_positive]++;
        return;
    }
    if (ranking->fresh_n == ranking->fresh_cap) {
        /* A sort copies all ranks, so there is none while fresh samples are fewer than ranks: the
         * room for them grows. */
        if (ranking->fresh_n >= FRESH_MIN && ranking->fresh_n >= ranking->n) {
            ps_ranking_sort(ranking);
        } else {
            ranking->fresh_cap = ranking->fresh_cap == 0 ? FRESH_MIN : 2 * ranking->fresh_cap;
            ranking->fresh =
                ps_xrealloc(ranking->fresh, ranking->fresh_cap * sizeof *ranking->fresh);
        }
    }
    ranking->fresh[ranking->fresh_n++] =
        (ps_ranked){.score = score + 0.0f, .is_positive = is_positive}; /* turns -0 into 0 */
}

static int by_score(const void *pa, const void *pb)
{
    const ps_ranked *a = pa, *b = pb;

    return (a->score > b->score) - (a->score < b->score);
}

/* Counts each run of equal scores of the sorted fresh samples as one rank. Returns the number
 * of ranks. */
static size_t count_fresh(const ps_ranking *ranking, ps_rank *out)
{
    size_t n = 0;

    for (size_t i = 0; i < ranking->fresh_n; i++) {
        const ps_ranked *x = &ranking->fresh[i];

        if (n == 0 || out[n - 1].score != x->score) {
            out[n++] = (ps_rank){.score = x->score};
        }
        out[n - 1].count[x->is_positive]++;
    }
    return n;
}

/* Merges the ranks of a and b into `out`, ascending. Returns their number. */
static size_t merge_ranks(const ps_rank *a, size_t na, const ps_rank *b, size_t nb, ps_rank *out)
{
    size_t i = 0, j = 0, n = 0;

    while (i < na || j < nb) {
        if (j == nb || (i < na && a[i].score < b[j].score)) {
            out[n++] = a[i++];
        } else if (i == na || b[j].score < a[i].score) {
            out[n++] = b[j++];
        } else {
            out[n] = a[i++];
            out[n].count[0] += b[j].count[0];
            out[n++].count[1] += b[j++].count[1];
        }
    }
    return n;
}

static void take_ranks(ps_ranking *ranking, const ps_rank *other, size_t n)
{
    ps_rank *merged = ps_xcalloc(ranking->n + n, sizeof *merged);

    ranking->n = merge_ranks(ranking->ranks, ranking->n, other, n, merged);
    free(ranking->ranks);
    ranking->ranks = merged;
}

void ps_ranking_sort(ps_ranking *ranking)
{
    ps_rank *counted;

    if (ranking->fresh_n == 0) {
        return;
    }
    qsort(ranking->fresh, ranking->fresh_n, sizeof *ranking->fresh, by_score);
    counted = ps_xcalloc(ranking->fresh_n, sizeof *counted);
    take_ranks(ranking, counted, count_fresh(ranking, counted));
    ranking->fresh_n = 0;
    free(counted);
}

void ps_ranking_merge(ps_ranking *ranking, const ps_ranking *other)
{
    ps_ranking_sort(ranking);
    take_ranks(ranking, other->ranks, other->n);
    for (size_t i = 0; i < other->fresh_n; i++) {
        ps_ranking_add(ranking, other->fresh[i].score, other->fresh[i].is_positive);
    }
    ranking->nan[0] += other->nan[0];
    ranking->nan[1] += other->nan[1];
}

void ps_ranking_totals(const ps_ranking *ranking, uint64_t totals[2])
{
    totals[0] = totals[1] = 0;
    for (size_t i = 0; i < ranking->n; i++) {
        totals[0] += ranking->ranks[i].count[0];
        totals[1] += ranking->ranks[i].count[1];
    }
}

size_t ps_ranking_bytes(const ps_ranking *ranking)
{
    return HEAD_BYTES + RANK_BYTES * ranking->n;
}

void ps_ranking_write(const ps_ranking *ranking, uint8_t *bytes)
{
    ps_put_u64(bytes, ranking->nan[0]);
    ps_put_u64(bytes + 8, ranking->nan[1]);
    ps_put_u64(bytes + 16, ranking->n);
    for (size_t i = 0; i < ranking->n; i++) {
        uint8_t *at = bytes + HEAD_BYTES + RANK_BYTES * i;
        uint32_t bits;

        memcpy(&bits, &ranking->ranks[i].score, sizeof bits);
        ps_put_u32(at, bits);
        ps_put_u64(at + 4, ranking->ranks[i].count[0]);
        ps_put_u64(at + 12, ranking->ranks[i].count[1]);
    }
}

/* Reads one rank and adds its samples to *total. Fails with DATA_LOSS if its score is not above
 * that of `before` (NULL: it is the first rank), or if it has no samples or *total is too large. */
static ps_status read_rank(const uint8_t *at, const ps_rank *before, uint64_t *total, ps_rank *out)
{
    uint32_t bits = ps_get_u32(at);
    uint64_t negative = ps_get_u64(at + 4), positive = ps_get_u64(at + 12);
    float score;

    memcpy(&score, &bits, sizeof score);
    if (isnan(score) || (score == 0.0f && bits != 0) ||
        (before != NULL && !(before->score < score))) {
        return ps_fail(PS_DATA_LOSS, "a ranking's scores do not ascend: %g after %g", (double)score,
                       before == NULL ? (double)NAN : (double)before->score);
    }
    if (negative > count_max || positive > count_max || negative + positive == 0 ||
        (*total += negative + positive) > count_max) {
        return ps_fail(PS_DATA_LOSS, "a ranking counts %" PRIu64 " and %" PRIu64 " of score %g",
                       negative, positive, (double)score);
    }
    *out = (ps_rank){.score = score, .count = {negative, positive}};
    return ps_ok();
}

ps_status ps_ranking_read(ps_ranking *ranking, const uint8_t *bytes, size_t len)
{
    uint64_t nan[2], n, total = 0;
    ps_rank *ranks;
    ps_status st = ps_ok();

    if (len < HEAD_BYTES || (len - HEAD_BYTES) % RANK_BYTES != 0 ||
        (n = ps_get_u64(bytes + 16)) != (len - HEAD_BYTES) / RANK_BYTES) {
        return ps_fail(PS_DATA_LOSS,
                       "a ranking has %zu bytes, which do not match its number of scores", len);
    }
    nan[0] = ps_get_u64(bytes);
    nan[1] = ps_get_u64(bytes + 8);
    if (nan[0] > count_max || nan[1] > count_max) {
        return ps_fail(PS_DATA_LOSS, "a ranking counts %" PRIu64 " and %" PRIu64 " of score NaN",
                       nan[0], nan[1]);
    }
    ranks = ps_xcalloc((size_t)n, sizeof *ranks);
    for (size_t i = 0; i < n && ps_is_ok(&st); i++) {
        st = read_rank(bytes + HEAD_BYTES + RANK_BYTES * i, i == 0 ? NULL : &ranks[i - 1], &total,
                       &ranks[i]);
    }
    if (!ps_is_ok(&st)) {
        free(ranks);
        return st;
    }
    ps_ranking_fini(ranking);
    ranking->ranks = ranks;
    ranking->n = (size_t)n;
    ranking->nan[0] = nan[0];
    ranking->nan[1] = nan[1];
    return st;
}
