/* SPDX-License-Identifier: Apache-2.0 */
/* wire_link_grpc.c - see wire_link_grpc.h. */
#include "common/wire/wire_link_grpc.h"

#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/rpc/client.h"
#include "common/wire/connection.h"
#include "common/wire/identity.h"
#include "common/wire/link_memory.h"

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

/* reason for machines of a refusal: the place that a message names has no payload */
#define BAD_PLACE "BAD_PLACE"

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

typedef struct grpc_transport {
    ps_transport base;
    const ps_placement *placement;
    ps_channel **channels; /* (part_count); an element is NULL until a link to its part is opened */
    /* (part_count): traffic through shared memory, which the channels do not count */
    ps_traffic *in_memory;
    bool is_sockets_only; /* no memory is offered */
} grpc_transport;

typedef struct client_link {
    ps_wire_link base;
    ps_stream *stream;
    grpc_transport *t;
    uint32_t part;
    ps_wire_stream kind;
    bool is_offered; /* the first message was sent, with an offer if there is a memory */
    /* of a push stream: the server has opened the memory, so payloads go through it */
    bool is_taken;
    ps_shared_memory *memory; /* NULL: none */
} client_link;

static client_link *client_of(const ps_wire_link *link)
{
    return PS_CONTAINER_OF(link, client_link, base);
}

static bool client_can_send(const ps_wire_link *link)
{
    return ps_stream_can_send(client_of(link)->stream);
}

/* A message that is sent: a copy of its head, with what the link adds. */
typedef struct client_head {
    union {
        ProtobufCMessage base;
        Psgd__V1__PushGradientRequest push;
        Psgd__V1__PullWeightsRequest pull;
    } message;
    ps_link_offer offer;
    Psgd__V1__PayloadPlace place;
} client_head;

/* Creates a memory for the link and has its first message offer it. */
static void offer_memory(client_link *link, client_head *out)
{
    link->is_offered = true;
    if (link->t->is_sockets_only) {
        return;
    }
    link->memory = ps_link_memory_create(&out->offer);
    if (link->memory != NULL) {
        *(link->kind == PS_WIRE_PUSH ? &out->message.push.memory : &out->message.pull.memory) =
            &out->offer.message;
    }
}

/* Copies the head of a message to *out. Adds the offer of a memory to the first message; puts the
 * payload of a later message into the memory if that is possible, and adds its place. If the
 * payload went there, sets *count to 0. Returns the head to send. */
static const ProtobufCMessage *client_add(client_link *link, const ProtobufCMessage *head,
                                          const ps_piece *pieces, size_t *count, client_head *out)
{
    if (link->kind == PS_WIRE_PUSH) {
        out->message.push = *(const Psgd__V1__PushGradientRequest *)head;
    } else {
        out->message.pull = *(const Psgd__V1__PullWeightsRequest *)head;
    }
    if (!link->is_offered) {
        offer_memory(link, out);
    }
    if (link->is_taken && ps_link_memory_put(link->memory, pieces, *count, &out->place,
                                             &link->t->in_memory[link->part])) {
        out->message.push.place = &out->place;
        *count = 0;
    }
    return &out->message.base;
}

static void client_send(ps_wire_link *link, const ProtobufCMessage *head, const ps_piece *pieces,
                        size_t count)
{
    client_head h;

    head = client_add(client_of(link), head, pieces, &count, &h);
    ps_stream_send(client_of(link)->stream, head, pieces, count);
}

/* Gives the memory of the last received payload back to the server. Called when the user asks for
 * the next message, because the payload is valid until then. Does nothing for a push stream, in
 * whose memory only this end puts payloads. */
static void client_done(const client_link *link)
{
    if (link->kind == PS_WIRE_PULL && link->memory != NULL) {
        ps_shared_memory_done(link->memory);
    }
}

static void client_read(ps_wire_link *link)
{
    client_done(client_of(link));
    ps_stream_read(client_of(link)->stream);
}

