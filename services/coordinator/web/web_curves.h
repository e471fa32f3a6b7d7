/* SPDX-License-Identifier: Apache-2.0 */
/* web_curves.h - the progress of jobs over time, in bounded memory.
 *
 * A curve has at most PS_CURVE_POINTS points. When there are more, two neighbours become one, which
 * keeps the least and the greatest loss of both. A job that trains has one curve, of its progress,
 * with what its programs report (spec.program_metrics). A job that is over has two, from its
 * reports TR- and EV-, and from ROUND- the waits of each rank in at most PS_CURVE_COLUMNS spans of
 * rounds. The curves of PS_CURVES_MAX jobs are kept; a further job replaces the one whose curve got
 * its last point longest ago. Use it on one thread. */
#ifndef PS_COORDINATOR_WEB_CURVES_H
#define PS_COORDINATOR_WEB_CURVES_H

#include <jansson.h>
#include <stdbool.h>

#include "psgd/v1/job.pb-c.h"

enum {
    PS_CURVE_POINTS = 1024,
    PS_CURVE_COLUMNS = 240,
    PS_CURVES_MAX = 64,
    PS_CURVE_LINE_MAX = 256 << 10
};

typedef struct ps_curves ps_curves;

ps_curves *ps_curves_create(void);
void ps_curves_destroy(ps_curves *curves);

/* Returns whether there is a curve with at least one point for the job. */
bool ps_curves_has(const ps_curves *curves, const char *job_id);

/* Adds the job's progress at a time in microseconds since 1970, unless its step is 0 or that of the
 * last point. If its step is lower, because the job has gone back, the points from that step on are
 * removed first. */
void ps_curves_add(ps_curves *curves, const Psgd__V1__Job *job, int64_t wall_us);

/* Returns the curve of a job as a JSON object of arrays of the same length, which are empty if
 * there are no points. If there are further metrics, the member "metrics" has an array for each by
 * its name. If the job's reports were read, the member "tests" is such an object for evaluations,
 * and "rounds" has the number of rounds, the seconds of each rank, and its longest wait in each
 * span. The caller owns the result. */
json_t *ps_curves_json(const ps_curves *curves, const char *job_id);

/* --- of a job that is over ------------------------------------------------------------- */

typedef enum ps_curve_part {
    PS_CURVE_TRAINING, /* TR-: a curve */
    PS_CURVE_TESTS,    /* EV-: a curve */
    PS_CURVE_ROUNDS,   /* ROUND-: where the time of each rank went */
    PS_CURVE_PARTS
} ps_curve_part;

typedef struct ps_curve_reader ps_curve_reader; /* the curves of one job from its reports */

ps_curve_reader *ps_curve_reader_create(const char *job_id);
void ps_curve_reader_destroy(ps_curve_reader *reader);

/* Begins a report. */
void ps_curve_reader_begin(ps_curve_reader *reader, ps_curve_part part);

/* Takes the next n bytes of the report. Returns false if they are no report, or have a line of more
 * than PS_CURVE_LINE_MAX bytes. */
bool ps_curve_reader_take(ps_curve_reader *reader, const void *bytes, size_t n);

/* Replaces the job's curves by those that the reader has from the job's reports, and destroys the
 * reader. */
void ps_curves_put(ps_curves *curves, ps_curve_reader *reader);

/* Returns whether ps_curves_put has set the job's curves, from the reports of a job that is over.
 */
bool ps_curves_is_whole(const ps_curves *curves, const char *job_id);

#endif
