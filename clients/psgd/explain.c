/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - psgd explain JOB: says what bounds a job, and what would change it. The coordinator
 * does so for its own jobs (ExplainJob). For a job's folder this program does it, from
 * summary.json. */
#include "clients/psgd/plot_read.h"
#include "clients/psgd/show.h"
#include "clients/psgd/text_table.h"

#include "common/base/xalloc.h"
#include "common/explain/explain_answer.h"
#include "common/explain/explain_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_BYTES = 64, RECORD_US = 60 * 1000 * 1000 };

typedef struct explaining {
    int64_t for_us;
    /* State while it runs; the members above are options. */
    ps_cli *cli;
    char id[PS_PLOT_READ_ID_BYTES];
    bool by_title; /* no job has the id that was given: a job with that title is looked for */
} explaining;

static void add_cell(ps_text_table *table, double value)
{
    char cell[CELL_BYTES];

    snprintf(cell, sizeof cell, value >= 100 ? "%.0f" : "%.3g", value);
    ps_text_table_add(table, cell);
}

static void print_ranks(const Psgd__V1__ExplainJobResponse *said)
{
    static const char *const heads[] = {"worker",  "node",    "steps/s", "step ms",  "compute ms",
                                        "read ms", "wait ms", "up MB/s", "down MB/s"};
    ps_text_table table = {.n_columns = sizeof heads / sizeof heads[0]};

    for (size_t i = 0; i < table.n_columns; i++) {
        ps_text_table_add(&table, heads[i]);
    }
    for (size_t r = 0; r < said->n_workers; r++) {
        const Psgd__V1__ExplainedWorker *w = said->workers[r];
        double steps = (double)w->steps;
        char cell[CELL_BYTES];

        snprintf(cell, sizeof cell, "%u", w->rank);
        ps_text_table_add(&table, cell);
        ps_text_table_add(&table, PS_PLAIN(w->node_id, 128));
        add_cell(&table, steps / w->seconds);
        add_cell(&table, 1e3 * w->seconds / steps);
        add_cell(&table, 1e3 * (w->compute_s - w->read_s) / steps);
        add_cell(&table, 1e3 * w->read_s / steps);
        add_cell(&table, 1e3 * w->wait_s / steps);
        add_cell(&table, 1e-6 * w->bytes_up / w->seconds);
        add_cell(&table, 1e-6 * w->bytes_down / w->seconds);
    }
    ps_text_table_print(&table);
    ps_text_table_fini(&table);
}

/* Prints how many ms each part of a step takes on each rank, by the recorded timeline. Prints
 * nothing if the first rank has no timeline. */
static void print_times(const Psgd__V1__ExplainJobResponse *said)
{
    const Psgd__V1__ExplainedWorker *first = said->n_workers > 0 ? said->workers[0] : NULL;
    ps_text_table table = {.n_columns = 1 + (first != NULL ? first->n_step_ms : 0)};

    if (table.n_columns == 1) {
        return;
    }
    ps_text_table_add(&table, "worker");
    for (size_t k = 0; k < first->n_step_ms; k++) {
        char head[CELL_BYTES];

        snprintf(head, sizeof head, "%s ms", PS_PLAIN(first->step_ms[k]->key, 20));
        ps_text_table_add(&table, head);
    }
    for (size_t r = 0; r < said->n_workers; r++) {
        const Psgd__V1__ExplainedWorker *w = said->workers[r];
        char cell[CELL_BYTES];

        if (w->n_step_ms != first->n_step_ms) { /* this rank's node has recorded no timeline */
            continue;
        }
        snprintf(cell, sizeof cell, "%u", w->rank);
        ps_text_table_add(&table, cell);
        for (size_t k = 0; k < w->n_step_ms; k++) {
            add_cell(&table, w->step_ms[k]->value);
        }
    }
    printf("\nA step of the timeline; encoding, sending and decoding go on beside the rest:\n\n");
    ps_text_table_print(&table);
    ps_text_table_fini(&table);
}

static const char *or_now(const char *codec)
{
    return codec[0] != '\0' ? codec : "as now";
}

