/* SPDX-License-Identifier: Apache-2.0 */
/* service_nodes.c - ListNodes, and the calls of nodes: RegisterNode, Heartbeat, Ready and
 * TakePartition. */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/plain_name.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/placement/placement.h"
#include "common/rpc/tls.h"
#include "common/trace/trace.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void describe(const ps_coordinator *c, const ps_node_entry *from, int64_t now_us,
                     Psgd__V1__Node *node, Google__Protobuf__Timestamp *seen,
                     Google__Protobuf__Timestamp *ends, Psgd__V1__DiskInfo *disk)
{
    psgd__v1__node__init(node);
    google__protobuf__timestamp__init(seen);
    seen->seconds = from->seen_wall_us / 1000000;
    seen->nanos = (int32_t)(from->seen_wall_us % 1000000) * 1000;
    node->id = node->node_id = (char *)from->id;
    node->role = from->role;
    node->address = (char *)from->address;
    node->version = (char *)from->version;
    node->kernels = (char *)from->kernels;
    node->threads = from->threads;
    node->loop = (char *)from->loop;
    node->links = from->links;
    node->alive = ps_node_is_alive(&c->nodes, from, now_us);
    node->left = from->has_left;
    node->job_id = (char *)(from->job_id[0] ? from->job_id : from->holder);
    node->attempt = from->attempt;
    node->phase = from->phase;
    node->last_seen = seen;
    psgd__v1__disk_info__init(disk);
    disk->free_bytes = from->disk_free_bytes;
    disk->needed_bytes = from->disk_needed_bytes;
    disk->is_low = ps_node_lacks_room(from, now_us);
    node->disk = from->has_disk ? disk : NULL;
    node->load = from->has_load ? (Psgd__V1__NodeLoad *)&from->load : NULL;
    google__protobuf__timestamp__init(ends);
    ends->seconds = from->certificate_ends_s;
    node->certificate_expires = from->certificate_ends_s > 0 ? ends : NULL;
}

void ps_serve_list_nodes(void *service, const ProtobufCMessage *request, ps_payload *payload,
                         ps_call *call)
{
    const Psgd__V1__ListNodesRequest *q = (const void *)request;
    Psgd__V1__ListNodesResponse reply = PSGD__V1__LIST_NODES_RESPONSE__INIT;
    ps_coordinator *c = service;
    char after[PS_NODES_ID_MAX], token[PS_PAGE_TOKEN_MAX];
    Google__Protobuf__Timestamp *seen, *ends;
    Psgd__V1__DiskInfo *disks;
    int64_t now_us = ps_coordinator_now_us(c);
    Psgd__V1__Node *nodes, **list;
    size_t size, count = 0;

    (void)payload;
    if (!ps_page_size(call, q->page_size, &size)) {
        return;
    }
    if (!ps_page_token_read(q->page_token, after, sizeof after)) {
        ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_PAGE_TOKEN", NULL,
                  "page_token is not one that ListNodes gave");
        return;
    }
    nodes = ps_xcalloc(size, sizeof *nodes);
    list = ps_xcalloc(size, sizeof(Psgd__V1__Node *));
    seen = ps_xcalloc(size, sizeof *seen);
    ends = ps_xcalloc(size, sizeof *ends);
    disks = ps_xcalloc(size, sizeof *disks);
    for (size_t i = 0; i < c->nodes.count; i++) {
        if (strcmp(c->nodes.entries[i]->id, after) <= 0) {
            continue;
        }
        if (count == size) {
            ps_page_token_make(token, list[count - 1]->id);
            reply.next_page_token = token;
            break;
        }
        describe(c, c->nodes.entries[i], now_us, &nodes[count], &seen[count], &ends[count],
                 &disks[count]);
        list[count] = &nodes[count];
        count++;
    }
    reply.n_nodes = count;
    reply.nodes = list;
    ps_call_reply(call, &reply.base);
    free(nodes);
    free(list);
    free(seen);
    free(ends);
    free(disks);
}

