/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c - psgd scale JOB: changes the numbers of processes of a job. */
#include "clients/psgd/show.h"

#include <stdio.h>

typedef struct scaling {
    int64_t processes, pservers;
    int64_t within_us;
} scaling;

static const ps_option options[] = {
    PS_OPTION_INT(scaling, processes, .name = "workers", .letter = 'W', .value = "0", .min = 0,
                  .max = 256, .metavar = "P",
                  .help = "worker processes that carry the ranks; 0: as now"),
    PS_OPTION_INT(scaling, pservers, .name = "pservers", .letter = 'P', .value = "0", .min = 0,
                  .max = 64, .metavar = "M", .help = "parameter servers; 0: as now"),
    PS_OPTION_DURATION(scaling, within_us, .name = "within", .value = "60s", .min = 1e6,
                       .max = 3600e6,
                       .help = "longest wait for the checkpoint from which the job goes on; "
                               "without one it goes on as before"),
    PS_OPTION_END,
};

static void on_job(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__ScaleJobResponse *answer = (const Psgd__V1__ScaleJobResponse *)reply;
    ps_cli *cli = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(cli, error);
        return;
    }
    if (cli->format != PS_FORMAT_TEXT || answer->job == NULL) {
        ps_show_reply(cli, answer->job);
        return;
    }
    printf("%s goes on with %u worker process%s and %u server%s; psgd watch %s follows it\n",
           PS_PLAIN(answer->job->id, 255), answer->job->scaled_processes,
           answer->job->scaled_processes == 1 ? "" : "es", answer->job->scaled_pservers,
           answer->job->scaled_pservers == 1 ? "" : "s", PS_PLAIN(answer->job->id, 255));
    ps_cli_end(cli, PS_EXIT_OK);
}

static bool prepare(ps_cli *cli, void *arg)
{
    const scaling *s = arg;

    (void)cli;
    if (s->processes == 0 && s->pservers == 0) {
        fprintf(stderr, "psgd: give --workers P, --pservers M, or both\n");
        return false;
    }
    return true;
}

static void start(ps_cli *cli, void *arg)
{
    Psgd__V1__ScaleJobRequest request = PSGD__V1__SCALE_JOB_REQUEST__INIT;
    const scaling *s = arg;

    request.job_id = (char *)ps_cli_job(cli);
    request.worker_processes = (uint32_t)s->processes;
    request.pservers = (uint32_t)s->pservers;
    request.checkpoint_ms = (uint32_t)(s->within_us / 1000);
    /* If the job trains, the coordinator answers only when the checkpoint is stored, or within_us
     * have passed. */
    cli->general.timeout_us += s->within_us;
    ps_cli_call(cli, "ScaleJob", &request.base, on_job, cli);
}

const ps_subcommand ps_subcommand_scale = {
    .command = {.name = "psgd scale",
                .summary = "Changes the numbers of processes of a job that is queued or trains. "
                           "The result has the same bits.",
                .usage = "[options] JOB",
                .args_min = 1,
                .args_max = 1,
                .examples = "psgd scale mnist-1a2b3c4d --workers 2\n"
                            "psgd scale mnist-1a2b3c4d --workers 4 --pservers 3"},
    .options = options,
    .options_size = sizeof(scaling),
    .prepare = prepare,
    .start = start,
};
