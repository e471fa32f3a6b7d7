/* SPDX-License-Identifier: Apache-2.0 */
/* held_checkpoint.c - the checkpoint that a node holds, in memory, until the coordinator has
 * collected it or does not want it any more. A node holds one at a time: the coordinator names the
 * next one when the held one is stored. If all ranks are in step, nobody need name the first one:
 * its step follows from the job, and every node takes it by itself. */
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "common/node/node_impl.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* longest time for a copy of the process to write a file of a checkpoint in memory */
static const int64_t file_us = 120000000;

static void free_files(ps_node *node)
{
    for (uint32_t i = 0; i < node->checkpoint.count; i++) {
        ps_snapshot_drop(&node->checkpoint.files[i].content);
    }
    if (node->checkpoint.has_common) {
        node->checkpoint.has_common = false;
        ps_snapshot_drop(&node->checkpoint.common);
    }
    node->checkpoint.count = node->checkpoint.pending = 0;
    node->checkpoint.has_all = node->checkpoint.is_complete = false;
    node->cut_number++;
}

void ps_checkpoint_drop(ps_node *node)
{
    free_files(node);
    free(node->checkpoint.files);
    memset(&node->checkpoint, 0, sizeof node->checkpoint);
}

static bool has_session(const ps_node *node)
{
    return node->session != NULL && !node->is_releasing && node->hooks->cut != NULL;
}

/* Drops the files of the held checkpoint, and makes room for the files of one at `clock`. Clock 0:
 * only drops. */
static void make_room(ps_node *node, uint64_t clock, bool stays)
{
    free_files(node);
    node->checkpoint.clock = clock;
    node->checkpoint.stays = stays;
    if (clock > 0 && node->checkpoint.files == NULL) {
        node->checkpoint.files =
            ps_xcalloc(PS_NODE_CHECKPOINT_FILES, sizeof *node->checkpoint.files);
    }
}

/* Asks the role for a checkpoint at `clock`, whose rows may count from `base`, in place of the one
 * that is held. Clock 0: drops the held one, asks for none, and lets ranks go on that stand still.
 */
static void ask(ps_node *node, uint64_t clock, uint64_t base, bool stays)
{
    make_room(node, clock, stays);
    node->hooks->cut(node->state, clock, base, stays);
}

void ps_checkpoint_begin(ps_node *node)
{
    uint64_t clock = has_session(node) && ps_plan_is_in_step(node->session->plan)
                         ? ps_checkpoint_next(node->session->plan, node->session->first_clock)
                         : 0;

    if (clock > 0) {
        ask(node, clock, 0, false);
    }
}

/* Returns whether the job goes on by another attempt after the loss of this node, and can do so
 * from a checkpoint, on other nodes. */
static bool goes_on(const ps_node *node)
{
    const Psgd__V1__RecoverySpec *recovery = node->session->plan->spec->recovery;
    Psgd__V1__LossAction action = node->hooks->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER
                                      ? recovery->on_worker_loss
                                      : recovery->on_server_loss;

    return ps_loss_restarts(action) && ps_plan_move_lacks(node->session->plan) == NULL;
}

bool ps_checkpoint_is_wanted(const ps_node *node)
{
    return has_session(node) && node->agent.phase == PS_PHASE_RUNNING &&
           (node->session->plan->spec->checkpoint != NULL || goes_on(node));
}

ps_status ps_checkpoint_rescue(ps_node *node, uint64_t clock, bool of_copies)
{
    ps_status taken = ps_fail(PS_UNAVAILABLE, "the checkpoint is being taken");

    if (!has_session(node) || node->hooks->rescue == NULL ||
        !ps_plan_rescues(node->session->plan) ||
        (of_copies && !node->session->placement.has_copies)) {
        return ps_fail(PS_FAILED_PRECONDITION, "nothing here can be rescued");
    }
    if (node->checkpoint.rescued != clock || node->checkpoint.is_of_copies != of_copies) {
        node->checkpoint.missed = 0;
        make_room(node, clock, false);
        node->checkpoint.rescued = clock;
        node->checkpoint.is_of_copies = of_copies;
        node->hooks->rescue(node->state, clock, of_copies);
    }
    if (node->checkpoint.missed == clock) {
        return ps_fail(PS_FAILED_PRECONDITION, "there is no state at clock %llu",
                       (unsigned long long)clock);
    }
    return node->checkpoint.is_complete ? ps_ok() : taken;
}

/* Returns whether the node stands still at its checkpoint but the coordinator no longer asks for
 * that, perhaps because another coordinator leads now, which does not know of the checkpoint. */
static bool is_let_go(const ps_node *node, const Psgd__V1__HeartbeatResponse *reply)
{
    return node->checkpoint.stays && !reply->checkpoint_stays;
}

void ps_checkpoint_obey(ps_node *node, const Psgd__V1__HeartbeatResponse *reply)
{
    if (!has_session(node) || node->agent.phase != PS_PHASE_RUNNING) {
        return;
    }
    if (reply->checkpoint > 0 && reply->checkpoint != node->checkpoint.clock &&
        reply->checkpoint != node->checkpoint.missed) {
        ask(node, reply->checkpoint, reply->checkpoint_base, reply->checkpoint_stays);
    } else if (node->checkpoint.clock > 0 &&
               (reply->checkpoint_done >= node->checkpoint.clock || is_let_go(node, reply))) {
        ask(node, 0, 0, false);
    }
    if (reply->checkpoint_done > 0 && node->hooks->forget != NULL) {
        node->hooks->forget(node->state, reply->checkpoint_done);
    }
    if (reply->checkpoint_settled) {
        ps_node_last_checkpoint(node, reply->checkpoint_step);
    }
}

