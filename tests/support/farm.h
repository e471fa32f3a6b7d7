/* SPDX-License-Identifier: Apache-2.0 */
/* farm.h - a job's slices and rows spread over any number of stores. Each call goes to the store
 * that has the slice or row. Two farms that get the same calls must have the same bits, whatever
 * their numbers of stores. */
#ifndef PS_TESTS_SUPPORT_FARM_H
#define PS_TESTS_SUPPORT_FARM_H

#include "tests/support/shard_world.h"

#include "common/store/store.h"

enum { FARM_STORES = 4, FARM_TABLES = 2, FARM_WIDTH = 3, FARM_KEYS = 40, FARM_KEY_END = 100000 };

/* What all stores of a job share. */
typedef struct farm_job {
    world w;
    bool has_rows, rows_save_changes;
    ps_table_admission admission;
    float least_score; /* least score with which a row survives a tick; 0 stands for 0.05 */
    uint64_t hash;
} farm_job;

typedef struct farm {
    const farm_job *job; /* kept */
    uint32_t count;
    ps_store *stores[FARM_STORES];
} farm;

void farm_begin(farm *f, const farm_job *job, uint32_t count);
void farm_end(farm *f);

/* Returns the index of the store that has a virtual shard. */
uint32_t farm_owner(const farm *f, uint32_t virtual_shard);
/* Returns the store that has the slice at `place` of world.slices. */
ps_store *farm_of_slice(const farm *f, uint32_t place);

/* Pushes a contribution to the slice at `place`, with the values of world_values (shard_world.h),
 * to the store that has it. */
ps_status farm_push(const farm *f, uint32_t worker, uint64_t clock, uint32_t contributor,
                    uint32_t place, ps_store_outcome *outcome);
/* Pushes to all stores that the slices of this contribution that have not arrived are zeros. */
ps_status farm_push_zeros(const farm *f, uint32_t worker, uint64_t clock, uint32_t contributor);
/* Pushes rows drawn by (clock, contributor) to the stores that have them. */
ps_status farm_push_rows(const farm *f, uint32_t worker, uint64_t clock, uint32_t contributor);
void farm_tick(const farm *f, int64_t now_us);
ps_status farm_lose(const farm *f, uint32_t worker);

/* Pulls all slices, takes those that are ready, and cancels the pull. Writes a hash of each slice
 * into `got` (WORLD_SLICES), 0 for a slice that is not ready. */
ps_status farm_pull(const farm *f, uint32_t worker, uint64_t clock, uint64_t *got);

/* Pulls the rows that pushes may touch. Returns their hash, or 0 if the policy does not admit the
 * worker. */
uint64_t farm_pull_rows(const farm *f, uint32_t worker, uint64_t clock);

/* Returns a hash of all weights, versions and rows. */
uint64_t farm_hash(const farm *f);

/* A file of a saved store, in memory. */
typedef struct farm_file {
    uint8_t *bytes;
    size_t len;
} farm_file;

ps_status farm_write(void *arg, const void *bytes, size_t len); /* arg: farm_file */

/* Saves all stores and replaces them by `count` new ones, which load the files. */
ps_status farm_move(farm *f, uint32_t count, int64_t now_us);

#endif
