/* SPDX-License-Identifier: Apache-2.0 */
/* text_table.h - prints rows of text in columns as wide as they need to be. */
#ifndef PS_CLIENTS_PSGD_TEXT_TABLE_H
#define PS_CLIENTS_PSGD_TEXT_TABLE_H

#include <stddef.h>

enum { PS_TEXT_TABLE_COLUMNS_MAX = 12 };

typedef struct ps_text_table {
    size_t n_columns; /* at most PS_TEXT_TABLE_COLUMNS_MAX */
    char **cells;     /* n_cells strings, row by row */
    size_t n_cells, cap;
} ps_text_table;

/* Adds a copy of `text` as the next cell. Bytes that could move the terminal's cursor become '?'.
 * The first row is the heading. A struct with only n_columns set is an empty table. */
void ps_text_table_add(ps_text_table *table, const char *text);

/* Prints the table to stdout: two spaces between columns, none at the end of a line. */
void ps_text_table_print(const ps_text_table *table);

/* Frees the cells. */
void ps_text_table_fini(ps_text_table *table);

#endif
