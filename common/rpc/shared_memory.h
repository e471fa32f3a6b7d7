/* SPDX-License-Identifier: Apache-2.0 */
/* shared_memory.h - memory by which one process gives payloads to another one of its host.
 *
 * A memory belongs to one stream and one direction: one end puts payloads, the other end takes
 * them in the same order. The messages themselves stay on the stream; each says where its payload
 * lies. The memory is a ring, and what has been taken is free again. The end that puts never
 * waits: a payload without room goes by the stream.
 *
 * Either end creates the memory and offers it in a message of the stream; the other one opens it.
 * The memory has no name in any file system, so nothing is left of it when both processes have
 * ended, however they end. It is opened only if
 *   - both processes have the same user, and one network, so that a link that is slow on purpose,
 *     or a container with an address of its own, stays as it is;
 *   - its size is sealed, so that no access to it can fail;
 *   - it has the token that came with the offer, so only who has made it can have offered it.
 *
 * The other end may change the memory at any time. So every place is checked, and values are read
 * only from copies (ps_shared_memory_view).
 *
 * One thread at a time for each end. No function waits or takes a lock.
 */
#ifndef PS_COMMON_RPC_SHARED_MEMORY_H
#define PS_COMMON_RPC_SHARED_MEMORY_H

#include "common/rpc/payload.h"

typedef struct ps_shared_memory ps_shared_memory;

enum {
    /* bytes of the ring; the system counts a page when it is first used */
    PS_SHARED_MEMORY_BYTES = 16 << 20,
    PS_SHARED_MEMORY_LEAST = 4 << 10, /* shorter payloads are no faster here than on the stream */
    PS_SHARED_MEMORY_TOKEN = 16       /* bytes of a token */
};

/* Says where another process finds a memory. Whoever has it may open the memory. */
typedef struct ps_memory_offer {
    /* id of the process that has created the memory, and its descriptor of it */
    uint32_t process, descriptor;
    uint8_t token[PS_SHARED_MEMORY_TOKEN];
} ps_memory_offer;

/* Where a payload lies in a memory. */
typedef struct ps_memory_place {
    uint64_t position; /* bytes of the ring before it, counted over all rounds */
    uint32_t bytes;    /* 1 to PS_PAYLOAD_MAX */
} ps_memory_place;

/* Creates a memory; release it by ps_shared_memory_destroy. Fails with UNAVAILABLE if the system
 * or a limit of the process refuses one. */
PS_MUST_USE ps_status ps_shared_memory_create(ps_shared_memory **out);

/* Returns the offer of a memory that this process has created. */
ps_memory_offer ps_shared_memory_offer(const ps_shared_memory *m);

/* Opens the memory that another process offers; release it by ps_shared_memory_destroy. Fails with
 * UNAVAILABLE if there is no such process or descriptor here, and with PERMISSION_DENIED if what is
 * there is not what the head of this file asks for. */
PS_MUST_USE ps_status ps_shared_memory_open(const ps_memory_offer *offer, ps_shared_memory **out);

/* Unmaps the memory. NULL is allowed. */
void ps_shared_memory_destroy(ps_shared_memory *m);

/* --- the end that puts ------------------------------------------------------- */

/* Copies a payload of at most PS_PAYLOAD_MAX bytes into the memory and says where it lies. Returns
 * false if the payload is shorter than PS_SHARED_MEMORY_LEAST, or if there is no room for it; also
 * always after the other end has written an impossible count into the memory. The caller then sends
 * the payload by the stream. */
bool ps_shared_memory_put(ps_shared_memory *m, const ps_piece *pieces, size_t piece_count,
                          ps_memory_place *place);

/* --- the end that takes ------------------------------------------------------ */

/* Makes the payload at `place` the one in hand, which ps_shared_memory_view reads, until
 * ps_shared_memory_done. Fails with INVALID_ARGUMENT if `place` is outside of what the other end
 * has put, or lies before the end of a payload that was given back. */
PS_MUST_USE ps_status ps_shared_memory_take(ps_shared_memory *m, const ps_memory_place *place);

/* Copies the bytes [at, at + len) of the payload in hand to `scratch`, and returns it. Aborts if
 * the payload has no such bytes. */
const uint8_t *ps_shared_memory_view(const ps_shared_memory *m, size_t at, size_t len,
                                     void *scratch);

/* Copies bytes of the payload in hand as ps_shared_memory_view does; they are float32 values. Sets
 * *are_finite to whether all of them are finite. */
const uint8_t *ps_shared_memory_view_floats(const ps_shared_memory *m, size_t at, size_t len,
                                            void *scratch, bool *are_finite);

/* Gives the room of the payload in hand, and of all before it, back to the end that puts. Does
 * nothing if no payload is in hand. */
void ps_shared_memory_done(ps_shared_memory *m);

#endif
