/* SPDX-License-Identifier: Apache-2.0 */
/* resume.c - psgd resume JOB[@STEP]: submits a job that goes on from a checkpoint. Asks for the
 * specification of the job, and for its newest checkpoint if no step was given. */
#include "clients/psgd/show.h"
#include "clients/psgd/watch.h"

#include "common/base/xalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOB_BYTES = 128, FROM_BYTES = JOB_BYTES + 40 };

typedef struct resumption {
    int64_t processes, pservers;
    bool wants_watch;
    ps_cli *cli;
    char job[JOB_BYTES];
    uint64_t step;
    bool has_step;
    ps_watch watch;
} resumption;

static const ps_option options[] = {
    PS_OPTION_INT(resumption, processes, .name = "workers", .letter = 'W', .value = "0", .min = 0,
                  .max = 256, .metavar = "P",
                  .help = "worker processes that carry the ranks; 0: as the job had last"),
    PS_OPTION_INT(resumption, pservers, .name = "pservers", .letter = 'P', .value = "0", .min = 0,
                  .max = 64, .metavar = "M", .help = "parameter servers; 0: as the job had last"),
    PS_OPTION_BOOL(resumption, wants_watch, .name = "watch", .letter = 'w',
                   .help = "follow the job to its end"),
    PS_OPTION_END,
};

static void on_submitted(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__SubmitJobResponse *answer = (const Psgd__V1__SubmitJobResponse *)reply;
    resumption *r = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(r->cli, error);
    } else if (answer->job == NULL || (r->cli->format != PS_FORMAT_TEXT && !r->wants_watch)) {
        ps_show_reply(r->cli, answer->job);
    } else {
        if (r->cli->format == PS_FORMAT_TEXT) {
            printf("job       %s, from step %" PRIu64 " of %s\n", PS_PLAIN(answer->job->id, 255),
                   r->step, PS_PLAIN(r->job, JOB_BYTES));
            fflush(stdout);
        }
        if (r->wants_watch) {
            ps_watch_start(&r->watch, r->cli, answer->job->id);
        } else {
            ps_cli_end(r->cli, PS_EXIT_OK);
        }
    }
}

static void on_job(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__GetJobResponse *answer = (const Psgd__V1__GetJobResponse *)reply;
    Psgd__V1__SubmitJobRequest request = PSGD__V1__SUBMIT_JOB_REQUEST__INIT;
    Psgd__V1__JobSpec spec;
    uint32_t processes, pservers;
    char from[FROM_BYTES];
    resumption *r = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(r->cli, error);
        return;
    }
    if (answer->job == NULL || answer->job->spec == NULL) {
        ps_show_reply(r->cli, NULL);
        return;
    }
    spec = *answer->job->spec; /* a shallow copy: the answer still owns what its members point to */
    snprintf(from, sizeof from, "checkpoint:%s@%" PRIu64, r->job, r->step);
    spec.init_from = from;
    spec.n_init_tables = 0;
    spec.n_nodes = 0;
    if (spec.recovery != NULL) {
        spec.recovery->halvings += answer->job->rollbacks;
    }
    processes = r->processes > 0 ? (uint32_t)r->processes : answer->job->scaled_processes;
    pservers = r->pservers > 0 ? (uint32_t)r->pservers : answer->job->scaled_pservers;
    if (processes > 0) {
        spec.worker_processes = processes;
        /* A job that idle workers join has this number in workers_max, which must not contradict
         * worker_processes. */
        spec.workers_max = 0;
        spec.workers_min =
            spec.workers_min < spec.worker_processes ? spec.workers_min : spec.worker_processes;
    }
    if (pservers > 0) {
        spec.pservers = pservers;
    }
    request.spec = &spec;
    ps_cli_submit(r->cli, &request, on_submitted, r);
}

static void ask_for_job(resumption *r)
{
    Psgd__V1__GetJobRequest request = PSGD__V1__GET_JOB_REQUEST__INIT;

    request.job_id = r->job;
    ps_cli_call(r->cli, "GetJob", &request.base, on_job, r);
}

/* Chooses the newest checkpoint that is not damaged, the last such one in the list, and asks for
 * the job. Ends the program after a message if there is none. */
static void on_list(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__ListCheckpointsResponse *list =
        (const Psgd__V1__ListCheckpointsResponse *)reply;
    resumption *r = arg;
    bool is_found = false;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(r->cli, error);
        return;
    }
    for (size_t i = 0; i < list->n_checkpoints; i++) {
        if (list->checkpoints[i]->damage[0] == '\0') {
            r->step = list->checkpoints[i]->step;
            is_found = true;
        }
    }
    if (!is_found) {
        fprintf(stderr,
                "psgd: job %s has no checkpoint that is whole; psgd checkpoints lists them\n",
                PS_PLAIN(r->job, JOB_BYTES));
        ps_cli_end(r->cli, PS_EXIT_SERVER);
        return;
    }
    ask_for_job(r);
}

/* Reads the argument JOB or JOB@STEP. Returns false after a message if it has another form. */
static bool prepare(ps_cli *cli, void *arg)
{
    resumption *r = arg;
    const char *given = ps_cli_argument(cli, 0), *at = strrchr(given, '@');
    size_t n = at != NULL ? (size_t)(at - given) : strlen(given);

    r->cli = cli;
    r->has_step = at != NULL;
    if (n == 0 || n >= sizeof r->job ||
        (at != NULL && (at[1] == '\0' || strspn(at + 1, "0123456789") != strlen(at + 1) ||
                        strlen(at + 1) > 13))) {
        fprintf(stderr, "psgd: \"%s\" is no checkpoint; JOB or JOB@STEP is allowed\n",
                PS_PLAIN(given, 160));
        return false;
    }
    memcpy(r->job, given, n);
    r->job[n] = '\0';
    r->step = at != NULL ? strtoull(at + 1, NULL, 10) : 0;
    return true;
}

static void start(ps_cli *cli, void *arg)
{
    Psgd__V1__ListCheckpointsRequest request = PSGD__V1__LIST_CHECKPOINTS_REQUEST__INIT;
    resumption *r = arg;

    if (r->has_step) {
        ask_for_job(r);
        return;
    }
    request.job_id = r->job;
    ps_cli_call(cli, "ListCheckpoints", &request.base, on_list, r);
}

static void fini(void *arg)
{
    ps_watch_fini(&((resumption *)arg)->watch);
}

const ps_subcommand ps_subcommand_resume = {
    .command = {.name = "psgd resume",
                .summary = "Submits a job that goes on from a checkpoint of another one: the same "
                           "job to the bit, perhaps on other numbers of processes. Without @STEP "
                           "the newest checkpoint is taken.",
                .usage = "[options] JOB[@STEP]",
                .args_min = 1,
                .args_max = 1,
                .examples = "psgd resume mnist-1a2b3c4d --watch\n"
                            "psgd resume mnist-1a2b3c4d@1200 --workers 2 --pservers 3"},
    .options = options,
    .options_size = sizeof(resumption),
    .prepare = prepare,
    .start = start,
    .fini = fini,
};
