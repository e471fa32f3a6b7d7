/* SPDX-License-Identifier: Apache-2.0 */
/* placement.c - see placement.h. */
#include "common/placement/placement.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* process_of[rank] until ps_placement_set_rank places the rank */
static const uint32_t nowhere = UINT32_MAX;

typedef struct shard_size {
    uint32_t shard;
    size_t values;
} shard_size;

/* Compares shards for qsort: the largest first, of equal ones that with the lowest number. */
static int by_size(const void *a, const void *b)
{
    const shard_size *x = a, *y = b;

    if (x->values != y->values) {
        return x->values > y->values ? -1 : 1;
    }
    return x->shard < y->shard ? -1 : x->shard > y->shard;
}

/* What ps_placement_deal has given to a place so far. */
typedef struct load {
    size_t values;
    uint32_t shards;
} load;

void ps_placement_deal(const ps_layout *layout, const uint32_t *owner, uint32_t mine,
                       uint32_t count, uint32_t *place_of)
{
    load *loads = ps_xcalloc(count, sizeof *loads);
    shard_size sizes[PS_SHARDS];

    for (uint32_t s = 0; s < PS_SHARDS; s++) {
        sizes[s] = (shard_size){.shard = s};
    }
    for (uint32_t i = 0; i < layout->slice_count; i++) {
        sizes[layout->slices[i].shard].values += layout->slices[i].n;
    }
    qsort(sizes, PS_SHARDS, sizeof sizes[0], by_size);
    for (uint32_t s = 0; s < PS_SHARDS; s++) {
        uint32_t best = 0;

        if (owner != NULL && owner[sizes[s].shard] != mine) {
            continue;
        }
        for (uint32_t r = 1; r < count; r++) {
            /* Shards without slices can only have rows, which are spread evenly over all shards. So
             * each of these shards goes to the place with the fewest shards. */
            if (sizes[s].values > 0 ? loads[r].values < loads[best].values
                                    : loads[r].shards < loads[best].shards) {
                best = r;
            }
        }
        place_of[sizes[s].shard] = best;
        loads[best].values += sizes[s].values;
        loads[best].shards++;
    }
    free(loads);
}

/* Frees the parts and their lists of slices, before list_parts makes them anew or at the end. */
static void drop_parts(ps_placement *placement)
{
    for (uint32_t p = 0; p < placement->part_count; p++) {
        free(placement->parts[p].owned);
    }
    free(placement->parts);
    placement->parts = NULL;
    placement->part_count = 0;
}

/* Appends each slice of a server to the list of the part that part_of_shard names for its shard.
 * Writes that part to part_of[slice]. */
static void list_owned(ps_placement *placement, uint32_t server)
{
    for (uint32_t k = 0; k < placement->owned_count[server]; k++) {
        uint32_t slice = placement->owned[server][k];
        uint32_t at = placement->part_of_shard[placement->layout->slices[slice].shard];
        ps_part *part = &placement->parts[at];

        if (part->owned == NULL) {
            part->owned = ps_xcalloc(placement->owned_count[server], sizeof *part->owned);
        }
        part->owned[part->owned_count++] = slice;
        placement->part_of[slice] = at;
    }
}

/* Deals the shards of a server to its `threads` parts, and lists their slices in the parts. Writes
 * the part of each shard to part_of_shard and of each slice to part_of. */
static void deal_to_threads(ps_placement *placement, uint32_t server, uint32_t threads)
{
    uint32_t place_of[PS_SHARDS];

    ps_placement_deal(placement->layout, placement->server_of_shard, server, threads, place_of);
    for (uint32_t s = 0; s < PS_SHARDS; s++) {
        if (placement->server_of_shard[s] == server) {
            placement->part_of_shard[s] = placement->first_part[server] + place_of[s];
        }
    }
    list_owned(placement, server);
}

uint32_t ps_placement_copied(const ps_placement *placement, uint32_t server)
{
    return (server + placement->server_count - 1) % placement->server_count;
}

uint32_t ps_placement_held_count(const ps_placement *placement, uint32_t server)
{
    return placement->owned_count[server] +
           (placement->has_copies ? placement->owned_count[ps_placement_copied(placement, server)]
                                  : 0);
}

uint32_t ps_placement_held(const ps_placement *placement, uint32_t server, uint32_t place)
{
    return (placement->has_copies ? placement->held : placement->owned)[server][place];
}

/* Merges two ascending lists without common members. */
static void merge(const uint32_t *a, uint32_t a_count, const uint32_t *b, uint32_t b_count,
                  uint32_t *out)
{
    for (uint32_t i = 0, k = 0; i + k < a_count + b_count; out++) {
        bool is_a = k == b_count || (i < a_count && a[i] < b[k]);

        *out = is_a ? a[i++] : b[k++];
    }
}

/* Fills the parts that are copies, the second half of all parts: each server has copies of the
 * parts of the server before it. Fills `held`: the slices that a server has as its own or as
 * copies. */
