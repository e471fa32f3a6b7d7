/* SPDX-License-Identifier: Apache-2.0 */
/* show_progress.h - writes sizes, rates and a line of a job's progress. Pure. */
#ifndef PS_CLIENTS_PSGD_SHOW_PROGRESS_H
#define PS_CLIENTS_PSGD_SHOW_PROGRESS_H

#include "psgd/v1/job.pb-c.h"

#include <stddef.h>
#include <stdint.h>

enum { PS_SHOW_BYTES = 32 };

/* Writes bytes as "1.2 MB" and returns `text`. */
const char *ps_show_size(uint64_t bytes, char text[PS_SHOW_BYTES]);

/* Writes a rate as "41k" and returns `text`. */
const char *ps_show_rate(double per_s, char text[PS_SHOW_BYTES]);

/* Writes a number with `digits` digits behind the point, or with three or four significant
 * digits if it is very small or large. Returns `text`. */
const char *ps_show_number(double value, int digits, char text[PS_SHOW_BYTES]);

/* Replaces control characters by '?', so that a remote's text cannot control the terminal. */
void ps_show_plain(char *text);

/* Writes progress as a line of at most `width` columns (0: any). Parts are bar, step, loss,
 * accuracy, rate, bytes, workers, ETA, and whom the job waits for if it stands still. If the
 * line is too long, parts are shortened first, then the less important ones are left out. Step
 * and loss always stay. */
void ps_show_progress(const Psgd__V1__Progress *progress, size_t width, char *text, size_t cap);

#endif
