/* SPDX-License-Identifier: Apache-2.0 */
/* replica.h - how servers and workers apply the same change to weights.
 *
 * Under an update that broadcasts, servers encode the change of the weights once for all workers,
 * and step their own weights by the decoded change. Two nodes that begin with the same bits and
 * apply the same changes in the same order always have the same bits. Comparing checksums shows
 * it. */
#ifndef PS_COMMON_STORE_REPLICA_H
#define PS_COMMON_STORE_REPLICA_H

#include <stddef.h>
#include <stdint.h>

/* Computes w -= change for n values, with the same bits on every node. */
void ps_replica_step(float *w, const float *change, size_t n);

/* Returns the XXH3-64 of the n float32 values as they lie in memory, little-endian. */
uint64_t ps_replica_checksum(const float *w, size_t n);

#endif
