/* SPDX-License-Identifier: Apache-2.0 */
/* live.h - shows progress on stdout: on a terminal a last line that is rewritten in place,
 * elsewhere a line every PS_LIVE_PERIOD_US. */
#ifndef PS_CLIENTS_PSGD_LIVE_H
#define PS_CLIENTS_PSGD_LIVE_H

#include "clients/psgd/show.h"

enum { PS_LIVE_PERIOD_US = 2 * 1000 * 1000 };

typedef struct ps_live {
    bool is_terminal;
    bool is_shown;   /* the line is on the terminal */
    int64_t last_us; /* time of the last line off a terminal; 0: none yet */
} ps_live;

void ps_live_init(ps_live *live);

/* Shows progress. `now_us` is monotonic time in microseconds. */
void ps_live_progress(ps_live *live, const Psgd__V1__Progress *progress, int64_t now_us);

/* Writes a line that stays. */
PS_PRINTF(2, 3) void ps_live_line(ps_live *live, const char *fmt, ...);

/* Clears the line. Call it before anything else is written. */
void ps_live_clear(ps_live *live);

#endif
