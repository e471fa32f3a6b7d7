/* SPDX-License-Identifier: Apache-2.0 */
/* web_curves.h - the progress of jobs over time, in bounded memory.
 *
 * A job has at most PS_CURVE_POINTS points. When there are more, two neighbours become one, which
 * keeps the least and the greatest loss of both. Of the jobs the newest PS_CURVES_MAX are kept. One
 * thread.
 */
#ifndef PS_COORDINATOR_WEB_CURVES_H
#define PS_COORDINATOR_WEB_CURVES_H

#include <jansson.h>
#include <stdbool.h>

#include "psgd/v1/job.pb-c.h"

enum { PS_CURVE_POINTS = 1024, PS_CURVES_MAX = 64 };

typedef struct ps_curves ps_curves;

ps_curves *ps_curves_create(void);
void ps_curves_destroy(ps_curves *curves);

/* Returns whether the job has a point. */
bool ps_curves_has(const ps_curves *curves, const char *job_id);

/* Adds the job's progress at a time in microseconds, unless its step is that of the last point. A
 * step below it begins the curve anew from there: the job has gone back. */
void ps_curves_add(ps_curves *curves, const Psgd__V1__Job *job, int64_t wall_us);

/* Returns the points of a job as an object of arrays of the same length; no points if there are
 * none. The caller owns it. */
json_t *ps_curves_json(const ps_curves *curves, const char *job_id);

#endif
