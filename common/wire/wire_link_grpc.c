/* SPDX-License-Identifier: Apache-2.0 */
/* wire_link_grpc.c - see wire_link_grpc.h. */
#include "common/wire/wire_link_grpc.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/rpc/client.h"
#include "common/wire/connection.h"
#include "common/wire/identity.h"

#include "psgd/v1/parameter.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    HEAD_BYTES = 64 << 10, /* most bytes of a message's head; its payload has at most 1 MiB */
    BATCH_BYTES = 512 << 10
};
_Static_assert((int)PS_REPORT_PIECE + CONNECTION_BATCH * 100 <= (int)HEAD_BYTES,
               "a report has room beside the heads of slices");

static const char *const method_names[] = {
    [PS_WIRE_PUSH] = "PushGradient",
    [PS_WIRE_PULL] = "PullWeights",
};

static const uint8_t *view(void *arg, size_t at, size_t len, void *scratch)
{
    return ps_payload_view(arg, at, len, scratch);
}

static const uint8_t *view_floats(void *arg, size_t at, size_t len, void *scratch, bool *are_finite)
{
    return ps_payload_view_floats(arg, at, len, scratch, are_finite);
}

static ps_incoming incoming_of(ps_payload *payload)
{
    return (ps_incoming){
        .len = ps_payload_len(payload), .view = view, .view_floats = view_floats, .arg = payload};
}

/* ---- A worker's end ---- */

typedef struct client_link {
    ps_wire_link base;
    ps_stream *stream;
} client_link;

static client_link *client_of(const ps_wire_link *link)
{
    return PS_CONTAINER_OF(link, client_link, base);
}

static bool client_can_send(const ps_wire_link *link)
{
    return ps_stream_can_send(client_of(link)->stream);
}

static void client_send(ps_wire_link *link, const ProtobufCMessage *head, const ps_piece *pieces,
                        size_t count)
{
    ps_stream_send(client_of(link)->stream, head, pieces, count);
}

static void client_read(ps_wire_link *link)
{
    ps_stream_read(client_of(link)->stream);
}

static void client_send_and_read(ps_wire_link *link, const ProtobufCMessage *head,
                                 const ps_piece *pieces, size_t count)
{
    ps_stream_send_and_read(client_of(link)->stream, head, pieces, count);
}

static void client_finish(ps_wire_link *link)
{
    ps_stream_cancel(client_of(link)->stream);
}

static const ps_link_ops client_ops = {
    .can_send = client_can_send,
    .send = client_send,
    .read = client_read,
    .send_and_read = client_send_and_read,
    .finish = client_finish,
};

static void on_client_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    client_link *link = arg;
    ps_incoming in = incoming_of(payload);

    link->base.events->on_message(link->base.arg, head, &in);
}

static void on_client_sent(void *arg)
{
    client_link *link = arg;

    link->base.events->on_writable(link->base.arg);
}

static void on_client_end(void *arg, const ps_error *error)
{
    client_link *link = arg;

    link->base.events->on_end(link->base.arg, error);
    free(link);
}

static const ps_stream_events client_events = {
    .on_message = on_client_message,
    .on_sent = on_client_sent,
    .on_end = on_client_end,
};

typedef struct grpc_transport {
    ps_transport base;
    const ps_placement *placement;
    ps_channel **channels; /* (part_count); an element is NULL until a link to its part is opened */
} grpc_transport;

static grpc_transport *transport_of(const ps_transport *t)
{
    return PS_CONTAINER_OF(t, grpc_transport, base);
}

/* Returns the channel to a part. Each part has one of its own, so that no thread of a server waits
 * for messages of another. The first thread of a server serves the service itself, the others and
 * copies have instances of it. */
static ps_channel *channel_to(const grpc_transport *t, uint32_t part)
{
    const ps_endpoint *server = ps_placement_server(t->placement, part);
    uint32_t thread = t->placement->parts[part].thread;
    char instance[PS_GRPC_WIRE_INSTANCE_BYTES];
    ps_channel *channel;

    if (t->placement->parts[part].is_copy) {
        thread += PS_GRPC_WIRE_COPIES;
    }
    if (thread == 0) {
        channel = ps_channel_create(t->base.loop, server->address);
    } else {
        ps_grpc_wire_instance(thread, instance);
        channel = ps_channel_create_instance(t->base.loop, server->address, instance);
    }
    ps_channel_expect(channel, PS_PRINCIPAL_NODE, server->node_id);
    return channel;
}

static ps_wire_link *open_link(ps_transport *transport, uint32_t part, ps_wire_stream stream,
                               const ps_link_events *events, void *arg)
{
    grpc_transport *t = transport_of(transport);
    client_link *link = ps_xcalloc(1, sizeof *link);

    if (t->channels[part] == NULL) {
        t->channels[part] = channel_to(t, part);
    }
    link->base = (ps_wire_link){.ops = &client_ops, .events = events, .arg = arg};
    link->stream = ps_stream_open(t->channels[part], &psgd__v1__parameter_service__descriptor,
                                  method_names[stream], PS_NO_TIMEOUT, 0, &client_events, link);
    return &link->base;
}

static ps_traffic traffic(const ps_transport *transport, uint32_t part)
{
    const ps_channel *channel = transport_of(transport)->channels[part];

    return channel != NULL ? ps_channel_traffic(channel) : (ps_traffic){0};
}

