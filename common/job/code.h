/* SPDX-License-Identifier: Apache-2.0 */
/* code.h - the plugins that a job brings along as code. */
#ifndef PS_COMMON_JOB_CODE_H
#define PS_COMMON_JOB_CODE_H

#include "common/job/spec.h"
#include "common/script/script.h"

enum { PS_CODE_FILES_MAX = 16 };

/* Runs each file of spec->code in a sandbox, tries the plugin out (script_check.h), and completes
 * its message with what the plugin says of itself: kind, name, numbers, traits. Calls `violate`
 * (may be NULL) for each file of which a part of this fails, and returns the first failure:
 * INVALID_ARGUMENT if a file is no plugin or does not pass the checks, UNAVAILABLE if no sandbox
 * starts. Of more than PS_CODE_FILES_MAX files, which ps_plan_create reports, completes none and
 * returns OK. Blocks, at most some seconds a file. */
PS_MUST_USE ps_status ps_code_complete(Psgd__V1__JobSpec *spec, ps_violate_fn *violate, void *arg);

/* Reads what a message that ps_code_complete has completed says of its plugin. Returns false if the
 * message is not completed or its contents are not allowed. */
bool ps_code_about_of(const Psgd__V1__CodeFile *file, ps_script_about *about);

#endif
