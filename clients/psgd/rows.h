/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - prints a list in the form that the user wants: a table, a JSON list, or a JSON
 * document a line. {0} may be passed to ps_rows_fini. */
#ifndef PS_CLIENTS_PSGD_ROWS_H
#define PS_CLIENTS_PSGD_ROWS_H

#include "clients/psgd/cli.h"
#include "clients/psgd/table.h"

#include <jansson.h>

typedef struct ps_rows {
    ps_cli *cli;
    json_t *json;   /* `count` items of a JSON list */
    ps_table table; /* used if the output is a table */
    size_t count;
} ps_rows;

/* Starts a list. `head` has `columns` texts. `cli` must outlive `rows`. */
void ps_rows_init(ps_rows *rows, ps_cli *cli, const char *const *head, size_t columns);

/* Adds an item. Returns true if the output is a table; the caller then adds the cells. */
bool ps_rows_add(ps_rows *rows, const ProtobufCMessage *message);

/* Prints what was not printed and ends the subcommand. People see `none` if the list is empty. */
void ps_rows_end(ps_rows *rows, const char *none);

/* Frees the list. */
void ps_rows_fini(ps_rows *rows);

#endif
