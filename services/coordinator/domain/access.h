/* SPDX-License-Identifier: Apache-2.0 */
/* access.h - who may see and change which job.
 *
 * The table of methods says which kinds of callers may call a method at all (server.h). This file
 * is about a single job: a submitter may see and change its own jobs, an observer and a coordinator
 * may see all jobs, an admin may see and change all jobs. In plaintext callers are not known, and
 * everybody counts as an admin. Pure; any thread. */
#ifndef PS_COORDINATOR_ACCESS_H
#define PS_COORDINATOR_ACCESS_H

#include "common/pki/principal.h"

#include "psgd/v1/job.pb-c.h"

#include <stdbool.h>

typedef enum ps_access {
    PS_ACCESS_SEE,   /* see the job's state and files */
    PS_ACCESS_CHANGE /* cancel or delete the job, and other changes */
} ps_access;

/* Returns whether a caller may do `what` to a job of `owner`, a principal as text. `owner` "": the
 * job was submitted in plaintext and belongs to nobody. A caller who may do `what` to such a job
 * may do it to all jobs. */
bool ps_access_has(const ps_principal *caller, const char *owner, ps_access what);

/* Checks whether a caller may do `what` to this job. Returns PERMISSION_DENIED if not; the text
 * does not say whose job it is. */
PS_MUST_USE ps_status ps_access_check(const ps_principal *caller, const Psgd__V1__Job *job,
                                      ps_access what);

/* Checks whether a caller may submit a job with code. `who` is the setting of psgd-coordinator
 * --code: admin, submitter or off. Returns PERMISSION_DENIED if not. */
PS_MUST_USE ps_status ps_access_check_code(const ps_principal *caller, const char *who);

/* Writes the owner of a job that this caller submits: its principal, "" in plaintext. Returns
 * `out`. */
const char *ps_access_owner(const ps_principal *caller, char out[PS_PRINCIPAL_TEXT_BYTES]);

#endif
