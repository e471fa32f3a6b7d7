/* SPDX-License-Identifier: Apache-2.0 */
/* evaluation_rows.h - the rows of sparse tables for evaluating a model outside of its job, from the
 * files that the job left.
 *
 * An id has the values that the job's own evaluation reads for it. An id without a row has the
 * initial values of its row, or zeros if admission has not let it in. Reading creates no row. One
 * thread at a time. */
#ifndef PS_COMMON_TRAIN_EVALUATION_ROWS_H
#define PS_COMMON_TRAIN_EVALUATION_ROWS_H

#include "common/job/plan.h"

typedef struct ps_evaluation_rows ps_evaluation_rows;

/* Reads the rows of a plan with tables; keeps the plan. paths (count): first the whole files of all
 * servers, then files of changes in their order. Fails as ps_merge_read_tables (merge.h) does. */
PS_MUST_USE ps_status ps_evaluation_rows_open(const ps_plan *plan, const char *const *paths,
                                              size_t count, ps_evaluation_rows **out);
void ps_evaluation_rows_close(ps_evaluation_rows *rows); /* NULL is allowed */

/* Copies the rows of n samples x (n, features) into the model's block of weights. Replaces each id
 * in x by the position of its row in the model's embeddings. Returns INVALID_ARGUMENT if a value is
 * not an id. */
PS_MUST_USE ps_status ps_evaluation_rows_put(ps_evaluation_rows *rows, float *weights, float *x,
                                             size_t n);

/* Writes the rows of the ids `keys` (count), which ascend without repetition, to `out`: (count,
 * width) of each table in turn. */
PS_MUST_USE ps_status ps_evaluation_rows_pull(const ps_evaluation_rows *rows, const uint64_t *keys,
                                              size_t count, float *out);

#endif
