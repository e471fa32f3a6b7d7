/* SPDX-License-Identifier: Apache-2.0 */
/* payload.h - the large bytes field of a message, which protobuf-c never copies.
 *
 * A message type with a field `bytes payload = 15` (always its last) is sent and received in two
 * parts. The head is an ordinary protobuf-c message in which `payload` is empty. The payload is
 * read from and written to tensor memory directly. On the wire both are one ordinary protobuf
 * message.
 */
#ifndef PS_COMMON_RPC_PAYLOAD_H
#define PS_COMMON_RPC_PAYLOAD_H

#include "common/base/buf.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PS_PAYLOAD_TAG = 15, PS_PAYLOAD_MAX = 1 << 20 }; /* tag; bound of a payload in bytes */

/* A piece of an outgoing payload: `len` bytes at `data`. If `buf` holds the bytes, a reference
 * is taken and dropped when gRPC is done. If `buf` is NULL, the bytes are copied before the call
 * returns. */
typedef struct ps_piece {
    const void *data;
    size_t len;
    ps_buf *buf;
} ps_piece;

/* The payload of a received message; borrowed for the time of the callback. The members are for
 * payload.c and wire.h. */
typedef struct ps_payload {
    const struct grpc_slice *slices; /* all slices of the message */
    size_t slice_count;
    size_t begin; /* offset of the payload in the message */
    size_t len;
    /* Cache of the last view: slice `at` starts at byte `at_begin` of the message. */
    size_t at, at_begin;
} ps_payload;

/* Returns the number of bytes of the payload; 0 if `payload` is NULL. */
size_t ps_payload_len(const ps_payload *payload);

/* Returns the bytes [at, at + len) of the payload, not aligned. Where they are contiguous in the
 * received message, the result points there; else they are copied to `scratch`, which has room for
 * `len` bytes. Reading in ascending order of `at` takes constant time for each call. Aborts if at +
 * len exceeds ps_payload_len, so check lengths first. */
const uint8_t *ps_payload_view(ps_payload *payload, size_t at, size_t len, void *scratch);

/* Returns bytes as ps_payload_view does, which are float32 values. Sets *are_finite to true if they
 * were copied and all of them are finite; false: they were not looked at, or one is not finite. */
const uint8_t *ps_payload_view_floats(ps_payload *payload, size_t at, size_t len, void *scratch,
                                      bool *are_finite);

#endif
