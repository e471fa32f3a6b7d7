/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.h - threads for work that would block a loop: disk access, hashes, drawing initial weights.
 *
 * A task is a member of the struct that it is about. Its `run` is called on one of the threads,
 * then its `done` on the loop's thread. Tasks begin in the order in which they became ready. Tasks
 * of one strand run one after the other, and their `done` is called in the same order. Other tasks
 * may run at the same time, one on each thread.
 *
 * Tasks that have run wait in memory until the loop calls their `done`. While PS_TASKS_UNANSWERED
 * of them wait, no further task begins.
 *
 * A caller that submits a task for a client asks ps_tasks_has_room first. A caller that submits one
 * for itself must bound its tasks by other means. */
#ifndef PS_COMMON_RPC_TASKS_H
#define PS_COMMON_RPC_TASKS_H

#include "common/rpc/loop.h"

#include <stdbool.h>
#include <stddef.h>

/* While so many tasks have run and wait for their `done`, no further one begins. */
enum { PS_TASKS_UNANSWERED = 16 };

typedef struct ps_tasks ps_tasks;
typedef struct ps_task ps_task;
typedef struct ps_strand ps_strand;

struct ps_task {
    /* called on a thread of the queue; may use only what the task owns */
    void (*run)(ps_task *task);
    void (*done)(ps_task *task); /* called after `run`, or without it (was_run), on the loop's
                                  * thread; may free the task */
    bool runs_at_end;            /* the task runs even if the queue is being destroyed */

    /* set by the queue for `done`: false if the queue was destroyed before the task ran */
    bool was_run;
    ps_tasks *queue;
    ps_event event;
    ps_strand *strand;
    ps_task *next;
};

/* A chain of tasks that run one after the other. Zero it before use. It may be freed when `done` of
 * its last task is called. */
struct ps_strand {
    ps_task *first, *last; /* used by the queue: tasks after the one that is ready or running */
    bool is_busy;
};

/* Starts `threads` threads, at least one. `loop` is the loop on which `done` is called. `limit` is
 * the number of waiting tasks from which on ps_tasks_has_room returns false. */
PS_MUST_USE ps_status ps_tasks_create(ps_loop *loop, unsigned threads, size_t limit,
                                      ps_tasks **out);

/* Appends a task, to `strand` unless that is NULL. The queue owns the task until its `done` is
 * called. Any thread. */
void ps_tasks_submit(ps_tasks *tasks, ps_strand *strand, ps_task *task);

/* Returns whether fewer tasks than the limit wait and the queue is not being destroyed. Any
 * thread. */
bool ps_tasks_has_room(ps_tasks *tasks);

/* Blocks until running tasks, and waiting tasks with runs_at_end, have ended. `done` of tasks that
 * still lack it is called afterwards, so the loop must still run; the queue is freed after the last
 * of them. A task's `done` must not submit another task then. NULL is allowed. */
void ps_tasks_destroy(ps_tasks *tasks);

#endif
