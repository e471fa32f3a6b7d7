/* SPDX-License-Identifier: Apache-2.0 */
/* lag_discard.c - asynchronous, but drops a contribution that lags too far behind
 * (async_lagged_grad_discard_ratio of PaddlePaddle's v2 parameter server).
 *
 *   S += 1              for each contribution to the slice, also a dropped one
 *   lag = S - mark[k];  mark[k] = S, where contributor k sends it
 *   dropped if lag >= max(floor(contributors * ratio), contributors + 1)
 *
 * A ratio of 1 or less counts as 1.5, as in PaddlePaddle. If all contributors are equally fast,
 * each has a lag of `contributors`, and its contributions must not be dropped; hence the second
 * term. PaddlePaddle lacks it: a job of one worker dropped all contributions, and so did a job of K
 * workers below a ratio of 1 + 1/K. PaddlePaddle reset S and the marks whenever it printed
 * statistics; this policy never resets them.
 *
 * The state: S, and the mark of each contributor.
 */
#include "common/consistency/rounds.h"

#include <math.h>

enum { RATIO };
enum { SEEN, MARKS };

static const double least_ratio = 1.0, usual_ratio = 1.5;

static const ps_param lag_discard_params[] = {
    {.name = "ratio",
     .value = 1.5,
     .min = 0,
     .max = 1000000,
     .help =
         "drops a contribution if, since the last one of the same contributor, at least this many "
         "times the number of contributors arrived, and more than that number; 1 or less "
         "counts as 1.5"},
    {.name = NULL},
};

static size_t lag_discard_words(uint32_t workers, uint32_t contributors)
{
    (void)workers;
    return (size_t)contributors + MARKS;
}

static ps_verdict lag_discard_on_push(const ps_params *params, const ps_clocks *c,
                                      const ps_arrival *a, float *scale)
{
    double ratio = params->v[RATIO] <= least_ratio ? usual_ratio : params->v[RATIO];
    uint64_t *mark = &c->state[MARKS + a->contributor];
    uint64_t lag = ++c->state[SEEN] - *mark;

    (void)scale;
    *mark = c->state[SEEN];
    if (lag <= c->contributors) {
        return PS_APPLY;
    }
    return lag >= (uint64_t)floor(c->contributors * ratio) ? PS_DROP : PS_APPLY;
}

const ps_consistency ps_consistency_lag_discard = {
    .name = "lag_discard",
    .summary = "applied on arrival; dropped if `ratio` times the usual number arrived in between",
    .params = lag_discard_params,
    .survives_loss = true,
    .words = lag_discard_words,
    .lead = any_lead,
    .admit = always,
    .on_push = lag_discard_on_push,
    .on_pull = always,
};
