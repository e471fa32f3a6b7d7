/* SPDX-License-Identifier: Apache-2.0 */
/* show_progress.c - see show_progress.h. */
#include "clients/psgd/show_progress.h"

#include "common/base/printable.h"
#include "common/base/shorten.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *ps_show_size(uint64_t bytes, char text[PS_SHOW_BYTES])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    double v = (double)bytes;
    size_t u = 0;

    while (v >= 1000 && u + 1 < sizeof units / sizeof units[0]) {
        v /= 1000;
        u++;
    }
    snprintf(text, PS_SHOW_BYTES, u == 0 ? "%.0f %s" : "%.1f %s", v, units[u]);
    return text;
}

const char *ps_show_rate(double per_s, char text[PS_SHOW_BYTES])
{
    if (per_s >= 1e4) {
        snprintf(text, PS_SHOW_BYTES, "%.0fk", per_s / 1e3);
    } else {
        snprintf(text, PS_SHOW_BYTES, "%.0f", per_s);
    }
    return text;
}

const char *ps_show_number(double value, int digits, char text[PS_SHOW_BYTES])
{
    double size = fabs(value);

    if (size >= 1e6) {
        snprintf(text, PS_SHOW_BYTES, "%.4g", value);
    } else if (size < 1e-3 && size > 0) {
        snprintf(text, PS_SHOW_BYTES, "%.3g", value);
    } else {
        snprintf(text, PS_SHOW_BYTES, "%.*f", digits, value);
    }
    return text;
}

const char *ps_show_duration(double seconds, char text[PS_SHOW_BYTES])
{
    if (seconds < 0.9995) {
        snprintf(text, PS_SHOW_BYTES, "%.0f ms", seconds * 1e3);
    } else {
        snprintf(text, PS_SHOW_BYTES, "%.1f s", seconds);
    }
    return text;
}

const char *ps_show_metric(const char *name, double value, int digits,
                           char text[PS_SHOW_METRIC_BYTES])
{
    bool is_count = value >= 2.0 && value < 1e15 && floor(value) == value;
    char number[PS_SHOW_BYTES];

    if (is_count) {
        snprintf(number, sizeof number, "%.0f", value);
    } else {
        ps_show_number(value, digits, number);
    }
    snprintf(text, PS_SHOW_METRIC_BYTES, "%s %s", PS_PLAIN(name, 48), number);
    return text;
}

const char *ps_show_plainly(const char *text, char *out, size_t cap)
{
    ps_shorten(out, cap, text);
    ps_printable(out);
    return out;
}

static void bar(double share, char *text, size_t width)
{
    size_t full = share <= 0 ? 0 : share >= 1 ? width : (size_t)(share * (double)width);

    text[0] = '[';
    memset(text + 1, '#', full);
    memset(text + 1 + full, '-', width - full);
    text[width + 1] = ']';
    text[width + 2] = '\0';
}

/* Writes the bytes that went one way, as "up 4.1 MB (4.0x less)", or "up 4.1 MB/4.0x" if
 * `is_short`: 4.0 times less than the bytes of float32 values. The factor is left out up to
 * 1.05. */
static void carried(const char *way, uint64_t bytes, uint64_t float32, bool is_short, char *text,
                    size_t cap)
{
    bool is_less = bytes > 0 && (double)float32 > 1.05 * (double)bytes;
    char size[PS_SHOW_BYTES], less[PS_SHOW_BYTES] = "";

    ps_show_size(bytes, size);
    if (is_less) {
        snprintf(less, sizeof less, is_short ? "/%.1fx" : " (%.1fx less)",
                 (double)float32 / (double)bytes);
    }
    snprintf(text, cap, "%s %s%s", way, size, less);
}

static void remaining(double seconds, char *text, size_t cap)
{
    unsigned long s = seconds < 0.5 || seconds > 360000 ? 0 : (unsigned long)(seconds + 0.5);

    if (s == 0) { /* unknown, below half a second, or more than 100 hours: show nothing */
        text[0] = '\0';
    } else if (s < 100) {
        snprintf(text, cap, "ETA %lu s", s);
    } else if (s < 6000) {
        snprintf(text, cap, "ETA %lu min", s / 60);
    } else {
        snprintf(text, cap, "ETA %lu h %lu min", s / 3600, s / 60 % 60);
    }
}

enum { BAR = 16, BAR_SHORT = 8, PART_BYTES = PS_SHOW_METRIC_BYTES };

typedef enum part {
    P_BAR,
    P_STEP,
    P_LOSS,
    P_ACCURACY,
    P_METRIC, /* the first one of PS_SHOW_METRICS */
    P_RATE = P_METRIC + PS_SHOW_METRICS,
    P_UP,
    P_DOWN,
    P_WORKERS,
    P_ETA,
    P_WAITS,
    PARTS
} part;

