/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - psgd submit [FILE] [flags]. */
#include "clients/psgd/spec.h"
#include "clients/psgd/watch.h"

#include <stdio.h>

enum { SELF_BYTES = 512 };

typedef struct submission {
    ps_spec_flags flags;
    const char *request_id;
    bool wants_watch;
    ps_cli *cli;
    Psgd__V1__JobSpec *spec;
    ps_watch watch;
} submission;

static const ps_option options[] = {
    PS_OPTION_BOOL(submission, wants_watch, .name = "watch", .letter = 'w',
                   .help = "follow the job to its end"),
    PS_OPTION_STRING(submission, flags.title, .name = "title", .letter = 't',
                     .help = "name in the job's id and in its files"),
    PS_OPTION_STRING(submission, flags.preset, .name = "preset", .letter = 'p', .metavar = "NAME",
                     .help = "fills the fields left out; see 'psgd presets'"),
    PS_OPTION_STRING(submission, flags.workers, .name = "workers", .letter = 'W',
                     .metavar = "N|FILE",
                     .help = "how many, or a worker.json that says which (\"PS\" and \"Worker\")"),
    PS_OPTION_STRING(submission, flags.node_count, .name = "node-count", .letter = 'n',
                     .metavar = "N", .help = "workers; of a worker.json the first N"),
    PS_OPTION_STRING(submission, flags.pservers, .name = "pservers", .letter = 'P', .metavar = "N",
                     .help = "parameter servers"),
    PS_OPTION_STRING(submission, flags.epochs, .name = "epochs", .letter = 'E', .metavar = "N",
                     .help = "passes over the training set"),
    PS_OPTION_STRING(submission, flags.block_size, .name = "block-size", .letter = 'b',
                     .metavar = "N", .help = "samples a block"),
    PS_OPTION_STRING(submission, flags.seed, .name = "seed", .metavar = "N",
                     .help = "everything drawn at random follows from it"),
    PS_OPTION_STRING(submission, flags.model, .name = "model", .letter = 'm', .metavar = "NAME",
                     .help = "preset of a network: mlp, cnn or alexnet"),
    PS_OPTION_STRING(submission, flags.widths, .name = "widths", .metavar = "N,N,...",
                     .help = "units of its hidden layers"),
    PS_OPTION_STRING(submission, flags.activation, .name = "activation", .metavar = "NAME",
                     .help = "between its layers: tanh, relu, sigmoid"),
    PS_OPTION_STRING(submission, flags.data, .name = "data", .letter = 'D', .metavar = "NAME",
                     .help = "data set: mnist, glyphs"),
    PS_OPTION_STRING(submission, flags.train_limit, .name = "train-limit", .metavar = "N",
                     .help = "training samples to use; 0: all"),
    PS_OPTION_STRING(submission, flags.test_limit, .name = "test-limit", .metavar = "N",
                     .help = "test samples to use; 0: all"),
    PS_OPTION_STRING(submission, flags.assignment, .name = "assignment", .metavar = "NAME",
                     .help = "which worker holds which blocks: iid, duplicate"),
    PS_OPTION_STRING(submission, flags.redundancy, .name = "redundancy", .letter = 'r',
                     .metavar = "N", .help = "workers that hold each block"),
    PS_OPTION_STRING(submission, flags.optimizer, .name = "optimizer", .letter = 'O',
                     .metavar = "NAME", .help = "adam, sgd"),
    PS_OPTION_STRING(submission, flags.lr, .name = "lr", .metavar = "X",
                     .help = "learning rate of the optimizer"),
    PS_OPTION_STRING(submission, flags.optimizer_side, .name = "optimizer-side",
                     .choices = "server|worker", .help = "where the optimizer runs"),
    PS_OPTION_STRING(submission, flags.update, .name = "update", .metavar = "NAME",
                     .help = "what workers send: gradient, gradient_average"),
    PS_OPTION_STRING(submission, flags.consistency, .name = "consistency", .metavar = "NAME",
                     .help = "bsp (in step), ssp (bounded staleness), asp (no waiting)"),
    PS_OPTION_STRING(submission, flags.bound, .name = "bound", .metavar = "N",
                     .help = "of ssp: steps that a worker may be ahead"),
    PS_OPTION_STRING(submission, flags.codec, .name = "codec", .metavar = "NAME",
                     .help = "bytes on the wire both ways: f32, f16, int8"),
    PS_OPTION_STRING(submission, flags.codec_up, .name = "codec-up", .metavar = "NAME",
                     .help = "of what workers send"),
    PS_OPTION_STRING(submission, flags.codec_down, .name = "codec-down", .metavar = "NAME",
                     .help = "of what servers send"),
    PS_OPTION_STRING(submission, flags.bandwidth, .name = "bandwidth", .metavar = "BYTES",
                     .help = "a second that a node's link carries; deadlines follow from it"),
    PS_OPTION_LIST(submission, flags.set, .name = "set", .letter = 's', .metavar = "PATH=VALUE",
                   .help = "any field of the job: timeouts.lease_ms=5000, "
                           "optimizer.rule.params.beta1=0.8"),
    PS_OPTION_STRING(submission, request_id, .name = "request-id", .value = "", .metavar = "ID",
                     .help = "makes it safe to submit again: the same id and job give the same "
                             "job"),
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

static void on_job(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    submission *s = arg;
    const Psgd__V1__SubmitJobResponse *answer = (const Psgd__V1__SubmitJobResponse *)reply;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(s->cli, error);
    } else if (answer->job == NULL || (s->cli->format != PS_FORMAT_TEXT && !s->wants_watch)) {
        ps_show_reply(s->cli, answer->job);
    } else {
        if (s->cli->format == PS_FORMAT_TEXT) {
            printf("job       %s\n", answer->job->id);
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
    const char *path = cli->config->n_args > 0 ? cli->config->args[0] : NULL;
    ps_error error;
    ps_status st = ps_spec_build(path, &s->flags, &error, &s->spec);

    s->cli = cli;
    if (!ps_is_ok(&st)) {
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
    ps_cli_call(cli, "SubmitJob", &request.base, on_job, s);
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
                    "Submits a job: a YAML or JSON file with the fields of JobSpec, flags on top "
                    "of it. What neither says is the preset's or the default. Prints the job's id "
                    "and what to do next; with --watch follows it, and Ctrl-C leaves it running.",
                .usage = "[options] [FILE]",
                .args_max = 1,
                .examples = "psgd submit --preset tutorial-glyphs --watch\n"
                            "psgd submit job.yaml --workers 4 --epochs 10\n"
                            "psgd submit --data mnist --workers worker.json -n 2 --codec int8 -w\n"
                            "psgd submit -O sgd --lr 0.1 --consistency ssp --bound 3"},
    .options = options,
    .options_size = sizeof(submission),
    .prepare = prepare,
    .start = start,
    .fini = fini,
};
