/* SPDX-License-Identifier: Apache-2.0 */
/* link_memory.h - payloads of push and pull streams in shared memory (common/rpc/shared_memory.h),
 * and the fields of parameter.proto about them.
 *
 * A worker may offer a memory with the first message of a stream. Of a push stream the worker is
 * the end that puts, of a pull stream the server. Loop's thread.
 */
#ifndef PS_COMMON_WIRE_LINK_MEMORY_H
#define PS_COMMON_WIRE_LINK_MEMORY_H

#include "common/rpc/shared_memory.h"
#include "common/rpc/traffic.h"
#include "common/wire/wire_link.h"

#include "psgd/v1/parameter.pb-c.h"

/* An offer as a message. `message.token` points to `offer`. */
typedef struct ps_link_offer {
    ps_memory_offer offer;
    Psgd__V1__SharedMemory message;
} ps_link_offer;

/* Creates a memory and writes its offer. Returns NULL, with a line in the log at level debug, if
 * the system refuses one. */
ps_shared_memory *ps_link_memory_create(ps_link_offer *out);

/* Reads an offer that a worker has sent. Returns false if there is none, or its token is too short
 * or too long. */
bool ps_link_memory_read(const Psgd__V1__SharedMemory *message, ps_memory_offer *out);

/* Opens the memory that is offered. Returns NULL, with a line in the log at level debug, if it
 * cannot be used. */
ps_shared_memory *ps_link_memory_open(const ps_memory_offer *offer);

/* Puts a payload into the memory and writes its place. Adds it to traffic->bytes_out as if the
 * message had it. Returns false if the payload has to go by the stream, as always if `m` is
 * NULL. */
bool ps_link_memory_put(ps_shared_memory *m, const ps_piece *pieces, size_t count,
                        Psgd__V1__PayloadPlace *place, ps_traffic *traffic);

/* Takes the payload of a received message from the memory, and has *in give its bytes until the
 * next ps_shared_memory_done. Adds it to traffic->bytes_in as if the message had it; NULL: nothing
 * counts it. Fails with INVALID_ARGUMENT if `m` is NULL, or if the message itself has a payload
 * too; else fails as ps_shared_memory_take does. */
PS_MUST_USE ps_status ps_link_memory_take(ps_shared_memory *m, const Psgd__V1__PayloadPlace *place,
                                          ps_incoming *in, ps_traffic *traffic);

#endif
