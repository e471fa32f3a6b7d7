/* SPDX-License-Identifier: Apache-2.0 */
/* plot_columns.c - see plot_columns.h. */
#include "clients/psgd/plot_columns.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

void ps_plot_columns_init(ps_plot_columns *columns, double lo, double hi, size_t n)
{
    assert(n > 0);
    *columns =
        (ps_plot_columns){.lo = lo, .hi = hi, .n = n, .at = ps_xcalloc(n, sizeof *columns->at)};
}

void ps_plot_columns_add(ps_plot_columns *columns, double x, double value)
{
    double place = (x - columns->lo) / (columns->hi - columns->lo) * (double)columns->n;
    ps_plot_column *c;
    size_t i;

    if (!(x >= columns->lo && x <= columns->hi) || !isfinite(value)) {
        return;
    }
    i = place > 0 ? (size_t)place : 0; /* if lo equals hi, `place` is NaN: use the first column */
    c = &columns->at[i < columns->n ? i : columns->n - 1];
    c->least = c->count == 0 || value < c->least ? value : c->least;
    c->greatest = c->count == 0 || value > c->greatest ? value : c->greatest;
    c->count++;
    c->x += (x - c->x) / (double)c->count;
    c->mean += (value - c->mean) / (double)c->count;
}

void ps_plot_columns_fini(ps_plot_columns *columns)
{
    free(columns->at);
    *columns = (ps_plot_columns){0};
}
