/* SPDX-License-Identifier: Apache-2.0 */
/* driver_adopted.c - checkpoints of an attempt that an earlier coordinator began, whose ranks are
 * in step. The earlier coordinator may have told nodes of a checkpoint, whose rows count from the
 * newest checkpoint that is stored. Nodes go on with it. So no other checkpoint is named before
 * nodes have reached it, or have said that they have it. */
#include "services/coordinator/driver_impl.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "services/coordinator/io/checkpoint_store.h"

#include <stdio.h>
#include <stdlib.h>

/* Number of heartbeats for which an adopted attempt names no checkpoint: so many as a checkpoint is
 * named ahead, and two in which nodes find the new coordinator. */
enum { SILENT_BEATS = 5 };

/* A task that reads the newest checkpoint of an adopted attempt. */
typedef struct looking {
    ps_task task;
    ps_attempt *a;
    char job_folder[PS_FOLDER_MAX];
    uint64_t clock;
    ps_chain chain;
} looking;

static void run_look(ps_task *task)
{
    looking *l = PS_CONTAINER_OF(task, looking, task);

    ps_checkpoint_find_chain(l->job_folder, &l->clock, &l->chain);
}

static void looked(ps_task *task)
{
    looking *l = PS_CONTAINER_OF(task, looking, task);
    ps_attempt *a = l->a;

    if (a->job && a->checkpoints.is_running) {
        a->checkpoints.is_looking = false;
        a->checkpoints.cuts.done = l->clock;
        a->checkpoints.chain = l->chain;
    }
    free(l);
    ps_attempt_settle(a);
}

void ps_checkpoints_look(ps_attempt *a)
{
    looking *l = ps_xcalloc(1, sizeof *l);

    *l = (looking){.task = {.run = run_look, .done = looked}, .a = a};
    snprintf(l->job_folder, sizeof l->job_folder, "%s", a->folder);
    a->checkpoints.is_looking = true;
    a->checkpoints.silent_until_us =
        ps_coordinator_now_us(a->c) + SILENT_BEATS * a->c->conf.heartbeat_us;
    a->pending++;
    ps_tasks_submit(a->c->tasks, NULL, &l->task);
}

bool ps_checkpoints_are_silent(const ps_attempt *a)
{
    return a->checkpoints.is_looking ||
           (a->checkpoints.cuts.stage == PS_CUT_NONE &&
            ps_coordinator_now_us(a->c) < a->checkpoints.silent_until_us);
}

void ps_checkpoints_adopt(ps_attempt *a, uint64_t has)
{
    ps_cuts *cuts = &a->checkpoints.cuts;

    if (a->checkpoints.silent_until_us > 0 && !a->checkpoints.is_looking && has > cuts->done &&
        has < a->plan->total_clocks && !cuts->wants_stay && cuts->stage == PS_CUT_NONE) {
        ps_cuts_name(cuts, has);
        a->checkpoints.named_us = ps_coordinator_now_us(a->c);
    }
}
