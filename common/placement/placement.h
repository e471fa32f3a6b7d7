/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h - where a job lives: which server holds each virtual shard, and which process
 * carries each rank.
 *
 * A plan says what is computed and knows no server and no process. A placement is a value beside
 * it. The coordinator makes it for each attempt and sends it to all nodes; nobody else changes it.
 * Its epoch grows with each change. Placement never changes a bit of what is computed: sums run
 * over ranks in their order, wherever ranks and shards are.
 *
 * Slices and rows are placed by the same map: slice i belongs to virtual shard i % PS_SHARDS, a
 * row to the shard of its slice or of its key (ps_table_home).
 *
 * A server has one thread or several. Its virtual shards are dealt to them, so each thread has a
 * part of the job, which no other thread touches. Parts are numbered over all servers.
 *
 * Copies. With ps_placement_copy the server after each one, cyclically, has a copy of each of its
 * parts. The numbers of copies follow those of all other parts, in the same order. A copy has what
 * its original has, however many threads the two servers have: so workers encode the same messages
 * for both. Copies are pushed to like the others and never pulled.
 */
#ifndef PS_COMMON_PLACEMENT_PLACEMENT_H
#define PS_COMMON_PLACEMENT_PLACEMENT_H

#include "common/base/status.h"
#include "common/job/layout.h"

enum {
    PS_ENDPOINT_ID_MAX = 80,       /* bytes of a node id with its NUL */
    PS_ENDPOINT_ADDRESS_MAX = 160, /* bytes of host:port with its NUL */
    PS_THREADS_MAX = 64            /* most threads of a server */
};

/* A process: its node id and where it listens. Both are "" while unknown. */
typedef struct ps_endpoint {
    char node_id[PS_ENDPOINT_ID_MAX];
    char address[PS_ENDPOINT_ADDRESS_MAX];
} ps_endpoint;

/* What one thread of a server has, or a copy of that. */
typedef struct ps_part {
    uint32_t server;
    uint32_t thread; /* the thread's number on its server, from 0; of a copy its original's */
    bool is_copy;    /* of a part of the server before this one */
    uint32_t owned_count;
    uint32_t *owned; /* (owned_count): slices, ascending */
} ps_part;

/* Immutable once all ranks and servers have their endpoints; then any thread may read it. */
typedef struct ps_placement {
    const ps_layout *layout; /* kept */
    uint64_t epoch;          /* from 1 */

    uint32_t server_count;
    uint32_t server_of_shard[PS_SHARDS];
    ps_endpoint *servers;  /* (server_count) */
    uint32_t *server_of;   /* (slice_count), by slice of the layout */
    uint32_t *owned_count; /* (server_count) */
    uint32_t **owned;      /* (server_count)(owned_count): slices of each server, ascending */
    uint32_t **held;       /* (server_count): likewise, with copies; only if has_copies */

    uint32_t *first_part; /* (server_count + 1): of each server; the last one is how many threads
                           * all servers have */
    uint32_t part_count;  /* as many; with copies twice as many */
    ps_part *parts;       /* (part_count), by server, then by thread; then the copies likewise */
    uint32_t part_of_shard[PS_SHARDS];
    uint32_t *part_of; /* (slice_count), by slice of the layout */

    bool has_copies;

    uint32_t rank_count;
    uint32_t *process_of; /* (rank_count): index of the process that carries the rank */
    uint32_t process_count;
    ps_endpoint *processes; /* (process_count), room for rank_count */
} ps_placement;

/* Deals the virtual shards to `servers` servers: the largest first, each to the server that holds
 * the fewest values so far; shards without values to the server with the fewest shards. Servers may
 * be 0 (an exchange among workers); with fewer slices than servers some servers own no slice.
 * Each server has one thread. Endpoints are empty and no rank is placed. Epoch is 1. */
void ps_placement_init(ps_placement *placement, const ps_layout *layout, uint32_t servers,
                       uint32_t ranks);

/* Frees what the placement holds. A zeroed one is allowed. */
void ps_placement_fini(ps_placement *placement);

/* Replaces the deal of shards by one that came from outside.
 *
 * INVALID_ARGUMENT  not PS_SHARDS numbers, or a server that there is not; nothing has changed */
PS_MUST_USE ps_status ps_placement_set_shards(ps_placement *placement,
                                              const uint32_t *server_of_shard, size_t count);

/* Says how many threads a server has, and deals its virtual shards to them, as ps_placement_deal.
 *
 * INVALID_ARGUMENT  no such server, or threads are not 1 to PS_THREADS_MAX; nothing has changed */
PS_MUST_USE ps_status ps_placement_set_threads(ps_placement *placement, uint32_t server,
                                               uint32_t threads);

/* Has each server keep a copy of the shards of the server before it. With one server there are no
 * copies, and nothing changes. */
void ps_placement_copy(ps_placement *placement);

/* Returns the server whose shards are copied on this one, if has_copies. */
uint32_t ps_placement_copied(const ps_placement *placement, uint32_t server);

/* Returns the part of which a part is the copy; a part that is no copy itself. */
static inline uint32_t ps_placement_original(const ps_placement *placement, uint32_t part)
{
    return placement->parts[part].is_copy ? part - placement->first_part[placement->server_count]
                                          : part;
}

/* Returns the copy of a part that is none itself, if has_copies. */
static inline uint32_t ps_placement_copy_of(const ps_placement *placement, uint32_t part)
{
    return part + placement->first_part[placement->server_count];
}

/* Returns the slice at `place` of those that a server has, its own and copies, ascending; in the
 * same order it is sent their weights. */
uint32_t ps_placement_held(const ps_placement *placement, uint32_t server, uint32_t place);
/* Returns how many these are. */
uint32_t ps_placement_held_count(const ps_placement *placement, uint32_t server);

/* Deals virtual shards to `count` places: the largest first, each to the place with the fewest
 * values so far; shards without values to the place with the fewest shards. `owner` (PS_SHARDS)
 * and `mine` select the shards; with `owner` NULL all are dealt. Writes the place of each shard
 * that is dealt to place_of (PS_SHARDS). */
void ps_placement_deal(const ps_layout *layout, const uint32_t *owner, uint32_t mine,
                       uint32_t count, uint32_t *place_of);

/* Says where a server listens.
 *
 * INVALID_ARGUMENT  no such server, or it has an endpoint already, or a text is empty or too long
 */
PS_MUST_USE ps_status ps_placement_set_server(ps_placement *placement, uint32_t server,
                                              const char *node_id, const char *address);

/* Places a rank on the process `node_id`. Ranks with equal ids are on one process.
 *
 * INVALID_ARGUMENT  no such rank, or it is placed already, or the process has another address, or
 *                   a text is empty or too long */
PS_MUST_USE ps_status ps_placement_set_rank(ps_placement *placement, uint32_t rank,
                                            const char *node_id, const char *address);

/* Returns the process that carries a placed rank. */
const ps_endpoint *ps_placement_process(const ps_placement *placement, uint32_t rank);

/* Returns the server of a part. */
static inline const ps_endpoint *ps_placement_server(const ps_placement *placement, uint32_t part)
{
    return &placement->servers[placement->parts[part].server];
}

/* Returns how many float32 values the slices of a server have. */
size_t ps_placement_value_count(const ps_placement *placement, uint32_t server);

#endif
