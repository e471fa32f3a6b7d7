/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - calls to protobuf-c services, unary and streaming.
 *
 * Everything here belongs to the loop's thread. A channel connects by itself
 * and again after a loss; calls made meanwhile wait for it until their deadline.
 *
 * A call that fails brings the server's own error, or, where the server had no
 * part in it, gRPC's, its text beginning with the target. A deadline that
 * passes without a connection is UNAVAILABLE, reason UNREACHABLE; with one it is
 * DEADLINE_EXCEEDED.
 */
#ifndef PS_COMMON_RPC_CLIENT_H
#define PS_COMMON_RPC_CLIENT_H

#include "common/rpc/error.h"
#include "common/rpc/loop.h"
#include "common/rpc/payload.h"
#include "common/rpc/traffic.h"

#include <protobuf-c/protobuf-c.h>

typedef struct ps_channel ps_channel;

/* `target` is host:port. Reconnects with 0.1 s .. 2 s of back-off, pings every
 * 20 s while calls are open. Never fails: an unreachable target fails calls. */
ps_channel *ps_channel_create(ps_loop *loop, const char *target);

/* No new calls afterwards; those running go on and end by themselves. */
void ps_channel_destroy(ps_channel *channel);

/* --- unary ----------------------------------------------------------------- */

typedef struct ps_unary ps_unary; /* a running call */

/* Called once. `reply` is NULL unless error->status is ok, has the method's
 * output type, and is freed after this returns. */
typedef void ps_reply_fn(void *arg, const ps_error *error, const ProtobufCMessage *reply);

/* `request` is packed before this returns; on_reply never comes before it
 * returns. `timeout_us` counts from now. The handle is for ps_unary_cancel and
 * is dead once on_reply was called. */
ps_unary *ps_unary_start(ps_channel *channel, const ProtobufCServiceDescriptor *type,
                         const char *method, const ProtobufCMessage *request, int64_t timeout_us,
                         ps_reply_fn *on_reply, void *arg);

/* on_reply still comes, with CANCELLED unless the reply was faster. */
void ps_unary_cancel(ps_unary *call);

/* --- streams ---------------------------------------------------------------
 * One message may be in flight each way: the next send after `on_sent`, which may
 * come after the server's answer to it, and a message is received only after
 * ps_stream_read. The end of a stream stands behind its messages: who does not
 * read does not see it, unless the stream is cancelled or cut off. */

typedef struct ps_stream ps_stream;

typedef struct ps_stream_events {
    /* Answer to one ps_stream_read; `head` and `payload` are borrowed. Not
     * called when the stream ends instead: on_end says so. */
    void (*on_message)(void *arg, const ProtobufCMessage *head, ps_payload *payload);
    void (*on_sent)(void *arg); /* (optional) */
    /* Always, once, and last: the stream is freed when it returns. */
    void (*on_end)(void *arg, const ps_error *error);
} ps_stream_events;

enum { PS_NO_TIMEOUT = 0 };

/* Opens METHOD of `type`; max_bytes bounds a received message as in server.h
 * (0: 64 KiB beside a payload of 1 MiB). Events come later, never from within. */
ps_stream *ps_stream_open(ps_channel *channel, const ProtobufCServiceDescriptor *type,
                          const char *method, int64_t timeout_us, size_t max_bytes,
                          const ps_stream_events *events, void *arg);
void ps_stream_send(ps_stream *stream, const ProtobufCMessage *head, const ps_piece *pieces,
                    size_t piece_count);
bool ps_stream_can_send(const ps_stream *stream);
void ps_stream_read(ps_stream *stream);
void ps_stream_half_close(ps_stream *stream); /* nothing more will be sent */
void ps_stream_cancel(ps_stream *stream);     /* on_end still comes */

/* Of all calls of a channel so far. */
ps_traffic ps_channel_traffic(const ps_channel *channel);

#endif
