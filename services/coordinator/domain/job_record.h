/* SPDX-License-Identifier: Apache-2.0 */
/* job_record.h - a job as it is stored. */
#ifndef PS_COORDINATOR_JOB_RECORD_H
#define PS_COORDINATOR_JOB_RECORD_H

#include "psgd/v1/coordinator.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ps_record {
    uint64_t number;            /* ascending in the order of submission; never used again */
    Psgd__V1__Job *job;         /* malloc's, for psgd__v1__job__free_unpacked(job, NULL) */
    Psgd__V1__JobState outcome; /* decided and stored while the state is not final; else 0 */
    uint64_t sequence;          /* numbers of events up to here may have been given out */
    bool is_damaged;            /* the row cannot be read; job stands in for it */
} ps_record;

/* Frees the job in it. */
void ps_record_fini(ps_record *record);

#endif
