/* SPDX-License-Identifier: Apache-2.0 */
/* computation.h - what a job computes that does not train: partitions for the code of the job
 * (JobSpec.compute). */
#ifndef PS_COMMON_JOB_COMPUTATION_H
#define PS_COMMON_JOB_COMPUTATION_H

#include "common/job/plan.h"
#include "common/script/result.h"

/* Describes partition `part` (counted from 0; out->number, for scripts, from 1) of a plan with
 * compute. `data` is its loaded data set; without a text, the partition is one of the range. */
void ps_compute_part(const ps_plan *plan, const ps_dataset *data, uint32_t part, ps_partition *out);

/* Returns how much time, memory and how many instructions the code may take for a partition. */
ps_sandbox_budget ps_compute_budget(const ps_plan *plan);

/* Writes the name of the result's file. */
void ps_compute_result_name(const ps_plan *plan, char *name, size_t cap);

/* Returns the configuration for writing the result from the partitions' files in `folder`; keeps
 * `plan` and `folder`. */
ps_result_conf ps_compute_result(const ps_plan *plan, const char *folder);

#endif
