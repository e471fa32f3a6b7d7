/* SPDX-License-Identifier: Apache-2.0 */
/* driver_calls.c - unary calls to one node: CanCommit, DoCommit, Abort, and the answer to its
 * Ready.
 *
 * CanCommit, PreCommit and DoCommit have no deadlines of their own. The deadlines of the commit
 * end them, because they count only the time during which the coordinator runs. */
#include "services/coordinator/driver_impl.h"

#include "common/node/node.h"

#include <stdio.h>
#include <string.h>

static const ProtobufCServiceDescriptor *const node_service = &psgd__v1__node_service__descriptor;

/* Marks the node that answered as held by the job. If another node was expected at this address,
 * marks that one as free. */
static void give_to_job(ps_attempt_node *p, const char *node_id)
{
    ps_node_entry *thought = ps_nodes_find(&p->a->c->nodes, ps_attempt_node_member(p)->id);
    ps_node_entry *node = ps_nodes_find(&p->a->c->nodes, node_id);

    if (thought && thought != node) {
        thought->holder[0] = '\0';
    }
    if (node) {
        snprintf(node->holder, sizeof node->holder, "%s", p->a->job_id);
    }
}

/* Marks the node that refused CanCommit as busy with the job that it named, so that the scheduler
 * does not choose it. The node's next heartbeat replaces that. */
static void mark_busy(ps_attempt *a, const Psgd__V1__CanCommitResponse *r)
{
    ps_node_entry *node = ps_nodes_find(&a->c->nodes, r->node_id);

    if (!node) {
        return;
    }
    node->phase = r->phase;
    node->attempt = r->held_by_attempt;
    snprintf(node->job_id, sizeof node->job_id, "%.95s", r->held_by_job);
}

/* Handles a node without room on its disk: marks the disk as full, and tells the commit. The job
 * goes back to the queue, or fails if it may not wait. */
static void take_full(ps_attempt_node *p, const ps_status *why)
{
    ps_node_entry *node = ps_nodes_find(&p->a->c->nodes, ps_attempt_node_member(p)->id);
    int64_t now_us = ps_coordinator_now_us(p->a->c);

    if (node) {
        ps_node_set_full(node, now_us);
    }
    ps_commit_full(&p->a->commit, p->index, why, now_us);
}

static void on_can_commit(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__CanCommitResponse *r = (const void *)reply;
    ps_attempt_node *p = arg;
    ps_attempt *a = p->a;
    int64_t now_us = ps_coordinator_now_us(a->c);
    char holder[200];

    p->asking = NULL;
    if (!a->job) {
        ps_attempt_settle(a);
        return;
    }
    if (!ps_is_ok(&error->status)) {
        ps_attempt_node_refused(p, error);
    } else if (r->ready) {
        ps_attempt_node_member(p)->threads = r->threads;
        snprintf(ps_attempt_node_member(p)->version, PS_COMMIT_VERSION_MAX, "%.31s", r->version);
        give_to_job(p, r->node_id);
        ps_commit_reserved(&a->commit, p->index, r->node_id, r->incarnation, now_us);
    } else {
        snprintf(holder, sizeof holder, "job %.96s (attempt %u, %s)", r->held_by_job,
                 r->held_by_attempt, ps_phase_text(r->phase));
        mark_busy(a, r);
        ps_commit_busy(&a->commit, p->index, r->node_id, holder, now_us);
    }
    ps_attempt_pump(a);
    ps_attempt_settle(a);
}

void ps_attempt_node_ask(ps_attempt_node *p)
{
    Psgd__V1__CanCommitRequest q = PSGD__V1__CAN_COMMIT_REQUEST__INIT;
    const ps_commit_conf *conf = &p->a->commit.conf;

    q.job_id = p->a->job_id;
    q.attempt = p->a->number;
    q.role = ps_attempt_node_member(p)->role;
    q.coordinator = p->a->c->address;
    /* The node stays reserved for as long as all nodes may take to answer CanCommit, the
     * coordinator to make the packages, and the nodes to take them. */
    q.reserve_ms = (uint32_t)((conf->can_commit_us + conf->make_us + conf->pre_commit_us) / 1000);
    p->a->pending++;
    p->asking = ps_unary_start(p->channel, node_service, "CanCommit", &q.base, PS_NO_TIMEOUT,
                               on_can_commit, p);
}

