/* SPDX-License-Identifier: Apache-2.0 */
/* server_impl.h - the inside of a server and its calls. Private to common/rpc.
 *
 * server.c listens, routes and stops. server_call.c begins and ends calls. server_stream.c sends
 * and receives the messages of a call. A call belongs to the thread of its loop. Members of the
 * server that calls of several loops use are atomic. A call of an instance is counted as over on
 * the server's own loop. */
#ifndef PS_COMMON_RPC_SERVER_IMPL_H
#define PS_COMMON_RPC_SERVER_IMPL_H

#include "common/rpc/durations.h"
#include "common/rpc/server.h"
#include "common/rpc/tls_impl.h"
#include "common/rpc/wire.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct ps_accept_check ps_accept_check;
typedef struct ps_unread ps_unread;

typedef struct ps_route {
    char *path; /* such as "/psgd.v1.NodeService/Abort"; NULL in an empty slot */
    uint32_t hash;
    const ProtobufCMethodDescriptor *type;
    const ps_method *method;
    /* decides whether a call goes to the handler; NULL: every call does */
    bool (*admit)(void *state, ps_call *call);
    void *state;
    /* NULL: the end of calls is not reported */
    void (*audit)(void *state, const ps_ended_call *end);
    /* durations of the method's calls; NULL: it is a stream */
    ps_histogram *durations;
    ps_loop *loop;
    /* of a method of an instance: the handle by which gRPC knows the method; else NULL */
    void *registered;
} ps_route;

struct ps_server {
    ps_loop *loop;
    grpc_server *grpc;
    int port;
    ps_server_own own;
    ps_accept_check *accept_check; /* NULL: accepting is not checked */
    ps_unread *unread;
    ps_event down;
    ps_timer grace;
    ps_event *done;
    /* fires once a second under TLS, and ends streams of clients that are no members any more */
    ps_timer members;
    pthread_mutex_t mutex; /* guards the list of streams */
    ps_call *streams;      /* streams under TLS, on all loops */
    atomic_bool stopping;
    bool is_down;
    /* number of calls that gRPC has not matched yet, and of matched calls that are not freed */
    atomic_size_t calls;
    atomic_size_t live; /* number of matched calls that are not freed */
    size_t slot_count;  /* a power of 2, at least twice the number of methods */
    ps_route *slots;    /* open addressing by hash of path */
    size_t instance_count;
    /* (instance_count): methods of instances, to which gRPC routes calls itself */
    ps_route *instances;
};

/* Life of a call: requested, matched, first message handed to its handler, answered, freed when
 * no event is pending. `closed` is pending from matched until the client and gRPC are done with
 * the call. So it is the last event, except for those that its own firing starts. */
struct ps_call {
    ps_server *server;
    ps_loop *loop;
    const ps_route *route; /* NULL: unknown method */
    grpc_call *grpc;
    grpc_call_details details;
    grpc_metadata_array metadata;
    ps_event matched, closed, received, sent, ended;
    unsigned pending; /* events in flight, without `matched` */
    int64_t begun_us; /* when its head arrived */
    int cancelled;
    bool handed;       /* the first message went to the handler */
    bool answered;     /* the handler or the server has ended the call, or it is gone */
    bool headers_sent; /* sent or in flight */
    bool reading, sending;
    bool is_one_batch; /* a send and a read are one batch: `received` fires for both */
    /* bytes of the message in flight that count as unread by the client (unread.h) */
    size_t unread;
    bool drained;        /* a read found no message; a second one was started */
    ps_traffic own;      /* traffic of the call until ps_call_count is called */
    ps_traffic *traffic; /* where messages are counted: `own`, or what ps_call_count was given */

    grpc_byte_buffer *incoming; /* written by gRPC while reading */
    ps_received in;
    ps_call_message_fn *on_message;
    void *message_arg;

    void (*on_sent)(void *arg, ps_call *call);
    void *sent_arg;
    bool end_waits;      /* the end waits until the message in flight was sent */
    ps_error *end_error; /* set while end_waits: the error to end with; NULL: OK */

    void (*gone)(void *arg, ps_call *call);
    void *gone_arg;
    ps_tls_identity caller; /* kind NONE in plaintext */
    bool is_listed;         /* the call is in server->streams */
    ps_call *prev, *next;   /* links of server->streams, guarded by the server's mutex */
    char about[96];
    char *peer; /* the client's address, asked of gRPC when it is first needed; NULL until then */
};

/* --- server.c */

/* Returns the route of a path, or NULL if there is no such method. */
const ps_route *ps_server_route(const ps_server *server, const uint8_t *path, size_t len);

/* Counts a call as over, and frees a stopped server after its last one. Server's loop. */
void ps_server_call_over(ps_server *server);

/* Add a stream to the list of those that end when their client is no member any more, and remove it
 * from there. Any loop. */
void ps_server_list_stream(ps_call *call);
void ps_server_drop_stream(ps_call *call);

/* --- server_call.c */

/* Writes "admin, submitter" for a set of kinds. Returns `out`. */
enum { PS_MAY_BYTES = 80 };
const char *ps_may_text(ps_may may, char out[PS_MAY_BYTES]);

/* Asks gRPC for one further call, unless the server is stopping: of this method of an instance or,
 * with NULL, of any other method. On the loop of the call, or before the server has started. */
void ps_server_request_call(ps_server *server, const ps_route *instance);

/* Starts a batch of operations that fires `event`, and counts it as pending. */
void ps_call_batch(ps_call *call, const grpc_op *ops, size_t count, ps_event *event);

/* Counts an event as fired. Frees the call if it was the last one and the call is answered. */
void ps_call_unpend(ps_call *call);

/* Ends a call because of a bad message and tells the handler that it is gone. */
void ps_call_hang_up(ps_call *call, const ps_status *why);

/* Ends a call with `reply` or `error` (NULL: OK). Waits for a message in flight. */
void ps_call_end(ps_call *call, grpc_byte_buffer *reply, const ps_error *error);

/* Sends the end of a call. No message may be in flight. */
void ps_call_end_now(ps_call *call, grpc_byte_buffer *reply, const ps_error *error);

/* Counts a message that gRPC is about to send as unread by the client, until ps_call_count_read. */
void ps_call_count_unread(ps_call *call, grpc_byte_buffer *message);

/* Ends the counting of the message in flight, because gRPC has written or dropped it. */
void ps_call_count_read(ps_call *call);

/* Returns whether the client must read answers before it gets others; then sets *error to what it
 * is told. */
bool ps_call_has_unread(ps_call *call, ps_error *error);

/* Ends a call with `error`, because of what its client does, and tells the handler that the call is
 * gone. */
void ps_call_refuse(ps_call *call, const ps_error *error);

/* --- server_stream.c */

/* Starts to read one message. */
void ps_call_receive(ps_call *call);

/* Handles what a read has brought; the `fire` of call->received. */
void ps_call_on_received(ps_event *self, bool ok);

/* Handles the end of a send; the `fire` of call->sent. */
void ps_call_on_sent(ps_event *self, bool ok);

#endif
