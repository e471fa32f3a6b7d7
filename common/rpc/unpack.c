/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.c - splits received bytes into head and payload; see wire.h.
 *
 * A message arrives in slices, as it was read from the socket. The parser walks over the fields,
 * across the slices, up to the payload, which is not copied. The fields before the payload, the
 * head, are small: they are gathered into one run of bytes, checked, and unpacked into the arena.
 */
#include "common/rpc/wire.h"

#include <string.h>

/* A position in a message that lies in slices. */
typedef struct place {
    const grpc_slice *slice; /* the current slice */
    size_t offset;           /* within the slice; less than its length unless left is 0 */
    size_t left;             /* bytes to the end of the message */
} place;

static void settle(place *p)
{
    while (p->left != 0 && p->offset == GRPC_SLICE_LENGTH(*p->slice)) {
        p->slice++;
        p->offset = 0;
    }
}

static bool skip(place *p, uint64_t n)
{
    if (n > p->left) {
        return false;
    }
    p->left -= n;
    while (n > GRPC_SLICE_LENGTH(*p->slice) - p->offset) {
        n -= GRPC_SLICE_LENGTH(*p->slice) - p->offset;
        p->slice++;
        p->offset = 0;
    }
    p->offset += n;
    settle(p);
    return true;
}

static bool take_varint(place *p, uint64_t *out)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64 && p->left != 0; shift += 7) {
        uint8_t byte = GRPC_SLICE_START_PTR(*p->slice)[p->offset];

        p->offset++;
        p->left--;
        settle(p);
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = v;
            return true;
        }
    }
    return false;
}

static bool skip_value(place *p, unsigned wire_type)
{
    uint64_t n;

    switch (wire_type) {
    case PROTOBUF_C_WIRE_TYPE_VARINT:
        return take_varint(p, &n);
    case PROTOBUF_C_WIRE_TYPE_64BIT:
        return skip(p, 8);
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        return take_varint(p, &n) && skip(p, n);
    case PROTOBUF_C_WIRE_TYPE_32BIT:
        return skip(p, 4);
    default:
        return false;
    }
}

/* Finds the lengths of head and payload in a message of `len` bytes. Without a payload all bytes
 * are the head. Stops after max_bytes of a longer head. */
static ps_status split_message(const ProtobufCMessageDescriptor *type, const grpc_slice *slices,
                               size_t len, size_t max_bytes, size_t *head_len, size_t *payload_len)
{
    const uint64_t payload_key = PS_PAYLOAD_TAG << 3 | PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    place p = {.slice = slices, .left = len};

    *head_len = len;
    *payload_len = 0;
    settle(&p);
    while (p.left != 0) {
        size_t begin = len - p.left;
        uint64_t key = 0, n;

        if (begin > max_bytes) {
            return ps_ok(); /* *head_len is `len`, so that the caller refuses the message as too
                             * long */
        }
        if (!take_varint(&p, &key)) {
            return ps_fail(PS_INVALID_ARGUMENT, "%s: malformed message", type->name);
        }
        if (key != payload_key) {
            if (key >> 3 == PS_PAYLOAD_TAG || !skip_value(&p, (unsigned)(key & 7))) {
                return ps_fail(PS_INVALID_ARGUMENT, "%s: malformed message", type->name);
            }
            continue;
        }
        if (!take_varint(&p, &n) || n > p.left) {
            return ps_fail(PS_INVALID_ARGUMENT, "%s: the payload is cut short", type->name);
        }
        if (n < p.left) {
            return ps_fail(PS_INVALID_ARGUMENT, "%s: the payload (field %d) must come last",
                           type->name, PS_PAYLOAD_TAG);
        }
        *head_len = begin;
        *payload_len = (size_t)n;
        return ps_ok();
    }
    return ps_ok();
}

/* Returns the first n bytes of a message as one run: in place if they are in the first slice, else
 * copied into the arena. Returns NULL if the arena refuses the memory. */
static const uint8_t *gather(ps_arena *arena, const grpc_slice *slices, size_t n)
{
    uint8_t *all, *to;

    if (n <= GRPC_SLICE_LENGTH(*slices)) {
        return GRPC_SLICE_START_PTR(*slices);
    }
    all = to = ps_arena_alloc(arena, n);
    for (; all != NULL && n != 0; slices++) {
        size_t len = GRPC_SLICE_LENGTH(*slices) < n ? GRPC_SLICE_LENGTH(*slices) : n;

        memcpy(to, GRPC_SLICE_START_PTR(*slices), len);
        to += len;
        n -= len;
    }
    return all;
}

