/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.c - psgd nodes: lists the registered workers and parameter servers, and the job of each. */
#include "clients/psgd/listing.h"
#include "clients/psgd/show.h"

#include "common/base/strbuf.h"

#include <stdio.h>
#include <string.h>

static void ask_for_page(ps_listing *rows, const char *token);

/* Returns the word for a node's state: LEFT, or LOST if it is not alive, or LOW DISK if it is idle
 * but gets no job because its disk is too full, or else its phase. */
static const char *state_of(const Psgd__V1__Node *node)
{
    bool is_low = node->disk != NULL && node->disk->is_low;

    if (node->left || !node->alive) {
        return node->left ? "LEFT" : "LOST";
    }
    return is_low && node->phase == PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE
               ? "LOW DISK"
               : ps_show_enum(&psgd__v1__node_phase__descriptor, (int)node->phase);
}

static void add_row(ps_text_table *table, const Psgd__V1__Node *node)
{
    char time[PS_SHOW_BYTES], level[PS_SHOW_BYTES], threads[PS_SHOW_BYTES] = "-";

    snprintf(level, sizeof level, "%.*s", (int)strcspn(node->kernels, ", "), node->kernels);
    ps_text_table_add(table, node->id);
    ps_text_table_add(table, ps_show_enum(&psgd__v1__node_role__descriptor, (int)node->role));
    ps_text_table_add(table, node->address);
    ps_text_table_add(table, state_of(node));
    ps_text_table_add(table, node->job_id[0] == '\0' ? "-" : node->job_id);
    ps_text_table_add(table, node->version);
    ps_text_table_add(table, level[0] == '\0' ? "-" : level);
    if (node->threads > 0) {
        snprintf(threads, sizeof threads, "%u", node->threads);
    }
    ps_text_table_add(table, threads);
    ps_text_table_add(table,
                      ps_show_enum(&psgd__v1__link_protection__descriptor, (int)node->links));
    ps_text_table_add(table, node->certificate_expires != NULL
                                 ? ps_show_time(node->certificate_expires, time)
                                 : "-");
    ps_text_table_add(table, ps_show_time(node->last_seen, time));
}

static void finish(ps_listing *rows)
{
    const char *coordinator = rows->cli->general.coordinator;
    ps_strbuf none = {0};

    ps_strbuf_printf(&none,
                     "no nodes; start some with: psgd-worker --coordinator %s, psgd-pserver "
                     "--coordinator %s",
                     coordinator, coordinator);
    ps_listing_end(rows, ps_strbuf_text(&none));
    ps_strbuf_fini(&none);
}

static void on_page(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__ListNodesResponse *page = (const Psgd__V1__ListNodesResponse *)reply;
    ps_listing *rows = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(rows->cli, error);
        return;
    }
    for (size_t i = 0; i < page->n_nodes; i++) {
        if (ps_listing_add(rows, &page->nodes[i]->base)) {
            add_row(&rows->table, page->nodes[i]);
        }
    }
    if (page->next_page_token[0] == '\0') {
        finish(rows);
    } else if (ps_listing_goes_on(rows, page->next_page_token)) {
        ask_for_page(rows, page->next_page_token);
    }
}

static void ask_for_page(ps_listing *rows, const char *token)
{
    Psgd__V1__ListNodesRequest request = PSGD__V1__LIST_NODES_REQUEST__INIT;

    request.page_token = (char *)token;
    ps_cli_call(rows->cli, "ListNodes", &request.base, on_page, rows);
}

static void start(ps_cli *cli, void *arg)
{
    static const char *const head[] = {"NODE",  "ROLE",       "ADDRESS",  "PHASE",
                                       "JOB",   "VERSION",    "CPU",      "THREADS",
                                       "LINKS", "CERT UNTIL", "LAST SEEN"};

    ps_listing_init(arg, cli, head, sizeof head / sizeof head[0]);
    ask_for_page(arg, "");
}

static void fini(void *arg)
{
    ps_listing_fini(arg);
}

const ps_subcommand ps_subcommand_nodes = {
    .command = {.name = "psgd nodes",
                .summary = "Lists the registered workers and parameter servers, "
                           "and the job of each."},
    .options_size = sizeof(ps_listing),
    .start = start,
    .fini = fini,
};
