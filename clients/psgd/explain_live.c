/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/psgd/explain_live.h"

#include "clients/psgd/show.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <math.h>
#include <stdio.h>

enum { PAUSE_US = 100 * 1000 };

static void end_with(ps_explain_live *l, ps_status st)
{
    ps_cli_status(&st);
    ps_cli_end(l->cli, PS_EXIT_SERVER);
}

/* Takes a worker's report if it is another one than the last. */
static void take_report(struct ps_explain_span *span, const Psgd__V1__WorkerProgress *w,
                        int64_t now_us, bool is_first)
{
    const ps_explain_report report = {.us = now_us,
                                      .step = w->step,
                                      .bytes_up = w->bytes_up,
                                      .bytes_down = w->bytes_down,
                                      .float32_up = w->bytes_up_float32,
                                      .float32_down = w->bytes_down_float32,
                                      .wait_s = w->seconds_waiting};

    if (is_first) {
        span->seen = report;
    }
    if (report.step == span->seen.step && report.wait_s == span->seen.wait_s) {
        return;
    }
    if (!span->is_begun) {
        span->is_begun = true;
        span->first = report;
    }
    span->seen = span->last = report;
}

/* Checks what the coordinator says of the job, and takes the reports of all workers. */
static ps_status take_answer(ps_explain_live *l, const Psgd__V1__GetJobResponse *answer)
{
    const Psgd__V1__Job *job = answer->job;
    int64_t now_us = ps_clock_us();
    bool is_first = l->n_ranks == 0;

    if (job == NULL || job->state != PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "job %s is %s and has no reports: only a job that trains, or one whose "
                       "files were collected, can be explained",
                       PS_SHORT(l->id, 60), job == NULL ? "unknown" : ps_show_state(job->state));
    }
    if (answer->n_workers == 0 || answer->n_workers > PS_PLOT_RANKS_MAX) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "job %s: %zu workers have reported, 1 to %d are allowed; try again",
                       PS_SHORT(l->id, 60), answer->n_workers, PS_PLOT_RANKS_MAX);
    }
    if (!is_first && (job->attempt != l->attempt || answer->n_workers != l->n_ranks)) {
        return ps_fail(PS_ABORTED, "job %s has got other nodes meanwhile; try again",
                       PS_SHORT(l->id, 60));
    }
    l->attempt = job->attempt;
    l->n_ranks = answer->n_workers;
    for (size_t r = 0; r < l->n_ranks; r++) {
        take_report(&l->spans[r], answer->workers[r], now_us, is_first);
    }
    return ps_ok();
}

/* Writes which node carries which rank, as summary.json has it. */
static void take_nodes(ps_plot_job *job, const Psgd__V1__Job *from)
{
    json_t *nodes = json_array();

    for (size_t i = 0; i < from->n_placements; i++) {
        const Psgd__V1__Placement *p = from->placements[i];

        if (p->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER) {
            json_array_append_new(nodes, json_pack("{s:s, s:[{s:I}]}", "node_id", p->node_id,
                                                   "ranks", "rank", (json_int_t)p->rank));
        }
    }
    job->summary = json_pack("{s:o}", "nodes", nodes);
}

/* Writes a codec as "NAME:NUMBER=VALUE,...". */
static void write_codec(const Psgd__V1__Choice *choice, char text[PS_EXPLAIN_CODEC_MAX])
{
    size_t n = (size_t)snprintf(text, PS_EXPLAIN_CODEC_MAX, "%s",
                                choice != NULL && choice->name[0] != '\0' ? choice->name : "f32");

    for (size_t i = 0; choice != NULL && i < choice->n_params && n < PS_EXPLAIN_CODEC_MAX; i++) {
        n += (size_t)snprintf(text + n, PS_EXPLAIN_CODEC_MAX - n, "%c%s=%.9g", i == 0 ? ':' : ',',
                              choice->params[i]->key, choice->params[i]->value);
    }
}