/* Parts of the line that are left out if it is too wide even with short forms: one after the other
 * in this order, and of several that begin at `first` the last one first, until it fits. */
static const struct {
    part first;
    size_t count;
} expendable[] = {{P_WORKERS, 1}, {P_BAR, 1},      {P_RATE, 1},
                  {P_DOWN, 1},    {P_UP, 1},       {P_METRIC, PS_SHOW_METRICS},
                  {P_ETA, 1},     {P_ACCURACY, 1}, {P_WAITS, 1}};

static void fill_parts(const Psgd__V1__Progress *p, bool computes, bool is_short,
                       char parts[PARTS][PART_BYTES])
{
    double share = p->total_steps == 0 ? 0 : fmin(1, (double)p->step / (double)p->total_steps);
    bool has_loss = !computes && p->step > 0;
    char rate[PS_SHOW_BYTES], loss[PS_SHOW_BYTES];

    bar(share, parts[P_BAR], is_short ? BAR_SHORT : BAR);
    snprintf(parts[P_STEP], PART_BYTES, "%3.0f%% %s%llu/%llu", share * 100,
             is_short   ? ""
             : computes ? "partition "
                        : "step ",
             (unsigned long long)p->step, (unsigned long long)p->total_steps);
    parts[P_LOSS][0] = parts[P_ACCURACY][0] = '\0';
    if (has_loss) {
        snprintf(parts[P_LOSS], PART_BYTES, "loss %s",
                 ps_show_number(p->loss, is_short ? 3 : 4, loss));
    }
    /* NaN: the job does not predict classes, so there is no accuracy */
    if (has_loss && !isnan(p->accuracy)) {
        snprintf(parts[P_ACCURACY], PART_BYTES, "acc %.3f", p->accuracy);
    }
    for (size_t i = 0; i < PS_SHOW_METRICS; i++) {
        parts[P_METRIC + i][0] = '\0';
        if (!computes && i < p->n_program_metrics) {
            ps_show_metric(p->program_metrics[i]->key, p->program_metrics[i]->value,
                           is_short ? 3 : 4, parts[P_METRIC + i]);
        }
    }
    parts[P_RATE][0] = '\0';
    if (p->samples_per_second >= 0.5) { /* it is below during an evaluation or a wait */
        snprintf(parts[P_RATE], PART_BYTES, is_short ? "%s/s" : "%s samples/s",
                 ps_show_rate(p->samples_per_second, rate));
    }
    carried("up", p->bytes_up, p->bytes_up_float32, is_short, parts[P_UP], PART_BYTES);
    carried("down", p->bytes_down, p->bytes_down_float32, is_short, parts[P_DOWN], PART_BYTES);
    if (computes) {
        parts[P_UP][0] = parts[P_DOWN][0] = '\0';
    }
    snprintf(parts[P_WORKERS], PART_BYTES, is_short ? "%u/%u" : "%u/%u workers", p->workers_alive,
             p->workers_total);
    remaining(p->eta_seconds, parts[P_ETA], PART_BYTES);
    parts[P_WAITS][0] = '\0';
    if (p->waiting_for[0] != '\0' && p->samples_per_second < 1 && p->step < p->total_steps) {
        snprintf(parts[P_WAITS], PART_BYTES, "waits for %s", PS_PLAIN(p->waiting_for, 60));
    }
}

/* Returns how many columns the line has with `gap` spaces between its parts. */
static size_t columns_of(char parts[PARTS][PART_BYTES], size_t gap)
{
    size_t n = 0;

    for (size_t i = 0; i < PARTS; i++) {
        n += parts[i][0] == '\0' ? 0 : strlen(parts[i]) + (n > 0 ? gap : 0);
    }
    return n;
}

/* Leaves expendable parts out until the line has at most `width` columns. */
static void leave_out(char parts[PARTS][PART_BYTES], size_t gap, size_t width)
{
    for (size_t i = 0; i < sizeof expendable / sizeof expendable[0]; i++) {
        for (size_t k = expendable[i].count; k > 0 && columns_of(parts, gap) > width; k--) {
            parts[expendable[i].first + k - 1][0] = '\0';
        }
    }
}

void ps_show_progress(const Psgd__V1__Progress *progress, bool computes, size_t width, char *text,
                      size_t cap)
{
    char parts[PARTS][PART_BYTES];
    size_t gap = 2, n = 0;

    fill_parts(progress, computes, false, parts);
    if (width != 0 && columns_of(parts, gap) > width) {
        gap = 1;
        fill_parts(progress, computes, true, parts);
    }
    if (width != 0) {
        leave_out(parts, gap, width);
    }
    text[0] = '\0';
    for (size_t i = 0; i < PARTS && n < cap; i++) {
        if (parts[i][0] != '\0') {
            n += (size_t)snprintf(text + n, cap - n, "%*s%s", n > 0 ? (int)gap : 0, "", parts[i]);
        }
    }
}
