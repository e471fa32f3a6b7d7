/* SPDX-License-Identifier: Apache-2.0 */
#include "common/explain/explain_answer.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

typedef Psgd__V1__ExplainJobResponse response;

ps_explain_surety ps_explain_how_sure(const ps_explained *e)
{
    return e->steps != NULL && ps_explain_is_close(e->steps) ? PS_EXPLAIN_UNSURE : e->found.surety;
}

static void add_shares(response *out, const ps_explanation *e)
{
    out->n_shares = PS_EXPLAIN_CAUSES;
    out->shares = ps_xcalloc(out->n_shares, sizeof(void *));
    for (int c = 0; c < PS_EXPLAIN_CAUSES; c++) {
        Psgd__V1__ExplainJobResponse__SharesEntry *entry = ps_xmalloc(sizeof *entry);

        psgd__v1__explain_job_response__shares_entry__init(entry);
        entry->key = ps_xstrdup(ps_explain_cause_name((ps_explain_cause)c));
        entry->value = e->shares[c];
        out->shares[c] = entry;
    }
}

static void add_times(Psgd__V1__ExplainedWorker *out, const ps_explain_times *times)
{
    out->n_step_ms = PS_WORKS;
    out->step_ms = ps_xcalloc(out->n_step_ms, sizeof(void *));
    for (int k = 0; k < PS_WORKS; k++) {
        Psgd__V1__ExplainedWorker__StepMsEntry *entry = ps_xmalloc(sizeof *entry);

        psgd__v1__explained_worker__step_ms_entry__init(entry);
        entry->key = ps_xstrdup(ps_explain_work_name((ps_explain_work)k));
        entry->value = times->ms[k];
        out->step_ms[k] = entry;
    }
}

static void add_workers(response *out, const ps_explained *e)
{
    out->n_workers = e->n;
    out->workers = ps_xcalloc(e->n, sizeof(void *));
    for (size_t i = 0; i < e->n; i++) {
        const ps_explain_rank *rank = &e->ranks[i];
        Psgd__V1__ExplainedWorker *worker = ps_xmalloc(sizeof *worker);

        psgd__v1__explained_worker__init(worker);
        worker->rank = rank->number;
        worker->node_id = ps_xstrdup(rank->node_id);
        worker->steps = rank->steps;
        worker->seconds = rank->seconds;
        worker->compute_s = rank->compute_s;
        worker->wait_s = rank->wait_s;
        worker->read_s = rank->read_s;
        worker->bytes_up = rank->bytes_up;
        worker->bytes_down = rank->bytes_down;
        if (e->times != NULL && e->times[i].steps > 0) {
            add_times(worker, &e->times[i]);
        }
        out->workers[i] = worker;
    }
}

static void add_exchange(response *out, const ps_explained *e)
{
    Psgd__V1__ExplainedExchange *exchange = ps_xmalloc(sizeof *exchange);
    const ps_explain_steps *s = e->steps;

    psgd__v1__explained_exchange__init(exchange);
    exchange->bound_by = ps_xstrdup(ps_explain_way_name(s->way));
    exchange->server_thread = ps_xstrdup(s->thread);
    exchange->steps = s->count;
    exchange->step_seconds = s->step_s;
    exchange->clock_error_seconds = s->error_s;
    exchange->timeline = ps_xstrdup(e->timeline != NULL ? e->timeline : "");
    exchange->n_shares = PS_WAYS;
    exchange->shares = ps_xcalloc(exchange->n_shares, sizeof(void *));
    for (int w = 0; w < PS_WAYS; w++) {
        Psgd__V1__ExplainedExchange__SharesEntry *entry = ps_xmalloc(sizeof *entry);

        psgd__v1__explained_exchange__shares_entry__init(entry);
        entry->key = ps_xstrdup(ps_explain_way_name((ps_explain_way)w));
        entry->value = s->shares[w];
        exchange->shares[w] = entry;
    }
    out->exchange = exchange;
}

static void add_forecasts(response *out, const ps_explained *e)
{
    out->n_forecasts = e->foretold_count;
    out->forecasts = ps_xcalloc(e->foretold_count + 1, sizeof(void *));
    for (size_t i = 0; i < e->foretold_count; i++) {
        const ps_foretold *row = &e->foretold[i];
        Psgd__V1__ExplainedForecast *forecast = ps_xmalloc(sizeof *forecast);

        psgd__v1__explained_forecast__init(forecast);
        forecast->codec_up = ps_xstrdup(row->up);
        forecast->codec_down = ps_xstrdup(row->down);
        forecast->times_servers = row->servers;
        forecast->local_steps = row->local_steps;
        forecast->steps_per_second = row->steps_per_s;
        out->forecasts[i] = forecast;
    }
}

response *ps_explain_answer(const ps_explained *e)
{
    response *out = ps_xmalloc(sizeof *out);

    psgd__v1__explain_job_response__init(out);
    out->cause = ps_xstrdup(ps_explain_cause_name(e->found.cause));
    out->surety = ps_xstrdup(ps_explain_surety_name(ps_explain_how_sure(e)));
    out->slowest_rank = e->ranks[e->found.slowest].number;
    out->steps_per_second = e->found.steps_per_s;
    out->while_training = e->live_s > 0;
    out->exchange_unknown = ps_xstrdup(e->unknown != NULL ? e->unknown : "");
    add_shares(out, &e->found);
    add_workers(out, e);
    if (e->steps != NULL) {
        add_exchange(out, e);
        add_forecasts(out, e);
    }
    out->sentences = ps_xcalloc(PS_EXPLAIN_SENTENCES_MAX, sizeof(char *));
    out->n_sentences = ps_explain_words(e, out->sentences);
    return out;
}
