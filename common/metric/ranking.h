/* SPDX-License-Identifier: Apache-2.0 */
/* ranking.h - scores of samples that are positive or negative, sorted and counted.
 *
 * What area and equal error rate are worked out of: for each score that there
 * was, how many negatives and positives had it. Its form depends on what was
 * added, not on the order. Memory: 24 bytes for each different score and up to
 * 16 a sample for those not yet sorted in; less than 100 a sample while they
 * are. One thread at a time.
 */
#ifndef PS_COMMON_METRIC_RANKING_H
#define PS_COMMON_METRIC_RANKING_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_rank {
    float score;
    uint64_t count[2]; /* negatives, positives; not both 0 */
} ps_rank;

/* {0} is an empty one. */
typedef struct ps_ranking {
    ps_rank *ranks; /* (n): scores ascending, each once, no NaN, no -0 */
    size_t n;
    uint64_t nan[2];         /* samples whose score is NaN */
    struct ps_ranked *fresh; /* (fresh_n): added since ranks were sorted */
    size_t fresh_n, fresh_cap;
} ps_ranking;

void ps_ranking_fini(ps_ranking *ranking); /* leaves an empty one */
void ps_ranking_add(ps_ranking *ranking, float score, bool is_positive);
void ps_ranking_merge(ps_ranking *ranking, const ps_ranking *other);
/* Everything is in `ranks` or `nan`. */
void ps_ranking_sort(ps_ranking *ranking);

/* Samples by class, of a sorted one: negatives, positives; those with NaN left out. */
void ps_ranking_totals(const ps_ranking *ranking, uint64_t totals[2]);

/* As written, of a sorted one. */
size_t ps_ranking_bytes(const ps_ranking *ranking);
void ps_ranking_write(const ps_ranking *ranking, uint8_t *bytes);
/* Replaces. DATA_LOSS when it is no form of a ranking or does not end with the bytes;
 * takes at most 1.2 times their memory. */
PS_MUST_USE ps_status ps_ranking_read(ps_ranking *ranking, const uint8_t *bytes, size_t len);

#endif
