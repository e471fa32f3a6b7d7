/* SPDX-License-Identifier: Apache-2.0 */
/* wire_link.h - a stream of messages between a worker and a server, over any transport.
 *
 * The client and the server side of push and pull use these tables only. wire_link_grpc.c
 * implements them by streams of gRPC; wire_link_direct.c joins both ends in one process.
 *
 * A message is a protobuf-c struct, the head, and a payload of pieces. The head is packed or read
 * before the call returns. One message may be in flight in each direction: `send` is allowed only
 * if can_send returns true, and each `read` receives one message. All functions and events of an
 * end are on one thread: with gRPC the loop's, in one process the worker's own. */
#ifndef PS_COMMON_WIRE_WIRE_LINK_H
#define PS_COMMON_WIRE_WIRE_LINK_H

#include "common/rpc/error.h"
#include "common/rpc/loop.h"
#include "common/rpc/payload.h"
#include "common/rpc/traffic.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/* The streams of ParameterService. */
typedef enum ps_wire_stream { PS_WIRE_PUSH, PS_WIRE_PULL } ps_wire_stream;

/* The payload of a received message. Valid until the callback returns, or asks for the next
 * message. */
typedef struct ps_incoming {
    size_t len;
    /* Returns the bytes [at, at + len) of the payload, copied into `scratch` if they are not in one
     * piece; NULL if they are out of bounds (ps_payload_view). */
    const uint8_t *(*view)(void *arg, size_t at, size_t len, void *scratch);
    /* (optional) Returns bytes as `view` does, which are float32 values, and sets *are_finite if
     * all were found to be finite (ps_payload_view_floats). NULL: nobody checks them on the way. */
    const uint8_t *(*view_floats)(void *arg, size_t at, size_t len, void *scratch,
                                  bool *are_finite);
    void *arg;
} ps_incoming;

static inline const uint8_t *ps_incoming_view(const ps_incoming *in, size_t at, size_t len,
                                              void *scratch)
{
    return in->view(in->arg, at, len, scratch);
}

/* Returns bytes as ps_incoming_view does, which are float32 values. *are_finite becomes true if all
 * were found to be finite, and false if they were not checked or not finite. */
static inline const uint8_t *ps_incoming_view_floats(const ps_incoming *in, size_t at, size_t len,
                                                     void *scratch, bool *are_finite)
{
    *are_finite = false;
    return in->view_floats != NULL ? in->view_floats(in->arg, at, len, scratch, are_finite)
                                   : in->view(in->arg, at, len, scratch);
}

/* What a link calls on its user. `arg` is the link's. */
typedef struct ps_link_events {
    /* Delivers the message that one `read` asked for; head and payload are borrowed. At a server's
     * end `head` is NULL if the worker sends no more. */
    void (*on_message)(void *arg, const ProtobufCMessage *head, const ps_incoming *payload);
    /* Called when the message in flight was sent, so that can_send returns true. */
    void (*on_writable)(void *arg);
    /* Called when the stream has ended; the link is freed on return. At a server's end it is called
     * only if the worker hung up or named a place in shared memory that has no payload, not after
     * finish or refuse. At a client's end it is always called, once, as the last event. */
    void (*on_end)(void *arg, const ps_error *error);
} ps_link_events;

typedef struct ps_wire_link ps_wire_link;

typedef struct ps_link_ops {
    /* Returns whether `send` may be called now. */
    bool (*can_send)(const ps_wire_link *link);
    /* Sends one message. Holds a reference to each piece's buffer until the message was sent. */
    void (*send)(ps_wire_link *link, const ProtobufCMessage *head, const ps_piece *pieces,
                 size_t count);
    /* Asks for one message; on_message delivers it. */
    void (*read)(ps_wire_link *link);
    /* Sends one message and asks for one. can_send returns false until the answer has come;
     * on_writable is not called. This saves a system call at both ends, because gRPC sends the
     * window that a read opens together with the message. */
    void (*send_and_read)(ps_wire_link *link, const ProtobufCMessage *head, const ps_piece *pieces,
                          size_t count);
    /* Ends the stream. At a server's end it ends with OK, and the link must not be used any more.
     * At a client's end the stream is cancelled; on_end follows, perhaps before `finish`
     * returns. */
    void (*finish)(ps_wire_link *link);
    /* (servers only) Ends the stream with the failure `why` and a reason for machines. The link
     * must not be used any more. */
    void (*refuse)(ps_wire_link *link, const char *reason, ps_status why);
    /* (servers only, optional) Adds the stream's messages so far, and those to come, to `traffic`,
     * which must live until the stream has ended. NULL: the transport does not count. */
    void (*count)(ps_wire_link *link, ps_traffic *traffic);
} ps_link_ops;

/* What every implementation has as its first member. */
struct ps_wire_link {
    const ps_link_ops *ops;
    const ps_link_events *events; /* functions of the link's user */
    void *arg;                    /* passed to events */
    /* At a server's end: the node named by the client's certificate. NULL: there is no
     * certificate. */
    const char *node_id;
};

static inline bool ps_link_can_send(const ps_wire_link *link)
{
    return link->ops->can_send(link);
}

static inline void ps_link_send(ps_wire_link *link, const ProtobufCMessage *head,
                                const ps_piece *pieces, size_t count)
{
    link->ops->send(link, head, pieces, count);
}

static inline void ps_link_read(ps_wire_link *link)
{
    link->ops->read(link);
}

static inline void ps_link_send_and_read(ps_wire_link *link, const ProtobufCMessage *head,
                                         const ps_piece *pieces, size_t count)
{
    link->ops->send_and_read(link, head, pieces, count);
}

static inline void ps_link_finish(ps_wire_link *link)
{
    link->ops->finish(link);
}

static inline void ps_link_refuse(ps_wire_link *link, const char *reason, ps_status why)
{
    link->ops->refuse(link, reason, why);
}

static inline void ps_link_count(ps_wire_link *link, ps_traffic *traffic)
{
    if (link->ops->count != NULL) {
        link->ops->count(link, traffic);
    }
}

/* Opens all links of one client. */
typedef struct ps_transport ps_transport;

typedef struct ps_transport_ops {
    /* Opens a stream to a part of the placement. Calls no event before it returns. */
    ps_wire_link *(*open)(ps_transport *t, uint32_t part, ps_wire_stream stream,
                          const ps_link_events *events, void *arg);
    /* Returns the traffic of all links to that part so far, in both directions. */
    ps_traffic (*traffic)(const ps_transport *t, uint32_t part);
    /* Fires the event on the client's thread. With gRPC any thread may call this, and the event
     * fires later. In one process the client's thread calls it, and the event fires at once. */
    void (*post)(ps_transport *t, ps_event *event);
    /* Frees the transport. All its links must have ended. */
    void (*destroy)(ps_transport *t);
    /* (optional) Called by the trainer's thread when a clock begins, so that other workers of the
     * process get their turn. */
    void (*yield)(ps_transport *t);
} ps_transport_ops;

/* What every implementation has as its first member. */
struct ps_transport {
    const ps_transport_ops *ops;
    ps_loop *loop; /* runs the pause before a stream is opened again; NULL: streams never break */
    /* a push message waits until this many bytes are ready, or as many as it may have, unless it is
     * the contribution's last */
    size_t batch_bytes;
    /* most bytes of a message's payload; a slice that is larger is sent alone */
    size_t message_bytes;
    /* message_bytes is only the first limit; later the limit follows the rate of the link */
    bool adapts;
    /* Each worker begins to send at another slice. The worker whose contribution to a slice comes
     * last also computes the step, so this divides the steps among the workers. */
    bool spreads;
};

#endif
