/* SPDX-License-Identifier: Apache-2.0 */
/* shard_world.h - a small shard, and contributions to it that are a function of
 * who and when. For the tests and the benchmark of the shard. */
#ifndef PS_TESTS_SUPPORT_SHARD_WORLD_H
#define PS_TESTS_SUPPORT_SHARD_WORLD_H

#include "common/store/store.h"

enum { WORLD_SLICES = 8, WORLD_WORKERS = 8, WORLD_CONTRIBUTORS = 8 };

/* A configuration with its memory: set what matters, then ps_store_create(&conf). */
typedef struct world {
    ps_store_conf conf;
    ps_store_slice slices[WORLD_SLICES];
    uint32_t held_count[WORLD_WORKERS];
    uint32_t held[WORLD_WORKERS][WORLD_CONTRIBUTORS];
    const uint32_t *held_at[WORLD_WORKERS];
} world;

/* workers workers that bring themselves; slices 10, 13, 16, ... of 100, 1, 37,
 * 64, 300, ... values; f32 both ways; sgd with rate 0.5; merge scale 1. */
void world_init(world *w, const char *policy, uint32_t workers, uint32_t slice_count);
void world_codecs(world *w, const char *up, const char *down);
/* Contributors are blocks from now on; hold adds one to a worker's list. */
void world_blocks(world *w, uint32_t blocks);
void world_hold(world *w, uint32_t worker, uint32_t block);

/* One encoded contribution to a slice. */
typedef struct gift {
    ps_encoding head;
    size_t len;
    uint8_t bytes[PS_CODEC_VALUES * 4];
} gift;

/* Values of a contribution; x is (slice->n). */
void world_values(const ps_store_slice *slice, uint64_t clock, uint32_t contributor, float *x);
void world_gift(const ps_store_slice *slice, uint64_t clock, uint32_t contributor, gift *out);
/* Makes the contribution and pushes it. */
ps_status world_push(const world *w, ps_store *shard, uint32_t worker, uint64_t clock,
                     uint32_t contributor, uint32_t place, ps_store_outcome *outcome);

#endif