static void list_copies(ps_placement *placement)
{
    uint32_t originals = placement->first_part[placement->server_count];

    for (uint32_t p = 0; p < originals; p++) {
        const ps_part *of = &placement->parts[p];
        ps_part *copy = &placement->parts[ps_placement_copy_of(placement, p)];
        size_t bytes = of->owned_count * sizeof *copy->owned;

        *copy = *of;
        copy->server = (of->server + 1) % placement->server_count;
        copy->is_copy = true;
        copy->owned = of->owned_count > 0 ? memcpy(ps_xmalloc(bytes), of->owned, bytes) : NULL;
    }
    for (uint32_t r = 0; r < placement->server_count; r++) {
        uint32_t from = ps_placement_copied(placement, r);

        free(placement->held[r]);
        placement->held[r] =
            ps_xcalloc(ps_placement_held_count(placement, r) + 1u, sizeof **placement->held);
        merge(placement->owned[r], placement->owned_count[r], placement->owned[from],
              placement->owned_count[from], placement->held[r]);
    }
}

/* Fills first_part, the parts, part_of_shard and part_of from server_of_shard; with has_copies also
 * `held`. `threads` is the number of threads of each server. */
static void list_parts(ps_placement *placement, const uint32_t *threads)
{
    uint32_t count = 0;

    drop_parts(placement);
    for (uint32_t r = 0; r < placement->server_count; r++) {
        placement->first_part[r] = count;
        count += threads[r];
    }
    placement->first_part[placement->server_count] = count;
    placement->part_count = placement->has_copies ? 2 * count : count;
    placement->parts = ps_xcalloc((size_t)placement->part_count + 1, sizeof *placement->parts);
    for (uint32_t r = 0; r < placement->server_count; r++) {
        for (uint32_t t = 0; t < threads[r]; t++) {
            placement->parts[placement->first_part[r] + t] = (ps_part){.server = r, .thread = t};
        }
        deal_to_threads(placement, r, threads[r]);
    }
    if (placement->has_copies) {
        list_copies(placement);
    }
}

/* Fills server_of, owned and owned_count from server_of_shard. */
static void list_slices(ps_placement *placement)
{
    const ps_layout *layout = placement->layout;
    uint32_t *count = placement->owned_count;

    memset(count, 0, placement->server_count * sizeof *count);
    for (uint32_t i = 0; i < layout->slice_count; i++) {
        placement->server_of[i] = placement->server_of_shard[layout->slices[i].shard];
        count[placement->server_of[i]]++;
    }
    for (uint32_t r = 0; r < placement->server_count; r++) {
        free(placement->owned[r]);
        placement->owned[r] = ps_xcalloc((size_t)count[r] + 1, sizeof **placement->owned);
        count[r] = 0;
    }
    for (uint32_t i = 0; i < layout->slice_count; i++) {
        uint32_t r = placement->server_of[i];

        placement->owned[r][count[r]++] = i;
    }
}

/* Fills all lists of slices and parts anew, after server_of_shard, the threads of a server or
 * has_copies has changed. Server `changed` has `threads` threads from now on (UINT32_MAX: no
 * server), all others as many as before. */
static void list_all(ps_placement *placement, uint32_t changed, uint32_t threads)
{
    uint32_t *all = ps_xcalloc((size_t)placement->server_count + 1, sizeof *all);

    for (uint32_t r = 0; r < placement->server_count; r++) {
        all[r] = r == changed ? threads : placement->first_part[r + 1] - placement->first_part[r];
    }
    list_slices(placement);
    list_parts(placement, all);
    free(all);
}

void ps_placement_init(ps_placement *placement, const ps_layout *layout, uint32_t servers,
                       uint32_t ranks)
{
    *placement =
        (ps_placement){.layout = layout, .epoch = 1, .server_count = servers, .rank_count = ranks};
    placement->servers = ps_xcalloc((size_t)servers + 1, sizeof *placement->servers);
    placement->server_of = ps_xcalloc(layout->slice_count + 1u, sizeof *placement->server_of);
    placement->owned_count = ps_xcalloc((size_t)servers + 1, sizeof *placement->owned_count);
    placement->owned = ps_xcalloc((size_t)servers + 1, sizeof *placement->owned);
    placement->process_of = ps_xcalloc((size_t)ranks + 1, sizeof *placement->process_of);
    placement->processes = ps_xcalloc((size_t)ranks + 1, sizeof *placement->processes);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        placement->process_of[rank] = nowhere;
    }
    placement->first_part = ps_xcalloc((size_t)servers + 1, sizeof *placement->first_part);
    placement->part_of = ps_xcalloc(layout->slice_count + 1u, sizeof *placement->part_of);
    if (servers > 0) {
        for (uint32_t r = 0; r <= servers; r++) {
            placement->first_part[r] = r; /* each server has one thread, so its part has its
                                           * number */
        }
        ps_placement_deal(layout, NULL, 0, servers, placement->server_of_shard);
        list_all(placement, UINT32_MAX, 0);
    }
}

