/* SPDX-License-Identifier: Apache-2.0 */
/* park.h - keeps encoded contributions until the contributors before theirs have been added to the
 * sum.
 *
 * Buffers have sizes of powers of two and are reused, so that a running shard does not call malloc
 * for them. Private to shard*.c. */
#ifndef PS_COMMON_STORE_PARK_H
#define PS_COMMON_STORE_PARK_H

#include "common/codec/codec.h"

#include <stddef.h>
#include <stdint.h>

enum {
    PS_PARK_LEAST_BYTES = 64,
    PS_PARK_CLASSES = 12 /* sizes of 64 B to 128 KiB; no encoding of a slice is larger */
};

typedef struct ps_parked {
    /* next of the slice's list, ascending by contributor; or next unused buffer */
    struct ps_parked *next;
    uint32_t contributor;
    uint32_t size_class;
    size_t len;
    ps_encoding head;
    uint8_t bytes[]; /* (PS_PARK_LEAST_BYTES << size_class), of which `len` are used */
} ps_parked;

typedef struct ps_park {
    ps_parked *idle[PS_PARK_CLASSES];
    uint64_t pool_bytes;     /* obtained from malloc, whether in use or not; never shrinks */
    uint64_t now, bytes_now; /* number and bytes of the contributions that are parked at present */
    uint64_t total, bytes_peak;
} ps_park;

void ps_park_init(ps_park *park);
void ps_park_fini(ps_park *park); /* nothing may be parked */

/* Copies a contribution into a buffer and inserts it into the list by its contributor, which the
 * list does not have yet. */
void ps_park_add(ps_park *park, ps_parked **list, uint32_t contributor,
                 const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len);

/* Removes the first contribution from the list; its buffer becomes free for another one. */
void ps_park_remove_first(ps_park *park, ps_parked **list);

#endif
