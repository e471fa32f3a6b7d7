/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - protobuf-c messages to and from gRPC byte buffers. rpc/ only.
 *
 * The one place that knows how a payload travels: behind the packed head, as
 * field 15 with a hand-made tag and length, its bytes in slices of their own.
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

/* What a stream may send ahead of its reader, both ways, before gRPC has an
 * estimate of the link of its own (BDP probe; it lets a fast stream have tens of
 * MiB). Its default of 64 KiB makes messages of that size wait a round trip each. */
enum { PS_WINDOW_BYTES = 2 << 20 };

/* Frames of HTTP/2 that each side may send to the other: room for a whole message of
 * the data plane, payload and head. Its payload then lies in one piece where it was
 * received, and nothing has to be gathered. */
enum { PS_FRAME_BYTES = PS_PAYLOAD_MAX + (64 << 10) };

enum {
    PS_HEAD_MAX = 64 << 10,        /* bytes of a message beside its payload, unless told */
    PS_MESSAGE_MAX = 4 << 20,      /* bytes of any message: what every client of gRPC allows */
    PS_WIRE_PREFIX_BYTES = 5,      /* before each message of gRPC: flag and length */
    PS_WIRE_DEPTH_MAX = 16,        /* messages within messages */
    PS_WIRE_ARENA_RATIO = 16,      /* bytes unpacked per byte received that are allowed, */
    PS_WIRE_ARENA_EXTRA = 64 << 10 /* beside so many */
};

/* The slices of a received message from the payload on. */
struct ps_payload {
    const grpc_slice *slices; /* of the whole message */
    size_t slice_count;
    size_t begin; /* where the payload starts in the message */
    size_t len;
    /* Where the last view was: slice `at` starts at byte `at_begin` of the message. */
    size_t at, at_begin;
};

/* A received message with all memory that it needs. */
typedef struct ps_received {
    ps_arena arena;            /* of message */
    ProtobufCMessage *message; /* NULL: none */
    grpc_byte_buffer *buffer;  /* under payload; NULL: none */
    ps_payload payload;
    bool has_payload; /* the type has one, be it empty */
} ps_received;

typedef enum ps_split { PS_WHOLE, PS_SPLIT } ps_split;

/* Packs `head` and behind it the pieces. Caller destroys the buffer. Never
 * NULL: gRPC aborts when memory runs out. */
grpc_byte_buffer *ps_wire_pack(const ProtobufCMessage *head, const ps_piece *pieces,
                               size_t piece_count);

/* Bytes on the wire, prefix included. NULL: 0. */
size_t ps_wire_bytes(grpc_byte_buffer *buffer);

void ps_received_init(ps_received *in);

/* Takes `buffer` and replaces what was in `in`. max_bytes (0: PS_HEAD_MAX)
 * bounds the message without its payload; PS_WHOLE leaves a payload in the
 * message and bounds both together.
 *
 * INVALID_ARGUMENT      malformed, a string that is not UTF-8 or has a NUL,
 *                       or bytes behind the payload
 * RESOURCE_EXHAUSTED    longer than allowed, or too much memory to unpack */
PS_MUST_USE ps_status ps_received_unpack(ps_received *in, grpc_byte_buffer *buffer,
                                         const ProtobufCMessageDescriptor *type, size_t max_bytes,
                                         ps_split split);

/* The payload is no longer needed; the message stays. */
void ps_received_drop_payload(ps_received *in);
void ps_received_fini(ps_received *in);

/* What the reader makes of it: NULL if the type has no payload. */
static inline ps_payload *ps_received_payload(ps_received *in)
{
    return in->has_payload ? &in->payload : NULL;
}

/* ErrorInfo.reason of a failure of ps_received_unpack. */
const char *ps_wire_reason(const ps_status *st);

/* Walks n bytes that claim to be a `type`: lengths fit, wire types are known,
 * strings are UTF-8 without NUL, nesting is bounded. */
PS_MUST_USE ps_status ps_wire_check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                                    size_t n);

#endif
