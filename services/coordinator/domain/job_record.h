/* SPDX-License-Identifier: Apache-2.0 */
/* job_record.h - a job as it is stored. */
#ifndef PS_COORDINATOR_JOB_RECORD_H
#define PS_COORDINATOR_JOB_RECORD_H

#include "psgd/v1/coordinator.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ps_record {
    uint64_t number;            /* ascending in the order of submission, never reused */
    Psgd__V1__Job *job;         /* malloc's, for psgd__v1__job__free_unpacked(job, NULL) */
    Psgd__V1__JobState outcome; /* the outcome that was stored before its state is final; 0: none */
    uint64_t sequence;          /* numbers of events up to this one may have been used */
    bool is_damaged;            /* the row cannot be read; `job` only has what is known */
} ps_record;

/* Frees the record's job. */
void ps_record_fini(ps_record *record);

#endif
