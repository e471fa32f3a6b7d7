/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - reduce-scatter and all-gather around a ring (Patarasuk, Yuan, JPDC
 * 69(2), 2009), in chunks that travel each for itself.
 *
 * The values are cut into n shards, those into chunks. Shard s sets out at node
 * s; each node adds its own and passes it on; node s - 1 has the whole sum, and
 * passes it around once more. 2 (n - 1) / n |w| to and from every node, whatever
 * n is; the pipeline is as deep as there are chunks. With a codec a sum is
 * decoded and encoded again at every hop of the first way round; on the second
 * all pass on the same bytes, so all have the same values.
 */
#include "common/exchange/mesh_impl.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

typedef enum way { REDUCE, GATHER, WAYS } way;

typedef struct ring_state {
    float *sum;       /* (n): partial, then whole */
    uint32_t *chunks; /* (nodes + 1): chunks before shard s */
    uint8_t *have;    /* (WAYS, chunks in all): came in */
    uint32_t whole;   /* chunks that are whole */
} ring_state;

static ring_state *state_of(const ps_mesh_node *node)
{
    return node->state;
}

static size_t shard_at(const ps_mesh_node *node, uint32_t shard)
{
    return node->conf.n * shard / node->nodes;
}

static uint32_t total_of(const ps_mesh_node *node)
{
    return state_of(node)->chunks[node->nodes];
}

/* Where chunk `piece` of a shard lies. */
static size_t chunk_at(const ps_mesh_node *node, uint32_t shard, uint32_t piece, size_t *n)
{
    size_t at = shard_at(node, shard) + (size_t)piece * PS_CODEC_VALUES;
    size_t left = shard_at(node, shard + 1) - at;

    *n = left < PS_CODEC_VALUES ? left : PS_CODEC_VALUES;
    return at;
}

static uint32_t next_of(const ps_mesh_node *node)
{
    return (node->conf.self + 1) % node->nodes;
}

/* The node that completes a shard. */
static uint32_t end_of(const ps_mesh_node *node, uint32_t shard)
{
    return (shard + node->nodes - 1) % node->nodes;
}

static void init(ps_mesh_node *node)
{
    ring_state *s = state_of(node);

    s->sum = ps_xcalloc(node->conf.n, sizeof *s->sum);
    s->chunks = ps_xcalloc(node->nodes + 1, sizeof *s->chunks);
    for (uint32_t i = 0; i < node->nodes; i++) {
        size_t n = shard_at(node, i + 1) - shard_at(node, i);

        s->chunks[i + 1] = s->chunks[i] + (uint32_t)((n + PS_CODEC_VALUES - 1) / PS_CODEC_VALUES);
    }
    s->have = ps_xcalloc((size_t)WAYS * total_of(node) + 1, 1);
}

static void fini(ps_mesh_node *node)
{
    ring_state *s = state_of(node);

    free(s->sum);
    free(s->chunks);
    free(s->have);
}

/* Encodes a chunk as it is here. */
static ps_packet *encode(ps_mesh_node *node, way w, uint32_t shard, uint32_t piece)
{
    ring_state *s = state_of(node);
    size_t n, at = chunk_at(node, shard, piece, &n);

    return mesh_encode(node, (uint32_t)w * node->nodes + shard, piece, s->chunks[shard] + piece,
                       node->conf.self, s->sum + at, n);
}

/* The sum is whole: it becomes for this node what it will be for the others. */
static ps_status complete(ps_mesh_node *node, uint32_t shard, uint32_t piece)
{
    ring_state *s = state_of(node);
    size_t n, at = chunk_at(node, shard, piece, &n);
    ps_packet *packet = encode(node, GATHER, shard, piece);
    ps_status st = mesh_decode(node, packet, PS_INTO_SET, s->sum + at, n);

    s->whole++;
    if (node->nodes > 1) {
        mesh_say_to(node, packet, next_of(node));
    } else {
        ps_packet_unref(packet);
    }
    return st;
}

