/* SPDX-License-Identifier: Apache-2.0 */
/* job_store.h - the observer of jobs that stores their changes in the registry. Loop's thread. */
#ifndef PS_COORDINATOR_JOB_STORE_H
#define PS_COORDINATOR_JOB_STORE_H

#include "services/coordinator/domain/live_job.h"
#include "services/coordinator/io/registry_writer.h"

typedef struct ps_job_store {
    ps_writer *writer; /* must live as long as jobs publish changes */
    /* fault for tests: the process kills itself when this state is stored; 0: never */
    Psgd__V1__JobState exit_at;
} ps_job_store;

/* Handles PS_JOB_TO_STORE; `arg` is the ps_job_store. */
ps_job_observer_fn ps_job_store_changed;

#endif
