/* SPDX-License-Identifier: Apache-2.0 */
/* explain_forecast.h - how fast a job would be with other codecs, in rounds or with more servers,
 * from the parts of its exchange (explain_steps.h) and from what codecs cost on this machine. */
#ifndef PS_COMMON_EXPLAIN_EXPLAIN_FORECAST_H
#define PS_COMMON_EXPLAIN_EXPLAIN_FORECAST_H

#include "common/codec/codec_cost.h"
#include "common/explain/explain_steps.h"

/* The job as it is. */
typedef struct ps_forecast_job {
    const ps_explain_steps *steps;
    double steps_per_s;
    double values;               /* that a worker sends in a step, and gets */
    double workers;              /* contributions to a step */
    double up_bytes, down_bytes; /* of a value, on the wire; above 0 */
    ps_codec_cost up, down;      /* of its codecs */
} ps_forecast_job;

/* Returns the steps a second with these codecs. What a codec takes is added where it is computed:
 * on the worker, and for all workers on the server's thread. */
double ps_forecast_codecs(const ps_forecast_job *job, const ps_codec_cost *up_codec,
                          const ps_codec_cost *down);

/* Returns the steps a second with so many times the servers. */
double ps_forecast_servers(const ps_forecast_job *job, double times);

/* Returns the steps a second in rounds of so many local steps, with an exchange for each round. */
double ps_forecast_rounds(const ps_forecast_job *job, double local_steps);

#endif
