/* SPDX-License-Identifier: Apache-2.0 */
/* look.h - what only a data set's files know, put into a job's specification.
 *
 * Some shapes follow from files: how many batches of CIFAR-10 are there, how many words a
 * text has. Whoever accepts a job looks once, before ps_plan_create; from then
 * on the specification says it, and nodes make their plans without files.
 */
#ifndef PS_COMMON_JOB_LOOK_H
#define PS_COMMON_JOB_LOOK_H

#include "common/base/status.h"

#include "psgd/v1/job.pb-c.h"

#include <stdbool.h>

/* Is the job's data set one that has to be looked at? Also false when its
 * DataSpec is wrong: ps_plan_create says what is. */
bool ps_look_is_needed(const Psgd__V1__JobSpec *spec);

/* A copy of the spec, preset applied, whose DataSpec says all; the caller's to free with
 * psgd__v1__job_spec__free_unpacked. Reads all files of the set, so not on a loop's thread.
 * A spec that needs no look is copied, and so is one whose files are not here but that is
 * `is_usual_unseen` (dataset.h).
 * NOT_FOUND: no data path (NULL or empty), or not its files; else as ps_data_look. */
PS_MUST_USE ps_status ps_look(const Psgd__V1__JobSpec *spec, const char *data_path,
                              Psgd__V1__JobSpec **out);

#endif