/* Stores the serial of the certificate by which the node called, and when it ends. If the serial is
 * as before, the end stays as RenewCertificate has set it: a connection keeps its old certificate
 * after a renewal. */
static void note_credential(ps_node_entry *node, const ps_call *call)
{
    if (strcmp(node->credential, ps_call_credential(call)) != 0) {
        node->certificate_ends_s = ps_call_expires(call);
    }
    snprintf(node->credential, sizeof node->credential, "%s", ps_call_credential(call));
}

void ps_nodes_expel_revoked(ps_coordinator *c)
{
    ps_tls *tls = ps_loop_tls(c->loop);
    int64_t now_us = ps_coordinator_now_us(c);
    ps_live *next;

    for (size_t i = 0; tls && i < c->nodes.count; i++) {
        ps_node_entry *node = c->nodes.entries[i];

        if (!ps_node_is_alive(&c->nodes, node, now_us) ||
            !ps_tls_has_revoked(tls, node->credential)) {
            continue;
        }
        ps_log_with(PS_LOG_WARN, "nodes", PS_LOG_FIELDS(PS_LOG_STR("node", node->id)),
                    "lost: its certificate %s was revoked", node->credential);
        ps_nodes_expel(&c->nodes, node, now_us);
        for (ps_live *job = c->jobs.active; job; job = next) {
            next = job->active_next;
            if (ps_attempt_has(job->attempt, node->id)) {
                ps_attempt_expel(job->attempt, node->id);
            }
        }
    }
}

void ps_serve_register_node(void *service, const ProtobufCMessage *request, ps_payload *payload,
                            ps_call *call)
{
    const Psgd__V1__RegisterNodeRequest *q = (const void *)request;
    Psgd__V1__RegisterNodeResponse reply = PSGD__V1__REGISTER_NODE_RESPONSE__INIT;
    ps_coordinator *c = service;
    ps_node_entry *node = NULL;
    bool is_new = false;
    char client[PS_CLIENT_HOST_MAX];
    ps_live *next;
    ps_status st;

    (void)payload;
    ps_call_about(call, q->node_id);
    if (!ps_speaks_for(call, q->node_id)) {
        return;
    }
    if (q->threads > PS_THREADS_MAX) {
        ps_call_fail(call, ps_fail(PS_INVALID_ARGUMENT, "threads: %u; at most %d are allowed",
                                   q->threads, PS_THREADS_MAX));
        return;
    }
    if (q->loop[0] != '\0' && (q->role != PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER ||
                               !ps_plain_name_is_valid(q->loop, PS_PLAIN_NAME_NODE))) {
        ps_call_fail(call, ps_fail(PS_INVALID_ARGUMENT,
                                   "loop: \"%s\"; of a worker 1 to 64 of A-Z a-z 0-9 . _ - are "
                                   "allowed",
                                   PS_SHORT(q->loop, 80)));
        return;
    }
    ps_client_host(call, client);
    st = ps_nodes_register(&c->nodes, q, client, ps_coordinator_now_us(c), ps_clock_wall_us(),
                           &node, &is_new);
    if (!ps_is_ok(&st)) {
        ps_call_fail(call, st);
        return;
    }
    note_credential(node, call);
    if (is_new) {
        ps_log_with(
            PS_LOG_INFO, "nodes",
            PS_LOG_FIELDS(PS_LOG_STR("node", node->id), PS_LOG_STR("address", node->address)),
            "%s registered", ps_role_name(node->role));
    }
    for (ps_live *job = c->jobs.active; job; job = next) {
        next = job->active_next;
        if (ps_attempt_has(job->attempt, node->id)) {
            snprintf(node->holder, sizeof node->holder, "%s", job->record.job->id);
            ps_attempt_registered(job->attempt, node);
        }
    }
    reply.heartbeat_ms = (uint32_t)(c->conf.heartbeat_us / 1000);
    reply.lease_ms = (uint32_t)(c->conf.lease_us / 1000);
    ps_call_reply(call, &reply.base);
    ps_coordinator_schedule(c);
}

