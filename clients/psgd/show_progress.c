/* SPDX-License-Identifier: Apache-2.0 */
/* show_progress.c - see show_progress.h. */
#include "clients/psgd/show_progress.h"

#include "common/base/shorten.h"
#include "common/base/utf8.h"

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

/* Returns whether a character of n bytes in UTF-8 controls the terminal or the direction of
 * writing, or is invisible. */
static bool is_deceptive(const unsigned char *c, size_t n)
{
    switch (n) {
    case 1:
        return c[0] < 0x20 || c[0] == 0x7f;
    case 2: /* U+0080 to U+009F; U+061C */
        return (c[0] == 0xc2 && c[1] < 0xa0) || (c[0] == 0xd8 && c[1] == 0x9c);
    case 3: /* U+200E, U+200F, U+2028 to U+202E; U+2066 to U+2069; U+FEFF */
        return (c[0] == 0xe2 && c[1] == 0x80 &&
                (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae))) ||
               (c[0] == 0xe2 && c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9) ||
               (c[0] == 0xef && c[1] == 0xbb && c[2] == 0xbf);
    default: /* U+E0000 to U+E007F: invisible tags */
        return c[0] == 0xf3 && c[1] == 0xa0 && (c[2] == 0x80 || c[2] == 0x81);
    }
}

void ps_show_plain(char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        size_t n = ps_utf8_length(text, left), bytes = n > 0 ? n : 1;

        if (n == 0 || is_deceptive((const unsigned char *)text, n)) {
            memset(text, '?', bytes);
        }
        text += bytes;
        left -= bytes;
    }
}

const char *ps_show_plainly(const char *text, char *out, size_t cap)
{
    ps_shorten(out, cap, text);
    ps_show_plain(out);
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

enum { BAR = 16, BAR_SHORT = 8, PART_BYTES = 80 };

typedef enum part {
    P_BAR,
    P_STEP,
    P_LOSS,
    P_ACCURACY,
    P_RATE,
    P_UP,
    P_DOWN,
    P_WORKERS,
    P_ETA,
    P_WAITS,
    PARTS
} part;

/* Parts of the line that are left out if it is too wide even with short forms: one after the other
 * in this order, until it fits. */
static const part expendable[] = {P_WORKERS, P_BAR, P_RATE,     P_DOWN,
                                  P_UP,      P_ETA, P_ACCURACY, P_WAITS};

static void fill_parts(const Psgd__V1__Progress *p, bool is_short, char parts[PARTS][PART_BYTES])
{
    double share = p->total_steps == 0 ? 0 : fmin(1, (double)p->step / (double)p->total_steps);
    char rate[PS_SHOW_BYTES], loss[PS_SHOW_BYTES];

    /* Whether the job computes partitions. It then has no epochs, no loss and no accuracy. */
    bool computes = p->epoch == 0 && p->total_steps > 0;

    bar(share, parts[P_BAR], is_short ? BAR_SHORT : BAR);
    snprintf(parts[P_STEP], PART_BYTES, "%3.0f%% %s%llu/%llu", share * 100,
             is_short   ? ""
             : computes ? "partition "
                        : "step ",
             (unsigned long long)p->step, (unsigned long long)p->total_steps);
    parts[P_LOSS][0] = parts[P_ACCURACY][0] = '\0';
    if (!computes) {
        snprintf(parts[P_LOSS], PART_BYTES, "loss %s",
                 ps_show_number(p->loss, is_short ? 3 : 4, loss));
    }
    /* NaN: the job does not predict classes, so there is no accuracy */
    if (!computes && !isnan(p->accuracy)) {
        snprintf(parts[P_ACCURACY], PART_BYTES, "acc %.3f", p->accuracy);
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
        snprintf(parts[P_WAITS], PART_BYTES, "waits for %.60s", p->waiting_for);
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

void ps_show_progress(const Psgd__V1__Progress *progress, size_t width, char *text, size_t cap)
{
    char parts[PARTS][PART_BYTES];
    size_t gap = 2, n = 0;

    fill_parts(progress, false, parts);
    if (width != 0 && columns_of(parts, gap) > width) {
        gap = 1;
        fill_parts(progress, true, parts);
    }
    for (size_t i = 0; i < sizeof expendable / sizeof expendable[0] && width != 0; i++) {
        if (columns_of(parts, gap) > width) {
            parts[expendable[i]][0] = '\0';
        }
    }
    text[0] = '\0';
    for (size_t i = 0; i < PARTS && n < cap; i++) {
        if (parts[i][0] != '\0') {
            n += (size_t)snprintf(text + n, cap - n, "%*s%s", n > 0 ? (int)gap : 0, "", parts[i]);
        }
    }
}
