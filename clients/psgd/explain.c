/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - psgd explain JOB: says what bounds a job, and what would change it. */
#include "clients/lib/psgd.h"
#include "clients/psgd/explain_cause.h"
#include "clients/psgd/explain_forecast.h"
#include "clients/psgd/explain_live.h"
#include "clients/psgd/explain_record.h"
#include "clients/psgd/plot_read.h"
#include "clients/psgd/show.h"
#include "clients/psgd/text_table.h"

#include "common/base/strbuf.h"
#include "common/base/xalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ROWS_MAX = 4096,
    CELL_BYTES = 64,
    WITHIN_US = 60 * 1000 * 1000,
    /* what each codec is measured on */
    VALUES = 200000,
    MEASURE_US = 5000,
    FORECASTS_MAX = 16
};

static const double served_from = 0.1; /* share of a step of a server, for a forecast of more */

typedef struct explaining {
    int64_t for_us;
    bool is_live; /* measured while the job trains */
    ps_cli *cli;
    ps_plot_job job;
    ps_plot_read read;
    ps_explain_live live;
    ps_explain_record record; /* of a job that trains and whose exchange bounds it */
    bool has_steps;           /* record.steps is set */
    size_t n_rows;            /* forecasts; 0: there are none */
    struct forecast {
        const char *up, *down; /* codecs */
        double servers;        /* times as many */
        double steps_per_s;
    } rows[FORECASTS_MAX];
    ps_explain_rank *ranks; /* (job.n_ranks) */
    ps_explanation found;
} explaining;

static const char *const cause_names[] = {[PS_EXPLAIN_COMPUTE] = "compute",
                                          [PS_EXPLAIN_STRAGGLER] = "straggler",
                                          [PS_EXPLAIN_EXCHANGE] = "exchange",
                                          [PS_EXPLAIN_OTHER] = "other"};
static const char *const way_names[] = {[PS_WAY_UP] = "up",
                                        [PS_WAY_SERVER] = "server",
                                        [PS_WAY_DOWN] = "down",
                                        [PS_WAY_CODEC] = "codec"};
static const char *const surety_names[] = {
    [PS_EXPLAIN_UNSURE] = "unsure", [PS_EXPLAIN_LIKELY] = "likely", [PS_EXPLAIN_SURE] = "sure"};

/* Returns the last row of a rank. */
static const double *last_row(const ps_plot_rank *rank)
{
    return rank->train.values + (rank->train.n - 1) * rank->train.stride;
}

static bool is_time(double seconds)
{
    return isfinite(seconds) && seconds >= 0;
}

/* Reads what the ranks measured. */
static ps_status take_ranks(const ps_plot_job *job, ps_explain_rank *ranks)
{
    for (size_t r = 0; r < job->n_ranks; r++) {
        const ps_plot_rank *rank = &job->ranks[r];
        const double *row = rank->train.n > 0 ? last_row(rank) : NULL;

        if (row == NULL || !(row[PS_PLOT_STEP] >= 1) || !(row[PS_PLOT_STEP] < 0x1p53) ||
            !is_time(row[PS_PLOT_TIME]) || row[PS_PLOT_TIME] == 0 || !is_time(row[PS_PLOT_WAIT]) ||
            !is_time(rank->compute_s)) {
            return ps_fail(PS_NOT_FOUND,
                           "worker %zu: its times are not known; TR- and ROUND- files of every "
                           "worker are needed",
                           r);
        }
        ranks[r] = (ps_explain_rank){.steps = (uint64_t)row[PS_PLOT_STEP],
                                     .seconds = row[PS_PLOT_TIME],
                                     .compute_s = rank->compute_s,
                                     .wait_s = row[PS_PLOT_WAIT]};
    }
    return ps_ok();
}

/* Returns the id of the node that carried a rank last, "" if the summary does not tell. */
static const char *node_of(const ps_plot_job *job, size_t rank)
{
    const json_t *node, *one;
    size_t i, r;

    json_array_foreach(json_object_get(job->summary, "nodes"), i, node)
    {
        json_array_foreach(json_object_get(node, "ranks"), r, one)
        {
            const json_t *number = json_object_get(one, "rank");
            const char *id = json_string_value(json_object_get(node, "node_id"));

            if (json_is_integer(number) && json_integer_value(number) == (json_int_t)rank &&
                id != NULL) {
                return id;
            }
        }
    }
    return "";
}

