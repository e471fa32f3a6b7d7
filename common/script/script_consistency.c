/* SPDX-License-Identifier: Apache-2.0 */
/* script_consistency.c - a policy of a script that applies contributions on arrival: it says who
 * may begin a clock, and by which factor a contribution counts. After a failure everybody may go
 * on, and the job ends. */
#include "common/script/script_impl.h"

#include <math.h>

enum { WORKERS_MAX = 256 };

/* Writes how many clocks each worker has done more than the slowest one; -1 for a worker that
 * nobody waits for. Returns the number of workers written, at most WORKERS_MAX. */
static uint32_t relative(const ps_clocks *c, float *done)
{
    uint32_t n = c->workers < WORKERS_MAX ? c->workers : WORKERS_MAX;

    for (uint32_t i = 0; i < n; i++) {
        done[i] = c->done[i] == UINT64_MAX ? -1.0f : (float)(c->done[i] - c->least);
    }
    return n;
}

static bool admit(const ps_params *params, const ps_clocks *c, uint32_t worker, uint64_t clock)
{
    ps_script *script = ps_script_of_id((uint64_t)params->v[0]);
    float done[WORKERS_MAX];
    uint32_t n = relative(c, done);
    const ps_script_value arguments[] = {
        {.kind = PS_SANDBOX_INTEGER, .integer = worker},
        {.kind = PS_SANDBOX_INTEGER, .integer = clock > c->least ? (int64_t)(clock - c->least) : 0},
        {.kind = PS_SANDBOX_VECTOR, .count = n, .in = done},
        ps_script_numbers(script, params, 1),
    };
    double x = 1;
    ps_status st;

    if (clock <= c->least) { /* the slowest always goes on, else the job would stand still */
        return true;
    }
    st = ps_script_number(script, "admit", arguments, 4, &x);
    return !ps_is_ok(&st) || x != 0;
}

static ps_verdict on_push(const ps_params *params, const ps_clocks *c, const ps_arrival *a,
                          float *scale)
{
    ps_script *script = ps_script_of_id((uint64_t)params->v[0]);
    const ps_script_value arguments[] = {
        {.kind = PS_SANDBOX_INTEGER, .integer = (int64_t)a->staleness},
        {.kind = PS_SANDBOX_INTEGER, .integer = a->worker},
        {.kind = PS_SANDBOX_INTEGER, .integer = c->live},
        ps_script_numbers(script, params, 1),
    };
    double x = 1;
    ps_status st = ps_script_number(script, "scale", arguments, 4, &x);

    if (ps_is_ok(&st) && !(x >= 0 && x <= 1e6)) {
        ps_script_fail(script, "scale: returns %g; 0 (drop) to 1e6 are allowed", x);
    }
    if (!ps_is_ok(&st) || !(x > 0 && x <= 1e6)) {
        return PS_DROP;
    }
    *scale = (float)x;
    return PS_APPLY;
}

static uint64_t lead(const ps_params *params)
{
    (void)params;
    return UINT64_MAX;
}

/* Lets a worker have weights for a clock only when its contributions to all earlier clocks have
 * arrived. A contribution that was dropped counts as arrived. */
static bool on_pull(const ps_params *params, const ps_clocks *c, uint32_t worker, uint64_t clock)
{
    (void)params;
    return clock <= c->done[worker];
}

void ps_script_consistency_make(const ps_script_about *about, ps_script_plugin *plugin)
{
    plugin->policy = (ps_consistency){
        .name = about->name,
        .summary = about->summary,
        .params = plugin->params,
        .survives_loss = true,
        .lead = lead,
        .admit = admit,
        .on_push = on_push,
        .on_pull = on_pull,
    };
}
