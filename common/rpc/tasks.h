/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.h - threads for what would hold up a loop: disks, hashes, drawing weights.
 *
 * A task is a member of the struct that it is about. Its `run` is called on one of the threads,
 * then its `done` on the loop's thread. Tasks begin in the order in which they became ready.
 * Tasks of one strand run one after the other, and their `done` come in that order too; all other
 * tasks may run at the same time, as far as there are threads.
 *
 * Whoever submits on behalf of a client asks ps_tasks_has_room first; whoever submits on its own
 * sees to it that its tasks are bounded by something else.
 */
#ifndef PS_COMMON_RPC_TASKS_H
#define PS_COMMON_RPC_TASKS_H

#include "common/rpc/loop.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ps_tasks ps_tasks;
typedef struct ps_task ps_task;
typedef struct ps_strand ps_strand;

struct ps_task {
    void (*run)(ps_task *task);  /* on a thread of the queue; touches only what the task owns */
    void (*done)(ps_task *task); /* afterwards, on the loop's thread; may free the task */
    bool runs_at_end;            /* is run also when the queue is being destroyed */

    bool was_run; /* the queue's, for `done`: false if the queue was destroyed before */
    ps_event event;
    ps_strand *strand;
    ps_task *next;
};

/* Tasks that run one after the other. Zero it. It may be freed when `done` of its last task is
 * called. */
struct ps_strand {
    ps_task *first, *last; /* the queue's: what waits behind the task that is ready or runs */
    bool is_busy;
};

/* Starts `threads` threads (at least one), whose tasks are answered on `loop`. `limit` is how many
 * tasks may wait before ps_tasks_has_room says no. */
PS_MUST_USE ps_status ps_tasks_create(ps_loop *loop, unsigned threads, size_t limit,
                                      ps_tasks **out);

/* Appends the task, to the strand if that is not NULL. Loop thread. The task belongs to the queue
 * until its `done` is called or ps_tasks_cancel returns true. */
void ps_tasks_submit(ps_tasks *tasks, ps_strand *strand, ps_task *task);

/* Takes a task back that has not begun: neither `run` nor `done` will be called. Returns false if
 * it runs, or has run: `done` will come. Loop thread. */
bool ps_tasks_cancel(ps_tasks *tasks, ps_task *task);

/* Returns whether fewer tasks than the limit wait, and the queue is not being destroyed. Any
 * thread. */
bool ps_tasks_has_room(ps_tasks *tasks);

/* Blocks until the tasks that run, and those that wait and have runs_at_end, are through; then
 * frees the queue. `done` of all tasks comes afterwards, for which the loop must still run: NULL is
 * allowed, and a task's `done` may not submit another one. */
void ps_tasks_destroy(ps_tasks *tasks);

#endif