/* Writes a number with three digits, or as a whole one, into text (cap) and returns it. */
static const char *shown(char *text, size_t cap, double value)
{
    snprintf(text, cap, value >= 100 ? "%.0f" : "%.3g", value);
    return text;
}

#define SHOWN(value) shown((char[CELL_BYTES]){0}, CELL_BYTES, value)

/* Prints which part of the exchange bounds the job. */
static void print_way(const ps_explain_steps *s)
{
    static const char *const names[] = {
        [PS_WAY_UP] = "The way up bounds this job: the links from workers to servers.",
        [PS_WAY_DOWN] = "The way down bounds this job: the links from servers to workers.",
        [PS_WAY_CODEC] = "Coding on the workers bounds this job: their codecs take the time.",
    };

    if (s->way == PS_WAY_SERVER) {
        printf("A thread of a server bounds this job: %s.\n", PS_PLAIN(s->thread, 80));
    } else {
        printf("%s\n", names[s->way]);
    }
    printf(
        "Of a step, %.0f %% goes to the way up, %.0f %% to that server, %.0f %% to the way down, "
        "%.0f %% to coding; %zu steps of %s ms were recorded.\n",
        100 * s->shares[PS_WAY_UP], 100 * s->shares[PS_WAY_SERVER], 100 * s->shares[PS_WAY_DOWN],
        100 * s->shares[PS_WAY_CODEC], s->count, SHOWN(1e3 * s->step_s));
}

/* Prints what bounds the job, and the evidence. */
static void print_cause(const ps_explanation *e, const char *node)
{
    switch (e->cause) {
    case PS_EXPLAIN_COMPUTE:
        printf("Computing bounds this job: it takes %.0f %% of a step.\n", 100 * e->compute);
        printf("Worker %zu computes longest, and waits for %.0f %% of its time.\n", e->slowest,
               100 * e->exchange);
        break;
    case PS_EXPLAIN_STRAGGLER:
        printf("A straggler bounds this job: worker %zu%s%s.\n", e->slowest,
               node[0] != '\0' ? ", node " : "", PS_PLAIN(node, 128));
        printf("What it computes longer than the others is %.0f %% of a step, and they wait "
               "meanwhile.\n",
               100 * e->straggler);
        break;
    case PS_EXPLAIN_EXCHANGE:
        printf("The exchange bounds this job: links, servers or their disks.\n");
        printf("Even worker %zu, which computes longest, waits for %.0f %% of its time.\n",
               e->slowest, 100 * e->exchange);
        break;
    case PS_EXPLAIN_OTHER:
        printf("Neither computing nor waiting bounds this job: %.0f %% of its time is neither.\n",
               100 * e->other);
        printf("That is evaluating, saving checkpoints or reading data.\n");
        break;
    }
}

/* Returns what would change an exchange of which the timeline is known. */
static const char *advice_for(ps_explain_way way)
{
    static const char *const advice[] = {
        [PS_WAY_UP] =
            "A codec for gradients (--codec-up) with fewer bytes, or rounds of several local "
            "steps would help; faster servers or processors would not.",
        [PS_WAY_SERVER] = "More servers, more --threads of a server, or a codec that is decoded "
                          "faster would help; faster links would not.",
        [PS_WAY_DOWN] =
            "A codec for weights (--codec-down) with fewer bytes, or rounds of several local "
            "steps would help; faster servers or processors would not.",
        [PS_WAY_CODEC] = "A codec that costs less would help: psgd bench measures all of them.",
    };

    return advice[way];
}

