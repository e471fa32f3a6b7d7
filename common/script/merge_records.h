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
    const char *what; /* what a file is of, in errors: "partition" */
    /* Makes one record of those of a key; NULL: each key is in one file, and its record stays. */
    ps_executor *executor;
    const char *code;      /* name of the executor's file of code, in errors */
    const double *numbers; /* of that code */
    int64_t within_us;     /* most time of the executor for all keys */
    ps_merge_take_fn *take;
    void *arg;
} ps_merge_conf;

/* Merges the files. Blocks.
 *   FAILED_PRECONDITION  the code fails or takes too long
 *   CANCELLED            the executor was stopped
 *   DATA_LOSS            a file is missing or is not one, or without an executor a key is in two
 *   others               of `take` */
PS_MUST_USE ps_status ps_merge(const ps_merge_conf *conf);

#endif
