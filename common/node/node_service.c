/* SPDX-License-Identifier: Apache-2.0 */
/* node_service.c - NodeService: converts messages to calls of the agent, and answers. */
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/node/node_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESERVE_DEFAULT_MS = 10000, RESERVE_MIN_MS = 100, RESERVE_MAX_MS = 600000 };

_Static_assert((int)PS_PHASE_IDLE == (int)PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE &&
                   (int)PS_PHASE_READY == (int)PSGD__V1__NODE_PHASE__NODE_PHASE_READY &&
                   (int)PS_PHASE_FAILED == (int)PSGD__V1__NODE_PHASE__NODE_PHASE_FAILED,
               "phases are numbered as on the wire");

bool ps_job_id_is_good(const char *job_id)
{
    return strlen(job_id) < PS_JOB_ID_MAX && ps_name_is_safe(job_id);
}

void ps_node_fence_error(const ps_node *node, const char *job_id, uint32_t attempt, ps_status st,
                         ps_error *error)
{
    const ps_agent *shown = ps_node_shown(node);
    ps_status held = ps_agent_check(&node->agent, job_id, attempt);
    const char *reason = ps_is_ok(&held) ? "WRONG_PHASE" : "NOT_HELD";

    if (st.code == PS_ABORTED) {
        reason = "STALE_ATTEMPT";
    }
    ps_error_init(error, st, reason);
    ps_error_meta(error, "node", "%s", node->node_id);
    ps_error_meta(error, "phase", "%s", ps_phase_name(shown->phase));
    if (shown->phase != PS_PHASE_IDLE) {
        ps_error_meta(error, "held_by_job", "%s", shown->job_id);
        ps_error_meta(error, "held_by_attempt", "%u", shown->attempt);
    }
}

static void fail_with(ps_call *call, ps_status st, const char *reason)
{
    ps_error error;

    ps_error_init(&error, st, reason);
    ps_call_fail_error(call, &error);
}

static void fail_fence(const ps_node *node, ps_call *call, const char *job_id, uint32_t attempt,
                       ps_status st)
{
    ps_error error;

    ps_node_fence_error(node, job_id, attempt, st, &error);
    ps_call_fail_error(call, &error);
}

static void fail_job_id(ps_call *call)
{
    ps_error error;

    ps_error_init(&error, ps_fail(PS_INVALID_ARGUMENT, "job_id is no job's id"), "BAD_JOB_ID");
    ps_error_violate(&error, "job_id", "1 to %d of A-Z a-z 0-9 . _ - are allowed",
                     PS_JOB_ID_MAX - 1);
    ps_call_fail_error(call, &error);
}

/* --- calls that wait: for the end of a release, or for the files of an attempt --- */

static void forget_waiting(void *arg, ps_call *call)
{
    ps_node *node = arg;

    for (size_t i = 0; i < node->waiting_count; i++) {
        if (node->waiting[i].call == call) {
            node->waiting[i] = node->waiting[--node->waiting_count];
            return;
        }
    }
}

/* Adds a call to the waiting calls; `request` NULL: the call is an Abort. If too many wait, fails
 * the call and returns false. */
static bool let_wait(ps_node *node, ps_call *call, const Psgd__V1__CanCommitRequest *request)
{
    if (node->waiting_count == PS_NODE_CALLS_MAX) {
        fail_with(call, ps_fail(PS_RESOURCE_EXHAUSTED, "too many calls wait for this node"), NULL);
        return false;
    }
    node->waiting[node->waiting_count++] = (ps_waiting){call, request};
    ps_call_on_gone(call, forget_waiting, node);
    return true;
}

static void answer_can_commit(ps_node *node, ps_call *call,
                              const Psgd__V1__CanCommitRequest *request);

void ps_node_fail_waiting(ps_node *node, ps_status st)
{
    while (node->waiting_count > 0) {
        fail_with(node->waiting[--node->waiting_count].call, st,
                  ps_node_disk_is_full(node, &st) ? PS_NODE_NO_ROOM : NULL);
    }
}

