/* SPDX-License-Identifier: Apache-2.0 */
/* tables_file.c - see tables_file.h. */
#include "common/store/tables_file.h"

#include "common/base/xalloc.h"

#include <inttypes.h>
#include <stdlib.h>

struct ps_tables_files {
    ps_tables *tables;
    bool (*is_whole)[PS_SHARDS]; /* (table_count): whether a whole file covered the virtual shard */
};

ps_tables_files *ps_tables_files_create(ps_tables *tables)
{
    ps_tables_files *files = ps_xcalloc(1, sizeof *files);

    files->tables = tables;
    files->is_whole = ps_xcalloc(tables->table_count, sizeof *files->is_whole);
    return files;
}

void ps_tables_files_destroy(ps_tables_files *files)
{
    if (files != NULL) {
        free(files->is_whole);
        free(files);
    }
}

static ps_status check_head(const ps_tables_files *files, const ps_table_head *head)
{
    uint32_t count = files->tables->table_count;
    ps_status st;

    if (head->table >= count) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "of table %" PRIu32 "; this model has %" PRIu32 ", from 0 on", head->table,
                       count);
    }
    st = ps_table_check_head(ps_tables_at(files->tables, head->table), head);
    for (uint32_t s = 0; ps_is_ok(&st) && head->kind == PS_TABLE_CHANGES && s < PS_SHARDS; s++) {
        if (head->here[s] && !files->is_whole[head->table][s]) {
            st = ps_fail(PS_FAILED_PRECONDITION,
                         "changes of table %" PRIu32 ", virtual shard %" PRIu32
                         ", without a whole file of it before",
                         head->table, s);
        }
    }
    return st;
}

static void mark(ps_tables_files *files, const ps_table_head *head)
{
    for (uint32_t s = 0; s < PS_SHARDS; s++) {
        files->is_whole[head->table][s] = files->is_whole[head->table][s] || head->here[s];
    }
}

/* Checks the head of a file and marks the virtual shards that it covers. is_whole: `bytes` are the
 * whole file, and its rows are loaded too. */
static ps_status look_at(ps_tables_files *files, const uint8_t *bytes, size_t len, bool is_whole)
{
    ps_table_head head;
    ps_status st = ps_table_read_head(bytes, len, &head);

    if (ps_is_ok(&st)) {
        st = check_head(files, &head);
    }
    if (ps_is_ok(&st) && is_whole) {
        st = ps_table_load(ps_tables_at(files->tables, head.table), bytes, len);
    }
    if (ps_is_ok(&st)) {
        mark(files, &head);
    }
    return st;
}

ps_status ps_tables_files_see(ps_tables_files *files, const uint8_t *bytes, size_t len)
{
    return look_at(files, bytes, len, false);
}

ps_status ps_tables_files_take(ps_tables_files *files, const uint8_t *bytes, size_t len)
{
    return look_at(files, bytes, len, true);
}

ps_status ps_tables_files_end(ps_tables_files *files)
{
    uint32_t count = files->tables->table_count;

    for (uint32_t t = 0; t < count; t++) {
        for (uint32_t s = 0; s < PS_SHARDS; s++) {
            if (!files->is_whole[t][s]) {
                return ps_fail(PS_FAILED_PRECONDITION,
                               "no whole file of table %" PRIu32 " has virtual shard %" PRIu32
                               ": one of each server that left any is needed",
                               t, s);
            }
        }
    }
    for (uint32_t t = 0; t < count; t++) {
        ps_table_settle(ps_tables_at(files->tables, t));
    }
    return ps_ok();
}
