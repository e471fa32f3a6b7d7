/* SPDX-License-Identifier: Apache-2.0 */
/* get.c - psgd get JOB: shows a job's state, nodes, result, files and specification. */
#include "clients/psgd/show.h"

#include <stdio.h>

static void on_job(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    ps_cli *cli = arg;
    const Psgd__V1__GetJobResponse *answer = (const Psgd__V1__GetJobResponse *)reply;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(cli, error);
        return;
    }
    ps_show_reply(cli, answer->job);
}

static void start(ps_cli *cli, void *options)
{
    Psgd__V1__GetJobRequest request = PSGD__V1__GET_JOB_REQUEST__INIT;

    (void)options;
    request.job_id = (char *)ps_cli_job(cli);
    ps_cli_call(cli, "GetJob", &request.base, on_job, cli);
}

const ps_subcommand ps_subcommand_get = {
    .command = {.name = "psgd get",
                .summary = "Shows a job: its state, nodes, result, files and specification.",
                .usage = "[options] JOB",
                .args_min = 1,
                .args_max = 1},
    .start = start,
};
