/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - carries out the phases that the agent decides, and releases attempts.
 *
 * Every attempt ends by a release, whatever its phase. The release ends the streams of PreCommit
 * and Collect, lets the role free what it has, frees the session, has a task remove the files,
 * and makes the node idle. Until then the node reports the phase before the release, so that
 * nobody counts on a node that is not free.
 */
#include "common/node/node_impl.h"

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* how long a node in FINISHED or FAILED keeps its files if its coordinator is not heard from */
static const int64_t keep_files_us = 3600 * INT64_C(1000000);

uint64_t ps_node_incarnation(const ps_node *node)
{
    return node->incarnation;
}

const ps_session *ps_node_session(const ps_node *node)
{
    return node->session;
}

bool ps_node_is_lost(const ps_node *node)
{
    return node->is_lost;
}

ps_phase ps_node_phase(const ps_node *node)
{
    return node->agent.phase;
}

const char *ps_node_address(const ps_node *node)
{
    return node->address;
}

const ps_agent *ps_node_shown(const ps_node *node)
{
    return node->is_releasing ? &node->shown : &node->agent;
}

void ps_node_hurry(ps_node *node)
{
    if (node->home != NULL) {
        ps_link_hurry(node->home);
    }
    if (node->link != NULL && node->link != node->home) {
        ps_link_hurry(node->link);
    }
}

/* --- phases ---------------------------------------------------------------- */

ps_unary *ps_node_take_partition(ps_node *node, Psgd__V1__TakePartitionRequest *request,
                                 int64_t timeout_us, ps_reply_fn *on_reply, void *arg)
{
    request->node_id = node->node_id;
    request->incarnation = node->incarnation;
    return ps_unary_start(ps_link_channel(node->link), &psgd__v1__coordinator_service__descriptor,
                          "TakePartition", &request->base, timeout_us, on_reply, arg);
}

void ps_node_changed(ps_node *node)
{
    const ps_agent *shown = ps_node_shown(node);
    int64_t wait_us = node->agent.deadline_us - ps_clock_us();

    if (node->agent.deadline_us == INT64_MAX) {
        ps_loop_cancel(node->loop, &node->tick);
    } else {
        ps_loop_after(node->loop, &node->tick, wait_us > 0 ? wait_us : 0);
    }
    if (!node->is_releasing && node->agent.phase != PS_PHASE_IDLE) {
        node->shown = node->agent;
    }
    if (shown->phase == node->announced) {
        return;
    }
    node->announced = shown->phase;
    if (shown->phase == PS_PHASE_IDLE) {
        ps_log(PS_LOG_INFO, "node", "idle");
    } else {
        ps_log_with(
            PS_LOG_INFO, "node",
            PS_LOG_FIELDS(PS_LOG_STR("job", shown->job_id), PS_LOG_NUM("attempt", shown->attempt)),
            "%s", ps_phase_name(shown->phase));
    }
    ps_faults_at(&node->faults, shown->phase);
    ps_node_hurry(node);
}

void ps_session_destroy(ps_session *session, ps_datasets *datasets)
{
    if (session == NULL) {
        return;
    }
    ps_datasets_put(datasets, session->data);
    ps_plan_destroy(session->plan);
    free(session->weights);
    for (size_t i = 0; i < PS_REPLICAS_MAX; i++) {
        ps_tables_destroy(session->tables[i]);
    }
    ps_session_drop_states(session);
    ps_placement_fini(&session->placement);
    free(session->ranks);
    free(session->shrinks);
    free(session);
}

ps_status ps_node_take_session(ps_node *node, ps_session *session, int64_t wait_us)
{
    ps_status st;

    assert(node->session == NULL);
    snprintf(session->folder, sizeof session->folder, "%s", node->folder);
    st = node->hooks->prepare(node->state, session);
    if (ps_is_ok(&st)) {
        node->session = session;
        st = ps_agent_sealed(&node->agent, ps_clock_us(), wait_us);
        assert(ps_is_ok(&st)); /* while a PreCommit lives, its attempt is in PREPARING */
        ps_checkpoint_begin(node);
        ps_node_changed(node);
    }
    return st;
}

/* --- actions of the agent ---------------------------------------------------- */

void ps_node_act(ps_node *node, ps_agent_action action, const char *why)
{
    switch (action) {
    case PS_AGENT_NOTHING:
        break;
    case PS_AGENT_RELEASE:
        ps_node_release(node, why);
        break;
    case PS_AGENT_GO_READY:
        ps_ready_begin(node);
        ps_node_changed(node);
        break;
    case PS_AGENT_RUN:
        ps_node_changed(node);
        node->hooks->run(node->state);
        break;
    }
}

