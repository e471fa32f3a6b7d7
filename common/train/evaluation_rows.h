/* SPDX-License-Identifier: Apache-2.0 */
/* evaluation_rows.h - the rows of sparse tables for evaluating a model outside of its job: out of
 * the files that the job left.
 *
 * What a job's own evaluation reads: an id without a row has the first values of its row, or
 * zeros where admission has not let it in; no row is made. One thread at a time.
 */
#ifndef PS_COMMON_TRAIN_EVALUATION_ROWS_H
#define PS_COMMON_TRAIN_EVALUATION_ROWS_H

#include "common/job/plan.h"

typedef struct ps_evaluation_rows ps_evaluation_rows;

/* Of a plan with tables, which is kept; paths (count): whole files of all servers first, then
 * changes in their order. Errors as of ps_merge_read_tables (merge.h). */
PS_MUST_USE ps_status ps_evaluation_rows_open(const ps_plan *plan, const char *const *paths,
                                              size_t count, ps_evaluation_rows **out);
void ps_evaluation_rows_close(ps_evaluation_rows *rows); /* NULL is allowed */

/* The rows of n samples x (n, features) into the block of weights; ids become places. */
PS_MUST_USE ps_status ps_evaluation_rows_put(ps_evaluation_rows *rows, float *weights, float *x,
                                             size_t n);

/* The rows of some ids, ascending and each once: of each table in turn (count, width) into out. */
PS_MUST_USE ps_status ps_evaluation_rows_pull(const ps_evaluation_rows *rows, const uint64_t *keys,
                                              size_t count, float *out);

#endif
