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
    double values;               /* values that a worker sends in a step; it receives as many */
    double workers;              /* number of workers, each with a contribution to a step */
    double up_bytes, down_bytes; /* bytes of a value on the wire; above 0 */
    ps_codec_cost up, down;      /* costs of the codecs that the job has now */
} ps_forecast_job;

/* Returns the steps a second with these codecs. The time of encoding up and decoding down is added
 * on the worker, that of decoding up for every worker and of encoding down on the server's
 * thread. */
double ps_forecast_codecs(const ps_forecast_job *job, const ps_codec_cost *up_codec,
                          const ps_codec_cost *down);

/* Returns the steps a second with so many times the servers. */
double ps_forecast_servers(const ps_forecast_job *job, double times);

/* Returns the steps a second in rounds of so many local steps, with an exchange for each round. */
double ps_forecast_rounds(const ps_forecast_job *job, double local_steps);

#endif
