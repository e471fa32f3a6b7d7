/* SPDX-License-Identifier: Apache-2.0 */
/* local_servers.h - the parameter servers of a job, in this process.
 *
 * The slices of each server are dealt to a few shards, each behind a lock of its
 * own, so that threads seldom wait for one another: what becomes of a slice does
 * not depend on which shard it is in. All functions are for any thread unless
 * they say otherwise.
 */
#ifndef PS_COMMON_LOCAL_LOCAL_SERVERS_H
#define PS_COMMON_LOCAL_LOCAL_SERVERS_H

#include "common/job/plan.h"
#include "common/store/shard.h"
#include "common/store/tables.h"
#include "common/train/gate.h"

#include <pthread.h>

/* Some slices of one server. */
typedef struct ps_local_shard {
    pthread_mutex_t mutex; /* guards shard; no other lock is taken under it */
    ps_shard *shard;
    uint32_t server;
    uint32_t count;
    uint32_t *slices; /* (count), in the layout, ascending */
} ps_local_shard;

typedef struct ps_local_servers {
    const ps_plan *plan; /* kept */
    uint32_t count;
    ps_local_shard *shards;       /* (count) */
    uint32_t *shard_of;           /* (slice_count): which of them */
    pthread_mutex_t tables_mutex; /* guards tables; no other lock is taken under it */
    ps_tables *tables;            /* sparse ones, of all servers; NULL: none */
    ps_gate **gates;              /* (workers): who is told of news; NULL: nobody yet */
} ps_local_servers;

/* Weights (param_count) are those of clock 0; weights and placement are borrowed, the plan is
 * kept. */
void ps_local_servers_init(ps_local_servers *servers, const ps_plan *plan,
                           const ps_placement *placement, const float *weights);
void ps_local_servers_fini(ps_local_servers *servers);

/* Before the threads start: this worker waits at that gate. */
void ps_local_servers_attend(ps_local_servers *servers, uint32_t worker, ps_gate *gate);

/* One slice of a contribution, as ps_shard_push; whoever waits for what came of
 * it is nudged. */
PS_MUST_USE ps_status ps_local_servers_push(ps_local_servers *servers, uint32_t worker,
                                            uint64_t clock, uint32_t contributor,
                                            const Psgd__V1__Encoding *head, const uint8_t *bytes);

/* A contribution of zeros to all slices. */
PS_MUST_USE ps_status ps_local_servers_push_zeros(ps_local_servers *servers, uint32_t worker,
                                                  uint64_t clock, uint32_t contributor);

/* Rows of sparse tables, as ps_tables_push; whoever waits for them is nudged. */
PS_MUST_USE ps_status ps_local_servers_push_rows(ps_local_servers *servers, uint32_t worker,
                                                 const ps_tables_part *part);

/* As ps_tables_pull, when the worker may have rows for `clock`: then *is_given. */
PS_MUST_USE ps_status ps_local_servers_pull_rows(ps_local_servers *servers, uint32_t worker,
                                                 uint64_t clock, const uint64_t *keys, size_t count,
                                                 float *rows, bool *is_given);

/* The weights as the servers have them, into block (param_count). The last act:
 * each shard gives up its memory before the next one is looked at, so that this
 * needs no more than training did. Then only fini is allowed. */
void ps_local_servers_take_weights(ps_local_servers *servers, float *block);

/* Sums over all shards. */
ps_store_counters ps_local_servers_counters(ps_local_servers *servers);

#endif
