/* SPDX-License-Identifier: Apache-2.0 */
/* server_call.h - the server and its calls from inside. rpc/ only.
 *
 * server.c listens, routes and stops; server_call.c begins and ends calls;
 * server_stream.c moves the messages between. All on the loop's thread, so
 * nothing here is atomic.
 */
#ifndef PS_COMMON_RPC_SERVER_CALL_H
#define PS_COMMON_RPC_SERVER_CALL_H

#include "common/rpc/server.h"
#include "common/rpc/wire.h"

typedef struct ps_health ps_health;
typedef struct ps_reflection ps_reflection;

typedef struct ps_route {
    char *path; /* "/psgd.v1.NodeService/Abort"; NULL: an empty slot */
    uint32_t hash;
    const ProtobufCMethodDescriptor *type;
    const ps_method *method;
    void *state;
} ps_route;

struct ps_server {
    ps_loop *loop;
    grpc_server *grpc;
    int port;
    ps_health *health;
    ps_reflection *reflection;
    ps_event down;
    ps_timer grace;
    ps_event *done;
    bool stopping, is_down;
    size_t requested;  /* calls that wait for gRPC to fill them */
    size_t live_calls; /* filled and not yet freed */
    ps_traffic traffic;
    size_t slot_count; /* power of 2, at least twice the methods */
    ps_route *slots;   /* open addressing by hash of path */
};

/* Life: requested -> matched -> (first message) handed to its handler ->
 * answered -> freed when nothing is pending. `closed` is pending from matched
 * until the peer and gRPC are done with the call, so it is the last but for
 * what its coming ends. */
struct ps_call {
    ps_server *server;
    const ps_route *route; /* NULL: no such method */
    grpc_call *grpc;
    grpc_call_details details;
    grpc_metadata_array metadata;
    ps_event matched, closed, received, sent, ended;
    unsigned pending; /* events in flight, but for matched */
    int cancelled;
    bool handed;       /* to the handler */
    bool answered;     /* the handler is done with it: it ended the call, or is told it is gone */
    bool headers_sent; /* or in flight */
    bool reading, sending;
    bool drained; /* there was no further message; asked once more */

    grpc_byte_buffer *incoming; /* gRPC's while reading */
    ps_received in;
    ps_call_message_fn *on_message;
    void *message_arg;

    void (*on_sent)(void *arg, ps_call *call);
    void *sent_arg;
    bool end_waits;      /* for what is being sent */
    ps_error *end_error; /* while end_waits; NULL: OK */

    void (*gone)(void *arg, ps_call *call);
    void *gone_arg;
    char *peer; /* gRPC's, once asked for */
};

/* server.c */
const ps_route *ps_server_route(const ps_server *server, const uint8_t *path, size_t len);
void ps_server_call_over(ps_server *server); /* counters went down: is it over? */

/* server_call.c */
void ps_server_request_call(ps_server *server);
void ps_call_batch(ps_call *call, const grpc_op *ops, size_t count, ps_event *event);
void ps_call_unpend(ps_call *call);
void ps_call_hang_up(ps_call *call, const ps_status *why); /* a bad message */
void ps_call_end(ps_call *call, grpc_byte_buffer *reply, const ps_error *error);
void ps_call_end_now(ps_call *call, grpc_byte_buffer *reply, const ps_error *error);

/* server_stream.c */
void ps_call_receive(ps_call *call);
void ps_call_on_received(ps_event *self, bool ok);
void ps_call_on_sent(ps_event *self, bool ok);

#endif
