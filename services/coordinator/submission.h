/* SPDX-License-Identifier: Apache-2.0 */
/* submission.h - accepts new jobs: stores them in the registry, then adds them to the jobs that are
 * not over. Loop's thread. */
#ifndef PS_COORDINATOR_SUBMISSION_H
#define PS_COORDINATOR_SUBMISSION_H

#include "services/coordinator/coordinator.h"

/* Receives the id of the job that was stored, or that an earlier call with the same request id
 * made. */
typedef void ps_submitted_fn(void *arg, const ps_status *result, const char *job_id);

typedef struct ps_submit {
    const Psgd__V1__JobSpec *spec; /* checked, with all defaults */
    const ps_principal *owner;     /* the principal that submits the job */
    const char *request_id;        /* identifies the request, within those of its owner; "": none */
    uint64_t parameters;           /* number of parameters of the job's model */
    /* bytes of the coordinator's memory that the job's package takes */
    uint64_t memory_bytes;
    bool no_queue; /* as in SubmitJobRequest */
    /* OK: the job may be accepted. Else the failure with which ps_submit_job refuses it, unless an
     * earlier call with the same request id has made a job: then the result is that job */
    ps_status place;
    ps_submitted_fn *then;
    void *arg;
} ps_submit;

/* Adds to *used how much the submitter `owner` uses of each kind of quota (quotas.h), in jobs that
 * are being stored, wait or run. */
void ps_submit_count(const ps_coordinator *c, const ps_principal *owner, ps_amounts *used);

/* Accepts a job. Calls `then` once, on the loop's thread. The result is ALREADY_EXISTS if an
 * earlier request of this owner with the same id made a job of other content; RESOURCE_EXHAUSTED if
 * there are too many jobs or the disk is nearly full; submit->place; or a failure of the
 * registry. */
void ps_submit_job(ps_coordinator *c, const ps_submit *submit);

#endif
