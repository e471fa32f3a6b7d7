/* SPDX-License-Identifier: Apache-2.0 */
/* text_table.c - see text_table.h. */
#include "clients/psgd/text_table.h"

#include "common/base/printable.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ps_text_table_add(ps_text_table *table, const char *text)
{
    char *cell = ps_xstrdup(text);

    ps_printable(cell);
    if (table->n_cells == table->cap) {
        table->cap = table->cap == 0 ? 64 : table->cap * 2;
        table->cells = ps_xrealloc(table->cells, table->cap * sizeof *table->cells);
    }
    table->cells[table->n_cells++] = cell;
}

void ps_text_table_print(const ps_text_table *table)
{
    size_t columns = table->n_columns;
    size_t width[PS_TEXT_TABLE_COLUMNS_MAX] = {0};

    assert(columns > 0 && columns <= PS_TEXT_TABLE_COLUMNS_MAX && table->n_cells % columns == 0);
    for (size_t i = 0; i < table->n_cells; i++) {
        size_t n = strlen(table->cells[i]);

        width[i % columns] = n > width[i % columns] ? n : width[i % columns];
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        if (i % columns + 1 == columns) {
            puts(table->cells[i]);
        } else {
            printf("%-*s  ", (int)width[i % columns], table->cells[i]);
        }
    }
}

void ps_text_table_fini(ps_text_table *table)
{
    for (size_t i = 0; i < table->n_cells; i++) {
        free(table->cells[i]);
    }
    free(table->cells);
    table->cells = NULL;
    table->n_cells = table->cap = 0;
}
