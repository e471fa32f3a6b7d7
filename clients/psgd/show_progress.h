/* SPDX-License-Identifier: Apache-2.0 */
/* show_progress.h - sizes, rates and the line of a job's progress. Pure. */
#ifndef PS_CLIENTS_PSGD_SHOW_PROGRESS_H
#define PS_CLIENTS_PSGD_SHOW_PROGRESS_H

#include "psgd/v1/job.pb-c.h"

#include <stddef.h>
#include <stdint.h>

enum { PS_SHOW_BYTES = 32 };

const char *ps_show_size(uint64_t bytes, char text[PS_SHOW_BYTES]); /* "1.2 MB" */
const char *ps_show_rate(double per_s, char text[PS_SHOW_BYTES]);   /* "41k" */

/* So many digits behind the point; three or four in all of what is far from 1. */
const char *ps_show_number(double value, int digits, char text[PS_SHOW_BYTES]);

/* Makes each byte of a control character a '?': what a peer sent shall not
 * steer the terminal. */
void ps_show_plain(char *text);

/* Progress in a line of at most `width` columns (0: any): bar, step, loss,
 * accuracy, rate while there is one, bytes, workers, ETA, and whom it waits for when it
 * stands still. Where the room is short they are shortened, and then the less important
 * ones left out; step and loss stay. */
void ps_show_progress(const Psgd__V1__Progress *progress, size_t width, char *text, size_t cap);

#endif
