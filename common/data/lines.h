/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - the lines of text files, plain or .gz, one after the other; for the sources of
 * this directory.
 *
 * A line ends with \n or \r\n or with the file. Lines of more than a MiB, and NUL bytes,
 * are refused: they are no text.
 */
#ifndef PS_COMMON_DATA_LINES_H
#define PS_COMMON_DATA_LINES_H

#include "common/data/dataset.h"

enum { PS_LINE_BYTES_MAX = 1 << 20 };

/* One line, or one record where records may have several. */
typedef struct ps_line {
    const char *file;
    uint32_t file_index; /* among the training files, or among the test files */
    uint64_t number;     /* of the (first) line in its file, from 1 */
    uint64_t row;        /* of the record among all of the training files, or of the test files */
    ps_split split;
    bool is_header;
    char *text; /* (len), ended by a NUL; the callback may change it */
    size_t len;
} ps_line;

/* INVALID_ARGUMENT for a line that is not what it should be; ps_line_bad makes it. */
typedef ps_status ps_line_fn(void *arg, ps_line *line);

/* How files are to be read. */
typedef struct ps_line_rule {
    bool has_header;  /* the first line of each file, passed with is_header */
    bool keeps_blank; /* lines without anything but blanks are passed, and counted as rows */
    /* (optional) A record goes on in the next line if this is true of an odd number of
     * its lines. */
    bool (*goes_on)(const char *text, size_t len);
} ps_line_rule;

/* Calls `fn` for every record of the conf's files in `folder`. Without test files a
 * record is of the test set if the hash of its row says so, for `test_share` of them,
 * a number of the source's (0.2: 80/20). Stops at the first failure. */
PS_MUST_USE ps_status ps_lines_walk(const ps_data_conf *conf, const char *folder,
                                    const ps_line_rule *rule, ps_line_fn *fn, void *arg);

/* "FILE: line 7: ...": of what is wrong with a line. */
PS_MUST_USE PS_PRINTF(2, 3) ps_status ps_line_bad(const ps_line *line, const char *fmt, ...);

/* Is record `row` of the test set, of which there is such a share? */
bool ps_row_is_test(uint64_t row, double share);

/* text (len) as a number: all of it, finite, not empty; false otherwise. Neither locale nor
 * host matters. */
bool ps_text_number(const char *text, size_t len, double *value);

/* The same, and finite as 32 bits. */
bool ps_text_float(const char *text, size_t len, float *value);

#endif
