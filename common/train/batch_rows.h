/* SPDX-License-Identifier: Apache-2.0 */
/* batch_rows.h - the rows of sparse tables for one batch. Lists the batch's ids as keys. When their
 * rows have arrived, copies them into the model's embeddings and replaces the ids in the batch by
 * the places of the rows there.
 *
 * The model's embedding has as many rows as a batch can have ids (common/job/table_numbers.c). In
 * every table, place i has the row of the i-th key; keys ascend. One thread at a time. */
#ifndef PS_COMMON_TRAIN_BATCH_ROWS_H
#define PS_COMMON_TRAIN_BATCH_ROWS_H

#include "common/job/plan.h"

typedef struct ps_batch_rows {
    const ps_plan *plan; /* kept; a plan with sparse tables that grow */
    /* (table_keys): ids, all ids of the batch in their order, with repetitions; keys, each of them
     * once, ascending */
    uint64_t *ids, *keys;
    uint32_t *place; /* (table_keys): place[i] is the index in `keys` of ids[i] */
    size_t count;    /* number of keys */
    /* (count, width) of each table in turn; the caller writes the pulled rows here */
    float *rows;
} ps_batch_rows;

/* Allocates the arrays. Returns RESOURCE_EXHAUSTED if there is no memory. ps_batch_rows_fini is
 * allowed after a failure, and for a zeroed struct. */
PS_MUST_USE ps_status ps_batch_rows_init(ps_batch_rows *b, const ps_plan *plan);
void ps_batch_rows_fini(ps_batch_rows *b);

/* Reads the ids of n samples x (n, features) and sets `ids`, `keys`, `place` and `count`. Returns
 * INVALID_ARGUMENT, with the number of the sample, if a value is not an id. */
PS_MUST_USE ps_status ps_batch_rows_read(ps_batch_rows *b, const float *x, size_t n);

/* Copies `rows` into the embeddings in `weights`, the block of all weights of the model, and
 * replaces each id in x (n, features) by the place of its row. */
void ps_batch_rows_put(const ps_batch_rows *b, float *weights, float *x, size_t n);

#endif
