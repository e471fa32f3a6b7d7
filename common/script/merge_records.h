/* SPDX-License-Identifier: Apache-2.0 */
/* merge_records.h - merges files of records (record.h) by key.
 *
 * Files are merged in the order of keys, and records of a key in the order of files. So the result
 * does not depend on who made the files and when.
 */
#ifndef PS_COMMON_SCRIPT_MERGE_RECORDS_H
#define PS_COMMON_SCRIPT_MERGE_RECORDS_H

#include "common/script/executor.h"
#include "common/script/record.h"

enum { PS_MERGE_NAME_BYTES = 32 };

/* Takes a merged record, which is borrowed. Keys ascend. A failure ends the merge. */
typedef ps_status ps_merge_take_fn(void *arg, const ps_keyed *record);

typedef struct ps_merge_conf {
    const char *folder;
    /* Writes the name of file i, from 0, of `count`. */
    void (*name_of)(char out[PS_MERGE_NAME_BYTES], uint32_t i);
    uint32_t count;
    const char *what; /* what a file belongs to, for errors: "partition" */
    /* makes one record of all records of a key; NULL: each key is in one file only, and its record
     * is taken as it is */
    ps_executor *executor;
    const char *code;      /* name of the executor's file of code, in errors */
    const double *numbers; /* values of the numbers of that code */
    int64_t within_us;     /* most time for the whole merge by the executor, in microseconds */
    ps_merge_take_fn *take;
    void *arg;
} ps_merge_conf;

/* Merges the files. Blocks.
 *   FAILED_PRECONDITION  the code fails or takes too long
 *   CANCELLED            the executor was stopped
 *   DATA_LOSS            a file cannot be opened or is damaged, or without an executor a key is in
 *                        two files
 *   RESOURCE_EXHAUSTED   there is no memory to map a file
 *   others               `take` returned them */
PS_MUST_USE ps_status ps_merge(const ps_merge_conf *conf);

#endif