void ps_checkpoint_tell(const ps_node *node, Psgd__V1__HeartbeatRequest *request)
{
    request->checkpoint = node->checkpoint.is_complete ? node->checkpoint.clock : 0;
    request->checkpoint_missed = node->checkpoint.missed;
    request->wants_checkpoint = node->wants_checkpoint;
}

/* A file that is being written. */
typedef struct writing {
    ps_task task;
    ps_node *node;
    uint64_t number; /* value of node->cut_number when this began */
    bool is_common;  /* `file` is checkpoint.common */
    ps_held_file file;
    ps_status status;
} writing;

static void wait_for_file(ps_task *task)
{
    writing *w = PS_CONTAINER_OF(task, writing, task);

    w->status = ps_snapshot_wait(&w->file.content, file_us);
}

/* Logs how much memory the files of the checkpoint take that have bytes in common. */
static void log_memory(const ps_node *node)
{
    uint64_t bytes = node->checkpoint.has_common ? ps_snapshot_size(&node->checkpoint.common) : 0;

    for (uint32_t i = 0; i < node->checkpoint.count; i++) {
        bytes += ps_snapshot_size(&node->checkpoint.files[i].content);
    }
    if (node->checkpoint.has_common) {
        ps_log(PS_LOG_INFO, "node", "holds %u files in %llu bytes of memory",
               node->checkpoint.count, (unsigned long long)bytes);
    }
}

/* Marks the checkpoint complete, and tells the coordinator by a heartbeat at once, if the role has
 * given all files and all are written. */
static void look(ps_node *node)
{
    if (node->checkpoint.has_all && node->checkpoint.pending == 0) {
        node->checkpoint.is_complete = true;
        log_memory(node);
        ps_node_hurry(node);
    }
}

static void is_written(ps_task *task)
{
    writing *w = PS_CONTAINER_OF(task, writing, task);
    ps_node *node = w->node;

    if (w->number != node->cut_number) { /* the checkpoint of this file was dropped meanwhile */
        ps_snapshot_drop(&w->file.content);
    } else if (!ps_is_ok(&w->status)) {
        ps_snapshot_drop(&w->file.content);
        ps_node_checkpoint_fail(node, node->checkpoint.clock, &w->status);
    } else {
        if (w->is_common) {
            assert(!node->checkpoint.has_common);
            node->checkpoint.has_common = true;
            node->checkpoint.common = w->file.content;
        } else {
            assert(node->checkpoint.count < PS_NODE_CHECKPOINT_FILES);
            node->checkpoint.files[node->checkpoint.count++] = w->file;
        }
        node->checkpoint.pending--;
        look(node);
    }
    free(w);
    ps_node_gone(node);
}

/* Waits for what is being written of the checkpoint at `clock`, and adds it. */
static void await(ps_node *node, uint64_t clock, ps_held_file file, bool is_common)
{
    writing *w;

    if (clock != node->checkpoint.clock) {
        ps_snapshot_drop(&file.content);
        return;
    }
    w = ps_xcalloc(1, sizeof *w);
    w->task = (ps_task){.run = wait_for_file, .done = is_written};
    w->node = node;
    w->number = node->cut_number;
    w->status = ps_fail(PS_CANCELLED, "the node is stopping");
    w->is_common = is_common;
    w->file = file;
    node->checkpoint.pending++;
    node->alive++;
    ps_tasks_submit(node->cut_tasks, NULL, &w->task);
}

void ps_node_checkpoint_add(ps_node *node, uint64_t clock, const char *name, ps_snapshot content)
{
    ps_held_file file = {.content = content};

    snprintf(file.name, sizeof file.name, "%s", name);
    await(node, clock, file, false);
}

void ps_node_checkpoint_add_common(ps_node *node, uint64_t clock, ps_snapshot content)
{
    await(node, clock, (ps_held_file){.content = content}, true);
}

void ps_node_checkpoint_add_spliced(ps_node *node, uint64_t clock, const char *name,
                                    ps_snapshot content, uint64_t at)
{
    ps_held_file file = {.content = content, .is_spliced = true, .at = at};

    snprintf(file.name, sizeof file.name, "%s", name);
    await(node, clock, file, false);
}

void ps_node_checkpoint_end(ps_node *node, uint64_t clock)
{
    if (clock == node->checkpoint.clock) {
        node->checkpoint.has_all = true;
        look(node);
    }
}

void ps_node_checkpoint_fail(ps_node *node, uint64_t clock, const ps_status *why)
{
    if (clock != node->checkpoint.clock) {
        return;
    }
    ps_log(PS_LOG_WARN, "node", "no checkpoint at clock %llu: %s", (unsigned long long)clock,
           why->text);
    free_files(node);
    node->checkpoint.clock = 0;
    node->checkpoint.missed = clock;
    /* Other ranks of the node may have taken the checkpoint and stand still: lets them go on. */
    if (node->checkpoint.stays && has_session(node)) {
        node->checkpoint.stays = false;
        node->hooks->cut(node->state, 0, 0, false);
    }
    ps_node_hurry(node);
}
