/* SPDX-License-Identifier: Apache-2.0 */
/* look.h - completes a job's specification with facts that only the data set's files have.
 *
 * Some shapes follow from files: how many batches of CIFAR-10 there are, how many words a text has.
 * The coordinator reads them once, when a job is submitted, before ps_plan_create. The
 * specification then has the facts, and nodes make their plans without files. What samples of one
 * file depend on in others travels with the files (common/data/learned.h).
 */
#ifndef PS_COMMON_JOB_LOOK_H
#define PS_COMMON_JOB_LOOK_H

#include "common/base/status.h"

#include "psgd/v1/spec.pb-c.h"

#include <stdbool.h>

/* Returns whether the job's data set needs ps_look. False also if its DataSpec is wrong, which
 * ps_plan_create will report. */
bool ps_look_is_needed(const Psgd__V1__JobSpec *spec);

/* Returns in *out a copy of the spec with its preset applied and its DataSpec completed. The caller
 * frees it by psgd__v1__job_spec__free_unpacked. May read all files of the set, so do not call it
 * on a loop's thread. A spec that needs no look is only copied; so is one without files here if the
 * source has usual facts (`is_usual_unseen`, source.h).
 *
 * Fails with NOT_FOUND if there is no data path (NULL or empty) or a file is missing; with
 * INVALID_ARGUMENT if files are assigned to workers and a worker has none; else as ps_data_look. */
PS_MUST_USE ps_status ps_look(const Psgd__V1__JobSpec *spec, const char *data_path,
                              Psgd__V1__JobSpec **out);

#endif