void ps_node_answer_waiting(ps_node *node)
{
    static const Psgd__V1__AbortResponse aborted = PSGD__V1__ABORT_RESPONSE__INIT;
    ps_waiting waiting[PS_NODE_CALLS_MAX];
    size_t count = node->waiting_count;

    memcpy(waiting, node->waiting, count * sizeof *waiting);
    node->waiting_count = 0;
    /* Answers Aborts first: they wait for the idle phase, which a CanCommit may end. */
    for (size_t i = 0; i < count; i++) {
        if (waiting[i].can_commit == NULL) {
            ps_call_reply(waiting[i].call, &aborted.base);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (waiting[i].can_commit != NULL) {
            answer_can_commit(node, waiting[i].call, waiting[i].can_commit);
        }
    }
}

/* --- CanCommit ------------------------------------------------------------- */

/* Checks a CanCommit: that the node is not stopping, and the job's id, the role and the address of
 * the coordinator. Returns false after it has failed the call. */
static bool check_can_commit(ps_node *node, ps_call *call,
                             const Psgd__V1__CanCommitRequest *request)
{
    ps_address address;
    ps_status st = ps_address_parse(request->coordinator, "", 0, &address);

    if (node->is_stopping) {
        fail_with(call, ps_fail(PS_UNAVAILABLE, "node %s is being stopped", node->node_id),
                  "STOPPING");
        return false;
    }
    if (!ps_job_id_is_good(request->job_id)) {
        fail_job_id(call);
        return false;
    }
    if (request->role != node->hooks->role) {
        fail_with(
            call,
            ps_fail(PS_FAILED_PRECONDITION, "node %s is a %s", node->node_id, node->hooks->service),
            "WRONG_ROLE");
        return false;
    }
    if (!ps_is_ok(&st) || address.host[0] == '\0' || address.port == 0 ||
        strlen(request->coordinator) >= PS_NODE_ADDRESS_MAX) {
        fail_with(call,
                  ps_fail(PS_INVALID_ARGUMENT, "coordinator is \"%s\"; host:port is allowed",
                          PS_SHORT(request->coordinator, 60)),
                  "BAD_ADDRESS");
        return false;
    }
    return true;
}

static void reply_can_commit(const ps_node *node, ps_call *call, bool is_ready)
{
    Psgd__V1__CanCommitResponse reply = PSGD__V1__CAN_COMMIT_RESPONSE__INIT;
    const ps_agent *shown = ps_node_shown(node);

    reply.ready = is_ready;
    if (!is_ready) {
        reply.held_by_job = (char *)shown->job_id; /* the reply is packed before this changes */
        reply.held_by_attempt = shown->attempt;
    }
    reply.phase = (Psgd__V1__NodePhase)shown->phase;
    reply.node_id = (char *)node->node_id;
    /* the incarnation is told only to the coordinator of the attempt that holds the node */
    reply.incarnation = is_ready ? node->incarnation : 0;
    reply.version = (char *)PS_VERSION;
    reply.threads = node->threads;
    ps_call_reply(call, &reply.base);
}

static uint32_t clamp(uint32_t x, uint32_t min, uint32_t max)
{
    return x < min ? min : x > max ? max : x;
}

static void answer_can_commit(ps_node *node, ps_call *call,
                              const Psgd__V1__CanCommitRequest *request)
{
    uint32_t reserve_ms = request->reserve_ms == 0
                              ? RESERVE_DEFAULT_MS
                              : clamp(request->reserve_ms, RESERVE_MIN_MS, RESERVE_MAX_MS);
    ps_status st;

    if (!check_can_commit(node, call, request)) {
        return;
    }
    if (!node->is_releasing && strcmp(node->agent.job_id, request->job_id) == 0 &&
        request->attempt > node->agent.attempt) { /* the held attempt was superseded */
        ps_node_abort(node, request->job_id, node->agent.attempt, true,
                      "a newer attempt of the job has come");
    }
    if (node->is_releasing || node->beginning != NULL) {
        (void)let_wait(node, call, request);
        return;
    }
    st = ps_agent_can_commit(&node->agent, request->job_id, request->attempt, ps_clock_us(),
                             (int64_t)reserve_ms * 1000);
    if (st.code == PS_UNAVAILABLE) {
        reply_can_commit(node, call, false);
        return;
    }
    if (!ps_is_ok(&st)) {
        fail_fence(node, call, request->job_id, request->attempt, st);
        return;
    }
    if (node->log != NULL) {
        ps_node_changed(node);
        reply_can_commit(node, call, true);
    } else if (let_wait(node, call, request)) {
        ps_attempt_begin(node, request->coordinator);
    } else {
        (void)ps_agent_abort(&node->agent, request->job_id, request->attempt);
    }
}

static void can_commit(void *service, const ProtobufCMessage *request, ps_payload *payload,
                       ps_call *call)
{
    (void)payload;
    answer_can_commit(service, call, (const Psgd__V1__CanCommitRequest *)request);
}

/* --- DoCommit, Abort ------------------------------------------------------- */

static void do_commit(void *service, const ProtobufCMessage *message, ps_payload *payload,
                      ps_call *call)
{
    static const Psgd__V1__DoCommitResponse reply = PSGD__V1__DO_COMMIT_RESPONSE__INIT;
    const Psgd__V1__DoCommitRequest *request = (const Psgd__V1__DoCommitRequest *)message;
    ps_node *node = service;
    ps_agent_action action;
    ps_status st;

    (void)payload;
    if (!ps_job_id_is_good(request->job_id)) {
        fail_job_id(call);
        return;
    }
    st = ps_agent_do_commit(&node->agent, request->job_id, request->attempt, ps_clock_us(),
                            ps_node_ready_us(node), &action);
    if (!ps_is_ok(&st)) {
        fail_fence(node, call, request->job_id, request->attempt, st);
        return;
    }
    ps_call_reply(call, &reply.base);
    ps_node_act(node, action, "");
}

static void abort_attempt(void *service, const ProtobufCMessage *message, ps_payload *payload,
                          ps_call *call)
{
    static const Psgd__V1__AbortResponse reply = PSGD__V1__ABORT_RESPONSE__INIT;
    const Psgd__V1__AbortRequest *request = (const Psgd__V1__AbortRequest *)message;
    ps_node *node = service;
    char why[256];

    (void)payload;
    if (!ps_job_id_is_good(request->job_id)) {
        fail_job_id(call);
        return;
    }
    snprintf(why, sizeof why, "aborted: %.200s", request->why);
    ps_node_abort(node, request->job_id, request->attempt, request->is_lost, why);
    if (node->is_releasing) {
        (void)let_wait(node, call, NULL);
    } else {
        ps_call_reply(call, &reply.base);
    }
}

/* --- what the node is and does ---------------------------------------------- */

void ps_node_describe(const ps_node *node, Psgd__V1__Node *out)
{
    const ps_agent *shown = ps_node_shown(node);

    psgd__v1__node__init(out);
    out->id = out->node_id = (char *)node->node_id;
    out->role = node->hooks->role;
    out->address = (char *)node->address;
    out->version = (char *)PS_VERSION;
    out->alive = true;
    out->phase = (Psgd__V1__NodePhase)shown->phase;
    if (shown->phase != PS_PHASE_IDLE) {
        out->job_id = (char *)shown->job_id;
        out->attempt = shown->attempt;
    }
}

static void get_status(void *service, const ProtobufCMessage *request, ps_payload *payload,
                       ps_call *call)
{
    Psgd__V1__GetStatusResponse reply = PSGD__V1__GET_STATUS_RESPONSE__INIT;
    Psgd__V1__ServerCounters counters = PSGD__V1__SERVER_COUNTERS__INIT;
    Psgd__V1__Node description;
    ps_node *node = service;

    (void)request;
    (void)payload;
    ps_node_describe(node, &description);
    reply.node = &description;
    if (node->session != NULL && !node->is_releasing) {
        if (node->hooks->progress != NULL) {
            reply.n_progress = node->hooks->progress(node->state, &reply.progress);
        }
        if (node->hooks->counters != NULL) {
            node->hooks->counters(node->state, &counters);
            reply.counters = &counters;
        }
    }
    ps_call_reply(call, &reply.base);
}

static void get_log(void *service, const ProtobufCMessage *request, ps_payload *payload,
                    ps_call *call)
{
    const Psgd__V1__GetLogRequest *q = (const void *)request;
    Psgd__V1__GetLogResponse reply = PSGD__V1__GET_LOG_RESPONSE__INIT;
    size_t cap = q->max_bytes == 0 ? PS_NODE_LOG_DEFAULT : q->max_bytes;
    char *lines;

    (void)service;
    (void)payload;
    if (cap > PS_NODE_LOG_MAX) {
        ps_call_fail(call,
                     ps_fail(PS_INVALID_ARGUMENT, "max_bytes: %u; 1 to %d are allowed, or 0 for %d",
                             q->max_bytes, PS_NODE_LOG_MAX, PS_NODE_LOG_DEFAULT));
        return;
    }
    lines = ps_xmalloc(cap);
    reply.lines = (ProtobufCBinaryData){ps_log_recent(lines, cap), (uint8_t *)lines};
    ps_call_reply(call, &reply.base);
    free(lines);
}

static void act_on_tables(void *service, const ProtobufCMessage *request, ps_payload *payload,
                          ps_call *call)
{
    const Psgd__V1__ActOnTablesRequest *q = (const void *)request;
    Psgd__V1__ActOnTablesResponse reply = PSGD__V1__ACT_ON_TABLES_RESPONSE__INIT;
    ps_node *node = service;
    ps_status st;

    (void)payload;
    if (node->session == NULL || ps_node_phase(node) != PS_PHASE_RUNNING ||
        strcmp(node->session->job_id, q->job_id) != 0 || node->session->attempt != q->attempt) {
        st = ps_fail(PS_FAILED_PRECONDITION, "node %s does not run attempt %u of job %s",
                     node->node_id, q->attempt, PS_SHORT(q->job_id, 60));
    } else if (node->hooks->tables == NULL) {
        st = ps_fail(PS_FAILED_PRECONDITION, "node %s has no tables", node->node_id);
    } else {
        st = node->hooks->tables(node->state, q->action, q->clock);
    }
    if (ps_is_ok(&st)) {
        ps_call_reply(call, &reply.base);
    } else {
        ps_call_fail(call, st);
    }
}

static void describe_node(void *service, const ProtobufCMessage *request, ps_payload *payload,
                          ps_call *call)
{
    Psgd__V1__DescribeNodeResponse reply = PSGD__V1__DESCRIBE_NODE_RESPONSE__INIT;
    Psgd__V1__Node description;

    (void)request;
    (void)payload;
    ps_node_describe(service, &description);
    reply.node = &description;
    reply.max_chunk_bytes = PS_PAYLOAD_MAX;
    ps_call_reply(call, &reply.base);
}

const ps_method ps_node_methods[] = {
    {.name = "CanCommit", .handle = can_commit, .may = PS_MAY_COORDINATOR},
    {.name = "PreCommit",
     .handle = ps_precommit_handle,
     .may = PS_MAY_COORDINATOR,
     .streams_in = true,
     .streams_out = true,
     /* enough for the settings of a job with many nodes and variables */
     .max_bytes = 1 << 20},
    {.name = "DoCommit", .handle = do_commit, .may = PS_MAY_COORDINATOR},
    {.name = "Abort", .handle = abort_attempt, .may = PS_MAY_COORDINATOR},
    {.name = "GetStatus", .handle = get_status, .may = PS_MAY_SEE | PS_MAY_COORDINATOR},
    {.name = "Collect",
     .handle = ps_collect_handle,
     .may = PS_MAY_COORDINATOR,
     .streams_out = true},
    {.name = "ActOnTables", .handle = act_on_tables, .may = PS_MAY_COORDINATOR},
    {.name = "DescribeNode", .handle = describe_node, .may = PS_MAY_SEE | PS_MAY_COORDINATOR},
    {.name = "GetLog", .handle = get_log, .may = PS_MAY_COORDINATOR},
};
const size_t ps_node_method_count = sizeof ps_node_methods / sizeof ps_node_methods[0];
