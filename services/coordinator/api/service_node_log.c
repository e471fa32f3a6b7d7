/* SPDX-License-Identifier: Apache-2.0 */
/* service_node_log.c - GetNodeLog: forwards the request to the node, and its answer to the
 * client. */
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/node/node.h"
#include "common/rpc/client.h"
#include "services/coordinator/api/service.h"

#include <stdlib.h>

static const int64_t node_us = 5000000;

/* A call that waits for the answer of a node. */
typedef struct waiting {
    ps_call *call; /* NULL: the client's call has ended */
    ps_channel *channel;
    ps_unary *asking;
} waiting;

static void client_gone(void *arg, ps_call *call)
{
    waiting *w = arg;

    (void)call;
    w->call = NULL;
    ps_unary_cancel(w->asking);
}

static void on_log(void *arg, const ps_error *error, const ProtobufCMessage *message)
{
    const Psgd__V1__GetLogResponse *from = (const Psgd__V1__GetLogResponse *)message;
    Psgd__V1__GetNodeLogResponse reply = PSGD__V1__GET_NODE_LOG_RESPONSE__INIT;
    waiting *w = arg;

    if (w->call && ps_is_ok(&error->status) && from->lines.len > PS_NODE_LOG_MAX) {
        ps_call_fail(w->call, ps_fail(PS_DATA_LOSS,
                                      "the node sent %zu bytes of its log; %d are "
                                      "allowed",
                                      from->lines.len, PS_NODE_LOG_MAX));
    } else if (w->call && ps_is_ok(&error->status)) {
        reply.lines = from->lines;
        ps_call_reply(w->call, &reply.base);
    } else if (w->call) {
        ps_call_fail(w->call, ps_wrap(error->status, "the node's log"));
    }
    ps_channel_destroy(w->channel);
    free(w);
}

void ps_serve_get_node_log(void *service, const ProtobufCMessage *request, ps_payload *payload,
                           ps_call *call)
{
    const Psgd__V1__GetNodeLogRequest *q = (const void *)request;
    Psgd__V1__GetLogRequest ask = PSGD__V1__GET_LOG_REQUEST__INIT;
    ps_coordinator *c = service;
    const ps_node_entry *node = ps_nodes_find(&c->nodes, q->node_id);
    waiting *w;

    (void)payload;
    if (!node) {
        ps_call_fail(call, ps_fail(PS_NOT_FOUND, "there is no node %s; psgd nodes lists them",
                                   PS_SHORT(q->node_id, 80)));
        return;
    }
    if (q->max_bytes > PS_NODE_LOG_MAX) {
        ps_call_fail(call,
                     ps_fail(PS_INVALID_ARGUMENT, "max_bytes: %u; 1 to %d are allowed, or 0 for %d",
                             q->max_bytes, PS_NODE_LOG_MAX, PS_NODE_LOG_DEFAULT));
        return;
    }
    w = ps_xcalloc(1, sizeof *w);
    w->call = call;
    w->channel = ps_channel_create(c->loop, node->address);
    ps_channel_expect(w->channel, PS_PRINCIPAL_NODE, node->id);
    ps_call_on_gone(call, client_gone, w);
    ask.max_bytes = q->max_bytes;
    w->asking = ps_unary_start(w->channel, &psgd__v1__node_service__descriptor, "GetLog", &ask.base,
                               node_us, on_log, w);
}
