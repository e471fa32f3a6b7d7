/* SPDX-License-Identifier: Apache-2.0 */
/* wire_link.h - a stream of messages between a worker and a server, whatever carries it.
 *
 * wire_client.c and wire_server.c speak through these tables only. wire_link_grpc.c puts them on
 * streams of gRPC; wire_link_direct.c joins both ends in one process.
 *
 * A message is a protobuf-c struct (the head, packed or read before the call returns) and a
 * payload of pieces. One message may be in flight each way: send only when can_send says so; a
 * message is received only after a read, one for each. All functions and events are on one thread
 * for each end: the loop's with gRPC, the worker's own in one process.
 */
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

/* The payload of a received message; borrowed for the time of the callback. */
typedef struct ps_incoming {
    size_t len;
    /* Returns the bytes [at, at + len); scratch and bounds are as of ps_payload_view. */
    const uint8_t *(*view)(void *arg, size_t at, size_t len, void *scratch);
    void *arg;
} ps_incoming;

static inline const uint8_t *ps_incoming_view(const ps_incoming *in, size_t at, size_t len,
                                              void *scratch)
{
    return in->view(in->arg, at, len, scratch);
}

typedef struct ps_link_events {
    /* Answers one read; head and payload are borrowed. head NULL, at a server's end: the worker
     * sends no more. */
    void (*on_message)(void *arg, const ProtobufCMessage *head, const ps_incoming *payload);
    /* The message in flight is out, or whoever waits for the next one has come. */
    void (*on_writable)(void *arg);
    /* The link is gone when it returns. At a server's end: the worker hung up; not after finish or
     * fail. At a client's: always, once, and last. */
    void (*on_end)(void *arg, const ps_error *error);
} ps_link_events;

typedef struct ps_wire_link ps_wire_link;

typedef struct ps_link_ops {
    bool (*can_send)(const ps_wire_link *link);
    void (*send)(ps_wire_link *link, const ProtobufCMessage *head, const ps_piece *pieces,
                 size_t count);
    void (*read)(ps_wire_link *link);
    /* Ends the stream; at a server's end with OK, and the link is gone; at a client's on_end
     * follows. */
    void (*finish)(ps_wire_link *link);
    /* Ends it with a failure; at a server's end only. The link is gone. */
    void (*refuse)(ps_wire_link *link, const char *reason, ps_status why);
} ps_link_ops;

/* The first member of what implements it. */
struct ps_wire_link {
    const ps_link_ops *ops;
    const ps_link_events *events; /* its user's */
    void *arg;
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

static inline void ps_link_finish(ps_wire_link *link)
{
    link->ops->finish(link);
}

static inline void ps_link_refuse(ps_wire_link *link, const char *reason, ps_status why)
{
    link->ops->refuse(link, reason, why);
}

/* What carries all links of one client. */
typedef struct ps_transport ps_transport;

typedef struct ps_transport_ops {
    /* Opens a stream to a part of the placement; events come later, never from within. */
    ps_wire_link *(*open)(ps_transport *t, uint32_t part, ps_wire_stream stream,
                          const ps_link_events *events, void *arg);
    /* Returns what links to and from that part have carried so far. */
    ps_traffic (*traffic)(const ps_transport *t, uint32_t part);
    /* Fires the event soon on the client's thread. Any thread. */
    void (*post)(ps_transport *t, ps_event *event);
    void (*destroy)(ps_transport *t); /* all links are gone */
    /* (optional) The trainer begins a new clock: a chance for others. Trainer's thread. */
    void (*yield)(ps_transport *t);
} ps_transport_ops;

/* The first member of what implements it. */
struct ps_transport {
    const ps_transport_ops *ops;
    ps_loop *loop;        /* of its timers; NULL: nothing breaks that could be opened again */
    size_t batch_bytes;   /* a message waits for so much, unless it is the rest */
    size_t message_bytes; /* most payload of a message, unless one slice is more; */
    bool adapts;          /* of the first one, and then what the link carries soon */
    bool spreads;         /* who brings a slice last also steps it: each worker begins elsewhere */
};

#endif
