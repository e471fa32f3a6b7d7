/* SPDX-License-Identifier: Apache-2.0 */
/* plot_csv.h - reads the reports of a job: CSV of numbers with a header, nothing quoted. Pure. */
#ifndef PS_CLIENTS_PSGD_PLOT_CSV_H
#define PS_CLIENTS_PSGD_PLOT_CSV_H

#include <stdbool.h>
#include <stddef.h>

enum { PS_PLOT_CSV_COLUMNS_MAX = 4096, PS_PLOT_CSV_NAME_BYTES = 64 };

#define PS_PLOT_CSV_LARGEST 1e100

typedef struct ps_plot_csv {
    const char *at, *end; /* what is left of the text */
    char (*names)[PS_PLOT_CSV_NAME_BYTES];
    size_t n_columns;
} ps_plot_csv;

/* Reads the header of n bytes of anything, which must live until ps_plot_csv_fini. Returns false if
 * there is none, or one with an empty or too long name, or too many names. */
bool ps_plot_csv_init(ps_plot_csv *csv, const char *text, size_t n);

/* Returns the column of that name; n_columns if there is none. */
size_t ps_plot_csv_find(const ps_plot_csv *csv, const char *name);

/* Reads the next line. values (n_columns): NaN where a field is empty, missing, no number, or one
 * beyond PS_PLOT_CSV_LARGEST: sums of values stay finite. Returns false at the end. A last line
 * without its end is left out: a report that grows ends so.
 */
bool ps_plot_csv_next(ps_plot_csv *csv, double *values);

/* Frees the names; a zeroed one is allowed. */
void ps_plot_csv_fini(ps_plot_csv *csv);

#endif
