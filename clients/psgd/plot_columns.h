/* SPDX-License-Identifier: Apache-2.0 */
/* plot_columns.h - reduces any number of points to the columns of a picture. Pure.
 *
 * A column keeps the mean, the least and the greatest value of its points, so a spike of one step
 * among millions is still seen.
 */
#ifndef PS_CLIENTS_PSGD_PLOT_COLUMNS_H
#define PS_CLIENTS_PSGD_PLOT_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

typedef struct ps_plot_column {
    uint64_t count;         /* number of points; if it is 0, so are the other members */
    double x, mean;         /* mean of the points' x, and of their values */
    double least, greatest; /* least and greatest value of the points */
} ps_plot_column;

typedef struct ps_plot_columns {
    double lo, hi;
    size_t n;
    ps_plot_column *at; /* (n) */
} ps_plot_columns;

/* Makes n > 0 empty columns for x from lo to hi. */
void ps_plot_columns_init(ps_plot_columns *columns, double lo, double hi, size_t n);

/* Adds a point. Points outside of the range, or with a number that is not finite, are left out. */
void ps_plot_columns_add(ps_plot_columns *columns, double x, double value);

/* Frees the columns; zeroed ones are allowed. */
void ps_plot_columns_fini(ps_plot_columns *columns);

#endif
