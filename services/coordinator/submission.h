/* SPDX-License-Identifier: Apache-2.0 */
/* submission.h - takes in jobs: into the registry, then among the jobs that are not over. Loop
 * thread. */
#ifndef PS_COORDINATOR_SUBMISSION_H
#define PS_COORDINATOR_SUBMISSION_H

#include "services/coordinator/coordinator.h"

/* Receives the id of the job that was stored, or that an earlier call with the same request id
 * made. */
typedef void ps_submitted_fn(void *arg, const ps_status *result, const char *job_id);

typedef struct ps_submit {
    const Psgd__V1__JobSpec *spec; /* checked, with all defaults */
    const ps_principal *owner;     /* who submits it */
    const char *request_id;        /* "": none; each owner has its own */
    uint64_t parameters;           /* of its model */
    uint64_t memory_bytes;         /* memory that its package takes */
    bool no_queue;                 /* as in SubmitJobRequest */
    ps_status place; /* OK; else only a call whose request id made a job already succeeds */
    ps_submitted_fn *then;
    void *arg;
} ps_submit;

/* Adds to *used what a submitter has of the amounts of quotas.h: in jobs that are being stored,
 * that wait and that run. */
void ps_submit_count(const ps_coordinator *c, const ps_principal *owner, ps_amounts *used);

/* Accepts a job. Calls `then` once, on the loop. Fails with ALREADY_EXISTS; with
 * RESOURCE_EXHAUSTED, also if the disk is nearly full; or with `place`. */
void ps_submit_job(ps_coordinator *c, const ps_submit *submit);

#endif
