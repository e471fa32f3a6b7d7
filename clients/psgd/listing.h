/* SPDX-License-Identifier: Apache-2.0 */
/* listing.h - prints a list in the format that the user chose: a table, a JSON list, or a JSON
 * document in each line. A zeroed struct may be passed to ps_listing_fini. */
#ifndef PS_CLIENTS_PSGD_LISTING_H
#define PS_CLIENTS_PSGD_LISTING_H

#include "clients/psgd/cli.h"
#include "clients/psgd/text_table.h"

#include <jansson.h>

typedef struct ps_listing {
    ps_cli *cli;
    json_t *json;        /* the items so far, if the format is a JSON list */
    ps_text_table table; /* the items so far, if the format is a table */
    size_t count;
    size_t pages; /* number of pages so far */
    /* token of an earlier page, to notice a server that sends the same page tokens again and again
     */
    char *token_seen;
} ps_listing;

/* Starts a list. `head` has `columns` texts. `cli` must outlive `rows`. */
void ps_listing_init(ps_listing *rows, ps_cli *cli, const char *const *head, size_t columns);

/* Adds an item. Returns true if the output is a table; the caller then adds the cells. */
bool ps_listing_add(ps_listing *rows, const ProtobufCMessage *message);

/* Notes that the next page of the list has this token, and returns true. If tokens of pages come
 * again, so that the list would not end, a call some pages later ends the subcommand with an error
 * and returns false. */
bool ps_listing_goes_on(ps_listing *rows, const char *token);

/* Prints the items that were not printed yet and ends the subcommand. If the list is empty, a table
 * is replaced by the text `none`. */
void ps_listing_end(ps_listing *rows, const char *none);

/* Frees the list. */
void ps_listing_fini(ps_listing *rows);

#endif
