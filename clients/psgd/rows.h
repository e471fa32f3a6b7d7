/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - what a subcommand lists, in the form that the user wants: a table, a JSON list, or a
 * line of JSON for each. {0} may be finished. */
#ifndef PS_CLIENTS_PSGD_ROWS_H
#define PS_CLIENTS_PSGD_ROWS_H

#include "clients/psgd/cli.h"
#include "clients/psgd/table.h"

#include <jansson.h>

typedef struct ps_rows {
    ps_cli *cli;
    json_t *json;   /* (count), of a JSON list */
    ps_table table; /* else */
    size_t count;
} ps_rows;

/* head: (columns). cli is kept. */
void ps_rows_init(ps_rows *rows, ps_cli *cli, const char *const *head, size_t columns);

/* One more. True: it is for a table, to which the caller adds its cells. */
bool ps_rows_add(ps_rows *rows, const ProtobufCMessage *message);

/* There are no more: prints what has not been, `none` to people if there is nothing, and ends
 * the subcommand. */
void ps_rows_end(ps_rows *rows, const char *none);
void ps_rows_fini(ps_rows *rows);

#endif
