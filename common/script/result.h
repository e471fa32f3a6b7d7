/* SPDX-License-Identifier: Apache-2.0 */
/* result.h - the result of a computation: the records of all partitions, merged by key.
 *
 * The records of partition i lie in the file ps_part_name(i) of a folder. They are merged in the
 * order of keys, and those of a key in the order of partitions, whoever made them and when. So the
 * result has the same bytes for any number of workers.
 */
#ifndef PS_COMMON_SCRIPT_RESULT_H
#define PS_COMMON_SCRIPT_RESULT_H

#include "common/script/executor.h"

enum { PS_PART_NAME_BYTES = 24 };

/* Writes the name of the file with the records of a partition, from 0. */
void ps_part_name(char out[PS_PART_NAME_BYTES], uint32_t part);

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
    bool is_json;               /* else CSV */
    const char *const *columns; /* (column_count) names of key and values; 0: key, value ... */
    size_t column_count;
    int64_t within_us; /* for all of it */
} ps_result_conf;

/* Writes the result to a file, whole or not at all. *rows is the number of its keys. Blocks.
 *   FAILED_PRECONDITION  the code fails or takes too long; the values of two keys are not as many
 *   DATA_LOSS            a partition's file is missing or is not one */
PS_MUST_USE ps_status ps_result_write(const ps_result_conf *conf, const char *path, uint64_t *rows);

#endif
