/* SPDX-License-Identifier: Apache-2.0 */
/* list_checkpoints.c - psgd checkpoints JOB: lists the stored checkpoints of a job. */
#include "clients/psgd/listing.h"
#include "clients/psgd/show.h"

#include <stdio.h>

static void add_row(ps_text_table *table, const Psgd__V1__Checkpoint *c)
{
    char time[PS_SHOW_BYTES], step[PS_SHOW_BYTES], bytes[PS_SHOW_BYTES],
        value[PS_SHOW_BYTES] = "-", on[PS_SHOW_BYTES] = "", state[2 * PS_SHOW_BYTES];

    snprintf(step, sizeof step, "%llu", (unsigned long long)c->step);
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)c->bytes);
    ps_text_table_add(table, step);
    ps_text_table_add(table, ps_show_time(c->time, time));
    ps_text_table_add(table, bytes);
    if (c->metric[0] != '\0') {
        snprintf(value, sizeof value, "%s %.6g%s", PS_PLAIN(c->metric, 30), c->value,
                 c->is_best ? ", the best" : "");
    }
    ps_text_table_add(table, value);
    if (c->parent > 0) {
        snprintf(on, sizeof on, ", on %llu", (unsigned long long)c->parent);
    }
    snprintf(state, sizeof state, "whole%s%s", on, c->is_passing ? ", passing" : "");
    ps_text_table_add(table, c->damage[0] == '\0' ? state : c->damage);
}

static void on_list(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__ListCheckpointsResponse *list =
        (const Psgd__V1__ListCheckpointsResponse *)reply;
    ps_listing *rows = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(rows->cli, error);
        return;
    }
    for (size_t i = 0; i < list->n_checkpoints; i++) {
        if (ps_listing_add(rows, &list->checkpoints[i]->base)) {
            add_row(&rows->table, list->checkpoints[i]);
        }
    }
    ps_listing_end(rows, "no checkpoints; psgd checkpoint JOB takes one while the job trains");
}

static void start(ps_cli *cli, void *arg)
{
    static const char *const head[] = {"STEP", "TIME", "BYTES", "EVALUATED", "STATE"};
    Psgd__V1__ListCheckpointsRequest request = PSGD__V1__LIST_CHECKPOINTS_REQUEST__INIT;
    ps_listing *rows = arg;

    ps_listing_init(rows, cli, head, sizeof head / sizeof head[0]);
    request.job_id = (char *)ps_cli_job(cli);
    ps_cli_call(cli, "ListCheckpoints", &request.base, on_list, rows);
}

static void fini(void *arg)
{
    ps_listing_fini(arg);
}

const ps_subcommand ps_subcommand_checkpoints = {
    .command = {.name = "psgd checkpoints",
                .summary = "Lists the checkpoints of a job: step, time, bytes, and whether its "
                           "files are there. psgd resume JOB@STEP goes on from one.",
                .usage = "[options] JOB",
                .args_min = 1,
                .args_max = 1},
    .options_size = sizeof(ps_listing),
    .start = start,
    .fini = fini,
};
