/* SPDX-License-Identifier: Apache-2.0 */
/* trace_job.c - psgd trace JOB: records a timeline of some steps of a job while it trains, and
 * fetches the file. */
#include "clients/psgd/fetch.h"
#include "clients/psgd/show.h"

#include <stdio.h>

typedef struct tracing {
    int64_t steps;
    const char *output;
    int64_t within_us;
    ps_cli *cli;
    ps_fetch fetch;
    char name[PS_NAME_MAX + 1];
    uint64_t from_step;
} tracing;

static const ps_option options[] = {
    PS_OPTION_INT(tracing, steps, .name = "steps", .letter = 's', .metavar = "N", .value = "20",
                  .min = 1, .max = 10000,
                  .help = "steps to record; where workers take several steps a round, rounds"),
    PS_OPTION_STRING(tracing, output, .name = "output", .letter = 'o', .metavar = "DIR",
                     .value = ".", .help = "folder for the file, made if missing"),
    PS_OPTION_DURATION(tracing, within_us, .name = "within", .value = "60s", .min = 1e6,
                       .max = 3600e6, .help = "longest wait for the file"),
    PS_OPTION_END,
};

static void on_fetched(void *arg, const ps_error *error)
{
    tracing *t = arg;

    if (t->fetch.is_cancelled) {
        ps_cli_end(t->cli, PS_EXIT_INTERRUPTED);
    } else if (!ps_is_ok(&t->fetch.failure)) {
        ps_cli_error(error);
        ps_cli_end(t->cli, PS_EXIT_SERVER);
    } else if (!ps_is_ok(&error->status)) {
        ps_cli_fail(t->cli, error);
    } else {
        if (t->cli->format == PS_FORMAT_TEXT) {
            printf("%s/%s: %lld steps from step %llu; open it at https://ui.perfetto.dev\n",
                   t->output, PS_PLAIN(t->name, 200), (long long)t->steps,
                   (unsigned long long)t->from_step);
        }
        ps_cli_end(t->cli, PS_EXIT_OK);
    }
}

static void on_answer(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__TraceJobResponse *answer = (const Psgd__V1__TraceJobResponse *)reply;
    tracing *t = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(t->cli, error);
        return;
    }
    if (t->cli->format != PS_FORMAT_TEXT) {
        ps_cli_json(t->cli, &answer->base);
    }
    snprintf(t->name, sizeof t->name, "%s", answer->name);
    t->from_step = answer->from_step;
    ps_fetch_init(&t->fetch, t->cli, ps_cli_job(t->cli), t->output, NULL, 0, on_fetched, t);
    ps_fetch_start(&t->fetch, t->name);
}

static void start(ps_cli *cli, void *arg)
{
    Psgd__V1__TraceJobRequest request = PSGD__V1__TRACE_JOB_REQUEST__INIT;
    tracing *t = arg;
    ps_status st = ps_dir_make(t->output);

    if (!ps_is_ok(&st)) {
        ps_cli_status(&st);
        ps_cli_end(cli, PS_EXIT_ARGUMENTS);
        return;
    }
    t->cli = cli;
    request.job_id = (char *)ps_cli_job(cli);
    request.steps = (uint32_t)t->steps;
    cli->general.timeout_us += t->within_us; /* the answer comes when the file is complete */
    ps_cli_call(cli, "TraceJob", &request.base, on_answer, t);
}

static void fini(void *arg)
{
    ps_fetch_fini(&((tracing *)arg)->fetch);
}

const ps_subcommand ps_subcommand_trace = {
    .command = {.name = "psgd trace",
                .summary = "Records what all workers and servers of a job do in some steps, while "
                           "it trains, and downloads the timeline.",
                .usage = "[options] JOB",
                .args_min = 1,
                .args_max = 1,
                .examples = "psgd trace mnist-1a2b3c4d --steps 20"},
    .options = options,
    .options_size = sizeof(tracing),
    .start = start,
    .fini = fini,
};