static void post(ps_transport *t, ps_event *event)
{
    ps_loop_post(t->loop, event);
}

static void destroy(ps_transport *transport)
{
    grpc_transport *t = transport_of(transport);

    for (uint32_t i = 0; i < t->placement->part_count; i++) {
        ps_channel_destroy(t->channels[i]);
    }
    free(t->channels);
    free(t);
}

static const ps_transport_ops transport_ops = {
    .open = open_link,
    .traffic = traffic,
    .post = post,
    .destroy = destroy,
};

ps_transport *ps_grpc_transport_create(ps_loop *loop, const ps_placement *placement)
{
    grpc_transport *t = ps_xcalloc(1, sizeof *t);

    t->base = (ps_transport){.ops = &transport_ops,
                             .loop = loop,
                             .batch_bytes = BATCH_BYTES,
                             .message_bytes = PS_PAYLOAD_MAX,
                             .adapts = true};
    t->placement = placement;
    t->channels = ps_xcalloc(placement->part_count + 1u, sizeof(ps_channel *));
    return &t->base;
}

/* ---- A server's end ---- */

typedef struct server_link {
    ps_wire_link base;
    ps_call *call;
} server_link;

static server_link *server_of(const ps_wire_link *link)
{
    return PS_CONTAINER_OF(link, server_link, base);
}

static bool server_can_send(const ps_wire_link *link)
{
    return ps_call_can_send(server_of(link)->call);
}

static void on_server_sent(void *arg, ps_call *call)
{
    server_link *link = arg;

    (void)call;
    link->base.events->on_writable(link->base.arg);
}

static void server_send(ps_wire_link *link, const ProtobufCMessage *head, const ps_piece *pieces,
                        size_t count)
{
    ps_call_send(server_of(link)->call, head, pieces, count, on_server_sent, link);
}

static void on_server_message(void *arg, const ProtobufCMessage *message, ps_payload *payload,
                              ps_call *call)
{
    server_link *link = arg;
    ps_incoming in = incoming_of(payload);

    (void)call;
    link->base.events->on_message(link->base.arg, message, &in);
}

static void server_read(ps_wire_link *link)
{
    ps_call_read(server_of(link)->call, on_server_message, link);
}

static void server_send_and_read(ps_wire_link *link, const ProtobufCMessage *head,
                                 const ps_piece *pieces, size_t count)
{
    ps_call_send_and_read(server_of(link)->call, head, pieces, count, on_server_message, link);
}

static void server_finish(ps_wire_link *link)
{
    ps_call_finish(server_of(link)->call);
    free(server_of(link));
}

static void server_refuse(ps_wire_link *link, const char *reason, ps_status why)
{
    ps_identity_refuse(server_of(link)->call, reason, why);
    free(server_of(link));
}

static void server_count(ps_wire_link *link, ps_traffic *traffic)
{
    ps_call_count(server_of(link)->call, traffic);
}

static const ps_link_ops server_ops = {
    .can_send = server_can_send,
    .send = server_send,
    .read = server_read,
    .send_and_read = server_send_and_read,
    .finish = server_finish,
    .refuse = server_refuse,
    .count = server_count,
};

static void on_gone(void *arg, ps_call *call)
{
    server_link *link = arg;
    ps_error gone;

    (void)call;
    ps_error_init(&gone, ps_fail(PS_CANCELLED, "the worker hung up"), NULL);
    link->base.events->on_end(link->base.arg, &gone);
    free(link);
}

static void accept_stream(ps_wire_server *server, ps_wire_stream stream,
                          const ProtobufCMessage *request, ps_payload *payload, ps_call *call)
{
    server_link *link = ps_xcalloc(1, sizeof *link);
    ps_incoming in = incoming_of(payload);

    link->base.ops = &server_ops;
    link->base.node_id =
        ps_call_caller(call)->kind == PS_PRINCIPAL_NODE ? ps_call_caller(call)->name : NULL;
    link->call = call;
    ps_call_on_gone(call, on_gone, link);
    ps_wire_server_accept(server, stream, &link->base, request, &in);
}

static void handle_push(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    accept_stream(service, PS_WIRE_PUSH, request, payload, call);
}

static void handle_pull(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    accept_stream(service, PS_WIRE_PULL, request, payload, call);
}

static const ps_method methods[] = {
    {.name = "PushGradient",
     .handle = handle_push,
     .may = PS_MAY_NODE,
     .streams_in = true,
     .streams_out = true,
     .max_bytes = HEAD_BYTES},
    {.name = "PullWeights",
     .handle = handle_pull,
     .may = PS_MAY_NODE,
     .streams_in = true,
     .streams_out = true,
     .max_bytes = HEAD_BYTES},
};

void ps_grpc_wire_instance(uint32_t thread, char text[PS_GRPC_WIRE_INSTANCE_BYTES])
{
    snprintf(text, PS_GRPC_WIRE_INSTANCE_BYTES, "%" PRIu32, thread);
}

ps_service ps_grpc_wire_service(ps_wire_server *server)
{
    return (ps_service){
        .type = &psgd__v1__parameter_service__descriptor,
        .methods = methods,
        .method_count = sizeof methods / sizeof methods[0],
        .state = server,
    };
}
