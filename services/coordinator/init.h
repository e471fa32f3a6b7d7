/* SPDX-License-Identifier: Apache-2.0 */
/* init.h - the model that a job starts from (JobSpec.init_from), as a file here.
 *
 * Looked up when the job is submitted, so that what is wrong is told at once,
 * and again at each attempt. Loop thread.
 */
#ifndef PS_COORDINATOR_INIT_H
#define PS_COORDINATOR_INIT_H

#include "common/job/plan.h"
#include "services/coordinator/coordinator.h"

enum { PS_INIT_PATH_MAX = 2048 };

/* The file's path; "" when the job draws its weights.
 *
 * NOT_FOUND            no such job or file, or no data path
 * FAILED_PRECONDITION  the job has left no model
 * INVALID_ARGUMENT     the path leads out of the data path */
PS_MUST_USE ps_status ps_init_find(ps_coordinator *c, const ps_plan *plan,
                                   char path[PS_INIT_PATH_MAX]);

/* The same, and the file's header is read: has it this model's variables? */
PS_MUST_USE ps_status ps_init_check(ps_coordinator *c, const ps_plan *plan);

#endif
