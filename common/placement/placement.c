/* SPDX-License-Identifier: Apache-2.0 */
/* placement.c - see placement.h. */
#include "common/placement/placement.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOWHERE = UINT32_MAX }; /* process of a rank that is not placed yet */

typedef struct shard_size {
    uint32_t shard;
    size_t values;
} shard_size;

/* The largest shard first, of equal ones the lowest number. */
static int by_size(const void *a, const void *b)
{
    const shard_size *x = a, *y = b;

    if (x->values != y->values) {
        return x->values > y->values ? -1 : 1;
    }
    return x->shard < y->shard ? -1 : x->shard > y->shard;
}

/* What dealing has given a server so far. */
typedef struct load {
    size_t values;
    uint32_t shards;
} load;

static void deal_shards(ps_placement *placement)
{
    const ps_layout *layout = placement->layout;
    load *loads = ps_xcalloc(placement->server_count, sizeof *loads);
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

        for (uint32_t r = 1; r < placement->server_count; r++) {
            /* Rows are spread over all shards, so those without slices are dealt out evenly. */
            if (sizes[s].values > 0 ? loads[r].values < loads[best].values
                                    : loads[r].shards < loads[best].shards) {
                best = r;
            }
        }
        placement->server_of_shard[sizes[s].shard] = best;
        loads[best].values += sizes[s].values;
        loads[best].shards++;
    }
    free(loads);
}

/* Fills what follows from server_of_shard. */
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
        placement->process_of[rank] = NOWHERE;
    }
    if (servers > 0) {
        deal_shards(placement);
        list_slices(placement);
    }
}

void ps_placement_fini(ps_placement *placement)
{
    for (uint32_t r = 0; r < placement->server_count; r++) {
        free(placement->owned[r]);
    }
    free(placement->owned);
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
        list_slices(placement);
    }
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

    if (rank >= placement->rank_count || placement->process_of[rank] != NOWHERE) {
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
    assert(rank < placement->rank_count && placement->process_of[rank] != NOWHERE);
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
