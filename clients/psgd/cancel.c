/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.c - psgd cancel JOB: cancels a job that is queued or running. */
#include "clients/psgd/show.h"

#include <stdio.h>

typedef struct cancelling {
    bool wants_checkpoint;
    int64_t within_us;
} cancelling;

static const ps_option options[] = {
    PS_OPTION_BOOL(cancelling, wants_checkpoint, .name = "checkpoint",
                   .help = "take a checkpoint first; if none is stored in time, the job is not "
                           "cancelled"),
    PS_OPTION_DURATION(cancelling, within_us, .name = "within", .value = "60s", .min = 1e6,
                       .max = 3600e6, .help = "longest wait for the checkpoint"),
    PS_OPTION_END,
};

static void on_job(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    ps_cli *cli = arg;
    const Psgd__V1__CancelJobResponse *answer = (const Psgd__V1__CancelJobResponse *)reply;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(cli, error);
        return;
    }
    if (cli->format != PS_FORMAT_TEXT || answer->job == NULL) {
        ps_show_reply(cli, answer->job);
        return;
    }
    printf("%s is %s%s%s\n", PS_PLAIN(answer->job->id, 255),
           ps_show_is_over(answer->job->state) ? ps_show_state(answer->job->state)
                                               : "being stopped",
           answer->job->message[0] != '\0' ? ": " : "", PS_PLAIN(answer->job->message, 255));
    ps_cli_end(cli, PS_EXIT_OK);
}

static void start(ps_cli *cli, void *arg)
{
    Psgd__V1__CancelJobRequest request = PSGD__V1__CANCEL_JOB_REQUEST__INIT;
    const cancelling *c = arg;

    request.job_id = (char *)ps_cli_job(cli);
    request.checkpoint = c->wants_checkpoint;
    /* If the job trains, the coordinator answers only when the checkpoint is stored, or within_us
     * have passed. */
    if (c->wants_checkpoint) {
        request.checkpoint_ms = (uint32_t)(c->within_us / 1000);
        cli->general.timeout_us += c->within_us;
    }
    ps_cli_call(cli, "CancelJob", &request.base, on_job, cli);
}

const ps_subcommand ps_subcommand_cancel = {
    .command = {.name = "psgd cancel",
                .summary =
                    "Cancels a job that is queued or running. A job that has ended is unchanged.",
                .usage = "[options] JOB",
                .args_min = 1,
                .args_max = 1,
                .examples = "psgd cancel mnist-1a2b3c4d\n"
                            "psgd cancel mnist-1a2b3c4d --checkpoint\n"
                            "psgd resume mnist-1a2b3c4d"},
    .options = options,
    .options_size = sizeof(cancelling),
    .start = start,
};