static void take_exchange(ps_explain_live *l, const Psgd__V1__Job *job)
{
    const Psgd__V1__CodecSpec *codec = job->spec != NULL ? job->spec->codec : NULL;
    double up = 0, down = 0, plain_up = 0, plain_down = 0, steps = 0;

    for (size_t r = 0; r < l->n_ranks; r++) {
        const ps_explain_report *a = &l->spans[r].first, *b = &l->spans[r].last;

        up += (double)b->bytes_up - (double)a->bytes_up;
        down += (double)b->bytes_down - (double)a->bytes_down;
        plain_up += (double)b->float32_up - (double)a->float32_up;
        plain_down += (double)b->float32_down - (double)a->float32_down;
        steps += (double)b->step - (double)a->step;
    }
    if (up > 0 && down > 0 && plain_up > 0 && plain_down > 0 && steps > 0) {
        l->values = plain_up / sizeof(float) / steps;
        l->up_bytes = sizeof(float) * up / plain_up;
        l->down_bytes = sizeof(float) * down / plain_down;
    }
    write_codec(codec != NULL ? codec->up : NULL, l->up);
    write_codec(codec != NULL ? codec->down : NULL, l->down);
}

/* Writes what every rank did between its first and its last report. */
static ps_status finish(ps_explain_live *l)
{
    ps_plot_job *job = l->job;

    for (size_t r = 0; r < l->n_ranks; r++) {
        const ps_explain_report *a = &l->spans[r].first, *b = &l->spans[r].last;

        if (!l->spans[r].is_begun || b->step <= a->step || b->us <= a->us) {
            return ps_fail(PS_DEADLINE_EXCEEDED,
                           "worker %zu reported no step within %lld s: give --for more time; psgd "
                           "get says for whom the job waits",
                           r, (long long)(l->for_us / 1000000));
        }
    }
    job->ranks = ps_xcalloc(l->n_ranks, sizeof *job->ranks);
    job->n_ranks = l->n_ranks;
    for (size_t r = 0; r < l->n_ranks; r++) {
        const ps_explain_report *a = &l->spans[r].first, *b = &l->spans[r].last;
        double seconds = (double)(b->us - a->us) * 1e-6;
        double wait = fmin(seconds, fmax(0, b->wait_s - a->wait_s));
        double row[PS_PLOT_METRICS] = {
            [PS_PLOT_TIME] = seconds,
            [PS_PLOT_STEP] = (double)(b->step - a->step),
            [PS_PLOT_UP] = (double)b->bytes_up - (double)a->bytes_up,
            [PS_PLOT_DOWN] = (double)b->bytes_down - (double)a->bytes_down,
            [PS_PLOT_WAIT] = wait,
        };

        job->ranks[r].train.stride = PS_PLOT_METRICS;
        job->ranks[r].compute_s = seconds - wait;
        ps_plot_rows_add(&job->ranks[r].train, row);
    }
    return ps_ok();
}

static void on_job(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__GetJobResponse *answer = (const Psgd__V1__GetJobResponse *)reply;
    ps_explain_live *l = arg;
    ps_status st;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(l->cli, error);
        return;
    }
    st = take_answer(l, answer);
    if (ps_is_ok(&st) && ps_clock_us() < l->end_us) {
        ps_loop_after(l->cli->loop, &l->timer, PAUSE_US);
        return;
    }
    if (ps_is_ok(&st)) {
        take_nodes(l->job, answer->job);
        st = finish(l);
        take_exchange(l, answer->job);
    }
    if (!ps_is_ok(&st)) {
        end_with(l, st);
        return;
    }
    l->done(l->arg);
}

static void on_timer(ps_event *self, bool ok)
{
    ps_explain_live *l = PS_CONTAINER_OF(self, ps_explain_live, timer.event);
    Psgd__V1__GetJobRequest request = PSGD__V1__GET_JOB_REQUEST__INIT;

    if (ok) {
        request.job_id = (char *)l->id;
        request.workers = true;
        ps_cli_call(l->cli, "GetJob", &request.base, on_job, l);
    }
}

void ps_explain_live_start(ps_explain_live *live)
{
    live->timer.event.fire = on_timer;
    live->end_us = ps_clock_us() + live->for_us;
    ps_loop_after(live->cli->loop, &live->timer, 0);
}
