/* SPDX-License-Identifier: Apache-2.0 */
/* plot_axis.c - see plot_axis.h. */
#include "clients/psgd/plot_axis.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

static const double clock_steps[] = {1,     2,     5,     10,    15,     30,     60,
                                     120,   300,   600,   900,   1800,   3600,   7200,
                                     10800, 21600, 43200, 86400, 172800, 432000, 864000};

/* Returns the smallest step of 1, 2 or 5 times a power of ten that is not below `raw`. */
static double decimal_step(double raw)
{
    double power = pow(10, floor(log10(raw))), part = raw / power;

    return power * (part <= 1 + 1e-9 ? 1 : part <= 2 + 1e-9 ? 2 : part <= 5 + 1e-9 ? 5 : 10);
}

static double step_of(double raw, ps_plot_unit unit)
{
    size_t n = sizeof clock_steps / sizeof clock_steps[0];

    if (unit == PS_PLOT_SECONDS && raw > 1 && raw <= clock_steps[n - 1]) {
        for (size_t i = 0; i < n; i++) {
            if (clock_steps[i] >= raw - 1e-9) {
                return clock_steps[i];
            }
        }
    }
    if (unit == PS_PLOT_SECONDS && raw > clock_steps[n - 1]) {
        return 86400 * decimal_step(raw / 86400);
    }
    if (unit == PS_PLOT_COUNT && raw < 1) {
        return 1;
    }
    return decimal_step(raw);
}

/* Widens a range whose length is 0, or too small for doubles to tell ticks apart. A range with an
 * end that is not finite or beyond 1e300, or with *lo above *hi, becomes 0 to 1. */
static void widen(double *lo, double *hi)
{
    double size;

    if (!isfinite(*lo) || !isfinite(*hi) || *lo > *hi || fabs(*lo) > 1e300 || fabs(*hi) > 1e300) {
        *lo = 0;
        *hi = 1;
    }
    size = fmax(fabs(*lo), fabs(*hi));
    if (*hi - *lo <= size * 1e-9) {
        double more = size > 0 ? size * 0.1 : 1;

        *hi += more;
        *lo = *lo >= 0 && *lo < more ? 0 : *lo - more;
    }
}

void ps_plot_axis_init(ps_plot_axis *axis, double lo, double hi, ps_plot_unit unit, size_t most,
                       bool is_rounded)
{
    double first, raw;

    assert(most >= 2 && most <= PS_PLOT_TICKS_MAX);
    widen(&lo, &hi);
    if (unit == PS_PLOT_COUNT && hi - lo < 1) {
        hi = lo + 1;
    }
    raw = (hi - lo) / (double)(most - 1);
    *axis = (ps_plot_axis){.unit = unit, .lo = lo, .hi = hi, .step = step_of(raw, unit)};
    /* Rounding the ends outwards adds up to two ticks. Take larger steps until there are at most
     * `most` ticks. */
    while (is_rounded &&
           ceil(hi / axis->step - 1e-9) - floor(lo / axis->step + 1e-9) + 1 > (double)most) {
        axis->step = step_of(axis->step * 1.01, unit);
    }
    if (is_rounded) {
        axis->lo = axis->step * floor(lo / axis->step + 1e-9);
        axis->hi = axis->step * ceil(hi / axis->step - 1e-9);
    }
    first = ceil(axis->lo / axis->step - 1e-9);
    while (axis->n < most &&
           (first + (double)axis->n) * axis->step <= axis->hi + axis->step * 1e-6) {
        axis->at[axis->n] = (first + (double)axis->n) * axis->step;
        axis->n++;
    }
}

/* Returns the divisor for the numbers at ticks, and writes the name of the unit that they then have
 * to *name. */
static double scale_of(const ps_plot_axis *axis, const char **name)
{
    static const char *const counts[] = {"", "k", "M", "G", "T"};
    static const char *const bytes[] = {" B", " kB", " MB", " GB", " TB", " PB"};
    double size = fmax(fabs(axis->lo), fabs(axis->hi)), scale = 1;
    bool is_bytes = axis->unit == PS_PLOT_BYTES;
    size_t u = 0;

    switch (axis->unit) {
    case PS_PLOT_SHARE:
        *name = " %";
        return 0.01;
    case PS_PLOT_SECONDS:
        scale = size <= 120 ? 1 : size <= 7200 ? 60 : size <= 259200 ? 3600 : 86400;
        *name = size <= 120 ? " s" : size <= 7200 ? " min" : size <= 259200 ? " h" : " d";
        return scale;
    case PS_PLOT_NUMBER:
    case PS_PLOT_COUNT:
    case PS_PLOT_BYTES:
        break;
    }
    if (is_bytes || size >= 1e4) {
        while (size / scale >= (is_bytes ? 1e3 : 2e3) && u < (is_bytes ? 5 : 4)) {
            scale *= 1000;
            u++;
        }
    }
    *name = is_bytes ? bytes[u] : counts[u];
    return scale;
}

const char *ps_plot_axis_text(const ps_plot_axis *axis, double value, char text[PS_SHOW_BYTES])
{
    const char *unit;
    double scale = scale_of(axis, &unit), size = fmax(fabs(axis->lo), fabs(axis->hi));
    int digits = (int)ceil(log10(size / axis->step)) + 3;

    digits = digits < 4 ? 4 : digits > 15 ? 15 : digits;
    if (fabs(value) < axis->step * 1e-6) {
        value = 0; /* print 0, not "-0" or "1e-17" */
    }
    snprintf(text, PS_SHOW_BYTES, "%.*g%s", digits, value / scale,
             value == 0 && axis->unit != PS_PLOT_SHARE ? "" : unit);
    return text;
}

double ps_plot_axis_place(const ps_plot_axis *axis, double value)
{
    return (value - axis->lo) / (axis->hi - axis->lo);
}
