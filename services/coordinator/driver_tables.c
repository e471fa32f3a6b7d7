/* SPDX-License-Identifier: Apache-2.0 */
/* driver_tables.c - runs an action on the sparse tables of a training job, on all servers at the
 * same step.
 *
 * The step is about three seconds and eight steps ahead, so that every server learns of it in time.
 * If a server learns of it too late, the others are told to forget it, and a later step is tried:
 * the pace of a job that has just begun is known only roughly.
 *
 * The job keeps the clocks at which its tables shrink: an attempt that begins before them, and the
 * state of a lost server that is computed anew, shrink at the same clocks. With local steps a clock
 * is a round. */
#include "services/coordinator/driver_impl.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "common/store/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_US = 5000000, AHEAD_S = 3, STEPS_AHEAD_MIN = 8, TRIES = 5, LATER = 8 };

typedef struct action {
    ps_attempt *a;
    size_t waits; /* number of servers' answers that are awaited, and 1 while ask() runs */
    uint64_t clock;
    Psgd__V1__TablesAction what;
    unsigned tries;
    /* steps that the last try added to clock_ahead(): the next adds LATER times as many; 1 stands
     * for the first try, which adds none */
    uint64_t more;
    ps_status status; /* the first failure */
    /* the action failed at a server, so the servers that accepted it are told to forget it */
    bool is_forgetting;
    bool *accepted; /* (commit.count) the server has accepted what it was asked last */
    ps_attempt_tables_fn *done;
    void *arg;
} action;

/* A call of ActOnTables to one server. */
typedef struct asking {
    action *of;
    size_t index; /* index of the server in commit.members */
    char node_id[96];
} asking;

static void ask(action *x, Psgd__V1__TablesAction what);
static bool ask_later(action *x);

static bool has_shrink(const Psgd__V1__Job *job, uint64_t clock)
{
    for (size_t i = 0; i < job->n_table_shrinks; i++) {
        if (job->table_shrinks[i] == clock) {
            return true;
        }
    }
    return false;
}

/* Notes in the job that its tables shrink at `clock`. */
static void note_shrink(ps_live *live, uint64_t clock)
{
    Psgd__V1__Job *job = live->record.job;
    size_t at = job->n_table_shrinks++;

    job->table_shrinks =
        ps_xrealloc(job->table_shrinks, job->n_table_shrinks * sizeof *job->table_shrinks);
    for (; at > 0 && job->table_shrinks[at - 1] > clock; at--) {
        job->table_shrinks[at] = job->table_shrinks[at - 1];
    }
    job->table_shrinks[at] = clock;
    ps_live_save(live);
}

/* Returns the step before which servers act that act at `clock`. */
static uint64_t step_of(const ps_attempt *a, uint64_t clock)
{
    return a->plan->update->local != NULL ? ps_checkpoint_step(a->plan, clock) : clock;
}

static void settle(action *x)
{
    if (--x->waits > 0) {
        return;
    }
    if (ps_is_ok(&x->status) && x->a->job == NULL) {
        x->status = ps_fail(PS_UNAVAILABLE, "the attempt is over; call again");
        x->is_forgetting = true; /* its servers have forgotten all of it */
    } else if (ps_is_ok(&x->status) && x->what == PSGD__V1__TABLES_ACTION__TABLES_ACTION_SHRINK) {
        note_shrink(x->a->job, x->clock);
    }
    if (!ps_is_ok(&x->status) && !x->is_forgetting) {
        x->is_forgetting = true;
        ask(x, PSGD__V1__TABLES_ACTION__TABLES_ACTION_UNSPECIFIED);
    } else if (ps_is_ok(&x->status) || !ask_later(x)) {
        x->done(x->arg, &x->status, step_of(x->a, x->clock));
        free(x->accepted);
        free(x);
    }
}

static void on_answer(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    asking *q = arg;
    action *x = q->of;
    ps_attempt *a = x->a;

    (void)reply;
    x->accepted[q->index] = ps_is_ok(&error->status);
    if (!ps_is_ok(&error->status) && ps_is_ok(&x->status)) {
        x->status = ps_wrap(error->status, "server %s", q->node_id);
    }
    free(q);
    settle(x);
    ps_attempt_settle(a);
}

double ps_attempt_rate(const ps_attempt *a, uint64_t step)
{
    const Google__Protobuf__Timestamp *start = a->job->record.job->start_time;
    double recent_s = (double)(a->rate[1].us - a->rate[0].us) / 1e6, rate = 0;

    if (start != NULL) {
        double all_s = (double)ps_clock_wall_us() / 1e6 - (double)start->seconds;

        rate = (double)step / (all_s > 0.25 ? all_s : 0.25);
    }
    if (a->rate[0].us != 0 && recent_s > 0 && a->rate[1].step > a->rate[0].step) {
        double recent = (double)(a->rate[1].step - a->rate[0].step) / recent_s;

        rate = recent > rate ? recent : rate;
    }
    return rate;
}

