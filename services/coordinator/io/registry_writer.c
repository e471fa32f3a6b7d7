/* SPDX-License-Identifier: Apache-2.0 */
/* registry_writer.c - see registry_writer.h. */
#include "services/coordinator/io/registry_writer.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/rpc/tasks.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct list {
    ps_change *first, *last;
} list;

struct ps_writer {
    ps_registry *registry;
    ps_loop *loop;
    ps_tasks *tasks; /* a pool with one thread */
    ps_task task;    /* stores `batch`; submitted as long as `batch` is not empty */
    list waiting, batch;
    ps_event late; /* reports what ps_writer_destroy stored, then frees the writer */
};

static void append(list *l, ps_change *change)
{
    change->next = NULL;
    *(l->first ? &l->last->next : &l->first) = change;
    l->last = change;
}

/* --- on the writer's thread ---------------------------------------------------- */

static void die_if_told(const ps_change *change)
{
    if (change->kills && ps_is_ok(&change->status)) {
        kill(getpid(), SIGKILL); /* a fault for tests */
    }
}

/* Makes the changes from `first` up to, but not including, `end` in one transaction. */
static ps_status store(ps_registry *r, ps_change *first, const ps_change *end, bool is_relaxed)
{
    ps_status st, ended;

    ps_registry_relax(r, is_relaxed);
    st = ps_registry_begin(r);
    if (!ps_is_ok(&st)) {
        return st;
    }
    for (ps_change *at = first; at != end && ps_is_ok(&st); at = at->next) {
        at->status = at->apply(at, r);
        st = at->status;
    }
    ended = ps_registry_end(r, &st);
    return ps_is_ok(&st) ? ended : st;
}

/* Stores the changes from `first` on that can share a transaction: up to one that is_alone, to one
 * that kills, or to as many as the registry takes. Returns the first change after them. */
static ps_change *store_run(ps_registry *r, ps_change *first)
{
    ps_change *end = first;
    size_t left = ps_registry_changes_max(r);
    bool is_relaxed = true;
    ps_status st;

    if (first->is_alone) {
        ps_registry_relax(r, false);
        first->status = first->apply(first, r);
        return first->next;
    }
    for (; end && !end->is_alone && left > 0; left--) {
        bool kills = end->kills;

        is_relaxed = is_relaxed && end->is_relaxed;
        end = end->next;
        if (kills) {
            break;
        }
    }
    st = store(r, first, end, is_relaxed);
    for (ps_change *at = first; at != end; at = at->next) {
        at->status = ps_is_ok(&st) || first->next == end
                         ? st
                         /* After a failed transaction of several changes, each gets its own, since
                          * one change may be at fault. */
                         : store(r, at, at->next, at->is_relaxed);
        die_if_told(at);
    }
    return end;
}

static void store_all(ps_registry *r, ps_change *first)
{
    while (first) {
        first = store_run(r, first);
    }
}

static void run(ps_task *task)
{
    ps_writer *writer = PS_CONTAINER_OF(task, ps_writer, task);

    store_all(writer->registry, writer->batch.first);
}

/* --- on the loop's thread -------------------------------------------------------- */

static void answer(list *l)
{
    ps_change *next;

    for (ps_change *at = l->first; at; at = next) {
        next = at->next;
        at->done(at);
    }
}

static void begin_batch(ps_writer *writer)
{
    writer->batch = writer->waiting;
    writer->waiting = (list){0};
    ps_tasks_submit(writer->tasks, NULL, &writer->task);
}

static void done(ps_task *task)
{
    ps_writer *writer = PS_CONTAINER_OF(task, ps_writer, task);
    list stored = writer->batch;

    writer->batch = (list){0};
    if (writer->tasks && writer->waiting.first) {
        /* The next batch begins before the results are reported, so that the disk is not idle. */
        begin_batch(writer);
    }
    answer(&stored);
}

static void answer_late(ps_event *event, bool ok)
{
    ps_writer *writer = PS_CONTAINER_OF(event, ps_writer, late);

    (void)ok;
    answer(&writer->waiting);
    free(writer);
}

ps_status ps_writer_create(ps_loop *loop, ps_registry *registry, ps_writer **out)
{
    ps_writer *writer = ps_xcalloc(1, sizeof *writer);
    ps_status st = ps_tasks_create(loop, 1, SIZE_MAX, &writer->tasks);

    if (!ps_is_ok(&st)) {
        free(writer);
        return st;
    }
    writer->loop = loop;
    writer->registry = registry;
    writer->task.run = run;
    writer->task.done = done;
    writer->task.runs_at_end = true;
    writer->late.fire = answer_late;
    *out = writer;
    return ps_ok();
}

void ps_writer_submit(ps_writer *writer, ps_change *change)
{
    append(&writer->waiting, change);
    if (!writer->batch.first) {
        begin_batch(writer);
    }
}

void ps_writer_destroy(ps_writer *writer)
{
    if (!writer) {
        return;
    }
    ps_tasks_destroy(writer->tasks);
    writer->tasks = NULL;
    store_all(writer->registry, writer->waiting.first);
    ps_loop_post(writer->loop, &writer->late); /* fires after done() of the batch before */
}
