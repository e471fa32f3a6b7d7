/* SPDX-License-Identifier: Apache-2.0 */
/* server_tables.c - see server_tables.h. */
#include "services/pserver/server_tables.h"

#include "common/base/files.h"
#include "common/job/checkpoint_clocks.h"
#include "common/train/merge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct table_writer {
    FILE *out;
    const atomic_bool *stop;
} table_writer;

static ps_status write_piece(void *arg, const void *bytes, size_t len)
{
    table_writer *w = arg;

    if (atomic_load(w->stop)) {
        return ps_fail(PS_ABORTED, "the attempt is over");
    }
    return fwrite(bytes, 1, len, w->out) == len ? ps_ok() : ps_fail_errno(errno, "write");
}

ps_status ps_server_table_write(const ps_session *session, ps_tables *tables, uint32_t table,
                                const atomic_bool *stop)
{
    char name[PS_NAME_MAX + 1], path[sizeof session->folder + sizeof name];
    table_writer writer = {.stop = stop};
    ps_status st;

    ps_table_file_name(session->plan, table, session->rank, name, sizeof name);
    st = ps_path_join(path, sizeof path, session->folder, name);
    if (!ps_is_ok(&st)) {
        return st;
    }
    writer.out = fopen(path, "wbe");
    if (writer.out == NULL) {
        return ps_fail_errno(errno, "%s", name);
    }
    st = ps_table_save(ps_tables_at(tables, table), ps_merge_table_kind(session->plan), write_piece,
                       &writer);
    if (fclose(writer.out) != 0 && ps_is_ok(&st)) {
        st = ps_fail_errno(errno, "write");
    }
    return ps_wrap(st, "%s", name);
}

static ps_status copy_piece(void *arg, const void *bytes, size_t len)
{
    ps_buf *to = arg;

    if (to->cap - to->len < len) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "the file is larger than its rows");
    }
    memcpy(to->data + to->len, bytes, len);
    to->len += len;
    return ps_ok();
}

ps_status ps_server_table_keep(ps_node *node, ps_tables *tables, uint32_t number, uint64_t clock)
{
    enum { FRAME_BYTES = 64 << 10 }; /* room for the heads and ends of the file's sections */
    const ps_session *session = ps_node_session(node);
    ps_table *table = ps_tables_at(tables, number);
    ps_table_counters held = ps_table_count(table);
    ps_buf *bytes = ps_buf_try_create(held.bytes + FRAME_BYTES);
    char name[PS_NAME_MAX + 1];
    ps_status st;

    if (bytes == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for a copy of %llu bytes",
                       (unsigned long long)held.bytes);
    }
    st = ps_table_save(table, ps_merge_table_kind(session->plan), copy_piece, bytes);
    if (!ps_is_ok(&st)) {
        ps_buf_unref(bytes);
        return st;
    }
    ps_table_saved_name(session->plan, number, session->rank,
                        ps_checkpoint_step(session->plan, clock), name, sizeof name);
    ps_node_keep_bytes(node, name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL, bytes);
    return st;
}
