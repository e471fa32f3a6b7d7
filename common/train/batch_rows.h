/* SPDX-License-Identifier: Apache-2.0 */
/* batch_rows.h - the rows of sparse tables for a batch. Lists the batch's ids as keys; when their
 * rows have arrived, copies these into the model's embeddings and replaces the ids by places
 * there.
 *
 * The model's embedding has as many rows as a batch can have ids (common/job/table_numbers.c).
 * Place i has the row of the i-th key, in ascending order, in every table. One thread at a time.
 */
#ifndef PS_COMMON_TRAIN_BATCH_ROWS_H
#define PS_COMMON_TRAIN_BATCH_ROWS_H

#include "common/job/plan.h"

typedef struct ps_batch_rows {
    const ps_plan *plan; /* kept; it has tables */
    /* (table_keys) ids of all occurrences in the batch; each id once, ascending */
    uint64_t *ids, *keys;
    uint32_t *place; /* (table_keys) index in `keys` of each occurrence */
    size_t count;    /* number of keys */
    float *rows;     /* (count, width) for each table in turn, which the caller fills */
} ps_batch_rows;

/* Initialises the struct. Returns RESOURCE_EXHAUSTED if there is no memory; ps_batch_rows_fini is
 * legal then too, and for a zeroed struct. */
PS_MUST_USE ps_status ps_batch_rows_init(ps_batch_rows *b, const ps_plan *plan);
void ps_batch_rows_fini(ps_batch_rows *b);

/* Reads the ids of n samples x (n, features): sets keys, place and count. Returns INVALID_ARGUMENT,
 * with the sample, if an id is wrong. */
PS_MUST_USE ps_status ps_batch_rows_read(ps_batch_rows *b, const float *x, size_t n);

/* Copies `rows` into the block of weights, and writes places to x instead of ids. */
void ps_batch_rows_put(const ps_batch_rows *b, float *weights, float *x, size_t n);

#endif