/* Prints how sure that is, what would change it, and what that could bring. */
static void print_advice(const ps_explanation *e, uint64_t steps, const ps_explain_steps *known)
{
    static const char *const advice[] = {
        [PS_EXPLAIN_COMPUTE] = "Faster processors, a smaller model or smaller batches would help; "
                               "codecs and faster links would not.",
        [PS_EXPLAIN_STRAGGLER] = "Look at what else runs on that worker's machine, or let the job "
                                 "not wait for it: consistency 'backup', 'ssp' or 'asp'.",
        [PS_EXPLAIN_EXCHANGE] = "A codec with fewer bytes, rounds of several local steps or more "
                                "servers would help; faster processors would not.",
        [PS_EXPLAIN_OTHER] = "Evaluate and save less often, or on smaller sets.",
    };

    printf("This is %s: measured over %llu steps.\n", surety_names[e->surety],
           (unsigned long long)steps);
    printf("%s\n", known != NULL ? advice_for(known->way) : advice[e->cause]);
    switch (e->cause) {
    case PS_EXPLAIN_COMPUTE:
        printf("It makes %s steps/s; with an exchange that costs nothing at most %s.\n",
               SHOWN(e->steps_per_s), SHOWN(ps_explain_without(e, e->exchange)));
        break;
    case PS_EXPLAIN_STRAGGLER:
        printf("It makes %s steps/s; were worker %zu as fast as the others, about %s.\n",
               SHOWN(e->steps_per_s), e->slowest, SHOWN(ps_explain_without(e, e->straggler)));
        break;
    case PS_EXPLAIN_EXCHANGE:
        printf("It makes %s steps/s; with half the waits %s, with none at most %s.\n",
               SHOWN(e->steps_per_s), SHOWN(ps_explain_without(e, e->exchange / 2)),
               SHOWN(ps_explain_without(e, e->exchange)));
        break;
    case PS_EXPLAIN_OTHER:
        printf("It makes %s steps/s; without that at most %s.\n", SHOWN(e->steps_per_s),
               SHOWN(ps_explain_without(e, e->other)));
        break;
    }
}

static void add_cell(ps_text_table *table, double value)
{
    ps_text_table_add(table, SHOWN(value));
}

static void print_table(const ps_plot_job *job, const ps_explain_rank *ranks)
{
    static const char *const heads[] = {"worker",     "node",    "steps/s", "step ms",
                                        "compute ms", "wait ms", "up MB/s", "down MB/s"};
    ps_text_table table = {.n_columns = sizeof heads / sizeof heads[0]};

    for (size_t i = 0; i < table.n_columns; i++) {
        ps_text_table_add(&table, heads[i]);
    }
    for (size_t r = 0; r < job->n_ranks; r++) {
        const double *row = last_row(&job->ranks[r]);
        double steps = (double)ranks[r].steps;
        char cell[CELL_BYTES];

        snprintf(cell, sizeof cell, "%zu", r);
        ps_text_table_add(&table, cell);
        ps_text_table_add(&table, node_of(job, r));
        add_cell(&table, steps / ranks[r].seconds);
        add_cell(&table, 1e3 * ranks[r].seconds / steps);
        add_cell(&table, 1e3 * ranks[r].compute_s / steps);
        add_cell(&table, 1e3 * ranks[r].wait_s / steps);
        add_cell(&table, 1e-6 * row[PS_PLOT_UP] / ranks[r].seconds);
        add_cell(&table, 1e-6 * row[PS_PLOT_DOWN] / ranks[r].seconds);
    }
    ps_text_table_print(&table);
    ps_text_table_fini(&table);
}

