/* SPDX-License-Identifier: Apache-2.0 */
/* show_progress.h - writes sizes, rates and a line of a job's progress. Pure. */
#ifndef PS_CLIENTS_PSGD_SHOW_PROGRESS_H
#define PS_CLIENTS_PSGD_SHOW_PROGRESS_H

#include "psgd/v1/job.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_SHOW_BYTES = 32,
    PS_SHOW_METRIC_BYTES = 80,
    PS_SHOW_METRICS = 16, /* most metrics of programs that are shown, as many as a job may have */
    PS_SHOW_PROGRESS_BYTES = 2048 /* bytes of a line of progress with PS_SHOW_METRICS metrics */
};

/* Writes bytes as "1.2 MB" and returns `text`. */
const char *ps_show_size(uint64_t bytes, char text[PS_SHOW_BYTES]);

/* Writes a rate as "41k" and returns `text`. */
const char *ps_show_rate(double per_s, char text[PS_SHOW_BYTES]);

/* Writes a number with `digits` digits after the point, or with three or four significant digits if
 * it is very small or large. Returns `text`. */
const char *ps_show_number(double value, int digits, char text[PS_SHOW_BYTES]);

/* Writes a metric as "NAME VALUE": whole numbers from 2 on without a point, others as
 * ps_show_number does. Returns `text`. */
const char *ps_show_metric(const char *name, double value, int digits,
                           char text[PS_SHOW_METRIC_BYTES]);

/* Writes `text` to out (cap), cut if it is too long, with dangerous characters replaced
 * (ps_printable). All text from outside goes through this before it is shown. Returns `out`. */
const char *ps_show_plainly(const char *text, char *out, size_t cap);

/* For arguments of printf: a text from outside as ps_show_plainly writes it, cut to `bytes` bytes,
 * which must be a constant. Valid until the end of the enclosing block. */
#define PS_PLAIN(text, bytes) ps_show_plainly((text), (char[(bytes) + 1]){0}, (bytes) + 1)

/* Writes a duration as "130 ms", or from a second on as "2.4 s". Returns `text`. */
const char *ps_show_duration(double seconds, char text[PS_SHOW_BYTES]);

/* Writes progress as a line of at most `width` columns (0: any number). Its parts are bar, step,
 * loss, accuracy, metrics that programs have reported, rate, bytes, workers, ETA, and for whom the
 * job waits if it stands still. If the line is too long, parts are shortened first, then the less
 * important ones are left out. Step and loss always stay; before the first step there is no loss.
 * computes: the job computes partitions instead of training (spec.compute), so it has neither steps
 * nor loss. */
void ps_show_progress(const Psgd__V1__Progress *progress, bool computes, size_t width, char *text,
                      size_t cap);

#endif
