/* SPDX-License-Identifier: Apache-2.0 */
/* report_csv.h - reads the reports of a job: CSV of numbers with a header, nothing quoted. Pure. */
#ifndef PS_COMMON_ARTIFACT_REPORT_CSV_H
#define PS_COMMON_ARTIFACT_REPORT_CSV_H

#include <stdbool.h>
#include <stddef.h>

enum { PS_REPORT_CSV_COLUMNS_MAX = 4096, PS_REPORT_CSV_NAME_BYTES = 64 };

/* The largest absolute value that is read; a larger one counts as no number, so that sums stay
 * finite. */
#define PS_REPORT_CSV_LARGEST 1e100

typedef struct ps_report_csv {
    const char *at, *end;                    /* the bytes that were not read yet: [at, end) */
    char (*names)[PS_REPORT_CSV_NAME_BYTES]; /* (n_columns): the names of the header */
    size_t n_columns;
} ps_report_csv;

/* Reads the header of `text`, n bytes of anything, which must live until ps_report_csv_go_on or
 * ps_report_csv_fini. Returns false if there is no header line, or if it has a NUL, an empty name,
 * a name of PS_REPORT_CSV_NAME_BYTES or more, or more than PS_REPORT_CSV_COLUMNS_MAX names. */
bool ps_report_csv_init(ps_report_csv *csv, const char *text, size_t n);

/* Returns the index of the column with this name; n_columns if there is none. */
size_t ps_report_csv_find(const ps_report_csv *csv, const char *name);

/* Reads the next line into values (n_columns). A value is NaN where a field is empty, missing, no
 * number, or beyond PS_REPORT_CSV_LARGEST. Returns false at the end. A last line without \n is not
 * read, because a report that still grows may end within a line.
 */
bool ps_report_csv_next(ps_report_csv *csv, double *values);

/* Goes on in another buffer of n bytes, when the report has grown. The buffer begins with the bytes
 * that were not read yet, those from csv->at to csv->end; new bytes follow them. It must live until
 * the next call of this function or ps_report_csv_fini. */
void ps_report_csv_go_on(ps_report_csv *csv, const char *text, size_t n);

/* Frees the names. A zeroed struct is allowed. */
void ps_report_csv_fini(ps_report_csv *csv);

#endif
