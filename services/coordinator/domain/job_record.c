/* SPDX-License-Identifier: Apache-2.0 */
/* job_record.c - see job_record.h. */
#include "services/coordinator/domain/job_record.h"

void ps_record_fini(ps_record *record)
{
    if (record->job) {
        psgd__v1__job__free_unpacked(record->job, NULL);
    }
    record->job = NULL;
}
