/* SPDX-License-Identifier: Apache-2.0 */
/* describe.h - what a model file says of itself, so that it can be used without the
 * job that made it.
 */
#ifndef PS_COMMON_JOB_DESCRIBE_H
#define PS_COMMON_JOB_DESCRIBE_H

#include "common/job/plan.h"

/* Key of it in the metadata of a model file. */
#define PS_DESCRIPTION_KEY "spec"

/* A JobSpec of the plan's model, data and metrics alone, every default filled in, as JSON
 * in one line; the caller's to free(). */
char *ps_plan_describe(const ps_plan *plan);

#endif
