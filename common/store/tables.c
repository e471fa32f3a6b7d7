/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c - see tables.h. */
#include "common/store/tables.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

ps_tables *ps_tables_create(const ps_tables_conf *conf)
{
    ps_tables *t = ps_xcalloc(1, sizeof *t);

    assert(conf->table_count > 0);
    t->table_count = conf->table_count;
    t->keys_max = conf->keys_max;
    t->tick = conf->tick;
    t->tables = ps_xcalloc(conf->table_count, sizeof(ps_table *));
    for (uint32_t i = 0; i < conf->table_count; i++) {
        t->tables[i] = ps_table_create(&conf->tables[i]);
    }
    return t;
}

void ps_tables_destroy(ps_tables *t)
{
    if (t == NULL) {
        return;
    }
    for (uint32_t i = 0; i < t->table_count; i++) {
        ps_table_destroy(t->tables[i]);
    }
    free(t->tables);
    free(t->shrinks);
    free(t);
}

void ps_tables_shrink_at(ps_tables *t, const uint64_t *clocks, size_t count)
{
    assert(count <= PS_SHRINKS_MAX);
    free(t->shrinks);
    t->shrinks = ps_xcalloc(count + 1, sizeof *t->shrinks);
    if (count > 0) {
        memcpy(t->shrinks, clocks, count * sizeof *clocks);
    }
    t->shrink_count = count;
}

ps_status ps_tables_pull(const ps_tables *t, const uint64_t *keys, size_t count, float *out)
{
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < t->table_count && ps_is_ok(&st); i++) {
        st = ps_table_pull_rows(t->tables[i], keys, count, out);
        out += count * ps_table_width(t->tables[i]);
    }
    return st;
}

ps_table *ps_tables_at(const ps_tables *t, uint32_t table)
{
    assert(table < t->table_count);
    return t->tables[table];
}

ps_table_counters ps_tables_count(const ps_tables *tables)
{
    ps_table_counters sum = {0};

    for (uint32_t i = 0; i < tables->table_count; i++) {
        ps_table_counters one = ps_table_count(tables->tables[i]);

        ps_table_counters_add(&sum, &one);
    }
    return sum;
}