void ps_node_abort(ps_node *node, const char *job_id, uint32_t attempt, bool is_lost,
                   const char *why)
{
    ps_agent_action action = ps_agent_abort(&node->agent, job_id, attempt);

    if (action == PS_AGENT_RELEASE) {
        node->is_lost = is_lost;
    }
    ps_node_act(node, action, why);
}

void ps_node_finished(ps_node *node, const ps_status *result)
{
    ps_agent_done(&node->agent, result);
    ps_agent_keep_until(&node->agent, ps_clock_us() + keep_files_us);
    if (!ps_is_ok(result)) {
        ps_log(PS_LOG_ERROR, "node", "%s: %s", ps_code_name(result->code), result->text);
    }
    ps_node_changed(node);
}

void ps_node_diverged(ps_node *node, const ps_status *why)
{
    node->agent.has_diverged = true;
    ps_node_finished(node, why);
}

void ps_node_heard(ps_node *node)
{
    ps_agent_keep_until(&node->agent, ps_clock_us() + keep_files_us);
}

/* --- files ----------------------------------------------------------------- */

static ps_kept *keep(ps_node *node, const char *name)
{
    ps_kept *kept = NULL;

    assert(ps_file_name_is_safe(name));
    for (size_t i = 0; i < node->kept_count; i++) {
        if (strcmp(node->kept[i].name, name) == 0) {
            kept = &node->kept[i];
        }
    }
    if (kept == NULL) {
        assert(node->kept_count < PS_NODE_KEPT_MAX);
        kept = &node->kept[node->kept_count++];
        memset(kept, 0, sizeof *kept);
        snprintf(kept->name, sizeof kept->name, "%s", name);
    }
    return kept;
}

void ps_node_keep(ps_node *node, const char *name, Psgd__V1__ArtifactKind kind)
{
    keep(node, name)->kind = kind;
}

void ps_node_keep_if_there(ps_node *node, const char *name, Psgd__V1__ArtifactKind kind)
{
    ps_node_keep(node, name, kind);
    keep(node, name)->is_optional = true;
}

void ps_node_keep_bytes(ps_node *node, const char *name, Psgd__V1__ArtifactKind kind, ps_buf *bytes)
{
    ps_kept *kept = keep(node, name);

    ps_buf_unref(kept->bytes);
    kept->bytes = bytes;
    kept->kind = kind;
}

/* --- release --------------------------------------------------------------- */

void ps_node_released(ps_node *node)
{
    assert(node->is_releasing);
    ps_session_destroy(node->session, node->datasets);
    node->session = NULL;
    for (size_t i = 0; i < node->kept_count; i++) {
        ps_buf_unref(node->kept[i].bytes);
    }
    node->kept_count = 0;
    ps_node_drop_trace(node);
    ps_checkpoint_drop(node);
    ps_attempt_remove(node); /* ps_node_become_idle follows */
}

void ps_node_become_idle(ps_node *node)
{
    node->is_releasing = node->is_lost = false;
    if (node->link != node->home) {
        ps_link_close(node->link);
    }
    node->link = NULL;
    ps_node_changed(node);
    ps_node_answer_waiting(node);
    if (node->is_stopping && node->agent.phase == PS_PHASE_IDLE) {
        ps_node_shut(node);
    }
}

static void end_session(ps_node *node)
{
    if (node->session != NULL) {
        node->hooks->release(node->state); /* ps_node_released follows */
    } else {
        ps_node_released(node);
    }
}

void ps_node_go_on_releasing(ps_node *node)
{
    if (node->is_releasing && node->saves == 0 && node->beginning == NULL) {
        atomic_store(&node->stop_saving, false);
        end_session(node);
    }
}

/* The agent is idle already; node->shown keeps its former state. */
void ps_node_release(ps_node *node, const char *why)
{
    assert(!node->is_releasing && (node->log != NULL || node->beginning != NULL));
    node->is_releasing = true;
    ps_log(PS_LOG_INFO, "node", "release: %s", why);
    ps_loop_cancel(node->loop, &node->tick);
    if (node->ready != NULL) {
        ps_ready_cancel(node->ready);
    }
    if (node->precommit != NULL) {
        ps_precommit_abort(node->precommit, why);
    }
    ps_collect_abort_all(node);
    atomic_store(&node->stop_saving, true);
    /* If tasks still save or make files, this does nothing; it is called again at their end. */
    ps_node_go_on_releasing(node);
}
