/* SPDX-License-Identifier: Apache-2.0 */
/* report_csv.h - reads the reports of a job: CSV of numbers with a header, nothing quoted. Pure. */
#ifndef PS_COMMON_ARTIFACT_REPORT_CSV_H
#define PS_COMMON_ARTIFACT_REPORT_CSV_H

#include <stdbool.h>
#include <stddef.h>

enum { PS_REPORT_CSV_COLUMNS_MAX = 4096, PS_REPORT_CSV_NAME_BYTES = 64 };

#define PS_REPORT_CSV_LARGEST 1e100

typedef struct ps_report_csv {
    const char *at, *end; /* what is left of the text */
    char (*names)[PS_REPORT_CSV_NAME_BYTES];
    size_t n_columns;
} ps_report_csv;

/* Reads the header of n bytes of anything, which must live until ps_report_csv_fini. Returns false
 * if there is none, or one with an empty or too long name, or too many names. */
bool ps_report_csv_init(ps_report_csv *csv, const char *text, size_t n);

/* Returns the column of that name; n_columns if there is none. */
size_t ps_report_csv_find(const ps_report_csv *csv, const char *name);

/* Reads the next line. values (n_columns): NaN where a field is empty, missing, no number, or one
 * beyond PS_REPORT_CSV_LARGEST: sums of values stay finite. Returns false at the end. A last line
 * without its end is left out: a report that grows ends so.
 */
bool ps_report_csv_next(ps_report_csv *csv, double *values);

/* Reads on in n bytes of which the first are those between csv->at and csv->end, which were not
 * read yet. They must live until ps_report_csv_fini or the next call of this. */
void ps_report_csv_go_on(ps_report_csv *csv, const char *text, size_t n);

/* Frees the names; a zeroed one is allowed. */
void ps_report_csv_fini(ps_report_csv *csv);

#endif
