/* SPDX-License-Identifier: Apache-2.0 */
/* held_checkpoint.c - the checkpoint that a node holds, in memory, until the coordinator has
 * collected it or does not want it any more. It holds one at a time: the coordinator names the next
 * one when that is stored. Only the first, whose step follows from the job, every node takes by
 * itself. */
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "common/node/node_impl.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_files(ps_node *node)
{
    for (uint32_t i = 0; i < node->checkpoint.count; i++) {
        ps_buf_unref(node->checkpoint.files[i].bytes);
    }
    node->checkpoint.count = 0;
    node->checkpoint.is_complete = false;
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

/* Begins to take a checkpoint; 0: forgets the one that there is. */
static void ask(ps_node *node, uint64_t clock)
{
    free_files(node);
    node->checkpoint.clock = clock;
    if (clock > 0 && node->checkpoint.files == NULL) {
        node->checkpoint.files =
            ps_xcalloc(PS_NODE_CHECKPOINT_FILES, sizeof *node->checkpoint.files);
    }
    node->hooks->cut(node->state, clock);
}

void ps_checkpoint_begin(ps_node *node)
{
    uint64_t clock =
        has_session(node) ? ps_checkpoint_next(node->session->plan, node->session->first_clock) : 0;

    if (clock > 0) {
        ask(node, clock);
    }
}

bool ps_checkpoint_is_wanted(const ps_node *node)
{
    return has_session(node) && node->agent.phase == PS_PHASE_RUNNING &&
           node->session->plan->spec->checkpoint != NULL;
}

void ps_checkpoint_obey(ps_node *node, const Psgd__V1__HeartbeatResponse *reply)
{
    if (!has_session(node) || node->agent.phase != PS_PHASE_RUNNING) {
        return;
    }
    if (reply->checkpoint > 0 && reply->checkpoint != node->checkpoint.clock &&
        reply->checkpoint != node->checkpoint.missed) {
        ask(node, reply->checkpoint);
    } else if (node->checkpoint.clock > 0 && reply->checkpoint_done >= node->checkpoint.clock) {
        ask(node, 0);
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

void ps_node_checkpoint_add(ps_node *node, uint64_t clock, const char *name, ps_buf *bytes)
{
    ps_kept *file;

    if (clock != node->checkpoint.clock) {
        ps_buf_unref(bytes);
        return;
    }
    assert(node->checkpoint.count < PS_NODE_CHECKPOINT_FILES);
    file = &node->checkpoint.files[node->checkpoint.count++];
    memset(file, 0, sizeof *file);
    snprintf(file->name, sizeof file->name, "%s", name);
    file->kind = PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL;
    file->bytes = bytes;
}

void ps_node_checkpoint_end(ps_node *node, uint64_t clock)
{
    if (clock == node->checkpoint.clock) {
        node->checkpoint.is_complete = true;
        ps_node_hurry(node);
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
    ps_node_hurry(node);
}
