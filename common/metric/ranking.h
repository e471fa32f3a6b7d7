/* SPDX-License-Identifier: Apache-2.0 */
/* ranking.h - scores of positive and negative samples, sorted and counted.
 *
 * The metrics auc and eer are computed from a ranking. It holds for each distinct score how many
 * negatives and positives have that score. Its sorted form depends on the samples and not on their
 * order. Memory: 24 bytes per distinct score and up to 16 bytes per sample that is not sorted in
 * yet; less than 100 bytes per such sample while they are sorted in. One thread at a time.
 */
#ifndef PS_COMMON_METRIC_RANKING_H
#define PS_COMMON_METRIC_RANKING_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_rank {
    float score;
    uint64_t count[2]; /* number of negatives, of positives; not both 0 */
} ps_rank;

/* {0} is an empty ranking. */
typedef struct ps_ranking {
    ps_rank *ranks; /* (n): scores ascending, each score once, no NaN, no -0 */
    size_t n;
    uint64_t nan[2];         /* number of negatives, of positives whose score is NaN */
    struct ps_ranked *fresh; /* (fresh_n): samples that are not in `ranks` yet */
    size_t fresh_n, fresh_cap;
} ps_ranking;

/* Frees the memory and leaves an empty ranking. */
void ps_ranking_fini(ps_ranking *ranking);
/* Adds one sample. May sort. */
void ps_ranking_add(ps_ranking *ranking, float score, bool is_positive);
/* Adds all samples of `other`. May sort. */
void ps_ranking_merge(ps_ranking *ranking, const ps_ranking *other);
/* Sorts all samples of `fresh` into `ranks`. Until then `ranks` lacks them. */
void ps_ranking_sort(ps_ranking *ranking);

/* Writes the numbers of negatives and positives of a sorted ranking to `totals`. Samples with
 * score NaN are left out. */
void ps_ranking_totals(const ps_ranking *ranking, uint64_t totals[2]);

/* Returns the size of a sorted ranking when serialised. */
size_t ps_ranking_bytes(const ps_ranking *ranking);
/* Serialises a sorted ranking to ps_ranking_bytes bytes. */
void ps_ranking_write(const ps_ranking *ranking, uint8_t *bytes);
/* Replaces the ranking by a serialised one of exactly `len` bytes. Returns DATA_LOSS if the
 * bytes are not of that form. Allocates at most 1.2 times `len`. */
PS_MUST_USE ps_status ps_ranking_read(ps_ranking *ranking, const uint8_t *bytes, size_t len);

#endif
