/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - see wire.h. Also checks that PS_CODES are gRPC's numbers. */
#include "common/rpc/wire.h"

#include <assert.h>
#include <grpc/slice_buffer.h>
#include <grpc/status.h>

#define X(name, value, text)                                                                       \
    _Static_assert((int)GRPC_STATUS_##name == (value), "PS_" #name " is not gRPC's");
PS_CODES(X)
#undef X

enum { TAG_LENGTH_DELIMITED = 2, TAG_AND_LENGTH_BYTES = 1 + 10 };

static void unref_buf(void *buf)
{
    ps_buf_unref(buf);
}

static uint8_t *put_payload_length(uint8_t *at, size_t len)
{
    *at++ = PS_PAYLOAD_TAG << 3 | TAG_LENGTH_DELIMITED;
    for (; len >= 0x80; len >>= 7) {
        *at++ = (uint8_t)(len | 0x80);
    }
    *at++ = (uint8_t)len;
    return at;
}

static bool follows(const ps_piece *a, const ps_piece *b)
{
    return a->buf != NULL && a->buf == b->buf && (const uint8_t *)a->data + a->len == b->data;
}

/* Appends `pieces` to `slices`, the slices of a gRPC message. Pieces that are adjacent in one
 * ps_buf become one slice, because each slice costs an iovec. */
static void add_pieces(grpc_slice_buffer *slices, const ps_piece *pieces, size_t count)
{
    for (size_t i = 0; i < count;) {
        const ps_piece *first = &pieces[i];
        size_t len = first->len;

        for (i++; i < count && follows(&pieces[i - 1], &pieces[i]); i++) {
            len += pieces[i].len;
        }
        if (len == 0) {
            continue;
        }
        if (first->buf == NULL) {
            grpc_slice_buffer_add(slices, grpc_slice_from_copied_buffer(first->data, len));
        } else {
            grpc_slice_buffer_add(slices,
                                  grpc_slice_new_with_user_data((void *)first->data, len, unref_buf,
                                                                ps_buf_ref(first->buf)));
        }
    }
}

grpc_byte_buffer *ps_wire_pack(const ProtobufCMessage *head, const ps_piece *pieces,
                               size_t piece_count)
{
    size_t head_len = protobuf_c_message_get_packed_size(head);
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(NULL, 0);
    grpc_slice_buffer *slices = &buffer->data.raw.slice_buffer;
    grpc_slice slice = grpc_slice_malloc(head_len + TAG_AND_LENGTH_BYTES);
    uint8_t *start = GRPC_SLICE_START_PTR(slice), *end = start + head_len;
    size_t payload_len = 0;

    for (size_t i = 0; i < piece_count; i++) {
        payload_len += pieces[i].len;
    }
    assert(payload_len <= PS_PAYLOAD_MAX);
    protobuf_c_message_pack(head, start);
    if (payload_len != 0) {
        end = put_payload_length(end, payload_len);
    }
    GRPC_SLICE_SET_LENGTH(slice, (size_t)(end - start));
    grpc_slice_buffer_add(slices, slice);
    add_pieces(slices, pieces, piece_count);
    return buffer;
}

size_t ps_wire_bytes(grpc_byte_buffer *buffer)
{
    return buffer == NULL ? 0 : grpc_byte_buffer_length(buffer) + PS_WIRE_PREFIX_BYTES;
}
