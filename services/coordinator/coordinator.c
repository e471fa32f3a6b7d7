/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator.c - see coordinator.h. */
#include "services/coordinator/coordinator.h"

#include "common/base/clock.h"

static const int64_t soon_us = 2000;

ps_init_where ps_coordinator_init_where(const ps_coordinator *c)
{
    return (ps_init_where){
        .reader = c->reader, .data_dir = c->conf.data_dir, .data_path = c->conf.data_path};
}

ps_room *ps_coordinator_checkpoint_room(ps_coordinator *c)
{
    return c->checkpoint_dir != NULL ? &c->checkpoint_room : &c->room;
}

int64_t ps_coordinator_now_us(ps_coordinator *c)
{
    return ps_awake_now_us(&c->awake, ps_clock_us());
}

void ps_coordinator_give_memory(ps_coordinator *c, uint64_t bytes)
{
    c->memory_taken -= bytes;
    if (bytes > 0) {
        ps_coordinator_schedule(c);
    }
}

void ps_coordinator_write(ps_coordinator *c, ps_strand *strand, ps_task *task)
{
    if (c->tasks) {
        ps_tasks_submit(c->tasks, strand, task);
        return;
    }
    task->was_run = true;
    task->run(task);
    task->done(task);
}

void ps_coordinator_schedule(ps_coordinator *c)
{
    if (!c->soon.armed && !c->is_stopping) {
        ps_loop_after(c->loop, &c->soon, soon_us);
    }
}
