/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - rows of text in columns as wide as they need to be. */
#ifndef PS_CLIENTS_PSGD_TABLE_H
#define PS_CLIENTS_PSGD_TABLE_H

#include <stddef.h>

enum { PS_TABLE_COLUMNS_MAX = 8 };

typedef struct ps_table {
    size_t n_columns; /* at most PS_TABLE_COLUMNS_MAX */
    char **cells;     /* (n_cells), row by row */
    size_t n_cells, cap;
} ps_table;

/* {.n_columns = ...} is an empty one. Adds the next cell of the last row, a
 * copy; bytes that could move a cursor become '?'. The first row is the head. */
void ps_table_add(ps_table *table, const char *text);

/* To stdout: two spaces between columns, none at the end of a line. */
void ps_table_print(const ps_table *table);
void ps_table_fini(ps_table *table);

#endif
