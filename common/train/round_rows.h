/* SPDX-License-Identifier: Apache-2.0 */
/* round_rows.h - the rows of sparse tables that a worker trains in a round of local steps.
 *
 * A row is held from the first batch of the round that has its id until the round ends. For each
 * row there are: its values as they were pulled (w), its values after the local steps so far (x),
 * and its state of the local optimizer, which begins anew in each round. A worker holds only rows
 * whose ids occur in its batches of the round. One thread at a time. */
#ifndef PS_COMMON_TRAIN_ROUND_ROWS_H
#define PS_COMMON_TRAIN_ROUND_ROWS_H

#include "common/train/batch_rows.h"
#include "common/train/exchange.h"
#include "common/update/local.h"

typedef struct ps_round_rows ps_round_rows;

/* Creates an empty set for the tables of a plan. `slots`: floats of state that the local optimizer
 * keeps for each value. Keeps the plan. */
ps_round_rows *ps_round_rows_create(const ps_plan *plan, unsigned slots);
/* Frees the set. NULL is allowed. */
void ps_round_rows_destroy(ps_round_rows *rows);

/* Returns an upper bound of the bytes that the rows of a round take. */
size_t ps_round_rows_memory(const ps_plan *plan, unsigned slots);

/* Writes to `keys` (batch->count) the ids of the batch whose rows are not held yet, ascending.
 * Returns their number. */
size_t ps_round_rows_missing(const ps_round_rows *rows, const ps_batch_rows *batch, uint64_t *keys);

/* Adds the rows with these ids (count). `pulled` has their values: (count, width) of each table in
 * turn. */
void ps_round_rows_add(ps_round_rows *rows, const uint64_t *keys, size_t count,
                       const float *pulled);

/* Copies the rows of the batch, all of which must be held, to batch->rows. Copies their optimizer
 * state to `state`, laid out as that of the model's variables (slots, size); NULL if the local
 * optimizer has no state. */
void ps_round_rows_get(const ps_round_rows *rows, ps_batch_rows *batch, float *state);

/* Copies the rows of the batch, and their states, back from `weights` and `state` after a local
 * step. Adds shows and clicks (batch->count) of each id to those of its row. */
void ps_round_rows_put(ps_round_rows *rows, const ps_batch_rows *batch, const float *weights,
                       const float *state, const uint32_t *shows, const uint32_t *clicks);

/* Returns how many steps of the round have trained the row at this place of the batch. */
uint32_t ps_round_rows_steps(const ps_round_rows *rows, const ps_batch_rows *batch, size_t place);

/* Returns the number of ids whose rows are held. */
size_t ps_round_rows_count(const ps_round_rows *rows);

/* Writes what the round contributes for a table's rows to *met, ascending by id. *met must have
 * room for all held rows. */
void ps_round_rows_contribute(const ps_round_rows *rows, const ps_local *local,
                              const ps_round *round, uint32_t table, ps_met_rows *met);

/* Drops all rows, because the round is over. */
void ps_round_rows_clear(ps_round_rows *rows);

#endif
