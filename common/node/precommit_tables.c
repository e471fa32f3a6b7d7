/* SPDX-License-Identifier: Apache-2.0 */
/* precommit_tables.c - the packages of PreCommit with files of sparse tables.
 *
 * A file is put together from its messages. A task then loads its rows into this server's tables;
 * meanwhile the stream is not read. If the attempt ends during a load, the load frees tables and
 * file. */
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/plan.h"
#include "common/node/precommit_impl.h"
#include "common/train/merge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct ps_loading {
    ps_task task;
    ps_node *node;
    ps_precommit *pc; /* NULL: the PreCommit has ended */
    /* set and owned once pc is NULL; before, the session has the tables */
    ps_tables *tables[PS_REPLICAS_MAX];
    ps_tables_files *files[PS_REPLICAS_MAX]; /* owned once pc is NULL; before, pc's */
    ps_buf *file;
    ps_status status; /* only the task uses it until the task is done */
};

bool ps_precommit_wants_tables(const ps_precommit *pc)
{
    char *const *from;

    return !ps_precommit_is_worker(pc) && ps_table_inits(pc->session->plan, &from) > 0;
}

/* Makes the tables of the server's own shards, and of those that it has copies of. */
static void make_tables(ps_precommit *pc)
{
    ps_session *s = pc->session;
    const ps_placement *placement = &s->placement;
    uint32_t of[PS_REPLICAS_MAX] = {s->rank};
    size_t count = 1;

    if (placement->has_copies) {
        of[count++] = ps_placement_copied(placement, s->rank);
    }
    for (size_t i = 0; i < count; i++) {
        s->tables[i] = ps_merge_tables(s->plan, placement, of[i]);
        pc->tables[i] = ps_tables_files_create(s->tables[i]);
    }
}

static ps_status begin_file(ps_precommit *pc, uint64_t size)
{
    ps_status st = ps_table_check_size(size);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (pc->tables[0] == NULL) {
        make_tables(pc);
    }
    pc->table_file = ps_buf_try_create((size_t)size);
    return pc->table_file != NULL
               ? ps_ok()
               : ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for a file of %" PRIu64 " bytes", size);
}

static void load(ps_task *task)
{
    ps_loading *l = PS_CONTAINER_OF(task, ps_loading, task);

    l->status = ps_ok();
    for (size_t i = 0; i < PS_REPLICAS_MAX && l->files[i] != NULL && ps_is_ok(&l->status); i++) {
        l->status = ps_tables_files_take(l->files[i], l->file->data, l->file->len);
    }
}

static void go_on(ps_precommit *pc, ps_status st)
{
    pc->load = NULL;
    if (ps_is_ok(&st)) {
        pc->table_files++;
        ps_precommit_read(pc);
    } else {
        ps_precommit_fail(pc, ps_wrap(st, "table file %u", pc->table_files), "BAD_TABLES");
    }
}

static void loaded(ps_task *task)
{
    ps_loading *l = PS_CONTAINER_OF(task, ps_loading, task);
    ps_node *node = l->node;

    ps_buf_unref(l->file);
    if (l->pc != NULL) {
        go_on(l->pc, l->status);
    } else {
        for (size_t i = 0; i < PS_REPLICAS_MAX; i++) {
            ps_tables_files_destroy(l->files[i]);
            ps_tables_destroy(l->tables[i]);
        }
    }
    free(l);
    ps_node_gone(node);
}

/* Starts the task that loads the complete table file. */
static void start_load(ps_precommit *pc)
{
    ps_loading *l = ps_xcalloc(1, sizeof *l);

    l->task.run = load;
    l->task.done = loaded;
    l->node = pc->node;
    l->pc = pc;
    memcpy(l->files, pc->tables, sizeof l->files);
    l->file = pc->table_file;
    pc->table_file = NULL;
    pc->load = l;
    pc->node->alive++;
    ps_log(PS_LOG_INFO, "node", "table file %u: %zu bytes, loading", pc->table_files, l->file->len);
    ps_tasks_submit(pc->node->tasks, NULL, &l->task);
}

void ps_precommit_leave_tables(ps_precommit *pc)
{
    ps_buf_unref(pc->table_file);
    for (size_t i = 0; i < PS_REPLICAS_MAX; i++) {
        if (pc->load == NULL) {
            ps_tables_files_destroy(pc->tables[i]);
        } else {
            pc->load->tables[i] = pc->session->tables[i];
            pc->session->tables[i] = NULL;
        }
    }
    if (pc->load != NULL) {
        pc->load->pc = NULL;
    }
}

static ps_status take_piece(ps_precommit *pc, const Psgd__V1__TableChunk *chunk,
                            ps_payload *payload)
{
    size_t n = ps_payload_len(payload), in = pc->table_file != NULL ? pc->table_file->len : 0;
    ps_status st = ps_ok();

    if (n == 0 || chunk->file != pc->table_files || chunk->offset != in ||
        (pc->table_file != NULL && chunk->size != pc->table_file->cap)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%zu bytes at %" PRIu64 " of table file %u; the piece at %zu of file %u is "
                       "the next one",
                       n, chunk->offset, chunk->file, in, pc->table_files);
    }
    if (pc->table_file == NULL) {
        st = begin_file(pc, chunk->size);
    }
    if (ps_is_ok(&st) && n > pc->table_file->cap - in) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%zu bytes at %zu of a table file of %zu", n, in,
                     pc->table_file->cap);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    ps_precommit_copy(pc, payload, 0, n, pc->table_file->data + in);
    pc->table_file->len += n;
    return st;
}

void ps_precommit_take_table(ps_precommit *pc, const Psgd__V1__TableChunk *chunk,
                             ps_payload *payload)
{
    ps_status st = take_piece(pc, chunk, payload);

    if (!ps_is_ok(&st)) {
        ps_precommit_fail(pc, st, "BAD_TABLES");
    } else if (pc->table_file->len == pc->table_file->cap) {
        start_load(pc);
    } else {
        ps_precommit_read(pc);
    }
}

ps_status ps_precommit_end_tables(ps_precommit *pc)
{
    ps_status st = ps_ok();

    if (!ps_precommit_wants_tables(pc)) {
        return st;
    }
    if (pc->tables[0] == NULL || pc->table_file != NULL) {
        return ps_fail(PS_FAILED_PRECONDITION, "sealed without all files of the tables");
    }
    for (size_t i = 0; i < PS_REPLICAS_MAX && pc->tables[i] != NULL && ps_is_ok(&st); i++) {
        st = ps_tables_files_end(pc->tables[i]);
    }
    return st;
}