void ps_attempt_node_refused(ps_attempt_node *p, const ps_error *error)
{
    ps_commit *commit = &p->a->commit;
    int64_t now_us = ps_coordinator_now_us(p->a->c);

    if (strcmp(error->reason, "NOT_HELD") == 0) {
        ps_commit_unreserved(commit, p->index, &error->status, now_us);
    } else if (strcmp(error->reason, PS_NODE_NO_ROOM) == 0) {
        take_full(p, &error->status);
    } else {
        ps_commit_refused(commit, p->index, &error->status, now_us);
    }
}

static void on_do_commit(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    ps_attempt_node *p = arg;
    ps_attempt *a = p->a;

    (void)reply; /* success shows by the node's Ready, not by this reply */
    p->asking = NULL;
    if (a->job && !ps_is_ok(&error->status)) {
        ps_attempt_node_refused(p, error);
        ps_attempt_pump(a);
    }
    ps_attempt_settle(a);
}

void ps_attempt_node_start(ps_attempt_node *p)
{
    Psgd__V1__DoCommitRequest q = PSGD__V1__DO_COMMIT_REQUEST__INIT;

    q.job_id = p->a->job_id;
    q.attempt = p->a->number;
    p->a->pending++;
    p->asking = ps_unary_start(p->channel, node_service, "DoCommit", &q.base, PS_NO_TIMEOUT,
                               on_do_commit, p);
}

static void on_abort(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    ps_attempt_node *p = arg;
    ps_attempt *a = p->a;

    (void)reply;
    p->aborting = NULL;
    ps_presence_stop(p);
    if (ps_is_ok(&error->status)) {
        ps_node_entry *node = ps_nodes_find(&a->c->nodes, ps_attempt_node_member(p)->id);

        if (node && strcmp(node->job_id, a->job_id) == 0) {
            ps_node_mark_idle(node);
        }
    }
    if (a->job) {
        ps_commit_released(&a->commit, p->index, ps_coordinator_now_us(a->c));
        ps_attempt_pump(a);
    }
    ps_attempt_settle(a);
}

void ps_attempt_node_answer_ready(ps_attempt_node *p, const ps_status *why_not)
{
    Psgd__V1__ReadyResponse reply = PSGD__V1__READY_RESPONSE__INIT;
    ps_call *call = p->ready;

    if (!call) {
        return;
    }
    p->ready = NULL;
    if (why_not) {
        ps_call_fail(call, *why_not);
    } else {
        ps_call_reply(call, &reply.base);
    }
}

/* Ends all calls with the node except Abort. Its presence is kept. A Ready that waits fails with
 * ABORTED and the text `why`. */
void ps_attempt_node_let_go(ps_attempt_node *p, const char *why)
{
    ps_status st = ps_fail(PS_ABORTED, "%s", why[0] ? why : "the attempt is over");

    if (p->asking) {
        ps_unary_cancel(p->asking);
    }
    if (p->prepare) {
        ps_prepare_stop(p->prepare);
    }
    if (p->collect) {
        ps_collect_stop(p->collect);
    }
    if (p->saving) {
        ps_collect_stop(p->saving);
    }
    if (p->tracing) {
        ps_collect_stop(p->tracing);
    }
    ps_attempt_node_answer_ready(p, &st);
}

void ps_attempt_node_release(ps_attempt_node *p)
{
    Psgd__V1__AbortRequest q = PSGD__V1__ABORT_REQUEST__INIT;
    const ps_commit *c = &p->a->commit;
    char why[PS_COMMIT_MESSAGE_MAX];

    snprintf(why, sizeof why, "%s", c->message[0] ? c->message : "the job is over");
    ps_attempt_node_let_go(p, why);
    /* the attempt goes on without this node, which is free for other jobs from now on */
    if (c->stage == PS_STAGE_GOING) {
        ps_node_entry *node = ps_nodes_find(&p->a->c->nodes, ps_attempt_node_member(p)->id);

        if (node && strcmp(node->holder, p->a->job_id) == 0) {
            node->holder[0] = '\0';
        }
    }
    q.job_id = p->a->job_id;
    q.attempt = p->a->number;
    q.why = why;
    q.is_lost = c->outcome != PSGD__V1__JOB_STATE__JOB_STATE_DONE;
    p->a->pending++;
    p->aborting = ps_unary_start(p->channel, node_service, "Abort", &q.base,
                                 p->a->commit.conf.abort_us, on_abort, p);
}