static void print_json(explaining *x, const ps_explanation *e, const ps_explain_rank *ranks)
{
    json_t *workers = json_array();
    json_t *json;

    for (size_t r = 0; r < x->job.n_ranks; r++) {
        json_array_append_new(workers, json_pack("{s:I, s:I, s:f, s:f, s:f}", "rank", (json_int_t)r,
                                                 "steps", (json_int_t)ranks[r].steps, "seconds",
                                                 ranks[r].seconds, "compute_s", ranks[r].compute_s,
                                                 "wait_s", ranks[r].wait_s));
    }
    json = json_pack("{s:s, s:s, s:I, s:f, s:{s:f, s:f, s:f, s:f}, s:b, s:o}", "cause",
                     cause_names[e->cause], "surety", surety_names[e->surety], "slowest_rank",
                     (json_int_t)e->slowest, "steps_per_second", e->steps_per_s, "shares",
                     "compute", e->compute, "straggler", e->straggler, "exchange", e->exchange,
                     "other", e->other, "while_training", x->is_live, "workers", workers);
    if (x->has_steps) {
        const ps_explain_steps *s = &x->record.steps;
        json_t *shares = json_object(), *forecasts = json_array();

        for (int w = 0; w < PS_WAYS; w++) {
            json_object_set_new(shares, way_names[w], json_real(s->shares[w]));
        }
        for (size_t i = 0; i < x->n_rows; i++) {
            json_array_append_new(forecasts, json_pack("{s:s, s:s, s:f, s:f}", "codec_up",
                                                       x->rows[i].up, "codec_down", x->rows[i].down,
                                                       "times_servers", x->rows[i].servers,
                                                       "steps_per_second", x->rows[i].steps_per_s));
        }
        json_object_set_new(json, "forecasts", forecasts);
        json_object_set_new(json, "exchange",
                            json_pack("{s:s, s:s, s:I, s:f, s:f, s:o}", "bound_by",
                                      way_names[s->way], "server_thread", s->thread, "steps",
                                      (json_int_t)s->count, "step_seconds", s->step_s,
                                      "clock_error_seconds", s->error_s, "shares", shares));
    }
    ps_cli_json_value(x->cli, json);
    json_decref(json);
}

/* Foretells the rate with other codecs and more servers. */
static void foretell(explaining *x)
{
    static const char *const codecs[] = {"f32", "f16", "int8", "topk:fraction=0.01"};
    enum { CODECS = sizeof codecs / sizeof codecs[0] };
    ps_forecast_job job = {.steps = &x->record.steps,
                           .steps_per_s = x->found.steps_per_s,
                           .values = x->live.values,
                           .workers = (double)x->job.n_ranks,
                           .up_bytes = x->live.up_bytes,
                           .down_bytes = x->live.down_bytes};
    ps_codec_cost cost[CODECS];
    bool is_good = job.values > 0 &&
                   ps_codec_cost_measure(x->live.up, VALUES, MEASURE_US, &job.up) == PSGD_OK &&
                   ps_codec_cost_measure(x->live.down, VALUES, MEASURE_US, &job.down) == PSGD_OK;

    for (size_t i = 0; i < CODECS && is_good; i++) {
        is_good = ps_codec_cost_measure(codecs[i], VALUES, MEASURE_US, &cost[i]) == PSGD_OK;
    }
    for (size_t up = 0; up < CODECS && is_good; up++) {
        for (size_t down = 0; down + 1 < CODECS; down++) { /* weights are not left out */
            if (down == 0 || down == up || (down == 2 && up == 3)) {
                x->rows[x->n_rows++] = (struct forecast){
                    codecs[up], codecs[down], 1, ps_forecast_codecs(&job, &cost[up], &cost[down])};
            }
        }
    }
    if (is_good && job.steps->shares[PS_WAY_SERVER] >= served_from) {
        x->rows[x->n_rows++] =
            (struct forecast){"as now", "as now", 2, ps_forecast_servers(&job, 2)};
    }
}

static void print_forecasts(const explaining *x)
{
    static const char *const heads[] = {"--codec-up", "--codec-down", "servers", "steps/s"};
    ps_text_table table = {.n_columns = sizeof heads / sizeof heads[0]};

    for (size_t i = 0; i < table.n_columns; i++) {
        ps_text_table_add(&table, heads[i]);
    }
    for (size_t i = 0; i < x->n_rows; i++) {
        ps_text_table_add(&table, x->rows[i].up);
        ps_text_table_add(&table, x->rows[i].down);
        ps_text_table_add(&table, x->rows[i].servers > 1 ? "twice" : "as now");
        add_cell(&table, x->rows[i].steps_per_s);
    }
    printf(
        "\nForetold with other codecs or servers; what they do to the accuracy is not known:\n\n");
    ps_text_table_print(&table);
    ps_text_table_fini(&table);
}