/* Returns a clock that no server will have reached when it learns of it, if the pace of the job is
 * known: STEPS_AHEAD_MIN, the steps of AHEAD_S and `more` ahead, but none at which the tables
 * shrink already, because servers shrink once at a clock. */
static uint64_t clock_ahead(const ps_attempt *a, uint64_t more)
{
    const Psgd__V1__Job *job = a->job->record.job;
    uint64_t step = job->progress != NULL ? job->progress->step : 0;
    uint64_t ahead = STEPS_AHEAD_MIN + (uint64_t)(AHEAD_S * ps_attempt_rate(a, step)) + more;
    uint64_t clock = ps_checkpoint_clock(a->plan, step + ahead);

    while (has_shrink(job, clock)) {
        clock++;
    }
    return clock;
}

static ps_status may_act(const ps_attempt *a, uint64_t clock)
{
    if (ps_plan_table_files(a->plan) == 0) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "job %s has no sparse tables: its model.table is none", a->job_id);
    }
    if (a->commit.state != PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        return ps_fail(PS_FAILED_PRECONDITION, "job %s does not train", a->job_id);
    }
    if (clock >= a->plan->total_clocks) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "job %s ends before step %llu, the next at which all servers could act",
                       a->job_id, (unsigned long long)step_of(a, clock));
    }
    return ps_ok();
}

/* Sends the action to all servers; if is_forgetting, only to those that accepted it. Then settles
 * x. */
static void ask(action *x, Psgd__V1__TablesAction what)
{
    Psgd__V1__ActOnTablesRequest q = PSGD__V1__ACT_ON_TABLES_REQUEST__INIT;
    ps_attempt *a = x->a;

    q.job_id = a->job_id;
    q.attempt = a->number;
    q.action = what;
    q.clock = x->clock;
    x->waits = 1;
    for (size_t i = 0; i < a->commit.count; i++) {
        const ps_member *m = &a->commit.members[i];

        if (m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER &&
            (!x->is_forgetting || x->accepted[i])) {
            asking *one = ps_xcalloc(1, sizeof *one);

            one->of = x;
            one->index = i;
            snprintf(one->node_id, sizeof one->node_id, "%s", m->id);
            x->waits++;
            a->pending++;
            (void)ps_unary_start(a->nodes[i].channel, &psgd__v1__node_service__descriptor,
                                 "ActOnTables", &q.base, CALL_US, on_answer, one);
        }
    }
    settle(x);
}

/* Tries a later step if the failure is that a server was past the step when it learned of it, at
 * most TRIES steps in all. Returns false if it tries none: x->status says why. */
static bool ask_later(action *x)
{
    ps_attempt *a = x->a;
    uint64_t clock;
    ps_status st;

    if (x->status.code != PS_OUT_OF_RANGE || ++x->tries >= TRIES || a->job == NULL) {
        return false;
    }
    x->more *= LATER;
    clock = clock_ahead(a, x->more);
    st = may_act(a, clock);
    if (!ps_is_ok(&st)) {
        x->status = st;
        return false;
    }
    x->clock = clock;
    x->status = ps_ok();
    x->is_forgetting = false;
    memset(x->accepted, 0, a->commit.count * sizeof *x->accepted);
    ask(x, x->what);
    return true;
}

void ps_attempt_act_on_tables(ps_attempt *a, Psgd__V1__TablesAction what,
                              ps_attempt_tables_fn *done, void *arg)
{
    uint64_t clock = clock_ahead(a, 0);
    ps_status st = may_act(a, clock);
    action *x;

    if (ps_is_ok(&st) && what == PSGD__V1__TABLES_ACTION__TABLES_ACTION_SHRINK &&
        a->job->record.job->n_table_shrinks >= PS_SHRINKS_MAX) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED,
                     "job %s has been told to shrink %d times; no more are kept", a->job_id,
                     PS_SHRINKS_MAX);
    }
    if (!ps_is_ok(&st)) {
        done(arg, &st, 0);
        return;
    }
    x = ps_xcalloc(1, sizeof *x);
    *x = (action){.a = a, .clock = clock, .what = what, .more = 1, .done = done, .arg = arg};
    x->accepted = ps_xcalloc(a->commit.count, sizeof *x->accepted);
    ask(x, what);
}
