/* SPDX-License-Identifier: Apache-2.0 */
/* park.h - keeps encoded contributions that wait for their turn.
 *
 * Buffers have sizes of powers of two and are reused, so that a running shard does not call
 * malloc. Private to the shard.
 */
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
    struct ps_parked *next; /* in the list of a slice, ascending by contributor; or in the pool */
    uint32_t contributor;
    uint32_t size_class;
    size_t len;
    ps_encoding head;
    uint8_t bytes[]; /* PS_PARK_LEAST_BYTES << size_class */
} ps_parked;

typedef struct ps_park {
    ps_parked *idle[PS_PARK_CLASSES];
    uint64_t pool_bytes;     /* bytes obtained from malloc */
    uint64_t now, bytes_now; /* number and bytes of parked contributions */
    uint64_t total, bytes_peak;
} ps_park;

void ps_park_init(ps_park *park);
void ps_park_fini(ps_park *park); /* nothing may be parked */

/* Copies a contribution into a buffer and adds it to the list. */
void ps_park_add(ps_park *park, ps_parked **list, uint32_t contributor,
                 const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len);

/* Removes the first contribution of the list and returns its buffer to the pool. */
void ps_park_remove_first(ps_park *park, ps_parked **list);

#endif
