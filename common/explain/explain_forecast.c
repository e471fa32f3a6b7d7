/* SPDX-License-Identifier: Apache-2.0 */
#include "common/explain/explain_forecast.h"

#include <math.h>

/* Returns the job's steps a second if each step took `more` seconds longer (negative: less). The
 * step takes at least a hundredth of its present time. */
static double with(const ps_forecast_job *job, double more)
{
    double step_s = job->steps->step_s;

    return job->steps_per_s * step_s / fmax(step_s + more, step_s / 100);
}

/* Returns how much of a present step the way up and the server would take together if workers sent
 * `times` times the bytes of now. The server works while later bytes are on their way, so its work
 * is hidden where the way takes longer. */
static double up_and_server(const ps_explain_steps *s, double times)
{
    double up = s->shares[PS_WAY_UP], server = s->shares[PS_WAY_SERVER];

    return up >= server ? fmax((up + server) * times, server) : server + up * times;
}

double ps_forecast_codecs(const ps_forecast_job *job, const ps_codec_cost *up_codec,
                          const ps_codec_cost *down)
{
    const ps_explain_steps *s = job->steps;
    double down_s = s->shares[PS_WAY_DOWN] * s->step_s;
    double up = up_and_server(s, up_codec->bytes / job->up_bytes) - up_and_server(s, 1);
    double more_ns = up_codec->encode_ns - job->up.encode_ns + down->decode_ns -
                     job->down.decode_ns +
                     job->workers * (up_codec->decode_ns - job->up.decode_ns) + down->encode_ns -
                     job->down.encode_ns;

    return with(job, up * s->step_s + down_s * (down->bytes / job->down_bytes - 1) +
                         job->values * more_ns * 1e-9);
}

double ps_forecast_rounds(const ps_forecast_job *job, double local_steps)
{
    const ps_explain_steps *s = job->steps;
    double exchange = 0;

    for (int way = 0; way < PS_WAYS; way++) {
        exchange += s->shares[way];
    }
    return with(job, exchange * s->step_s * (1 / local_steps - 1));
}

double ps_forecast_servers(const ps_forecast_job *job, double times)
{
    return with(job, job->steps->shares[PS_WAY_SERVER] * job->steps->step_s * (1 / times - 1));
}
