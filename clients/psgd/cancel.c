/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.c - psgd cancel JOB: cancels a job that is queued or running. */
#include "clients/psgd/show.h"

#include <stdio.h>

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
    if (ps_show_is_over(answer->job->state)) {
        printf("%s is %s\n", PS_PLAIN(answer->job->id, 255), ps_show_state(answer->job->state));
    } else {
        printf("%s is being stopped\n", PS_PLAIN(answer->job->id, 255));
    }
    ps_cli_end(cli, PS_EXIT_OK);
}

static void start(ps_cli *cli, void *options)
{
    Psgd__V1__CancelJobRequest request = PSGD__V1__CANCEL_JOB_REQUEST__INIT;

    (void)options;
    request.job_id = (char *)ps_cli_job(cli);
    ps_cli_call(cli, "CancelJob", &request.base, on_job, cli);
}

const ps_subcommand ps_subcommand_cancel = {
    .command = {.name = "psgd cancel",
                .summary =
                    "Cancels a job that is queued or running. A job that has ended is unchanged.",
                .usage = "[options] JOB",
                .args_min = 1,
                .args_max = 1},
    .start = start,
};
