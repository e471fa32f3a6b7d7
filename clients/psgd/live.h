/* SPDX-License-Identifier: Apache-2.0 */
/* live.h - shows progress on stdout: on a terminal a last line that is rewritten in place, below
 * curves if they are wanted; elsewhere a new line, at most every PS_LIVE_PERIOD_US. */
#ifndef PS_CLIENTS_PSGD_LIVE_H
#define PS_CLIENTS_PSGD_LIVE_H

#include "clients/psgd/curves.h"
#include "clients/psgd/show.h"

enum { PS_LIVE_PERIOD_US = 2 * 1000 * 1000 };

typedef struct ps_live {
    bool is_terminal;
    bool is_shown;  /* the line of progress is on the terminal */
    size_t above;   /* number of lines of curves above the line of progress, on the terminal */
    size_t columns; /* width of the terminal when the curves were drawn, in characters */
    bool is_utf8;   /* the locale uses UTF-8 */
    /* monotonic microseconds at which the last line of progress was written, if stdout is no
     * terminal; 0: none yet */
    int64_t last_us;
    bool computes; /* the job computes partitions; set by the caller */
} ps_live;

void ps_live_init(ps_live *live);

/* Shows progress. `now_us` is monotonic time in microseconds. */
void ps_live_progress(ps_live *live, const Psgd__V1__Progress *progress, int64_t now_us);

/* Shows progress below curves; if this is no terminal, only progress. What was shown before is
 * overwritten in one piece, and cleared first only if the terminal has changed its width. */
void ps_live_curves(ps_live *live, const Psgd__V1__Progress *progress, const ps_curves *curves,
                    int64_t now_us);

/* Leaves what is shown on the terminal; the next output begins below it. */
void ps_live_keep(ps_live *live);

/* Clears what is shown on the terminal, and writes a line that stays. */
PS_PRINTF(2, 3) void ps_live_line(ps_live *live, const char *fmt, ...);

/* Clears the line and the curves above it. Call it before anything else is written. */
void ps_live_clear(ps_live *live);

#endif
