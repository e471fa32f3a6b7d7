/* SPDX-License-Identifier: Apache-2.0 */
/* curves.h - draws the loss and the accuracy of a job that trains as text. Pure.
 *
 * With UTF-8 a character of Braille has two by four dots; without, a character is one dot. */
#ifndef PS_CLIENTS_PSGD_CURVES_H
#define PS_CLIENTS_PSGD_CURVES_H

#include "clients/psgd/plot_job.h"

#include "common/base/strbuf.h"

#include <stdbool.h>

enum { PS_CURVES_POINTS_MAX = 8192, PS_CURVES_ROWS_LEAST = 9 };

/* The points known so far; each row has step, loss and accuracy. A zeroed struct has none. */
typedef struct ps_curves {
    ps_plot_rows train, tests;
} ps_curves;

/* Adds a point of training or (is_test) of a test. Values that are not finite are not drawn. If
 * there are more than PS_CURVES_POINTS_MAX points, of four neighbours only those with the least and
 * the greatest loss are kept. If `step` is not above that of the last point, because the job went
 * back, the points from `step` on are removed first. */
void ps_curves_add(ps_curves *curves, bool is_test, double step, double loss, double accuracy);

/* Appends lines, each ended by \n and at most `columns` wide, for a screen on which `rows` rows are
 * free. Returns the number of lines; 0 if there are fewer than PS_CURVES_ROWS_LEAST rows, 40
 * columns, or two points of training. Accuracy, if any is known, stands beside the loss from 100
 * columns on, else below the loss if there are 2 * PS_CURVES_ROWS_LEAST rows; else it is left
 * out. */
size_t ps_curves_draw(ps_strbuf *out, const ps_curves *curves, size_t columns, size_t rows,
                      bool is_utf8);

/* Frees the points. */
void ps_curves_fini(ps_curves *curves);

#endif