static void client_send_and_read(ps_wire_link *link, const ProtobufCMessage *head,
                                 const ps_piece *pieces, size_t count)
{
    client_head h;

    client_done(client_of(link));
    head = client_add(client_of(link), head, pieces, &count, &h);
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

/* Learns from the first answer on a push stream whether the server has opened the memory. A server
 * on another host cannot; the memory is then freed, and payloads go by the stream. */
static void learn(client_link *link, const Psgd__V1__PushGradientResponse *ack)
{
    if (link->memory != NULL && !link->is_taken) {
        link->is_taken = ack->takes_memory;
        if (!link->is_taken) {
            ps_shared_memory_destroy(link->memory);
            link->memory = NULL;
        }
    }
}

static void on_client_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    client_link *link = arg;
    ps_incoming in = incoming_of(payload);
    const Psgd__V1__PayloadPlace *place = NULL;
    ps_status st = ps_ok();

    if (link->kind == PS_WIRE_PUSH) {
        learn(link, (const Psgd__V1__PushGradientResponse *)head);
    } else {
        place = ((const Psgd__V1__PullWeightsResponse *)head)->place;
    }
    if (place != NULL) {
        st = ps_link_memory_take(link->memory, place, &in, &link->t->in_memory[link->part]);
    }
    if (!ps_is_ok(&st)) {
        /* The stream is opened again, and payloads then go by sockets. */
        ps_log(PS_LOG_WARN, "wire", "an answer of a server: %s", st.text);
        link->t->is_sockets_only = true;
        ps_stream_cancel(link->stream);
        return;
    }
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
    ps_shared_memory_destroy(link->memory);
    free(link);
}

static const ps_stream_events client_events = {
    .on_message = on_client_message,
    .on_sent = on_client_sent,
    .on_end = on_client_end,
};

static grpc_transport *transport_of(const ps_transport *t)
{
    return PS_CONTAINER_OF(t, grpc_transport, base);
}

/* Creates the channel to a part. Each part has its own channel, so that no thread of a server waits
 * for the messages of another. The first thread of a server serves the service itself; the others,
 * and copies, serve instances of it. */
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
    link->t = t;
    link->part = part;
    link->kind = stream;
    link->stream = ps_stream_open(t->channels[part], &psgd__v1__parameter_service__descriptor,
                                  method_names[stream], PS_NO_TIMEOUT, 0, &client_events, link);
    return &link->base;
}

static ps_traffic traffic(const ps_transport *transport, uint32_t part)
{
    const grpc_transport *t = transport_of(transport);
    const ps_traffic *in_memory = &t->in_memory[part];
    ps_traffic sum = {0};

    if (t->channels[part] != NULL) {
        sum = ps_channel_traffic(t->channels[part]);
    }
    sum.bytes_in += in_memory->bytes_in;
    sum.bytes_out += in_memory->bytes_out;
    sum.bytes_through_memory = in_memory->bytes_through_memory;
    return sum;
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
    free(t->in_memory);
    free(t);
}

static const ps_transport_ops transport_ops = {
    .open = open_link,
    .traffic = traffic,
    .post = post,
    .destroy = destroy,
};

ps_transport *ps_grpc_transport_create(ps_loop *loop, const ps_placement *placement,
                                       bool is_sockets_only)
{
    grpc_transport *t = ps_xcalloc(1, sizeof *t);

    t->base = (ps_transport){.ops = &transport_ops,
                             .loop = loop,
                             .batch_bytes = BATCH_BYTES,
                             .message_bytes = PS_PAYLOAD_MAX,
                             .adapts = true};
    t->placement = placement;
    t->channels = ps_xcalloc(placement->part_count + 1u, sizeof(ps_channel *));
    t->in_memory = ps_xcalloc(placement->part_count + 1u, sizeof *t->in_memory);
    t->is_sockets_only = is_sockets_only;
    return &t->base;
}

/* ---- A server's end ---- */

