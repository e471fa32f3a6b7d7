/* SPDX-License-Identifier: Apache-2.0 */
/* explain_ranks.h - what ranks measured, from their reports or from summary.json. Pure, but for the
 * reading of that file. */
#ifndef PS_COMMON_EXPLAIN_EXPLAIN_RANKS_H
#define PS_COMMON_EXPLAIN_EXPLAIN_RANKS_H

#include "common/base/status.h"
#include "common/explain/explain_cause.h"

#include <jansson.h>

#include "psgd/v1/coordinator.pb-c.h"

/* Returns what a rank has measured since its training began. `node_id` is the node that carries the
 * rank. */
ps_explain_rank ps_explain_rank_of(const Psgd__V1__WorkerProgress *progress, const char *node_id);

/* Replaces what ranks[0..n) have measured by what they did since before[0..n), reports of the same
 * attempt. Fails with DEADLINE_EXCEEDED if a rank has reported no step since. */
PS_MUST_USE ps_status ps_explain_ranks_since(ps_explain_rank *ranks, const ps_explain_rank *before,
                                             size_t n);

/* Reads the ranks of a job that is over into ranks[0..PS_EXPLAIN_RANKS_MAX), by rank, and sets *n,
 * at least 1. Fails with NOT_FOUND if summary.json does not say where their time went, and with
 * OUT_OF_RANGE if it has more ranks. */
PS_MUST_USE ps_status ps_explain_ranks_read(const json_t *summary, ps_explain_rank *ranks,
                                            size_t *n);

/* Reads the ranks as ps_explain_ranks_read does from the summary.json in `folder`, of at most 16
 * MiB. Blocks on the disk. */
PS_MUST_USE ps_status ps_explain_ranks_read_folder(const char *folder, ps_explain_rank *ranks,
                                                   size_t *n);

#endif
