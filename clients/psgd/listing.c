/* SPDX-License-Identifier: Apache-2.0 */
/* listing.c - see listing.h. */
#include "clients/psgd/listing.h"

#include "common/base/xalloc.h"
#include "common/rpc/pbjson.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ps_listing_init(ps_listing *rows, ps_cli *cli, const char *const *head, size_t columns)
{
    *rows = (ps_listing){.cli = cli, .json = json_array(), .table = {.n_columns = columns}};
    for (size_t i = 0; i < columns; i++) {
        ps_text_table_add(&rows->table, head[i]);
    }
}

bool ps_listing_add(ps_listing *rows, const ProtobufCMessage *message)
{
    rows->count++;
    if (rows->cli->format == PS_FORMAT_JSONL) {
        ps_cli_json(rows->cli, message);
    } else if (rows->cli->format == PS_FORMAT_JSON) {
        json_array_append_new(rows->json, ps_pb_to_json(message, PS_PB_DEFAULTS));
    }
    return rows->cli->format == PS_FORMAT_TEXT;
}

/* Finds a cycle of pages of any length (Brent 1980): each token is compared with the one that was
 * remembered last, and of the tokens number 1, 2, 4, 8 ... are remembered. */
bool ps_listing_goes_on(ps_listing *rows, const char *token)
{
    if (rows->token_seen != NULL && strcmp(token, rows->token_seen) == 0) {
        fputs("psgd: the coordinator repeats a page of the list; the list has no end\n", stderr);
        ps_cli_end(rows->cli, PS_EXIT_BUG);
        return false;
    }
    rows->pages++;
    if ((rows->pages & (rows->pages - 1)) == 0) {
        free(rows->token_seen);
        rows->token_seen = ps_xstrdup(token);
    }
    return true;
}

void ps_listing_end(ps_listing *rows, const char *none)
{
    if (rows->cli->format == PS_FORMAT_JSON) {
        ps_cli_json_value(rows->cli, rows->json);
    } else if (rows->cli->format == PS_FORMAT_TEXT && rows->count == 0) {
        puts(none);
    } else if (rows->cli->format == PS_FORMAT_TEXT) {
        ps_text_table_print(&rows->table);
    }
    ps_cli_end(rows->cli, PS_EXIT_OK);
}

void ps_listing_fini(ps_listing *rows)
{
    json_decref(rows->json);
    ps_text_table_fini(&rows->table);
    free(rows->token_seen);
}
