/* SPDX-License-Identifier: Apache-2.0 */
/* round_rows.h - the rows of sparse tables that a worker trains in a round of local steps.
 *
 * A row is held from the first batch of the round that has its id until the round ends: as it was
 * pulled (w), as the local steps have made it (x), and the state of the local rule, which begins
 * anew in each round. So a worker holds no more rows than the ids that its batches of a round have.
 * One thread at a time.
 */
#ifndef PS_COMMON_TRAIN_ROUND_ROWS_H
#define PS_COMMON_TRAIN_ROUND_ROWS_H

#include "common/train/batch_rows.h"
#include "common/train/exchange.h"
#include "common/update/local.h"

typedef struct ps_round_rows ps_round_rows;

/* Creates a set without rows for the tables of a plan, whose local rule has `slots` floats of state
 * for each value. Keeps the plan. */
ps_round_rows *ps_round_rows_create(const ps_plan *plan, unsigned slots);
/* Frees the set. NULL is allowed. */
void ps_round_rows_destroy(ps_round_rows *rows);

/* Returns the most bytes that the rows of a round take. */
size_t ps_round_rows_memory(const ps_plan *plan, unsigned slots);

/* Writes the ids of the batch whose rows are not held to `keys` (batch->count), ascending. Returns
 * their number. */
size_t ps_round_rows_missing(const ps_round_rows *rows, const ps_batch_rows *batch, uint64_t *keys);

/* Adds rows with these ids (count), as they were pulled: (count, width) for each table in turn. */
void ps_round_rows_add(ps_round_rows *rows, const uint64_t *keys, size_t count,
                       const float *pulled);

/* Copies the rows of the batch, all held, to batch->rows, and their state to `state`, laid out as
 * the state of the model's variables (slots, size); NULL without state. */
void ps_round_rows_get(const ps_round_rows *rows, ps_batch_rows *batch, float *state);

/* Copies rows and states back after the local step, and counts how often the step met each id. */
void ps_round_rows_put(ps_round_rows *rows, const ps_batch_rows *batch, const float *weights,
                       const float *state, const uint32_t *shows, const uint32_t *clicks);

/* Returns how many steps of the round have met the id at this place of the batch. */
uint32_t ps_round_rows_steps(const ps_round_rows *rows, const ps_batch_rows *batch, size_t place);

/* Returns the number of rows of a table that are held. */
size_t ps_round_rows_count(const ps_round_rows *rows);

/* Writes the contribution of a table's rows to *met, which has room for all, by ascending ids. */
void ps_round_rows_contribute(const ps_round_rows *rows, const ps_local *local,
                              const ps_round *round, uint32_t table, ps_met_rows *met);

/* Drops all rows: the round is over. */
void ps_round_rows_clear(ps_round_rows *rows);

#endif
