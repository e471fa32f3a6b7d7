/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - psgd list [--state STATE] [--limit N]. */
#include "clients/psgd/show.h"
#include "clients/psgd/table.h"

#include "common/base/xalloc.h"
#include "common/rpc/pbjson.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PAGE = 200, STATES_MAX = 16 };

typedef struct listing {
    ps_option_list states;
    int64_t limit;
    ps_cli *cli;
    Psgd__V1__JobState wanted[STATES_MAX];
    size_t n_wanted, n_jobs;
    json_t *json; /* NULL: a table */
    ps_table table;
} listing;

static const ps_option options[] = {
    PS_OPTION_LIST(listing, states, .name = "state", .letter = 's', .metavar = "STATE",
                   .help =
                       "only jobs in this state, or in one of these: queued, running, done, ..."),
    PS_OPTION_INT(listing, limit, .name = "limit", .letter = 'n', .value = "50", .min = 0,
                  .max = 1e9, .help = "most jobs to list, newest first; 0: all"),
    PS_OPTION_END,
};

static void ask_for_page(listing *l, const char *token);

static void add_row(listing *l, const Psgd__V1__Job *job)
{
    char text[256], time[PS_SHOW_BYTES];
    const Psgd__V1__Progress *p = job->progress;

    ps_table_add(&l->table, job->id);
    ps_table_add(&l->table, ps_show_state(job->state));
    ps_table_add(&l->table, ps_show_time(job->create_time, time));
    if (p != NULL && p->total_steps > 0) {
        snprintf(text, sizeof text, "%.0f%%", 100 * (double)p->step / (double)p->total_steps);
    } else {
        snprintf(text, sizeof text, "-");
    }
    ps_table_add(&l->table, text);
    if (job->n_result > 0) {
        ps_show_result(job, text, sizeof text);
    } else {
        snprintf(text, sizeof text, "%s", job->message[0] != '\0' ? job->message : job->reason);
    }
    ps_table_add(&l->table, text);
}

static void finish(listing *l)
{
    if (l->cli->format == PS_FORMAT_JSON) {
        ps_cli_json_value(l->cli, l->json);
    } else if (l->cli->format == PS_FORMAT_TEXT && l->n_jobs == 0) {
        puts("no jobs");
    } else if (l->cli->format == PS_FORMAT_TEXT) {
        ps_table_print(&l->table);
    }
    ps_cli_end(l->cli, PS_EXIT_OK);
}

static void on_page(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    listing *l = arg;
    const Psgd__V1__ListJobsResponse *page = (const Psgd__V1__ListJobsResponse *)reply;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(l->cli, error);
        return;
    }
    for (size_t i = 0; i < page->n_jobs && (l->limit == 0 || l->n_jobs < (size_t)l->limit); i++) {
        l->n_jobs++;
        if (l->cli->format == PS_FORMAT_TEXT) {
            add_row(l, page->jobs[i]);
        } else if (l->cli->format == PS_FORMAT_JSONL) {
            ps_cli_json(l->cli, &page->jobs[i]->base);
        } else {
            json_array_append_new(l->json, ps_pb_to_json(&page->jobs[i]->base, PS_PB_DEFAULTS));
        }
    }
    if (page->next_page_token[0] == '\0' || (l->limit != 0 && l->n_jobs >= (size_t)l->limit)) {
        finish(l);
    } else {
        ask_for_page(l, page->next_page_token);
    }
}

static void ask_for_page(listing *l, const char *token)
{
    Psgd__V1__ListJobsRequest request = PSGD__V1__LIST_JOBS_REQUEST__INIT;
    size_t left = l->limit == 0 ? PAGE : (size_t)l->limit - l->n_jobs;

    request.page_size = (int32_t)(left < PAGE ? left : PAGE);
    request.page_token = (char *)token;
    request.states = l->wanted;
    request.n_states = l->n_wanted;
    ps_cli_call(l->cli, "ListJobs", &request.base, on_page, l);
}

static bool find_state(const char *name, Psgd__V1__JobState *out)
{
    const ProtobufCEnumDescriptor *type = &psgd__v1__job_state__descriptor;

    for (unsigned i = 0; i < type->n_values; i++) {
        int value = type->values[i].value;

        if (value != 0 && strcasecmp(ps_show_enum(type, value), name) == 0) {
            *out = (Psgd__V1__JobState)value;
            return true;
        }
    }
    return false;
}

static bool prepare(ps_cli *cli, void *arg)
{
    listing *l = arg;

    l->cli = cli;
    for (size_t i = 0; i < l->states.n; i++) {
        if (l->n_wanted == STATES_MAX ||
            !find_state(l->states.items[i], &l->wanted[l->n_wanted++])) {
            fprintf(stderr,
                    "psgd: --state is '%s'; allowed: queued, can_commit, pre_commit, do_commit, "
                    "running, collecting, done, failed, cancelled\n",
                    l->states.items[i]);
            return false;
        }
    }
    return true;
}

static void start(ps_cli *cli, void *arg)
{
    static const char *const head[] = {"JOB", "STATE", "CREATED", "STEPS", "RESULT"};
    listing *l = arg;

    (void)cli;
    l->json = json_array();
    l->table.n_columns = sizeof head / sizeof head[0];
    for (size_t i = 0; i < l->table.n_columns; i++) {
        ps_table_add(&l->table, head[i]);
    }
    ask_for_page(l, "");
}

static void fini(void *arg)
{
    listing *l = arg;

    json_decref(l->json);
    ps_table_fini(&l->table);
}

const ps_subcommand ps_subcommand_list = {
    .command = {.name = "psgd list",
                .summary = "Lists jobs, newest first. With --format json a list of jobs.",
                .examples = "psgd list --state running --state queued\n"
                            "psgd list --limit 1 --format json"},
    .options = options,
    .options_size = sizeof(listing),
    .prepare = prepare,
    .start = start,
    .fini = fini,
};
