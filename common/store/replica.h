/* SPDX-License-Identifier: Apache-2.0 */
/* replica.h - weights that servers and workers step alike.
 *
 * Under an update that broadcasts, servers send what the weights changed by,
 * encoded once for all workers, and step their own weights by what that decodes
 * to. Whoever began on the same bits and steps by the same changes in the same
 * order has the same bits ever after; the checksum proves it.
 */
#ifndef PS_COMMON_STORE_REPLICA_H
#define PS_COMMON_STORE_REPLICA_H

#include <stddef.h>
#include <stdint.h>

/* w -= change. The same bits on every node. */
void ps_replica_step(float *w, const float *change, size_t n);

/* XXH3-64 of the values as they lie in memory, little-endian. */
uint64_t ps_replica_checksum(const float *w, size_t n);

#endif