/* The argument of protobuf-c's allocator: it takes the memory of a message from the arena. */
typedef struct source {
    ps_arena *arena;
    bool is_dry; /* an allocation was refused */
} source;

static void *source_alloc(void *arg, size_t size)
{
    source *s = arg;
    void *p = ps_arena_alloc(s->arena, size);

    s->is_dry |= p == NULL;
    return p;
}

static void source_free(void *arg, void *p)
{
    (void)arg; /* the arena frees all at once, by reset */
    (void)p;
}

static ps_status unpack_head(ps_received *in, const grpc_slice *slices, size_t len,
                             const ProtobufCMessageDescriptor *type)
{
    source s = {.arena = &in->arena};
    ProtobufCAllocator allocator = {source_alloc, source_free, &s};
    const uint8_t *bytes = (const uint8_t *)"";
    ps_status st;

    in->arena.cap_bytes = (PS_WIRE_ARENA_RATIO + 1) * len + PS_WIRE_ARENA_EXTRA;
    if (len != 0) {
        bytes = gather(&in->arena, slices, len);
    }
    if (bytes == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "%s: out of memory", type->name);
    }
    st = ps_wire_check(type, bytes, len);
    if (!ps_is_ok(&st)) {
        return st;
    }
    in->message = protobuf_c_message_unpack(type, &allocator, len, bytes);
    if (in->message != NULL) {
        return ps_ok();
    }
    if (s.is_dry) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "%s: too many parts to unpack in %zu bytes",
                       type->name, in->arena.cap_bytes);
    }
    return ps_fail(PS_INVALID_ARGUMENT, "%s: malformed message", type->name);
}

static bool type_has_payload(const ProtobufCMessageDescriptor *type)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(type, PS_PAYLOAD_TAG);

    return field != NULL && field->type == PROTOBUF_C_TYPE_BYTES &&
           field->label != PROTOBUF_C_LABEL_REPEATED && strcmp(field->name, "payload") == 0;
}

void ps_received_init(ps_received *in)
{
    ps_arena_init(&in->arena, 0);
    in->message = NULL;
    in->buffer = NULL;
    in->payload.len = 0;
    in->has_payload = false;
}

ps_status ps_received_unpack(ps_received *in, grpc_byte_buffer *buffer,
                             const ProtobufCMessageDescriptor *type, size_t max_bytes,
                             ps_split split)
{
    const grpc_slice_buffer *slices = &buffer->data.raw.slice_buffer;
    size_t head_len = slices->length, payload_len = 0;
    ps_status st = ps_ok();

    ps_received_drop_payload(in);
    ps_arena_reset(&in->arena);
    in->message = NULL;
    in->buffer = buffer;
    in->has_payload = split == PS_SPLIT && type_has_payload(type);
    if (max_bytes == 0) {
        max_bytes = PS_HEAD_MAX;
    }
    if (in->has_payload) {
        st =
            split_message(type, slices->slices, slices->length, max_bytes, &head_len, &payload_len);
    }
    if (ps_is_ok(&st) && (head_len > max_bytes || payload_len > PS_PAYLOAD_MAX)) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED, "%s: %zu bytes, and %zu of payload: at most %zu and %d",
                     type->name, head_len, payload_len, max_bytes, PS_PAYLOAD_MAX);
    }
    if (ps_is_ok(&st)) {
        st = unpack_head(in, slices->slices, head_len, type);
    }
    in->payload = (ps_payload){.slices = slices->slices,
                               .slice_count = slices->count,
                               .begin = slices->length - payload_len,
                               .len = payload_len};
    if (!ps_is_ok(&st)) {
        ps_received_drop_payload(in);
    }
    return st;
}

void ps_received_drop_payload(ps_received *in)
{
    grpc_byte_buffer_destroy(in->buffer);
    in->buffer = NULL;
    in->payload.len = 0;
}

void ps_received_fini(ps_received *in)
{
    ps_received_drop_payload(in);
    in->message = NULL;
    ps_arena_fini(&in->arena);
}

const char *ps_wire_reason(const ps_status *st)
{
    return st->code == PS_RESOURCE_EXHAUSTED ? "MESSAGE_TOO_LARGE" : "MALFORMED_MESSAGE";
}
