/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h - where a job lives: which server holds each virtual shard, and which process carries
 * each rank.
 *
 * A plan says what is computed and knows no server and no process. A placement is a value beside
 * it. The coordinator makes it for each attempt and sends it to all nodes; nobody else changes it.
 * Its epoch grows with each change. A placement never changes a bit of what is computed: sums run
 * over ranks in their order, wherever ranks and shards are.
 *
 * Slices and rows are placed by the same map: slice i belongs to virtual shard i % PS_SHARDS, a row
 * to the shard of its slice or of its key (ps_table_home).
 *
 * A server has one thread or several. Its virtual shards are distributed to its threads, so each
 * thread has a part of the job, which no other thread touches. Parts are numbered over all servers.
 *
 * Copies. After ps_placement_copy, each server also has a copy of each part of the server before
 * it; the last server is before the first. The numbers of copies follow those of all other parts,
 * in the same order. A copy has the same slices and rows as its original, however many threads the
 * two servers have, so workers encode the same messages for both. Copies are pushed to like other
 * parts and never pulled from. */
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

/* What one thread of a server has, or a copy of it on the next server. */
typedef struct ps_part {
    uint32_t server;
    /* number of the thread on its server, from 0; of a copy the number of its original's thread */
    uint32_t thread;
    bool is_copy; /* the part is a copy of one of the server before this one */
    uint32_t owned_count;
    uint32_t *owned; /* (owned_count): slices, ascending */
} ps_part;

/* Where the shards and ranks of a job are. Immutable once all ranks and servers have their
 * endpoints; then any thread may read it. */
typedef struct ps_placement {
    const ps_layout *layout; /* kept */
    uint64_t epoch;          /* 1 at first; grows with each change of the placement */

    uint32_t server_count;
    uint32_t server_of_shard[PS_SHARDS];
    ps_endpoint *servers;  /* (server_count) */
    uint32_t *server_of;   /* (slice_count), by slice of the layout */
    uint32_t *owned_count; /* (server_count) */
    uint32_t **owned;      /* (server_count)(owned_count): slices of each server, ascending */
    /* (server_count): slices of each server with those of which it has copies, ascending; only if
     * has_copies */
    uint32_t **held;

    /* (server_count + 1): number of each server's first part; the last element is the number of all
     * parts that are no copies */
    uint32_t *first_part;
    uint32_t part_count; /* number of parts, copies included */
    /* (part_count): by server, then by thread; after them the copies, in the same order */
    ps_part *parts;
    uint32_t part_of_shard[PS_SHARDS];
    uint32_t *part_of; /* (slice_count), by slice of the layout */

    bool has_copies;

    uint32_t rank_count;
    uint32_t *process_of; /* (rank_count): index of the process that carries the rank */
    uint32_t process_count;
    ps_endpoint *processes; /* (process_count), room for rank_count */
} ps_placement;

/* Distributes the virtual shards to `servers` servers: the largest shard first, each to the server
 * that holds the fewest values so far; shards without values to the server with the fewest shards.
 * `servers` may be 0 (an exchange among workers). If there are fewer slices than servers, some
 * servers get no slice. Each server has one thread. Endpoints are empty and no rank is placed. The
 * epoch is 1. */
void ps_placement_init(ps_placement *placement, const ps_layout *layout, uint32_t servers,
                       uint32_t ranks);

/* Frees what the placement holds. A zeroed one is allowed. */
void ps_placement_fini(ps_placement *placement);

/* Replaces the distribution of shards by one that came from outside.
 *
 * INVALID_ARGUMENT  not PS_SHARDS numbers, or a server that does not exist; nothing has changed
 */
PS_MUST_USE ps_status ps_placement_set_shards(ps_placement *placement,
                                              const uint32_t *server_of_shard, size_t count);

/* Sets how many threads a server has, and distributes its virtual shards to them as
 * ps_placement_deal does.
 *
 * INVALID_ARGUMENT  no such server, or threads are not 1 to PS_THREADS_MAX; nothing has changed
 */
PS_MUST_USE ps_status ps_placement_set_threads(ps_placement *placement, uint32_t server,
                                               uint32_t threads);

/* Gives each server a copy of the shards of the server before it. If there is only one server, does
 * nothing. */
void ps_placement_copy(ps_placement *placement);

/* Returns the server of whose shards `server` has copies. Only if has_copies. */
uint32_t ps_placement_copied(const ps_placement *placement, uint32_t server);

/* Returns the part of which a part is the copy; if it is no copy, the part itself. */
static inline uint32_t ps_placement_original(const ps_placement *placement, uint32_t part)
{
    return placement->parts[part].is_copy ? part - placement->first_part[placement->server_count]
                                          : part;
}

/* Returns the copy of a part that is no copy itself. Only if has_copies. */
static inline uint32_t ps_placement_copy_of(const ps_placement *placement, uint32_t part)
{
    return part + placement->first_part[placement->server_count];
}

/* Returns element `place` of a server's slices, ascending, with those of which it has copies. The
 * weights of an attempt are sent to the server in this order. */
uint32_t ps_placement_held(const ps_placement *placement, uint32_t server, uint32_t place);
/* Returns the number of a server's slices, with those of which it has copies. */
uint32_t ps_placement_held_count(const ps_placement *placement, uint32_t server);

/* Distributes virtual shards to `count` places: the largest shard first, each to the place with the
 * fewest values so far; shards without values to the place with the fewest shards. Distributes the
 * shards whose `owner` (PS_SHARDS) is `mine`; `owner` NULL: all shards. Writes the place of each of
 * these to place_of (PS_SHARDS). */
void ps_placement_deal(const ps_layout *layout, const uint32_t *owner, uint32_t mine,
                       uint32_t count, uint32_t *place_of);

/* Sets the node and address of a server.
 *
 * INVALID_ARGUMENT  no such server, or it has an endpoint already, or a text is empty or too long
 */
PS_MUST_USE ps_status ps_placement_set_server(ps_placement *placement, uint32_t server,
                                              const char *node_id, const char *address);

/* Places a rank on the process with this node id. Ranks with equal ids are on one process.
 *
 * INVALID_ARGUMENT  no such rank, or it is placed already, or the process has another address, or
 *                   a text is empty or too long
 */
PS_MUST_USE ps_status ps_placement_set_rank(ps_placement *placement, uint32_t rank,
                                            const char *node_id, const char *address);

/* Returns the process that carries a placed rank. */
const ps_endpoint *ps_placement_process(const ps_placement *placement, uint32_t rank);

/* Returns the endpoint of the server that has a part. */
static inline const ps_endpoint *ps_placement_server(const ps_placement *placement, uint32_t part)
{
    return &placement->servers[placement->parts[part].server];
}

/* Returns how many float32 values the slices of a server have, without copies. */
size_t ps_placement_value_count(const ps_placement *placement, uint32_t server);

#endif
