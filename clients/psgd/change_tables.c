/* SPDX-License-Identifier: Apache-2.0 */
/* change_tables.c - psgd tables JOB shrink|save: changes or saves the sparse tables of a running
 * job. */
#include "clients/psgd/show.h"

#include <stdio.h>
#include <string.h>

static void on_answer(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__ChangeTablesResponse *answer = (const Psgd__V1__ChangeTablesResponse *)reply;
    ps_cli *cli = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(cli, error);
        return;
    }
    if (cli->format == PS_FORMAT_TEXT) {
        printf("all servers %s after step %llu\n", ps_cli_argument(cli, 1),
               (unsigned long long)answer->step);
    } else {
        ps_cli_json(cli, &answer->base);
    }
    ps_cli_end(cli, PS_EXIT_OK);
}

static void start(ps_cli *cli, void *options)
{
    Psgd__V1__ChangeTablesRequest request = PSGD__V1__CHANGE_TABLES_REQUEST__INIT;
    const char *action = ps_cli_argument(cli, 1);

    (void)options;
    if (strcmp(action, "shrink") == 0) {
        request.action = PSGD__V1__TABLES_ACTION__TABLES_ACTION_SHRINK;
    } else if (strcmp(action, "save") == 0) {
        request.action = PSGD__V1__TABLES_ACTION__TABLES_ACTION_SAVE;
    } else {
        fprintf(stderr, "psgd: \"%s\" is nothing that tables do; shrink and save are allowed\n",
                PS_PLAIN(action, 80));
        ps_cli_end(cli, PS_EXIT_ARGUMENTS);
        return;
    }
    request.job_id = (char *)ps_cli_job(cli);
    ps_cli_call(cli, "ChangeTables", &request.base, on_answer, cli);
}

const ps_subcommand ps_subcommand_tables = {
    .command = {.name = "psgd tables",
                .summary = "Shrinks or saves the sparse tables of a job while it trains: all "
                           "servers do it at one step, about three seconds ahead.",
                .usage = "[options] JOB shrink|save",
                .args_min = 2,
                .args_max = 2},
    .start = start,
};
