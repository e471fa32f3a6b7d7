/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - prints rows of text in columns as wide as they need to be. */
#ifndef PS_CLIENTS_PSGD_TABLE_H
#define PS_CLIENTS_PSGD_TABLE_H

#include <stddef.h>

enum { PS_TABLE_COLUMNS_MAX = 8 };

typedef struct ps_table {
    size_t n_columns; /* at most PS_TABLE_COLUMNS_MAX */
    char **cells;     /* n_cells texts, row by row */
    size_t n_cells, cap;
} ps_table;

/* Adds a copy of `text` as the next cell. Bytes that could move a cursor become '?'. The first
 * row is the head. {.n_columns = ...} is an empty table. */
void ps_table_add(ps_table *table, const char *text);

/* Prints the table to stdout: two spaces between columns, none at the end of a line. */
void ps_table_print(const ps_table *table);

/* Frees the cells. */
void ps_table_fini(ps_table *table);

#endif
