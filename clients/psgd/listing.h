/* SPDX-License-Identifier: Apache-2.0 */
/* listing.h - prints a list in the form that the user wants: a table, a JSON list, or a JSON
 * document a line. {0} may be passed to ps_listing_fini. */
#ifndef PS_CLIENTS_PSGD_LISTING_H
#define PS_CLIENTS_PSGD_LISTING_H

#include "clients/psgd/cli.h"
#include "clients/psgd/text_table.h"

#include <jansson.h>

typedef struct ps_listing {
    ps_cli *cli;
    json_t *json;        /* `count` items of a JSON list */
    ps_text_table table; /* used if the output is a table */
    size_t count;
    size_t pages;     /* so far */
    char *token_seen; /* of an earlier page */
} ps_listing;

/* Starts a list. `head` has `columns` texts. `cli` must outlive `rows`. */
void ps_listing_init(ps_listing *rows, ps_cli *cli, const char *const *head, size_t columns);

/* Adds an item. Returns true if the output is a table; the caller then adds the cells. */
bool ps_listing_add(ps_listing *rows, const ProtobufCMessage *message);

/* Returns whether there is another page, of that token. A server that repeats tokens ends the
 * subcommand with an error; the caller then returns. */
bool ps_listing_goes_on(ps_listing *rows, const char *token);

/* Prints what was not printed and ends the subcommand. People see `none` if the list is empty. */
void ps_listing_end(ps_listing *rows, const char *none);

/* Frees the list. */
void ps_listing_fini(ps_listing *rows);

#endif
