/* SPDX-License-Identifier: Apache-2.0 */
/* delete.c - psgd delete JOB: deletes a job that has ended, and its files. */
#include "clients/psgd/cli.h"

#include <stdio.h>

static void on_reply(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    ps_cli *cli = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(cli, error);
        return;
    }
    if (cli->format == PS_FORMAT_TEXT) {
        printf("%s and its files are deleted\n", ps_cli_job(cli));
    } else {
        ps_cli_json(cli, reply);
    }
    ps_cli_end(cli, PS_EXIT_OK);
}

static void start(ps_cli *cli, void *options)
{
    Psgd__V1__DeleteJobRequest request = PSGD__V1__DELETE_JOB_REQUEST__INIT;

    (void)options;
    request.job_id = (char *)ps_cli_job(cli);
    ps_cli_call(cli, "DeleteJob", &request.base, on_reply, cli);
}

const ps_subcommand ps_subcommand_delete = {
    .command = {.name = "psgd delete",
                .summary = "Deletes a job that has ended, and its files, from the coordinator.",
                .usage = "[options] JOB",
                .args_min = 1,
                .args_max = 1},
    .start = start,
};
