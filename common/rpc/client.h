/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - calls methods of protobuf-c services, unary and streaming.
 *
 * Everything here is used on the loop's thread only. A channel connects by itself and reconnects
 * after a loss. Calls that are made meanwhile wait for the connection until their deadline.
 *
 * A failed call reports the server's own error. If the error did not come from the server, it is
 * gRPC's and its text begins with the target. If the deadline passes without a connection, the
 * error is UNAVAILABLE with reason UNREACHABLE; with a connection it is DEADLINE_EXCEEDED. If a
 * channel that fails fast cannot connect, it is UNAVAILABLE with reason NOT_CONNECTED.
 */
#ifndef PS_COMMON_RPC_CLIENT_H
#define PS_COMMON_RPC_CLIENT_H

#include "common/pki/principal.h"
#include "common/rpc/error.h"
#include "common/rpc/loop.h"
#include "common/rpc/payload.h"
#include "common/rpc/traffic.h"

#include <protobuf-c/protobuf-c.h>

typedef struct ps_channel ps_channel;
struct ps_tls_files; /* tls_files.h */

/* Returns a channel to `target` (host:port); release it by ps_channel_destroy. It reconnects
 * with a back-off of 0.1 s to 2 s and pings every 20 s while calls are open. Never fails: calls
 * to an unreachable target fail. */
ps_channel *ps_channel_create(ps_loop *loop, const char *target);

/* Returns a channel to a server whose certificate is not of psgd's authority, by TLS with these
 * files. Otherwise as ps_channel_create. */
ps_channel *ps_channel_create_files(ps_loop *loop, const char *target, struct ps_tls_files *files);

/* Returns a channel to an instance of the services at `target` (server.h), with a connection of its
 * own. Otherwise as ps_channel_create. */
ps_channel *ps_channel_create_instance(ps_loop *loop, const char *target, const char *instance);

/* Returns a channel that under TLS does not show the program's own certificate. Its calls count as
 * those of the user whose token they carry (ps_channel_bring). Otherwise as ps_channel_create. */
ps_channel *ps_channel_create_guest(ps_loop *loop, const char *target);

/* Makes calls that are begun from now on carry a user's token, under TLS only; "": no token. The
 * token is copied. */
void ps_channel_bring(ps_channel *channel, const char *token);

/* Sets which servers the channel connects to: those whose certificate names this kind and name; an
 * empty `name` stands for any of the kind. Under TLS (ps_loop_use_tls) the channel connects to no
 * server without this call; in plaintext, and on a channel of ps_channel_create_files, the call has
 * no effect. Call it before the first call. */
void ps_channel_expect(ps_channel *channel, ps_principal_kind kind, const char *name);

/* Makes calls fail as soon as an attempt to connect has failed. Without it they wait for a
 * connection until their deadline. */
void ps_channel_fail_fast(ps_channel *channel);

/* Connects now instead of at the first call. Calls fn(arg) later, never from within: when the
 * channel is connected, when the first attempt has failed, or after `timeout_us` microseconds. The
 * channel goes on trying to connect; until fn is called, failed handshakes are not logged. */
typedef void ps_connected_fn(void *arg, bool is_connected);
void ps_channel_connect(ps_channel *channel, int64_t timeout_us, ps_connected_fn *fn, void *arg);

/* Forbids new calls and frees the channel when its last running call has ended. NULL is allowed. */
void ps_channel_destroy(ps_channel *channel);

/* --- unary ----------------------------------------------------------------- */

typedef struct ps_unary ps_unary; /* a running call */

/* Receives the outcome of a unary call; called once. `reply` has the method's output type and is
 * freed after this returns. It is NULL if error->status is not ok. */
typedef void ps_reply_fn(void *arg, const ps_error *error, const ProtobufCMessage *reply);

/* Starts a unary call of `method`. `timeout_us` is in microseconds from now. `request` is packed
 * before this returns. `on_reply` is called later, never from within. The returned handle is for
 * ps_unary_cancel and is invalid after on_reply. */
ps_unary *ps_unary_start(ps_channel *channel, const ProtobufCServiceDescriptor *type,
                         const char *method, const ProtobufCMessage *request, int64_t timeout_us,
                         ps_reply_fn *on_reply, void *arg);

/* Cancels a call. on_reply is still called, with CANCELLED unless the reply came first. */
void ps_unary_cancel(ps_unary *call);

/* --- streams --------------------------------------------------------------- Each direction has at
 * most one message in flight. The next message may be sent after `on_sent`, which may be called
 * after the server's answer to the message has arrived. A message is received only after
 * ps_stream_read. The end of a stream comes after its messages, so a caller that does not read does
 * not notice it, unless the stream is cancelled or broken. */

typedef struct ps_stream ps_stream;

typedef struct ps_stream_events {
    /* Receives the message of one ps_stream_read. `head` and `payload` are borrowed for this
     * call. If the stream ends instead, only on_end is called. */
    void (*on_message)(void *arg, const ProtobufCMessage *head, ps_payload *payload);
    void (*on_sent)(void *arg); /* optional; the message was sent */
    /* Reports the end of the stream. Called exactly once and last; the stream is freed when it
     * returns. */
    void (*on_end)(void *arg, const ps_error *error);
} ps_stream_events;

enum { PS_NO_TIMEOUT = 0 };

/* Opens a stream of `method`. `timeout_us` is in microseconds from now, or PS_NO_TIMEOUT.
 * `max_bytes` bounds a received message without its payload, as in server.h (0: 64 KiB). Events
 * are called later, never from within. `events` must outlive the stream. */
ps_stream *ps_stream_open(ps_channel *channel, const ProtobufCServiceDescriptor *type,
                          const char *method, int64_t timeout_us, size_t max_bytes,
                          const ps_stream_events *events, void *arg);

/* Sends one message; ps_stream_can_send must be true. `head` is packed before this returns;
 * `pieces` are described in payload.h. */
void ps_stream_send(ps_stream *stream, const ProtobufCMessage *head, const ps_piece *pieces,
                    size_t piece_count);

/* Sends one message and asks for one message with one system call; see ps_call_send_and_read. No
 * other message may be sent before `on_message`, and `on_sent` is not called. */
void ps_stream_send_and_read(ps_stream *stream, const ProtobufCMessage *head,
                             const ps_piece *pieces, size_t piece_count);

/* Returns whether no message is in flight and the stream was not half-closed. */
bool ps_stream_can_send(const ps_stream *stream);

/* Asks for one further message. No read may be pending. */
void ps_stream_read(ps_stream *stream);

/* Tells the server that no message follows. A message in flight is sent first. */
void ps_stream_half_close(ps_stream *stream);

/* Cancels the stream. on_end is still called. */
void ps_stream_cancel(ps_stream *stream);

/* Returns the traffic of all calls of the channel so far. */
ps_traffic ps_channel_traffic(const ps_channel *channel);

#endif
