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
    PS_PARTITION_SECONDS_MAX = 500, /* below the processor time of a sandbox, with a margin */
    PS_PART_TEXT_MAX = 2 << 20,             /* bytes of the text of a partition */
    PS_PART_RECORDS_MAX = (1 << 20) - 4096, /* bytes of its records: they fit in a message */
    PS_MERGE_IN_MAX = PS_SANDBOX_ROOM - (64 << 10), /* bytes of records in and out of one call */
    PS_MERGE_OUT_MAX = PS_SANDBOX_ROOM - (64 << 10)
};

typedef struct ps_executor ps_executor;

/* A partition of the work. */
typedef struct ps_partition {
    uint32_t number, count; /* from 1; of all partitions */
    uint64_t key;           /* of its draws */
    bool has_range;         /* from and to are set */
    int64_t from, to;       /* integers, both included */
    const char *text;       /* (bytes), borrowed; NULL: none */
    size_t bytes;
} ps_partition;

/* Starts a sandbox and loads the code, which is kept. Errors as of ps_sandbox_start and of the
 * code.
 */
PS_MUST_USE ps_status ps_executor_start(ps_script *script, const ps_sandbox_budget *budget,
                                        ps_executor **out);

/* Lets the running call end soon, and all later ones at once, with CANCELLED. Any thread. */
void ps_executor_stop(ps_executor *executor);

/* Ends the sandbox. NULL is allowed. */
void ps_executor_end(ps_executor *executor);

/* Makes the records of a partition: writes *n bytes, at most PS_PART_RECORDS_MAX, sorted by key and
 * checked. `numbers` are those of the code, in the order of its description. Returns
 * FAILED_PRECONDITION with file, function and reason if the code fails or takes more than its
 * budget, also for a partition with more text than PS_PART_TEXT_MAX. */
PS_MUST_USE ps_status ps_executor_map(ps_executor *executor, const ps_partition *part,
                                      const double *numbers, uint8_t *records, size_t *n);

/* Makes one record for each key of n bytes of records, at most PS_MERGE_IN_MAX, that are sorted by
 * key and in the order of partitions. The last key is not finished if it `goes_on` in the next
 * call, of which its record is then the first. Writes *out_n bytes, at most PS_MERGE_OUT_MAX,
 * sorted and checked. Errors as above. */
PS_MUST_USE ps_status ps_executor_merge(ps_executor *executor, const uint8_t *in, size_t n,
                                        bool goes_on, const double *numbers, uint8_t *out,
                                        size_t *out_n);

#endif