static ps_status start(ps_mesh_node *node)
{
    ring_state *s = state_of(node);
    uint32_t self = node->conf.self;
    uint32_t pieces = s->chunks[self + 1] - s->chunks[self];
    ps_status st = ps_ok();

    memset(s->have, 0, (size_t)WAYS * total_of(node));
    s->whole = 0;
    mesh_own_sum(node, s->sum);
    for (uint32_t piece = 0; piece < pieces && ps_is_ok(&st); piece++) {
        if (node->nodes == 1) {
            st = complete(node, self, piece);
        } else {
            mesh_say_to(node, encode(node, REDUCE, self, piece), next_of(node));
        }
    }
    return st;
}

static ps_status take_reduce(ps_mesh_node *node, const ps_packet *packet, uint32_t shard)
{
    ring_state *s = state_of(node);
    size_t n, at = chunk_at(node, shard, packet->piece, &n);
    ps_status st = mesh_decode(node, packet, PS_INTO_ADD, s->sum + at, n);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (end_of(node, shard) == node->conf.self) {
        return complete(node, shard, packet->piece);
    }
    mesh_say_to(node, encode(node, REDUCE, shard, packet->piece), next_of(node));
    return ps_ok();
}

static ps_status take_gather(ps_mesh_node *node, const ps_packet *packet, uint32_t shard)
{
    ring_state *s = state_of(node);
    size_t n, at = chunk_at(node, shard, packet->piece, &n);
    ps_status st = mesh_decode(node, packet, PS_INTO_SET, s->sum + at, n);

    if (!ps_is_ok(&st)) {
        return st;
    }
    s->whole++;
    if (next_of(node) != end_of(node, shard)) {
        mesh_say_to(node, mesh_copy(node, packet, n), next_of(node));
    }
    return ps_ok();
}

static ps_status take(ps_mesh_node *node, ps_packet *packet)
{
    ring_state *s = state_of(node);
    uint32_t w = packet->what / node->nodes, shard = packet->what % node->nodes;
    uint32_t first = s->chunks[shard], pieces = s->chunks[shard + 1] - first;
    uint32_t begins = w == REDUCE ? shard : end_of(node, shard);
    uint8_t *have;
    ps_status st;
    size_t n;

    /* Nobody hears of a shard what it has said first itself. */
    if (w >= WAYS || packet->piece >= pieces || begins == node->conf.self ||
        packet->from != (node->conf.self + node->nodes - 1) % node->nodes) {
        return ps_fail(PS_INVALID_ARGUMENT, "shard %u, chunk %u of %u from worker %u to worker %u",
                       shard, packet->piece, pieces, packet->from, node->conf.self);
    }
    have = &s->have[(size_t)w * total_of(node) + first + packet->piece];
    if (*have) {
        node->counters.duplicates++;
        return ps_ok();
    }
    st = w == REDUCE ? take_reduce(node, packet, shard) : take_gather(node, packet, shard);
    *have = ps_is_ok(&st);
    if (*have) {
        (void)chunk_at(node, shard, packet->piece, &n);
        node->counters.values_taken += n;
    }
    return st;
}

static bool is_done(const ps_mesh_node *node)
{
    return state_of(node)->whole == total_of(node);
}

static void finish(ps_mesh_node *node, float *sum)
{
    memcpy(sum, state_of(node)->sum, node->conf.n * sizeof *sum);
}

/* Only one can have kept it waiting, by itself or because it waits too. */
static void missing(const ps_mesh_node *node, bool *peers)
{
    peers[(node->conf.self + node->nodes - 1) % node->nodes] = true;
}

const ps_mesh ps_mesh_ring = {
    .name = "ring",
    .summary = "around a ring, in chunks: reduce-scatter, then all-gather of the same bytes",
    .check = mesh_check_sums,
    .state_size = sizeof(ring_state),
    .init = init,
    .fini = fini,
    .start = start,
    .take = take,
    .is_done = is_done,
    .finish = finish,
    .missing = missing,
};
