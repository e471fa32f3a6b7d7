/* SPDX-License-Identifier: Apache-2.0 */
/* access.h - who may see and change which job.
 *
 * Which kinds of callers may call a method at all is in the table of methods (server.h). This is
 * about one job: a submitter has its own, an observer sees all, an admin changes all. In plaintext
 * nobody is known, and everybody is an admin. Pure; any thread.
 */
#ifndef PS_COORDINATOR_ACCESS_H
#define PS_COORDINATOR_ACCESS_H

#include "common/pki/principal.h"

#include "psgd/v1/job.pb-c.h"

#include <stdbool.h>

typedef enum ps_access {
    PS_ACCESS_SEE,   /* its state, its files */
    PS_ACCESS_CHANGE /* cancel, delete and others */
} ps_access;

/* Returns whether a caller may do this to a job of `owner`, a principal as text; "" is nobody's
 * job. Who may do it to nobody's job may do it to all. */
bool ps_access_has(const ps_principal *caller, const char *owner, ps_access what);

/* Checks the same of a job. Fails with PERMISSION_DENIED, and does not say whose job it is. */
PS_MUST_USE ps_status ps_access_check(const ps_principal *caller, const Psgd__V1__Job *job,
                                      ps_access what);

/* Checks whether a caller may submit a job with code: `who` is admin, submitter or off
 * (psgd-coordinator --code). Fails with PERMISSION_DENIED. */
PS_MUST_USE ps_status ps_access_check_code(const ps_principal *caller, const char *who);

/* Writes whose job it is that a caller submits: its principal, "" in plaintext. Returns `out`. */
const char *ps_access_owner(const ps_principal *caller, char out[PS_PRINCIPAL_TEXT_BYTES]);

#endif
