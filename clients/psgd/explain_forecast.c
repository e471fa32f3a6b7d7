/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/psgd/explain_forecast.h"

#include <math.h>

/* Returns the steps a second of a step that takes `more` seconds longer, at least a hundredth of
 * what it takes. */
static double with(const ps_forecast_job *job, double more)
{
    double step_s = job->steps->step_s;

    return job->steps_per_s * step_s / fmax(step_s + more, step_s / 100);
}

double ps_forecast_codecs(const ps_forecast_job *job, const ps_codec_cost *up,
                          const ps_codec_cost *down)
{
    const ps_explain_steps *s = job->steps;
    double up_s = s->shares[PS_WAY_UP] * s->step_s, down_s = s->shares[PS_WAY_DOWN] * s->step_s;
    double more_ns = up->encode_ns - job->up.encode_ns + down->decode_ns - job->down.decode_ns +
                     job->workers * (up->decode_ns - job->up.decode_ns) + down->encode_ns -
                     job->down.encode_ns;

    return with(job, up_s * (up->bytes / job->up_bytes - 1) +
                         down_s * (down->bytes / job->down_bytes - 1) +
                         job->values * more_ns * 1e-9);
}

double ps_forecast_servers(const ps_forecast_job *job, double times)
{
    return with(job, job->steps->shares[PS_WAY_SERVER] * job->steps->step_s * (1 / times - 1));
}
