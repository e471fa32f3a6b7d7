/* SPDX-License-Identifier: Apache-2.0 */
/* explain_steps.h - from the timeline of a job (docs/trace.md) to where the time of a step goes
 * after the workers have computed: to the way up, to a server's thread, to the way down, or to the
 * codecs of the workers. No I/O, no clock.
 *
 * A step's exchange begins when the last worker ends its backward pass. It ends when the last
 * worker has decoded the last weights. Between the two lies the last update of a server. The time
 * before that update, less what the busiest thread of the servers and that of the workers do in it,
 * is the way up; the time after it, less the same, is the way down. */
#ifndef PS_COMMON_EXPLAIN_EXPLAIN_STEPS_H
#define PS_COMMON_EXPLAIN_EXPLAIN_STEPS_H

#include "common/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum ps_explain_way {
    PS_WAY_UP,     /* the links from workers to servers */
    PS_WAY_SERVER, /* a thread of a server */
    PS_WAY_DOWN,   /* the links from servers to workers */
    PS_WAY_CODEC,  /* encoding and decoding on workers */
    PS_WAYS
} ps_explain_way;

/* Returns "up", "server", "down" or "codec". */
const char *ps_explain_way_name(ps_explain_way way);

typedef struct ps_explain_steps {
    size_t count;           /* steps that were looked at */
    double step_s;          /* mean seconds from a step to the next */
    double shares[PS_WAYS]; /* shares of a step's time, mean over the steps; each at least 0 */
    ps_explain_way way;     /* the largest share */
    /* "server 0, serving": the thread of a server that worked longest in one exchange, before its
     * last update or after it */
    char thread[80];
    /* seconds by which the clocks of two processes in the timeline may differ */
    double error_s;
} ps_explain_steps;

/* Reads a timeline in time that its size bounds. Members that are not as psgd writes them are left
 * out. NOT_FOUND: it has fewer than three steps with an exchange through servers, as is always so
 * for the timeline of a mesh. */
PS_MUST_USE ps_status ps_explain_timeline(const json_t *timeline, ps_explain_steps *out);

/* Returns whether another share is less than 0.1 below the largest one. */
bool ps_explain_is_close(const ps_explain_steps *steps);

/* Returns whether the largest share is the way up or down, and is no longer than the clocks of
 * processes may differ. */
bool ps_explain_is_doubtful(const ps_explain_steps *steps);

#endif
