/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - converts protobuf-c messages to gRPC byte buffers and back.
 *
 * Only this file and its .c files know how a payload travels: behind the packed head, as field 15
 * with a hand-made tag and length, its bytes in slices of their own.
 */
#ifndef PS_COMMON_RPC_WIRE_H
#define PS_COMMON_RPC_WIRE_H

#include "common/base/arena.h"
#include "common/base/status.h"
#include "common/rpc/payload.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/* Bytes that a stream may send ahead of its reader, in either direction, until gRPC has its own
 * estimate of the link (BDP probe, which allows tens of MiB for a fast link). With gRPC's
 * default of 64 KiB a message of 1 MiB waits for a round trip per 64 KiB. */
enum { PS_WINDOW_BYTES = 2 << 20 };

/* Most bytes of an HTTP/2 frame, in either direction. A frame has room for a whole message of
 * gradients or weights, so the received payload is contiguous and needs no gathering. */
enum { PS_FRAME_BYTES = PS_PAYLOAD_MAX + (64 << 10) };

enum {
    PS_HEAD_MAX = 64 << 10,   /* default bound of a message without its payload */
    PS_MESSAGE_MAX = 4 << 20, /* bound of any message, and the default of every gRPC client */
    PS_WIRE_PREFIX_BYTES = 5, /* flag and length before each message of gRPC */
    PS_WIRE_DEPTH_MAX = 16,   /* nesting of messages */
    /* memory for unpacking a message: bytes for each received byte */
    PS_WIRE_ARENA_RATIO = 16,
    PS_WIRE_ARENA_EXTRA = 64 << 10 /* memory for unpacking a message: bytes in addition */
};

/* A received message and all memory that it needs. */
typedef struct ps_received {
    ps_arena arena;            /* holds `message` */
    ProtobufCMessage *message; /* NULL: none */
    grpc_byte_buffer *buffer;  /* holds the payload; NULL: none */
    ps_payload payload;
    bool has_payload; /* the type has a payload, even if it is empty */
} ps_received;

typedef enum ps_split { PS_WHOLE, PS_SPLIT } ps_split;

/* Packs `head` followed by `pieces`. The caller destroys the buffer. Never NULL, because gRPC
 * aborts when memory runs out. */
grpc_byte_buffer *ps_wire_pack(const ProtobufCMessage *head, const ps_piece *pieces,
                               size_t piece_count);

/* Returns the bytes on the wire, prefix included; 0 if `buffer` is NULL. */
size_t ps_wire_bytes(grpc_byte_buffer *buffer);

/* Makes an empty ps_received. Release it by ps_received_fini. */
void ps_received_init(ps_received *in);

/* Unpacks `buffer` into `in`, takes ownership of it, and replaces what was in `in`.
 * `max_bytes` (0: PS_HEAD_MAX) bounds the message without its payload. PS_WHOLE
 * leaves the payload in the message and bounds both together.
 *
 *   INVALID_ARGUMENT      malformed, a string that is not UTF-8 or has a NUL,
 *                         or bytes behind the payload
 *   RESOURCE_EXHAUSTED    longer than allowed, or too much memory to unpack
 */
PS_MUST_USE ps_status ps_received_unpack(ps_received *in, grpc_byte_buffer *buffer,
                                         const ProtobufCMessageDescriptor *type, size_t max_bytes,
                                         ps_split split);

/* Frees the payload and keeps the message. */
void ps_received_drop_payload(ps_received *in);
void ps_received_fini(ps_received *in);

/* Returns the payload, or NULL if the type has none. */
static inline ps_payload *ps_received_payload(ps_received *in)
{
    return in->has_payload ? &in->payload : NULL;
}

/* Returns the ErrorInfo.reason for a failure of ps_received_unpack. */
const char *ps_wire_reason(const ps_status *st);

/* Checks n bytes against `type`: lengths fit, wire types are known, strings are UTF-8 without
 * NUL, nesting is at most PS_WIRE_DEPTH_MAX. */
PS_MUST_USE ps_status ps_wire_check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                                    size_t n);

#endif
