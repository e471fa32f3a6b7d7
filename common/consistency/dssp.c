/* SPDX-License-Identifier: Apache-2.0 */
/* dssp.c - dynamic stale synchronous (Zhao et al. 2019, arXiv 1908.11848): ssp with a bound
 * between `lower` and `upper`, chosen for the fastest worker so that its wait is shortest.
 *
 * A worker that is at least `lower` clocks ahead when it pushes, and ahead of all others, may do r*
 * more clocks. I_p, the last interval between its pushes, and I_s, that of the slowest worker,
 * predict both: after r more clocks the worker pushes at A_p + r I_p, the slowest at A_s + k I_s, k
 * = 1, 2, ... A_p and A_s are the times of the last pushes. r* is the r in 0 .. upper - lower whose
 * time is closest to a push of the slowest; the smallest of equals. It is chosen anew only when the
 * extra clocks chosen before have ended.
 *
 * The state of each worker: the clock of its last push, the time of the first contribution to
 * that clock, the interval before that time, and the clock before which its extra clocks end.
 */
#include "common/consistency/rounds.h"

#include <stdlib.h>

enum { LOWER, UPPER };
/* Indices of the words of a worker's state. NEXT: 1 + the clock of its last push, 0: there is none.
 * LAST_US: time of the first contribution to that clock. INTERVAL_US: the interval before that
 * time. UNTIL: the clock before which its extra clocks end. */
enum { NEXT, LAST_US, INTERVAL_US, UNTIL, WORDS };

static const ps_param dssp_params[] = {
    {.name = "lower",
     .value = 3,
     .min = 0,
     .max = 1000000,
     .is_integer = true,
     .help = "clocks that any worker may be ahead of the slowest"},
    {.name = "upper",
     .value = 15,
     .min = 0,
     .max = 1000000,
     .is_integer = true,
     .help = "clocks that the fastest may be ahead if that shortens its wait; at most "
             "lower + 4096"},
    {.name = NULL},
};

enum { RANGE_MAX = 4096 }; /* most upper - lower: each decision walks over all of it */

static ps_status dssp_check(const ps_params *params, uint32_t contributors)
{
    (void)contributors;
    if (params->v[UPPER] < params->v[LOWER] || params->v[UPPER] > params->v[LOWER] + RANGE_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "upper is %.0f; %.0f (lower) to %.0f are allowed",
                       params->v[UPPER], params->v[LOWER], params->v[LOWER] + RANGE_MAX);
    }
    return ps_ok();
}

static size_t dssp_words(uint32_t workers, uint32_t contributors)
{
    (void)contributors;
    return (size_t)workers * WORDS;
}

static uint64_t dssp_lead(const ps_params *params)
{
    return (uint64_t)params->v[UPPER];
}

static bool dssp_admit(const ps_params *params, const ps_clocks *c, uint32_t worker, uint64_t clock)
{
    uint64_t ahead = clock <= c->least ? 0 : clock - c->least;

    return ahead <= (uint64_t)params->v[LOWER] ||
           (ahead <= (uint64_t)params->v[UPPER] && clock < c->state[worker * WORDS + UNTIL]);
}

/* Returns the worker that is furthest behind, the first of equals, of those that are waited for. */
static uint32_t find_slowest(const ps_clocks *c)
{
    uint32_t w = 0;

    while (c->done[w] != c->least) {
        w++;
    }
    return w;
}

static bool is_fastest(const ps_clocks *c, uint32_t worker, uint64_t pushed)
{
    for (uint32_t w = 0; w < c->workers; w++) {
        if (w != worker && c->done[w] != UINT64_MAX && c->done[w] >= pushed) {
            return false;
        }
    }
    return true;
}

/* Returns r*, at most r_max, for the states of the fastest and the slowest worker; 0 if the
 * interval of the slowest is unknown. The times of both ascend, so the nearest push of the slowest
 * only moves forward and one pass is enough. */
static uint64_t choose(const uint64_t *fast, const uint64_t *slow, uint64_t r_max)
{
    int64_t fast_us = (int64_t)fast[INTERVAL_US], slow_us = (int64_t)slow[INTERVAL_US];
    int64_t x = (int64_t)fast[LAST_US], y = (int64_t)slow[LAST_US] + slow_us;
    int64_t best_us = INT64_MAX;
    uint64_t best = 0;

    if (slow_us <= 0) {
        return 0; /* the slowest has pushed less than twice, so its interval is unknown */
    }
    for (uint64_t r = 0; r <= r_max; r++, x += fast_us) {
        int64_t us;

        if (y < x) {
            y += (x - y) / slow_us * slow_us;
            y += x - y > y + slow_us - x ? slow_us : 0;
        }
        us = llabs(x - y);
        if (us < best_us) {
            best_us = us;
            best = r;
        }
    }
    return best;
}

static ps_verdict dssp_on_push(const ps_params *params, const ps_clocks *c, const ps_arrival *a,
                               float *scale)
{
    uint64_t *mine = c->state + (size_t)a->worker * WORDS, pushed = a->clock + 1;
    uint32_t slowest = find_slowest(c);

    (void)scale;
    if (pushed <= mine[NEXT]) {
        return PS_APPLY; /* another block of the worker's last clock says nothing of its speed */
    }
    mine[INTERVAL_US] = mine[NEXT] > 0 ? (uint64_t)c->now_us - mine[LAST_US] : 0;
    mine[LAST_US] = (uint64_t)c->now_us;
    mine[NEXT] = pushed;
    if (slowest != a->worker && pushed >= mine[UNTIL] &&
        pushed - c->least > (uint64_t)params->v[LOWER] && is_fastest(c, a->worker, pushed)) {
        mine[UNTIL] = pushed + choose(mine, c->state + (size_t)slowest * WORDS,
                                      (uint64_t)(params->v[UPPER] - params->v[LOWER]));
    }
    return PS_APPLY;
}

const ps_consistency ps_consistency_dssp = {
    .name = "dssp",
    .summary =
        "ssp with a bound between `lower` and `upper` that shortens the wait of the fastest worker",
    .params = dssp_params,
    .survives_loss = true,
    .check = dssp_check,
    .words = dssp_words,
    .lead = dssp_lead,
    .admit = dssp_admit,
    .on_push = dssp_on_push,
    .on_pull = has_own_pushes,
};
