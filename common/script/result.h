/* SPDX-License-Identifier: Apache-2.0 */
/* result.h - the result of a computation: the records of all partitions, merged by key
 * (merge_records.h).
 *
 * The records of partition i lie in the file ps_part_name(i) of a folder. Or each server has those
 * of the keys that it owns (record_owner.h), in such files of its own; it reduces them into one
 * file of records, and these files are joined. The records of a key are reduced in the order of
 * partitions in either case, so the result has the same bytes for any number of workers and
 * servers.
 */
#ifndef PS_COMMON_SCRIPT_RESULT_H
#define PS_COMMON_SCRIPT_RESULT_H

#include "common/script/merge_records.h"

/* The file with the records that a server has reduced, and the most bytes that it may have. */
#define PS_REDUCED_FILE "reduced.records"
#define PS_REDUCED_MAX (UINT64_C(4) << 30)

/* Writes the name of the file with the records of a partition, from 0. */
void ps_part_name(char out[PS_MERGE_NAME_BYTES], uint32_t part);
/* Writes the name of the file that has those of a server, from 0, where ps_result_write finds it.
 */
void ps_reduced_name(char out[PS_MERGE_NAME_BYTES], uint32_t server);

/* Writes what partition `part` (from 0) of `count` is of a range: its integers, which may be none.
 */
void ps_part_range(int64_t from, int64_t to, uint32_t part, uint32_t count, ps_partition *out);
/* The same of a text of n bytes: whole lines. The partitions have about equal numbers of bytes. */
void ps_part_lines(const char *text, size_t n, uint32_t part, uint32_t count, ps_partition *out);

typedef struct ps_result_conf {
    ps_script *script;
    ps_sandbox_budget budget; /* of each call */
    const double *numbers;    /* of the code */
    const char *folder;       /* of the partitions' files */
    uint32_t parts;
    uint32_t servers; /* that have reduced the records; 0: none, ps_result_write reduces them */
    bool is_json;     /* else CSV */
    const char *const *columns; /* (column_count) names of key and values; 0: key, value ... */
    size_t column_count;
    int64_t within_us; /* for all of it */
} ps_result_conf;

/* Reduces the records of all partitions that are in the folder into a file of records, whole or not
 * at all. `executor` has the code of conf. Blocks. Errors as of ps_merge. */
PS_MUST_USE ps_status ps_result_reduce(const ps_result_conf *conf, ps_executor *executor,
                                       const char *path);

/* Writes the result to a file, whole or not at all. *rows is the number of its keys. Blocks.
 *   FAILED_PRECONDITION  the code fails or takes too long; the values of two keys are not as many
 *   DATA_LOSS            the file of a partition or server is missing or is not one */
PS_MUST_USE ps_status ps_result_write(const ps_result_conf *conf, const char *path, uint64_t *rows);

#endif
