/* SPDX-License-Identifier: Apache-2.0 */
/* work.h - one helper thread for what would hold up the loop: hashing, drawing
 * weights, files that have to be synced.
 */
#ifndef PS_COORDINATOR_WORK_H
#define PS_COORDINATOR_WORK_H

#include "common/rpc/loop.h"

typedef struct ps_task ps_task;
struct ps_task {
    void (*run)(ps_task *task);  /* on the helper thread; touches only what the task owns */
    void (*done)(ps_task *task); /* afterwards, on the loop's thread; may free the task */

    ps_event event; /* work.c's */
    ps_task *next;
};

typedef struct ps_work ps_work;

PS_MUST_USE ps_status ps_work_create(ps_loop *loop, ps_work **out);

/* Tasks run one after the other in the order given. Loop thread. */
void ps_work_submit(ps_work *work, ps_task *task);

/* Waits for the running task and drops the others unrun; then `done` of each
 * comes, while the loop still runs. NULL is allowed. */
void ps_work_destroy(ps_work *work);

#endif