void ps_placement_copy(ps_placement *placement)
{
    if (placement->server_count < 2 || placement->has_copies) {
        return;
    }
    placement->has_copies = true;
    placement->held = ps_xcalloc(placement->server_count, sizeof *placement->held);
    list_all(placement, UINT32_MAX, 0);
}

void ps_placement_fini(ps_placement *placement)
{
    drop_parts(placement);
    for (uint32_t r = 0; r < placement->server_count; r++) {
        free(placement->owned[r]);
        if (placement->has_copies) {
            free(placement->held[r]);
        }
    }
    free(placement->held);
    free(placement->owned);
    free(placement->first_part);
    free(placement->part_of);
    free(placement->owned_count);
    free(placement->server_of);
    free(placement->servers);
    free(placement->process_of);
    free(placement->processes);
    memset(placement, 0, sizeof *placement);
}

ps_status ps_placement_set_shards(ps_placement *placement, const uint32_t *server_of_shard,
                                  size_t count)
{
    if (count != (placement->server_count > 0 ? PS_SHARDS : 0)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "server_of_shard: %zu numbers; %d are needed with %u "
                       "servers",
                       count, placement->server_count > 0 ? PS_SHARDS : 0, placement->server_count);
    }
    for (size_t s = 0; s < count; s++) {
        if (server_of_shard[s] >= placement->server_count) {
            return ps_fail(PS_INVALID_ARGUMENT, "server_of_shard[%zu]: %u; 0 to %u are allowed", s,
                           server_of_shard[s], placement->server_count - 1);
        }
    }
    if (count > 0) {
        memcpy(placement->server_of_shard, server_of_shard, count * sizeof *server_of_shard);
        list_all(placement, UINT32_MAX, 0);
    }
    return ps_ok();
}

ps_status ps_placement_set_threads(ps_placement *placement, uint32_t server, uint32_t threads)
{
    if (server >= placement->server_count) {
        return ps_fail(PS_INVALID_ARGUMENT, "server %u of %u is not of this job", server,
                       placement->server_count);
    }
    if (threads == 0 || threads > PS_THREADS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "threads of server %u: %u; 1 to %d are allowed", server,
                       threads, PS_THREADS_MAX);
    }
    list_all(placement, server, threads);
    return ps_ok();
}

static ps_status set_endpoint(ps_endpoint *to, const char *what, uint32_t number,
                              const char *node_id, const char *address)
{
    if (node_id[0] == '\0' || strlen(node_id) >= sizeof to->node_id) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s %u: node id of %zu bytes; 1 to %zu are allowed",
                       what, number, strlen(node_id), sizeof to->node_id - 1);
    }
    if (address[0] == '\0' || strlen(address) >= sizeof to->address) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s %u: address of %zu bytes; 1 to %zu are allowed",
                       what, number, strlen(address), sizeof to->address - 1);
    }
    snprintf(to->node_id, sizeof to->node_id, "%s", node_id);
    snprintf(to->address, sizeof to->address, "%s", address);
    return ps_ok();
}

ps_status ps_placement_set_server(ps_placement *placement, uint32_t server, const char *node_id,
                                  const char *address)
{
    if (server >= placement->server_count || placement->servers[server].node_id[0] != '\0') {
        return ps_fail(PS_INVALID_ARGUMENT, "server %u of %u is %s", server,
                       placement->server_count,
                       server >= placement->server_count ? "not of this job" : "placed twice");
    }
    return set_endpoint(&placement->servers[server], "server", server, node_id, address);
}

ps_status ps_placement_set_rank(ps_placement *placement, uint32_t rank, const char *node_id,
                                const char *address)
{
    uint32_t process = 0;
    ps_status st = ps_ok();

    if (rank >= placement->rank_count || placement->process_of[rank] != nowhere) {
        return ps_fail(PS_INVALID_ARGUMENT, "rank %u of %u is %s", rank, placement->rank_count,
                       rank >= placement->rank_count ? "not of this job" : "placed twice");
    }
    while (process < placement->process_count &&
           strcmp(placement->processes[process].node_id, node_id) != 0) {
        process++;
    }
    if (process == placement->process_count) {
        st = set_endpoint(&placement->processes[process], "rank", rank, node_id, address);
        placement->process_count += ps_is_ok(&st);
    } else if (strcmp(placement->processes[process].address, address) != 0) {
        st = ps_fail(PS_INVALID_ARGUMENT, "rank %u: %s listens at two addresses", rank, node_id);
    }
    if (ps_is_ok(&st)) {
        placement->process_of[rank] = process;
    }
    return st;
}

const ps_endpoint *ps_placement_process(const ps_placement *placement, uint32_t rank)
{
    assert(rank < placement->rank_count && placement->process_of[rank] != nowhere);
    return &placement->processes[placement->process_of[rank]];
}

size_t ps_placement_value_count(const ps_placement *placement, uint32_t server)
{
    size_t values = 0;

    for (uint32_t i = 0; i < placement->owned_count[server]; i++) {
        values += placement->layout->slices[placement->owned[server][i]].n;
    }
    return values;
}
