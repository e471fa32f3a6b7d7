/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - psgd list [--state STATE] [--limit N]: lists jobs, newest first. */
#include "clients/psgd/listing.h"
#include "clients/psgd/show.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { PAGE = 200, STATES_MAX = 16 };

typedef struct listing {
    ps_option_list states;
    int64_t limit;
    Psgd__V1__JobState wanted[STATES_MAX];
    size_t n_wanted;
    ps_listing rows;
} listing;

static const ps_option options[] = {
    PS_OPTION_LIST(listing, states, .name = "state", .letter = 's', .metavar = "STATE",
                   .help = "only jobs in this state: queued, running, done, ..."),
    PS_OPTION_INT(listing, limit, .name = "limit", .letter = 'n', .value = "50", .min = 0,
                  .max = 1e9, .help = "number of jobs to list; 0: all"),
    PS_OPTION_END,
};

static void ask_for_page(listing *l, const char *token);

static void add_row(ps_text_table *table, const Psgd__V1__Job *job)
{
    char text[256], time[PS_SHOW_BYTES];
    const Psgd__V1__Progress *p = job->progress;

    ps_text_table_add(table, job->id);
    ps_text_table_add(table, ps_show_state(job->state));
    ps_text_table_add(table, job->owner[0] != '\0' ? PS_PLAIN(job->owner, 80) : "-");
    ps_text_table_add(table, ps_show_time(job->create_time, time));
    if (p != NULL && p->total_steps > 0) {
        snprintf(text, sizeof text, "%.0f%%", 100 * (double)p->step / (double)p->total_steps);
    } else {
        snprintf(text, sizeof text, "-");
    }
    ps_text_table_add(table, text);
    ps_show_trained(job, text, sizeof text);
    /* A queued job may have the results of an earlier attempt; show why it waits instead. */
    if (job->n_result > 0 && job->state != PSGD__V1__JOB_STATE__JOB_STATE_QUEUED) {
        ps_show_result(job, text, sizeof text);
    } else if (text[0] == '\0') {
        snprintf(text, sizeof text, "%s", job->message[0] != '\0' ? job->message : job->reason);
    }
    ps_text_table_add(table, text);
}

static bool is_full(const listing *l)
{
    return l->limit != 0 && l->rows.count >= (size_t)l->limit;
}

static void on_page(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    listing *l = arg;
    const Psgd__V1__ListJobsResponse *page = (const Psgd__V1__ListJobsResponse *)reply;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(l->rows.cli, error);
        return;
    }
    for (size_t i = 0; i < page->n_jobs && !is_full(l); i++) {
        if (ps_listing_add(&l->rows, &page->jobs[i]->base)) {
            add_row(&l->rows.table, page->jobs[i]);
        }
    }
    if (page->next_page_token[0] == '\0' || is_full(l)) {
        ps_listing_end(&l->rows, "no jobs");
    } else if (ps_listing_goes_on(&l->rows, page->next_page_token)) {
        ask_for_page(l, page->next_page_token);
    }
}

static void ask_for_page(listing *l, const char *token)
{
    Psgd__V1__ListJobsRequest request = PSGD__V1__LIST_JOBS_REQUEST__INIT;
    size_t left = l->limit == 0 ? PAGE : (size_t)l->limit - l->rows.count;

    request.page_size = (int32_t)(left < PAGE ? left : PAGE);
    request.page_token = (char *)token;
    request.states = l->wanted;
    request.n_states = l->n_wanted;
    ps_cli_call(l->rows.cli, "ListJobs", &request.base, on_page, l);
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

    (void)cli;
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
    static const char *const head[] = {"JOB", "STATE", "OWNER", "CREATED", "STEPS", "RESULT"};
    listing *l = arg;

    ps_listing_init(&l->rows, cli, head, sizeof head / sizeof head[0]);
    ask_for_page(l, "");
}

static void fini(void *arg)
{
    ps_listing_fini(&((listing *)arg)->rows);
}

const ps_subcommand ps_subcommand_list = {
    .command = {.name = "psgd list",
                .summary = "Lists jobs, newest first. --format json prints a list.",
                .examples = "psgd list --state running --state queued\n"
                            "psgd list --limit 1 --format json"},
    .options = options,
    .options_size = sizeof(listing),
    .prepare = prepare,
    .start = start,
    .fini = fini,
};
