/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.c - psgd nodes. */
#include "clients/psgd/show.h"
#include "clients/psgd/table.h"

#include "common/rpc/pbjson.h"

#include <stdio.h>

typedef struct listing {
    ps_cli *cli;
    json_t *json;
    ps_table table;
    size_t n_nodes;
} listing;

static void ask_for_page(listing *l, const char *token);

static void add_row(listing *l, const Psgd__V1__Node *node)
{
    char time[PS_SHOW_BYTES];

    ps_table_add(&l->table, node->id);
    ps_table_add(&l->table, ps_show_enum(&psgd__v1__node_role__descriptor, (int)node->role));
    ps_table_add(&l->table, node->address);
    ps_table_add(&l->table,
                 !node->alive ? "LOST"
                              : ps_show_enum(&psgd__v1__node_phase__descriptor, (int)node->phase));
    ps_table_add(&l->table, node->job_id[0] == '\0' ? "-" : node->job_id);
    ps_table_add(&l->table, node->version);
    ps_table_add(&l->table, ps_show_time(node->last_seen, time));
}

static void finish(listing *l)
{
    if (l->cli->format == PS_FORMAT_JSON) {
        ps_cli_json_value(l->cli, l->json);
    } else if (l->cli->format == PS_FORMAT_TEXT && l->n_nodes == 0) {
        printf("no nodes; start some with: psgd-worker --coordinator %s, psgd-pserver "
               "--coordinator %s\n",
               l->cli->general.coordinator, l->cli->general.coordinator);
    } else if (l->cli->format == PS_FORMAT_TEXT) {
        ps_table_print(&l->table);
    }
    ps_cli_end(l->cli, PS_EXIT_OK);
}

static void on_page(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    listing *l = arg;
    const Psgd__V1__ListNodesResponse *page = (const Psgd__V1__ListNodesResponse *)reply;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(l->cli, error);
        return;
    }
    l->n_nodes += page->n_nodes;
    for (size_t i = 0; i < page->n_nodes; i++) {
        if (l->cli->format == PS_FORMAT_TEXT) {
            add_row(l, page->nodes[i]);
        } else if (l->cli->format == PS_FORMAT_JSONL) {
            ps_cli_json(l->cli, &page->nodes[i]->base);
        } else {
            json_array_append_new(l->json, ps_pb_to_json(&page->nodes[i]->base, PS_PB_DEFAULTS));
        }
    }
    if (page->next_page_token[0] == '\0') {
        finish(l);
    } else {
        ask_for_page(l, page->next_page_token);
    }
}

static void ask_for_page(listing *l, const char *token)
{
    Psgd__V1__ListNodesRequest request = PSGD__V1__LIST_NODES_REQUEST__INIT;

    request.page_token = (char *)token;
    ps_cli_call(l->cli, "ListNodes", &request.base, on_page, l);
}

static void start(ps_cli *cli, void *arg)
{
    static const char *const head[] = {"NODE", "ROLE",    "ADDRESS",  "PHASE",
                                       "JOB",  "VERSION", "LAST SEEN"};
    listing *l = arg;

    l->cli = cli;
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

const ps_subcommand ps_subcommand_nodes = {
    .command = {.name = "psgd nodes",
                .summary = "Lists the workers and parameter servers that the coordinator knows, "
                           "and what each is doing."},
    .options_size = sizeof(listing),
    .start = start,
    .fini = fini,
};
