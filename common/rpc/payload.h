/* SPDX-License-Identifier: Apache-2.0 */
/* payload.h - the big bytes of a message, never copied by protobuf.
 *
 * A message type with a field `bytes payload = 15` (always its last) is sent
 * and received in two parts: the head, an ordinary protobuf-c message in which
 * `payload` stays empty, and the payload, which goes from and to tensor memory
 * as it is. On the wire it is one plain protobuf message.
 */
#ifndef PS_COMMON_RPC_PAYLOAD_H
#define PS_COMMON_RPC_PAYLOAD_H

#include "common/base/buf.h"
#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { PS_PAYLOAD_TAG = 15, PS_PAYLOAD_MAX = 1 << 20 }; /* bytes of payload in one message */

/* One piece of an outgoing payload: len bytes at data. Either buf holds them
 * (a reference is taken and dropped when gRPC is done), or buf is NULL and the
 * bytes are copied before the call returns. */
typedef struct ps_piece {
    const void *data;
    size_t len;
    ps_buf *buf;
} ps_piece;

/* A received payload; borrowed for the time of the callback. */
typedef struct ps_payload ps_payload;

size_t ps_payload_len(const ps_payload *payload); /* NULL: 0 */

/* The bytes [at, at + len) as one run: a pointer into what was received where
 * they lie in one piece, else into scratch (>= len bytes), where they are
 * gathered; aligned to nothing. Reading in ascending order of `at` is O(1) a call.
 * at + len <= ps_payload_len, or it aborts: check lengths first. */
const uint8_t *ps_payload_view(ps_payload *payload, size_t at, size_t len, void *scratch);

#endif