static void print_forecasts(const Psgd__V1__ExplainJobResponse *said)
{
    static const char *const heads[] = {"--codec-up", "--codec-down", "local steps", "servers",
                                        "steps/s"};
    ps_text_table table = {.n_columns = sizeof heads / sizeof heads[0]};

    for (size_t i = 0; i < table.n_columns; i++) {
        ps_text_table_add(&table, heads[i]);
    }
    for (size_t i = 0; i < said->n_forecasts; i++) {
        const Psgd__V1__ExplainedForecast *f = said->forecasts[i];
        char cell[CELL_BYTES];

        ps_text_table_add(&table, or_now(PS_PLAIN(f->codec_up, 80)));
        ps_text_table_add(&table, or_now(PS_PLAIN(f->codec_down, 80)));
        snprintf(cell, sizeof cell, f->local_steps > 0 ? "%u" : "as now", f->local_steps);
        ps_text_table_add(&table, cell);
        ps_text_table_add(&table, f->times_servers > 1 ? "twice" : "as now");
        add_cell(&table, f->steps_per_second);
    }
    printf("\nForetold with other codecs, rounds or servers; what they do to the accuracy is not "
           "known:\n\n");
    ps_text_table_print(&table);
    ps_text_table_fini(&table);
}

static void show(explaining *x, const Psgd__V1__ExplainJobResponse *said)
{
    if (x->cli->format != PS_FORMAT_TEXT) {
        ps_cli_json(x->cli, &said->base);
    } else {
        for (size_t i = 0; i < said->n_sentences; i++) {
            printf("%s\n", PS_PLAIN(said->sentences[i], 600));
        }
        printf("\n");
        print_ranks(said);
        print_times(said);
        if (said->n_forecasts > 0) {
            print_forecasts(said);
        }
    }
    if (said->exchange_unknown[0] != '\0') {
        fprintf(stderr, "psgd: the exchange is not taken apart: %s\n",
                PS_PLAIN(said->exchange_unknown, 300));
    }
    ps_cli_end(x->cli, PS_EXIT_OK);
}

/* --- a folder --------------------------------------------------------------------------- */

static void explain_folder(explaining *x)
{
    ps_explain_rank *ranks = ps_xcalloc(PS_EXPLAIN_RANKS_MAX, sizeof *ranks);
    ps_explained all = {.ranks = ranks};
    ps_status st = ps_explain_ranks_read_folder(ps_cli_job(x->cli), ranks, &all.n);

    if (ps_is_ok(&st)) {
        Psgd__V1__ExplainJobResponse *said;

        all.found = ps_explain(ranks, all.n);
        said = ps_explain_answer(&all);
        show(x, said);
        psgd__v1__explain_job_response__free_unpacked(said, NULL);
    } else {
        ps_cli_status(&st);
        ps_cli_end(x->cli, PS_EXIT_SERVER);
    }
    free(ranks);
}

/* --- a job of the coordinator ----------------------------------------------------------- */

static void ask(explaining *x);

static void on_list(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    explaining *x = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(x->cli, error);
    } else if (ps_plot_read_newest(x->id, sizeof x->id, (const void *)reply)) {
        ask(x);
    } else {
        ps_cli_end(x->cli, PS_EXIT_SERVER);
    }
}

static void on_answer(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    explaining *x = arg;

    if (ps_is_ok(&error->status)) {
        show(x, (const void *)reply);
    } else if (error->status.code == PS_NOT_FOUND && !x->by_title) {
        x->by_title = true;
        ps_plot_read_list(x->cli, on_list, x);
    } else {
        ps_cli_fail(x->cli, error);
    }
}

static void ask(explaining *x)
{
    Psgd__V1__ExplainJobRequest request = PSGD__V1__EXPLAIN_JOB_REQUEST__INIT;

    request.job_id = x->id;
    request.for_ms = (uint32_t)(x->for_us / 1000);
    request.record = true;
    ps_cli_call(x->cli, "ExplainJob", &request.base, on_answer, x);
}

static bool prepare(ps_cli *cli, void *arg)
{
    (void)arg;
    cli->is_local = ps_plot_read_is_local(cli);
    return true;
}

static void start(ps_cli *cli, void *arg)
{
    explaining *x = arg;

    x->cli = cli;
    if (cli->is_local) {
        explain_folder(x);
        return;
    }
    snprintf(x->id, sizeof x->id, "%s", ps_cli_job(cli));
    /* A job that trains is measured for for_us, and its timeline recorded, before the answer. */
    cli->general.timeout_us += x->for_us + RECORD_US;
    ask(x);
}

static const ps_option options[] = {
    PS_OPTION_DURATION(explaining, for_us, .name = "for", .value = "5s", .min = 500e3, .max = 600e6,
                       .help = "how long a job that trains is measured"),
    PS_OPTION_END};

const ps_subcommand ps_subcommand_explain = {
    .command =
        {.name = "psgd explain",
         .summary =
             "Says what bounds a job: computing, reading data, a straggler, or the exchange; how "
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
};
