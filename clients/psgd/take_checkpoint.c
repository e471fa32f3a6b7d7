/* SPDX-License-Identifier: Apache-2.0 */
/* take_checkpoint.c - psgd checkpoint JOB: takes a checkpoint of a job while it trains, some
 * seconds ahead. */
#include "clients/psgd/show.h"

#include <stdio.h>

static void on_answer(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__TakeCheckpointResponse *answer =
        (const Psgd__V1__TakeCheckpointResponse *)reply;
    ps_cli *cli = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(cli, error);
        return;
    }
    if (cli->format == PS_FORMAT_TEXT) {
        printf("all nodes take a checkpoint after exchange %llu; psgd checkpoints %s lists it "
               "when it is stored\n",
               (unsigned long long)answer->clock, PS_PLAIN(ps_cli_job(cli), 120));
    } else {
        ps_cli_json(cli, &answer->base);
    }
    ps_cli_end(cli, PS_EXIT_OK);
}

static void start(ps_cli *cli, void *options)
{
    Psgd__V1__TakeCheckpointRequest request = PSGD__V1__TAKE_CHECKPOINT_REQUEST__INIT;

    (void)options;
    request.job_id = (char *)ps_cli_job(cli);
    ps_cli_call(cli, "TakeCheckpoint", &request.base, on_answer, cli);
}

const ps_subcommand ps_subcommand_checkpoint = {
    .command = {.name = "psgd checkpoint",
                .summary = "Takes a checkpoint of a job while it trains, some seconds ahead. "
                           "psgd checkpoints lists it when it is stored.",
                .usage = "[options] JOB",
                .args_min = 1,
                .args_max = 1},
    .start = start,
};
