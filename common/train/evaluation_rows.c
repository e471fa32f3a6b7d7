/* SPDX-License-Identifier: Apache-2.0 */
/* evaluation_rows.c - see evaluation_rows.h. */
#include "common/train/evaluation_rows.h"

#include "common/base/xalloc.h"
#include "common/train/batch_rows.h"
#include "common/train/merge.h"

#include <stdlib.h>

struct ps_evaluation_rows {
    ps_tables *tables;
    ps_batch_rows batch;
};

ps_status ps_evaluation_rows_open(const ps_plan *plan, const char *const *paths, size_t count,
                                  ps_evaluation_rows **out)
{
    ps_evaluation_rows *rows = ps_xcalloc(1, sizeof *rows);
    ps_status st = ps_batch_rows_init(&rows->batch, plan);

    rows->tables = ps_merge_values(plan);
    if (ps_is_ok(&st)) {
        st = ps_merge_read_tables(rows->tables, paths, count, false);
    }
    if (!ps_is_ok(&st)) {
        ps_evaluation_rows_close(rows);
        return st;
    }
    *out = rows;
    return st;
}

void ps_evaluation_rows_close(ps_evaluation_rows *rows)
{
    if (rows != NULL) {
        ps_tables_destroy(rows->tables);
        ps_batch_rows_fini(&rows->batch);
        free(rows);
    }
}

ps_status ps_evaluation_rows_put(ps_evaluation_rows *rows, float *weights, float *x, size_t n)
{
    ps_batch_rows *b = &rows->batch;
    ps_status st = ps_batch_rows_read(b, x, n);

    if (ps_is_ok(&st)) {
        st = ps_tables_pull(rows->tables, b->keys, b->count, b->rows);
    }
    if (ps_is_ok(&st)) {
        ps_batch_rows_put(b, weights, x, n);
    }
    return st;
}

ps_status ps_evaluation_rows_pull(const ps_evaluation_rows *rows, const uint64_t *keys,
                                  size_t count, float *out)
{
    return ps_tables_pull(rows->tables, keys, count, out);
}
