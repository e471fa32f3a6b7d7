/* SPDX-License-Identifier: Apache-2.0 */
/* result.h - the result of a computation: the records of all partitions, merged by key
 * (merge_records.h).
 *
 * The records of partition i lie in the file ps_part_name(i) of a folder. If the job has servers,
 * each server has the records of the keys that it owns (record_owner.h), in such files of its own.
 * It reduces them into one file of records, and the files of all servers are joined. The records of
 * a key are reduced in the order of partitions in either case, so the result has the same bytes for
 * any number of workers and servers. */
#ifndef PS_COMMON_SCRIPT_RESULT_H
#define PS_COMMON_SCRIPT_RESULT_H

#include "common/script/merge_records.h"

/* The file with the records that a server has reduced, and the most bytes that it may have. */
#define PS_REDUCED_FILE "reduced.records"
#define PS_REDUCED_MAX (UINT64_C(4) << 30)

/* Writes the name of the file with the records of partition number `part`, from 0. */
void ps_part_name(char out[PS_MERGE_NAME_BYTES], uint32_t part);
/* Writes the name of the file, in conf.folder of ps_result_write, with the records that server
 * number `server`, from 0, has reduced. */
void ps_reduced_name(char out[PS_MERGE_NAME_BYTES], uint32_t server);

/* Fills *out for partition number `part`, from 0, of `count` partitions of the range [from, to]:
 * its integers, which may be none. */
void ps_part_range(int64_t from, int64_t to, uint32_t part, uint32_t count, ps_partition *out);
/* Fills *out for partition number `part`, from 0, of `count` partitions of a text of n bytes: whole
 * lines. The partitions have about equal numbers of bytes. */
void ps_part_lines(const char *text, size_t n, uint32_t part, uint32_t count, ps_partition *out);

typedef struct ps_result_conf {
    ps_script *script;
    ps_sandbox_budget budget; /* budget of each call of the code */
    const double *numbers;    /* values of the numbers of the code */
    const char *folder;       /* folder with the files of the partitions, or of the servers */
    uint32_t parts;
    /* number of servers that have reduced the records; 0: none has, so ps_result_write reduces
     * them */
    uint32_t servers;
    bool is_json; /* the result is JSON; false: CSV */
    /* (column_count): names of the key and the values; none: "key", "value" ... */
    const char *const *columns;
    size_t column_count;
    int64_t within_us; /* most microseconds for the whole call */
} ps_result_conf;

/* Reduces the records of all partitions that are in the folder into a file of records, whole or not
 * at all. `executor` has the code of conf->script. Blocks. Fails as ps_merge does. */
PS_MUST_USE ps_status ps_result_reduce(const ps_result_conf *conf, ps_executor *executor,
                                       const char *path);

/* Writes the result to a file, whole or not at all. *rows is the number of its keys. Blocks.
 *   FAILED_PRECONDITION  the code fails or takes too long; in CSV, two keys have different numbers
 *                        of values; a key has another number of values than the columns give
 *   DATA_LOSS            the file of a partition or server is missing or damaged
 *   others               as of ps_merge, or of writing a file */
PS_MUST_USE ps_status ps_result_write(const ps_result_conf *conf, const char *path, uint64_t *rows);

#endif