void ps_serve_heartbeat(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    const Psgd__V1__HeartbeatRequest *q = (const void *)request;
    Psgd__V1__HeartbeatResponse reply = PSGD__V1__HEARTBEAT_RESPONSE__INIT;
    uint32_t lost[PS_LOST_MAX];
    ps_coordinator *c = service;
    ps_node_entry *node = ps_nodes_find(&c->nodes, q->node_id);
    int64_t now_us = ps_coordinator_now_us(c);
    bool could = node && ps_node_is_idle(node) && !ps_node_lacks_room(node, now_us);
    ps_live *told, *next;
    ps_status st;

    (void)payload;
    if (!ps_speaks_for(call, q->node_id)) {
        return;
    }
    st = ps_nodes_beat(&c->nodes, q, ps_coordinator_now_us(c), ps_clock_wall_us(), &node);
    if (!ps_is_ok(&st)) {
        ps_refuse(call, st.code, st.code == PS_NOT_FOUND ? "NOT_REGISTERED" : NULL, q->job_id, "%s",
                  st.text);
        return;
    }
    note_credential(node, call);
    reply.clock_ns = (uint64_t)ps_trace_now_ns();
    reply.lost_workers = lost;
    told = q->job_id[0] ? ps_jobs_find(&c->jobs, q->job_id) : NULL;
    if (q->job_id[0] != '\0' &&
        (!told || !told->attempt || ps_attempt_number(told->attempt) != q->attempt ||
         !ps_attempt_has(told->attempt, q->node_id))) {
        reply.directive = PSGD__V1__NODE_DIRECTIVE__NODE_DIRECTIVE_ABORT;
        reply.is_lost = told != NULL; /* the job, which is not over, goes on without it */
        /* The log of another attempt is not wanted. The node is told that all is stored, so that it
         * does not send these bytes again. */
        reply.log_stored = q->log_offset + q->log_bytes.len;
    }
    for (ps_live *job = c->jobs.active; job; job = next) {
        next = job->active_next;
        if (ps_attempt_has(job->attempt, q->node_id)) {
            ps_attempt_beat(job->attempt, q, &reply);
        }
    }
    ps_call_reply(call, &reply.base);
    node = ps_nodes_find(&c->nodes, q->node_id);
    if (node && ps_node_is_idle(node) && !ps_node_lacks_room(node, now_us) && !could) {
        ps_coordinator_schedule(c);
    }
}

/* Returns the attempt that a node's call is about. Refuses the call and returns NULL if the job has
 * no attempt of this number now. */
static ps_attempt *running(ps_coordinator *c, const char *job_id, uint32_t attempt, ps_call *call)
{
    ps_live *job = ps_jobs_find(&c->jobs, job_id);

    if (job && job->attempt && ps_attempt_number(job->attempt) == attempt) {
        return job->attempt;
    }
    ps_refuse(call, PS_ABORTED, "STALE_ATTEMPT", job_id,
              "attempt %u of job %s is not what runs now", attempt, PS_SHORT(job_id, 96));
    return NULL;
}

void ps_serve_take_partition(void *service, const ProtobufCMessage *request, ps_payload *payload,
                             ps_call *call)
{
    const Psgd__V1__TakePartitionRequest *q = (const void *)request;
    ps_attempt *attempt = ps_speaks_for(call, q->node_id)
                              ? running(service, q->job_id, q->attempt, call)
                              : NULL;

    (void)payload;
    if (attempt) {
        ps_attempt_take_partition(attempt, q, call);
    }
}

void ps_serve_ready(void *service, const ProtobufCMessage *request, ps_payload *payload,
                    ps_call *call)
{
    const Psgd__V1__ReadyRequest *q = (const void *)request;
    ps_attempt *attempt = ps_speaks_for(call, q->node_id)
                              ? running(service, q->job_id, q->attempt, call)
                              : NULL;

    (void)payload;
    if (attempt) {
        ps_attempt_ready(attempt, q, call);
    }
}
