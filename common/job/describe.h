/* SPDX-License-Identifier: Apache-2.0 */
/* describe.h - the description in a model file, with which it can be used without the job that made
 * it. */
#ifndef PS_COMMON_JOB_DESCRIBE_H
#define PS_COMMON_JOB_DESCRIBE_H

#include "common/job/plan.h"

/* The key under which the description stands in the metadata of a model file. */
#define PS_DESCRIPTION_KEY "spec"

/* Returns a JobSpec with only the plan's model, data and metrics, and the seed if sparse tables
 * grow, every default filled in, as JSON in one line. The caller frees it by free(). */
char *ps_plan_describe(const ps_plan *plan);

#endif
