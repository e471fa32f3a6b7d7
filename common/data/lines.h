/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - reads text files, plain or .gz, line by line, for the sources of this directory.
 *
 * A line ends with \n or \r\n or at the end of the file. Lines of more than 1 MiB and lines
 * with NUL bytes are refused, because they are not text.
 */
#ifndef PS_COMMON_DATA_LINES_H
#define PS_COMMON_DATA_LINES_H

#include "common/data/dataset.h"

enum { PS_LINE_BYTES_MAX = 1 << 20 };

typedef struct ps_learned_file ps_learned_file; /* learned.h */

/* One line, or one record if records may span lines. */
typedef struct ps_line {
    const char *file;
    /* what was learned of this file, if it is a training file and other processes have more files
     * of the set; else NULL */
    const ps_learned_file *learned;
    uint32_t file_index; /* index among the training files, or among the test files */
    uint64_t number;     /* number in its file of the record's first line, from 1 */
    /* number of the record, from 0, among all records of the training files, or of the test files
     */
    uint64_t record;
    ps_split split;
    bool is_header;
    char *text; /* (len), terminated by NUL; the callback may change it */
    size_t len;
} ps_line;

/* Handles one record. It returns INVALID_ARGUMENT for a bad record; ps_line_bad makes that
 * status. */
typedef ps_status ps_line_fn(void *arg, ps_line *line);

/* How files are read. */
typedef struct ps_line_rule {
    bool has_header;  /* the first line of each file is a header and is passed with is_header */
    bool keeps_blank; /* blank lines are passed, and counted as records */
    /* (optional) A record continues on the next line if this is true for an odd number of its
     * lines. */
    bool (*goes_on)(const char *text, size_t len);
} ps_line_rule;

/* Calls `fn` for every header and record of the conf's files in `folder`. Fails with
 * INVALID_ARGUMENT if one is empty. If there are no test files, a hash
 * of the record's number decides which records are test records, a share of `test_share`, a number
 * of the source (0.2: 80/20). If other processes have more files of the set, the test records are
 * read from PS_LEARNED_TEST (learned.h) instead. Stops at the first failure and returns it. */
PS_MUST_USE ps_status ps_lines_walk(const ps_data_conf *conf, const char *folder,
                                    const ps_line_rule *rule, ps_line_fn *fn, void *arg);

/* Calls `fn` for every line of one file of `folder`, blank lines too. Fails as ps_lines_walk. */
PS_MUST_USE ps_status ps_lines_of_file(const char *folder, const char *name, ps_line_fn *fn,
                                       void *arg);

/* Returns INVALID_ARGUMENT with the text "FILE: line 7: ...". */
PS_MUST_USE PS_PRINTF(2, 3) ps_status ps_line_bad(const ps_line *line, const char *fmt, ...);

/* Returns whether record number `record` is a test record, for a share of test records of `share`.
 */
bool ps_record_is_test(uint64_t record, double share);

#endif
