/* SPDX-License-Identifier: Apache-2.0 */
/* job_store.h - the observer of jobs that has their changes stored in the registry. Loop thread. */
#ifndef PS_COORDINATOR_JOB_STORE_H
#define PS_COORDINATOR_JOB_STORE_H

#include "services/coordinator/domain/live_job.h"
#include "services/coordinator/io/registry_writer.h"

typedef struct ps_job_store {
    ps_writer *writer;          /* must live while changes are published */
    Psgd__V1__JobState exit_at; /* fault for tests: SIGKILL oneself when that is stored; 0: never */
} ps_job_store;

/* Takes PS_JOB_TO_STORE; `arg` is the ps_job_store. */
ps_job_observer_fn ps_job_store_changed;

#endif
