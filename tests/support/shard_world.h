/* SPDX-License-Identifier: Apache-2.0 */
/* shard_world.h - a small store with a few slices, and contributions whose values are a function of
 * slice, clock and contributor. For the tests and the benchmark of common/store. */
#ifndef PS_TESTS_SUPPORT_SHARD_WORLD_H
#define PS_TESTS_SUPPORT_SHARD_WORLD_H

#include "common/store/store.h"

enum { WORLD_SLICES = 8, WORLD_WORKERS = 8, WORLD_CONTRIBUTORS = 8 };

/* A configuration of a store, with the memory that it points to. The test changes what it needs,
 * and then calls ps_store_create(&world.conf). */
typedef struct world {
    ps_store_conf conf;
    ps_store_slice slices[WORLD_SLICES];
    uint32_t held_count[WORLD_WORKERS];
    uint32_t held[WORLD_WORKERS][WORLD_CONTRIBUTORS];
    const uint32_t *held_at[WORLD_WORKERS];
} world;

/* Sets a configuration with `workers` workers, each its own contributor, and slice_count slices
 * with the indices 10, 13, 16, ... and 100, 1, 37, 64, 300, ... values. The codec is f32 in both
 * directions, the optimizer sgd with rate 0.5, the merge scale 1. */
void world_init(world *w, const char *policy, uint32_t workers, uint32_t slice_count);
void world_codecs(world *w, const char *up, const char *down);
/* Makes `blocks` blocks the contributors, in place of the workers. */
void world_blocks(world *w, uint32_t blocks);
/* Adds a block to those that the worker holds. */
void world_hold(world *w, uint32_t worker, uint32_t block);

/* An encoded contribution to a slice. */
typedef struct gift {
    ps_encoding head;
    size_t len;
    uint8_t bytes[PS_CODEC_VALUES * 4];
} gift;

/* Writes the values of a contribution to x (slice->n). */
void world_values(const ps_store_slice *slice, uint64_t clock, uint32_t contributor, float *x);
void world_gift(const ps_store_slice *slice, uint64_t clock, uint32_t contributor, gift *out);
/* Makes the contribution to the slice at `place` and pushes it to the store. */
ps_status world_push(const world *w, ps_store *shard, uint32_t worker, uint64_t clock,
                     uint32_t contributor, uint32_t place, ps_store_outcome *outcome);

#endif