static void show(explaining *x)
{
    const ps_explanation *e = &x->found;
    const ps_explain_steps *known = x->has_steps ? &x->record.steps : NULL;

    if (x->cli->format != PS_FORMAT_TEXT) {
        print_json(x, e, x->ranks);
    } else {
        if (known != NULL) {
            print_way(known);
        } else {
            print_cause(e, node_of(&x->job, e->slowest));
        }
        if (x->is_live) {
            printf("The job trains: what its workers did in %lld s; all that is no wait counts "
                   "as computing.\n",
                   (long long)(x->for_us / 1000000));
        }
        print_advice(e, x->ranks[e->slowest].steps, known);
        printf("\n");
        print_table(&x->job, x->ranks);
        if (x->n_rows > 0) {
            print_forecasts(x);
        }
    }
    ps_cli_end(x->cli, PS_EXIT_OK);
}

static void recorded(void *arg)
{
    explaining *x = arg;

    const ps_explain_steps *s = &x->record.steps;

    if (ps_is_ok(&x->record.status) && ps_explain_is_doubtful(s)) {
        x->record.status =
            ps_fail(PS_FAILED_PRECONDITION,
                    "its largest part takes %s ms of a step, and the clocks of the nodes may "
                    "differ by %s ms",
                    SHOWN(1e3 * s->shares[s->way] * s->step_s), SHOWN(1e3 * s->error_s));
    }
    x->has_steps = ps_is_ok(&x->record.status);
    if (x->has_steps) {
        foretell(x);
    } else {
        fprintf(stderr, "psgd: the exchange is not taken apart: %s\n",
                PS_PLAIN(x->record.status.text, 300));
    }
    show(x);
}

static void finish(void *arg)
{
    explaining *x = arg;
    ps_status st;

    x->ranks = ps_xcalloc(x->job.n_ranks, sizeof *x->ranks);
    st = take_ranks(&x->job, x->ranks);
    if (!ps_is_ok(&st)) {
        ps_cli_end(x->cli, ps_cli_status(&st));
        return;
    }
    x->found = ps_explain(x->ranks, x->job.n_ranks);
    if (x->is_live && x->found.cause == PS_EXPLAIN_EXCHANGE) {
        x->record = (ps_explain_record){
            .cli = x->cli, .id = x->live.id, .within_us = WITHIN_US, .done = recorded, .arg = x};
        ps_explain_record_start(&x->record);
        return;
    }
    show(x);
}

/* Measures a job that has no reports yet, because it trains. */
static void measure(void *arg, const char *id)
{
    explaining *x = arg;

    x->is_live = true;
    x->live = (ps_explain_live){
        .cli = x->cli, .id = id, .for_us = x->for_us, .job = &x->job, .done = finish, .arg = x};
    ps_explain_live_start(&x->live);
}

static bool prepare(ps_cli *cli, void *arg)
{
    explaining *x = arg;

    x->cli = cli;
    cli->is_local = ps_plot_read_is_local(cli);
    return true;
}

static void start(ps_cli *cli, void *arg)
{
    explaining *x = arg;

    x->read = (ps_plot_read){.cli = cli,
                             .jobs = &x->job,
                             .rows_max = ROWS_MAX,
                             .done = finish,
                             .no_reports = measure,
                             .arg = x};
    ps_plot_read_start(&x->read);
}

static void fini(void *arg)
{
    explaining *x = arg;

    ps_plot_read_fini(&x->read);
    ps_plot_job_fini(&x->job);
    free(x->ranks);
}

static const ps_option options[] = {
    PS_OPTION_DURATION(explaining, for_us, .name = "for", .value = "5s", .min = 1e6, .max = 3600e6,
                       .help = "how long a job that trains is measured"),
    PS_OPTION_END};

const ps_subcommand ps_subcommand_explain = {
    .command =
        {.name = "psgd explain",
         .summary =
             "Says what bounds a job: computing, a straggler, or the exchange; how "
             "sure that is, and what would change it. JOB is an id or title of a job "
             "that trains or is over, or a folder that psgd train or psgd download has left.",
         .usage = "[options] JOB",
         .args_min = 1,
         .args_max = 1,
         .examples = "psgd explain JOB\n"
                     "psgd train job.yaml --out run1 && psgd explain run1"},
    .options = options,
    .options_size = sizeof(explaining),
    .prepare = prepare,
    .start = start,
    .fini = fini,
};
