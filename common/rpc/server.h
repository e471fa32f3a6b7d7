/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - serves protobuf-c services on a loop.
 *
 * A service is its generated descriptor and a const table of handlers. Paths,
 * message types, unpacking (bounded, into an arena), packing, status and the
 * life of a call are done here once for all methods; a handler holds only what
 * its method is about. Health (Check, Watch) and reflection (v1, v1alpha) are
 * served beside the given services without being asked for.
 *
 * Everything here belongs to the loop's thread.
 */
#ifndef PS_COMMON_RPC_SERVER_H
#define PS_COMMON_RPC_SERVER_H

#include "common/rpc/error.h"
#include "common/rpc/loop.h"
#include "common/rpc/payload.h"
#include "common/rpc/traffic.h"

#include <protobuf-c/protobuf-c.h>

typedef struct ps_server ps_server;
typedef struct ps_call ps_call; /* one call being answered, unary or streaming */

/* Called when a call and its (first) request message are there. The message
 * lives until the call ends (unary, server stream) or until the next
 * ps_call_read (streams in). `payload` is NULL if the type has none, and is
 * borrowed for this callback. A stream that ends before its first message is
 * refused without asking the handler. The call ends with exactly one of ps_call_reply
 * (unary), ps_call_finish (stream out) and ps_call_fail, now or later. A
 * handler that keeps the call must call ps_call_on_gone before it returns. */
typedef void ps_handler(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call);

typedef struct ps_method {
    const char *name; /* as in the .proto file */
    ps_handler *handle;
    bool streams_in, streams_out; /* protobuf-c's descriptors do not say */
    /* Of a request beside its payload (payload.h); longer is RESOURCE_EXHAUSTED.
     * 0: 64 KiB. At most 4 MiB come through at all. */
    size_t max_bytes;
} ps_method;

typedef struct ps_service {
    const ProtobufCServiceDescriptor *type;
    const ps_method *methods;
    size_t method_count;
    void *state; /* not owned; handed to handlers */
} ps_service;

/* Listens on `address` ("127.0.0.1:0": any port) and serves when the loop
 * runs. FAILED_PRECONDITION if a table lacks a method of its descriptor,
 * UNAVAILABLE if the address cannot be had. `services` is kept. */
PS_MUST_USE ps_status ps_server_start(ps_loop *loop, const ps_service *services, size_t count,
                                      const char *address, ps_server **out);

int ps_server_port(const ps_server *server);

/* What health says of `service` ("" is the whole server); all start SERVING. */
void ps_server_set_serving(ps_server *server, const char *service, bool serving);

/* Health says NOT_SERVING, new calls are refused, running ones may end; those
 * still running after `grace_us` are cancelled; then the server is freed and
 * `done` fires. Aborts if a handler keeps a call that is over. */
void ps_server_stop(ps_server *server, int64_t grace_us, ps_event *done);

/* If the caller hangs up, its deadline passes or the server stops before the
 * end, `gone` is called once; it must forget `call`, which is freed on return. */
void ps_call_on_gone(ps_call *call, void (*gone)(void *arg, ps_call *call), void *arg);

/* Ends a unary call. `reply` is packed before this returns. */
void ps_call_reply(ps_call *call, const ProtobufCMessage *reply);

/* Ends any call with a failure. */
void ps_call_fail(ps_call *call, ps_status why);
void ps_call_fail_error(ps_call *call, const ps_error *why);

/* --- streams in ------------------------------------------------------------
 * Asks for exactly one further message: on_message comes once, with message
 * NULL when the caller has sent its last. Not asking is the flow control. A
 * message that is too long or malformed ends the call by itself (`gone`). gRPC
 * cannot tell for certain a last message from a hang-up: where it matters that
 * all has come, the messages must say how much that is. */
typedef void ps_call_message_fn(void *arg, const ProtobufCMessage *message, ps_payload *payload,
                                ps_call *call);
void ps_call_read(ps_call *call, ps_call_message_fn *on_message, void *arg);

/* --- streams out -----------------------------------------------------------
 * Sends one message; `head` is packed before this returns. One message may be
 * in flight: the next after `on_sent`, which comes when flow control has let it
 * out, and may come after the peer's answer to it. on_sent is not called after
 * `gone`, nor when the call was ended meanwhile: the end waits for the message. */
void ps_call_send(ps_call *call, const ProtobufCMessage *head, const ps_piece *pieces,
                  size_t piece_count, void (*on_sent)(void *arg, ps_call *call), void *arg);
bool ps_call_can_send(const ps_call *call); /* nothing in flight */

/* Ends a stream out with OK, once what is in flight is out. */
void ps_call_finish(ps_call *call);

/* "ipv4:127.0.0.1:40312"; valid while the call is. */
const char *ps_call_peer(ps_call *call);

/* Of all calls of this server so far. */
ps_traffic ps_server_traffic(const ps_server *server);

/* The same for who counts some calls only: one message, its payload of so many bytes. */
void ps_traffic_count_in(ps_traffic *traffic, const ProtobufCMessage *head, size_t payload);
void ps_traffic_count_out(ps_traffic *traffic, const ProtobufCMessage *head, size_t payload);

#endif
