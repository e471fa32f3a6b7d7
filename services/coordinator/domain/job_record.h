/* SPDX-License-Identifier: Apache-2.0 */
/* job_record.h - a job as it is stored. */
#ifndef PS_COORDINATOR_JOB_RECORD_H
#define PS_COORDINATOR_JOB_RECORD_H

#include "psgd/v1/coordinator.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ps_record {
    uint64_t number;    /* ascending in the order of submission, never reused */
    Psgd__V1__Job *job; /* memory of malloc, for psgd__v1__job__free_unpacked(job, NULL) */
    /* the outcome that was stored while the job's state was not final yet; 0: none */
    Psgd__V1__JobState outcome;
    /* events may have been numbered up to this, so later numbers are greater */
    uint64_t sequence;
    /* the row in the registry cannot be read; `job` has only what is known */
    bool is_damaged;
} ps_record;

/* Frees the record's job. */
void ps_record_fini(ps_record *record);

#endif
