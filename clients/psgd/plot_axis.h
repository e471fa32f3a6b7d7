/* SPDX-License-Identifier: Apache-2.0 */
/* plot_axis.h - the ticks of an axis: round numbers within a range, and their text. Pure. */
#ifndef PS_CLIENTS_PSGD_PLOT_AXIS_H
#define PS_CLIENTS_PSGD_PLOT_AXIS_H

#include "clients/psgd/show_progress.h"

#include <stdbool.h>

enum { PS_PLOT_TICKS_MAX = 12 };

typedef enum ps_plot_unit {
    PS_PLOT_NUMBER,
    PS_PLOT_COUNT,  /* whole numbers */
    PS_PLOT_SHARE,  /* 0 to 1, shown as percent */
    PS_PLOT_BYTES,  /* shown as kB, MB, .. of 1000 */
    PS_PLOT_SECONDS /* shown as s, min, h or d */
} ps_plot_unit;

typedef struct ps_plot_axis {
    ps_plot_unit unit;
    double lo, hi; /* the axis goes from lo to hi, lo < hi */
    double step;   /* distance of the ticks */
    double at[PS_PLOT_TICKS_MAX];
    size_t n; /* number of ticks; they ascend and are within lo to hi */
} ps_plot_axis;

/* Makes an axis for values from lo to hi with at most `most` ticks (2 to PS_PLOT_TICKS_MAX). Ticks
 * are 1, 2 or 5 times a power of ten apart; for seconds also parts of minutes, hours and days.
 * is_rounded: the axis begins and ends at ticks. If lo is hi or very near to it, the range is
 * widened; if lo is above hi, or one of them is not finite, it becomes 0 to 1. */
void ps_plot_axis_init(ps_plot_axis *axis, double lo, double hi, ps_plot_unit unit, size_t most,
                       bool is_rounded);

/* Writes the text of a tick, such as "0.25", "20k", "1.5 GB", "90 %", "2 min". All ticks of an axis
 * have the same unit, except that 0 has none (but "0 %"). Returns `text`. */
const char *ps_plot_axis_text(const ps_plot_axis *axis, double value, char text[PS_SHOW_BYTES]);

/* Returns where a value lies on the axis, linearly: 0 at lo, 1 at hi, beyond that outside of it. */
double ps_plot_axis_place(const ps_plot_axis *axis, double value);

#endif
