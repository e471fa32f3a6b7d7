/* SPDX-License-Identifier: Apache-2.0 */
/* batch_rows.h - the rows of sparse tables that a batch needs: its ids as keys, and then, when
 * the rows are there, rows where the model's small tables are and places instead of ids.
 *
 * A model's embedding has as many rows as a batch can have ids (common/job/table_numbers.c). Place
 * i holds the row of the batch's i-th id, in ascending order, of every table alike. One thread at a
 * time.
 */
#ifndef PS_COMMON_TRAIN_BATCH_ROWS_H
#define PS_COMMON_TRAIN_BATCH_ROWS_H

#include "common/job/plan.h"

typedef struct ps_batch_rows {
    const ps_plan *plan;  /* kept; it has tables */
    uint64_t *ids, *keys; /* (table_keys): of the batch's occurrences; each once, ascending */
    uint32_t *place;      /* (table_keys): of each occurrence among keys */
    size_t count;         /* keys */
    float *rows;          /* (count, width) of each table in turn: the caller's to fill */
} ps_batch_rows;

/* RESOURCE_EXHAUSTED: no memory. fini is legal then, and of a zeroed one. */
PS_MUST_USE ps_status ps_batch_rows_init(ps_batch_rows *b, const ps_plan *plan);
void ps_batch_rows_fini(ps_batch_rows *b);

/* keys, place and count of n samples x (n, features). INVALID_ARGUMENT names a sample whose id
 * is none. */
PS_MUST_USE ps_status ps_batch_rows_read(ps_batch_rows *b, const float *x, size_t n);

/* rows into the block of weights, places into x. */
void ps_batch_rows_put(const ps_batch_rows *b, float *weights, float *x, size_t n);

#endif
