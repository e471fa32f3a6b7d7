/* SPDX-License-Identifier: Apache-2.0 */
/* executor.h - runs code of the kind compute: makes records of partitions, and merges records.
 *
 * An executor is one sandbox. One thread at a time may use it, but for ps_executor_stop.
 */
#ifndef PS_COMMON_SCRIPT_EXECUTOR_H
#define PS_COMMON_SCRIPT_EXECUTOR_H

#include "common/script/script.h"

enum {
    PS_PARTITIONS_MAX = 4096,
    /* most seconds that a job may give a partition; below PS_SANDBOX_CPU_S, with a margin */
    PS_PARTITION_SECONDS_MAX = 500,
    PS_PART_TEXT_MAX = 2 << 20, /* most bytes of the text of a partition */
    /* most bytes of the records of a partition, so that they fit in a message */
    PS_PART_RECORDS_MAX = (1 << 20) - 4096,
    /* most bytes of records that one call of ps_executor_merge reads, and that it writes */
    PS_MERGE_IN_MAX = PS_SANDBOX_ROOM - (64 << 10),
    PS_MERGE_OUT_MAX = PS_SANDBOX_ROOM - (64 << 10)
};

typedef struct ps_executor ps_executor;

/* A partition of the work. */
typedef struct ps_partition {
    uint32_t number, count; /* number of this partition, from 1; number of all partitions */
    uint64_t key;           /* key of its draws (common/base/draw.h) */
    bool has_range;         /* from and to are set */
    int64_t from, to;       /* integers, both included */
    /* (bytes): the lines of the partition, borrowed; NULL: it has no text */
    const char *text;
    size_t bytes;
} ps_partition;

/* Starts a sandbox and loads the code of `script`, which the caller keeps open. Returns
 * RESOURCE_EXHAUSTED if the sandbox cannot be started, FAILED_PRECONDITION if the code fails. */
PS_MUST_USE ps_status ps_executor_start(ps_script *script, const ps_sandbox_budget *budget,
                                        ps_executor **out);

/* Makes the running call end soon, and all later calls at once, with CANCELLED. Any thread. */
void ps_executor_stop(ps_executor *executor);

/* Ends the sandbox. NULL is allowed. */
void ps_executor_end(ps_executor *executor);

/* Makes the records of a partition: writes *n bytes to `records` (PS_PART_RECORDS_MAX), sorted by
 * key and checked. `numbers` are the values of the numbers of the code, in the order of its
 * description. Returns FAILED_PRECONDITION with file, function and reason if the code fails or
 * takes more than its budget, also for a partition with more text than PS_PART_TEXT_MAX; CANCELLED
 * after ps_executor_stop; RESOURCE_EXHAUSTED if the sandbox had to be replaced, and none can be
 * started. */
PS_MUST_USE ps_status ps_executor_map(ps_executor *executor, const ps_partition *part,
                                      const double *numbers, uint8_t *records, size_t *n);

/* Makes one record for each key. `in` has n bytes of records, at most PS_MERGE_IN_MAX, sorted by
 * key, and for each key in the order of partitions. goes_on: the last key has more records; its
 * record is then not passed to the code's function finish, and the caller gives it as the first
 * record of the next call. Writes *out_n bytes to `out` (PS_MERGE_OUT_MAX), sorted and checked.
 * Fails as ps_executor_map does. */
PS_MUST_USE ps_status ps_executor_merge(ps_executor *executor, const uint8_t *in, size_t n,
                                        bool goes_on, const double *numbers, uint8_t *out,
                                        size_t *out_n);

#endif
