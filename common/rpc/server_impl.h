/* SPDX-License-Identifier: Apache-2.0 */
/* server_impl.h - the inside of a server and its calls. Private to common/rpc.
 *
 * server.c listens, routes and stops. server_call.c begins and ends calls. server_stream.c moves
 * the messages between. A call belongs to the thread of its loop. What calls of several loops share
 * in the server is atomic; a call of an instance is counted as over on the server's own loop.
 */
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
    bool (*admit)(void *state, ps_call *call); /* NULL: every call */
    void *state;
    void (*audit)(void *state, const ps_ended_call *end); /* NULL: nobody is told */
    ps_histogram *durations;                              /* NULL: a stream */
    ps_loop *loop;
    void *registered; /* of an instance: gRPC's name of the method; else NULL */
} ps_route;

struct ps_server {
    ps_loop *loop;
    grpc_server *grpc;
    int port;
    ps_server_own own;
    ps_accept_check *accept_check; /* NULL: nobody checks */
    ps_unread *unread;
    ps_event down;
    ps_timer grace;
    ps_event *done;
    ps_timer members;      /* fires once a second under TLS: ends streams of who is out */
    pthread_mutex_t mutex; /* guards the list of streams */
    ps_call *streams;      /* calls of several messages under TLS, of all loops */
    atomic_bool stopping;
    bool is_down;
    atomic_size_t calls; /* that gRPC has not matched yet, and matched ones that are not freed */
    atomic_size_t live;  /* of them those that are matched */
    size_t slot_count;   /* a power of 2, at least twice the number of methods */
    ps_route *slots;     /* open addressing by hash of path */
    size_t instance_count;
    ps_route *instances; /* (instance_count): methods of instances, which gRPC finds itself */
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
    bool answered;     /* the handler has ended the call or was told that it is gone */
    bool headers_sent; /* sent or in flight */
    bool reading, sending;
    bool is_one_batch;   /* both are: `received` fires for both */
    size_t unread;       /* bytes of the message in flight, as ps_unread counts them */
    bool drained;        /* a read found no message; a second one was started */
    ps_traffic own;      /* until ps_call_count */
    ps_traffic *traffic; /* what counts the messages */

    grpc_byte_buffer *incoming; /* written by gRPC while reading */
    ps_received in;
    ps_call_message_fn *on_message;
    void *message_arg;

    void (*on_sent)(void *arg, ps_call *call);
    void *sent_arg;
    bool end_waits;      /* the end waits for the message in flight */
    ps_error *end_error; /* set while end_waits; NULL: OK */

    void (*gone)(void *arg, ps_call *call);
    void *gone_arg;
    ps_tls_identity caller; /* of NONE in plaintext */
    bool is_listed;         /* among the streams of the server, ... */
    ps_call *prev, *next;   /* ... guarded by its mutex */
    char about[96];
    char *peer; /* from gRPC; NULL until it is asked for */
};

/* --- server.c */

/* Returns the route of a path, or NULL if there is no such method. */
const ps_route *ps_server_route(const ps_server *server, const uint8_t *path, size_t len);

/* Counts a call as over, and frees a stopped server after its last one. Server's loop. */
void ps_server_call_over(ps_server *server);

/* Add a stream to those that end when its client is no member any more, and remove it. Any loop. */
void ps_server_list_stream(ps_call *call);
void ps_server_drop_stream(ps_call *call);

/* --- server_call.c */

/* Writes "admin, submitter" for a set of kinds. Returns `out`. */
enum { PS_MAY_BYTES = 80 };
const char *ps_may_text(ps_may may, char out[PS_MAY_BYTES]);

/* Asks gRPC for one further call, unless the server stops: of an instance's method, or with NULL of
 * anything else. On the loop of the call; or before the server has started. */
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

/* Counts a message that gRPC is given as unread; ps_call_count_read ends that. */
void ps_call_count_unread(ps_call *call, grpc_byte_buffer *message);

/* Counts the message in flight as written or dropped. */
void ps_call_count_read(ps_call *call);

/* Returns whether the client has to read answers before it gets others; *error says so. */
bool ps_call_has_unread(ps_call *call, ps_error *error);

/* Ends a call because of what its client does and tells the handler that it is gone. */
void ps_call_refuse(ps_call *call, const ps_error *error);

/* --- server_stream.c */

/* Starts to read one message. */
void ps_call_receive(ps_call *call);

/* Handles what a read has brought; the `fire` of call->received. */
void ps_call_on_received(ps_event *self, bool ok);

/* Handles the end of a send; the `fire` of call->sent. */
void ps_call_on_sent(ps_event *self, bool ok);

#endif
