/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - psgd submit [FILE] [flags]: submits a job. */
#include "clients/psgd/spec_options.h"
#include "clients/psgd/watch.h"

#include <stdio.h>

enum { SELF_BYTES = 512 };

typedef struct submission {
    ps_spec_flags flags;
    const char *request_id;
    bool wants_watch, no_queue;
    ps_cli *cli;
    Psgd__V1__JobSpec *spec;
    ps_watch watch;
} submission;

static const ps_option options[] = {
    PS_OPTION_BOOL(submission, wants_watch, .name = "watch", .letter = 'w',
                   .help = "follow the job to its end"),
    PS_OPTION_BOOL(
        submission, no_queue, .name = "no-queue",
        .help = "refuse a job that cannot start at once, and print which jobs use its nodes"),
    PS_SPEC_OPTIONS(submission, flags),
    PS_LOSS_OPTIONS(submission, flags, PS_SHOWN),
    PS_OPTION_STRING(submission, request_id, .name = "request-id", .value = "", .metavar = "ID",
                     .help = "makes submit idempotent: the same id and job give the same job"),
    PS_OPTION_END,
};

static void show_next(const ps_cli *cli, const char *id)
{
    char self[SELF_BYTES];

    ps_cli_self(cli, self, sizeof self);
    printf("Next:\n"
           "  %s watch %s\n"
           "  %s get %s\n"
           "  %s logs -f %s\n"
           "  %s download %s\n"
           "  %s cancel %s\n",
           self, id, self, id, self, id, self, id, self, id);
}

static const char *file_of(const ps_cli *cli)
{
    return cli->config->n_args > 0 ? cli->config->args[0] : NULL;
}

static void on_job(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    submission *s = arg;
    const Psgd__V1__SubmitJobResponse *answer = (const Psgd__V1__SubmitJobResponse *)reply;

    if (!ps_is_ok(&error->status)) {
        ps_error located = *error;

        ps_spec_locate(file_of(s->cli), &located);
        ps_cli_fail(s->cli, &located);
    } else if (answer->job == NULL || (s->cli->format != PS_FORMAT_TEXT && !s->wants_watch)) {
        ps_show_reply(s->cli, answer->job);
    } else {
        if (s->cli->format == PS_FORMAT_TEXT) {
            printf("job       %s\n", PS_PLAIN(answer->job->id, 255));
            fflush(stdout);
        }
        if (s->wants_watch) {
            ps_watch_start(&s->watch, s->cli, answer->job->id);
            return;
        }
        show_next(s->cli, answer->job->id);
        ps_cli_end(s->cli, PS_EXIT_OK);
    }
}

static bool prepare(ps_cli *cli, void *arg)
{
    submission *s = arg;
    const char *path = file_of(cli);
    ps_error error;
    ps_status st = ps_spec_build(path, &s->flags, &error, &s->spec);

    s->cli = cli;
    if (!ps_is_ok(&st)) {
        ps_spec_locate(path, &error);
        ps_cli_error(&error);
        return false;
    }
    return true;
}

static void start(ps_cli *cli, void *arg)
{
    submission *s = arg;
    Psgd__V1__SubmitJobRequest request = PSGD__V1__SUBMIT_JOB_REQUEST__INIT;

    request.spec = s->spec;
    request.request_id = (char *)s->request_id;
    request.no_queue = s->no_queue;
    ps_cli_submit(cli, &request, on_job, s);
}

static void fini(void *arg)
{
    submission *s = arg;

    psgd__v1__job_spec__free_unpacked(s->spec, NULL);
    ps_watch_fini(&s->watch);
}

const ps_subcommand ps_subcommand_submit = {
    .command = {.name = "psgd submit",
                .summary =
                    "Submits a job: a YAML or JSON file with the fields of JobSpec, which flags "
                    "override. Other fields come from the preset or have their default. Prints "
                    "the job's id and the next commands. --watch follows the job; Ctrl-C then "
                    "leaves it running.",
                .usage = "[options] [FILE]",
                .args_max = 1,
                .examples = "psgd submit --preset tutorial-glyphs --watch\n"
                            "psgd submit job.yaml --workers 4 --epochs 10\n"
                            "psgd submit --data mnist --workers worker.json -n 2 --codec int8 -w\n"
                            "psgd submit -O sgd --lr 0.1 --consistency ssp --bound 3"},
    .options = options,
    .takes_job = true,
    .options_size = sizeof(submission),
    .prepare = prepare,
    .start = start,
    .fini = fini,
};