typedef struct server_link {
    ps_wire_link base;
    ps_call *call;
    ps_wire_stream kind;
    /* the worker has offered a memory (`offer`), which is opened before the first answer is sent */
    bool is_offered;
    bool has_said; /* of a push stream: an answer has said that the memory was opened */
    ps_memory_offer offer;
    ps_shared_memory *memory; /* NULL: none */
    ps_traffic *traffic;      /* where the messages of the call are counted; NULL: nowhere */
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

/* An answer: a copy of its head, with what the link adds. */
typedef struct server_head {
    union {
        ProtobufCMessage base;
        Psgd__V1__PushGradientResponse push;
        Psgd__V1__PullWeightsResponse pull;
    } message;
    Psgd__V1__PayloadPlace place;
} server_head;

/* Returns the head of an answer to send: `head` itself or, if something is added, a copy of it in
 * *out. Of a push stream, the first answer says whether the memory was opened. Of a pull stream,
 * the payload is put into the memory if that is possible; then its place is added and *count
 * becomes 0. The memory is opened here, with the first answer, because only a worker with the right
 * identity gets one. */
static const ProtobufCMessage *server_add(server_link *link, const ProtobufCMessage *head,
                                          const ps_piece *pieces, size_t *count, server_head *out)
{
    if (link->is_offered) {
        link->is_offered = false;
        link->memory = ps_link_memory_open(&link->offer);
    }
    if (link->memory == NULL) {
        return head;
    }
    if (link->kind == PS_WIRE_PUSH) {
        out->message.push = *(const Psgd__V1__PushGradientResponse *)head;
        out->message.push.takes_memory = !link->has_said;
        link->has_said = true;
        return &out->message.base;
    }
    if (!ps_link_memory_put(link->memory, pieces, *count, &out->place, link->traffic)) {
        return head;
    }
    out->message.pull = *(const Psgd__V1__PullWeightsResponse *)head;
    out->message.pull.place = &out->place;
    *count = 0;
    return &out->message.base;
}

static void server_send(ps_wire_link *link, const ProtobufCMessage *head, const ps_piece *pieces,
                        size_t count)
{
    server_head h;

    head = server_add(server_of(link), head, pieces, &count, &h);
    ps_call_send(server_of(link)->call, head, pieces, count, on_server_sent, link);
}

static void server_free(server_link *link)
{
    ps_shared_memory_destroy(link->memory);
    free(link);
}

/* Ends a push stream whose message names a place in the memory that has no payload. */
static void server_break(server_link *link, ps_status why)
{
    ps_error error;

    ps_error_init(&error, why, BAD_PLACE);
    link->base.events->on_end(link->base.arg, &error);
    ps_identity_refuse(link->call, BAD_PLACE, why);
    server_free(link);
}

static void on_server_message(void *arg, const ProtobufCMessage *message, ps_payload *payload,
                              ps_call *call)
{
    server_link *link = arg;
    ps_incoming in = incoming_of(payload);
    const Psgd__V1__PayloadPlace *place = NULL;
    ps_status st = ps_ok();

    (void)call;
    if (message != NULL && link->kind == PS_WIRE_PUSH) {
        place = ((const Psgd__V1__PushGradientRequest *)message)->place;
    }
    if (place != NULL) {
        st = ps_link_memory_take(link->memory, place, &in, link->traffic);
    }
    if (ps_is_ok(&st)) {
        link->base.events->on_message(link->base.arg, message, &in);
    } else {
        server_break(link, st);
    }
}

/* Gives the memory of the last received payload back to the worker. Called when the user asks for
 * the next message, because the payload is valid until then. Does nothing for a pull stream, in
 * whose memory only this end puts payloads. */
static void server_done(const server_link *link)
{
    if (link->kind == PS_WIRE_PUSH && link->memory != NULL) {
        ps_shared_memory_done(link->memory);
    }
}

static void server_read(ps_wire_link *link)
{
    server_done(server_of(link));
    ps_call_read(server_of(link)->call, on_server_message, link);
}

static void server_send_and_read(ps_wire_link *link, const ProtobufCMessage *head,
                                 const ps_piece *pieces, size_t count)
{
    server_head h;

    server_done(server_of(link));
    head = server_add(server_of(link), head, pieces, &count, &h);
    ps_call_send_and_read(server_of(link)->call, head, pieces, count, on_server_message, link);
}

static void server_finish(ps_wire_link *link)
{
    ps_call_finish(server_of(link)->call);
    server_free(server_of(link));
}

static void server_refuse(ps_wire_link *link, const char *reason, ps_status why)
{
    ps_identity_refuse(server_of(link)->call, reason, why);
    server_free(server_of(link));
}

static void server_count(ps_wire_link *link, ps_traffic *traffic)
{
    server_of(link)->traffic = traffic;
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
    server_free(link);
}

static void accept_stream(ps_wire_server *server, ps_wire_stream stream,
                          const ProtobufCMessage *request, ps_payload *payload, ps_call *call)
{
    server_link *link = ps_xcalloc(1, sizeof *link);
    ps_incoming in = incoming_of(payload);
    const Psgd__V1__SharedMemory *offer =
        stream == PS_WIRE_PUSH ? ((const Psgd__V1__PushGradientRequest *)request)->memory
                               : ((const Psgd__V1__PullWeightsRequest *)request)->memory;

    link->base.ops = &server_ops;
    link->kind = stream;
    link->is_offered =
        !ps_wire_server_is_sockets_only(server) && ps_link_memory_read(offer, &link->offer);
    link->base.node_id =
        ps_call_caller(call)->kind == PS_PRINCIPAL_NODE ? ps_call_caller(call)->name : NULL;
    link->call = call;
    ps_call_on_gone(call, on_gone, link);
    ps_wire_server_accept(server, stream, &link->base, request, &in);
}

static void handle_push(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    if (((const Psgd__V1__PushGradientRequest *)request)->place != NULL) {
        ps_identity_refuse(call, BAD_PLACE,
                           ps_fail(PS_INVALID_ARGUMENT,
                                   "place: the first message of a stream has its payload itself"));
        return;
    }
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
