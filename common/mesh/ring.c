/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - reduce-scatter and all-gather around a ring (Patarasuk, Yuan, JPDC
 * 69(2), 2009), in cells that travel each for itself.
 *
 * Cells are shared out among n nodes. A cell sets out at the node whose share it is; each
 * node adds its own, as soon as that is there, and passes it on; the last one has the whole
 * sum, and passes it around once more. 2 (n - 1) / n |w| to and from every node, whatever
 * n is; the pipeline is as deep as there are cells. With a codec a sum is decoded and
 * encoded again at every hop of the first way round; on the second all pass on the same
 * bytes, so all have the same values. Each node encodes each cell once a step: what it lost
 * there, it adds to that cell's sum in the next.
 */
#include "common/mesh/mesh_impl.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

typedef enum way { REDUCE, GATHER, WAYS } way;

typedef struct ring_state {
    float *sum;         /* (n): partial, then whole */
    uint8_t *have;      /* (WAYS, cells): came in */
    uint8_t *is_mine;   /* (cells): this node's own values are in the sum */
    ps_packet **parked; /* (cells): a partial sum that came before those */
    uint32_t whole;     /* cells that are whole */
} ring_state;

static ring_state *state_of(const ps_mesh_node *node)
{
    return node->state;
}

static const mesh_cell *cell_of(const ps_mesh_node *node, uint32_t cell)
{
    return &node->cells.cell[cell];
}

static uint32_t next_of(const ps_mesh_node *node)
{
    return (node->conf.self + 1) % node->nodes;
}

/* The node that completes a cell. */
static uint32_t end_of(const ps_mesh_node *node, const mesh_cell *cell)
{
    return (cell->share + node->nodes - 1) % node->nodes;
}

static bool is_down(const ps_mesh_node *node, const mesh_cell *cell)
{
    return end_of(node, cell) == node->conf.self;
}

static void init(ps_mesh_node *node)
{
    ring_state *s = state_of(node);

    mesh_cut(node, node->nodes, is_down);
    s->sum = ps_xcalloc(node->conf.n, sizeof *s->sum);
    s->have = ps_xcalloc((size_t)WAYS * node->cells.count, 1);
    s->is_mine = ps_xcalloc(node->cells.count, 1);
    s->parked = ps_xcalloc(node->cells.count, sizeof(ps_packet *));
}

static void drop_parked(ps_mesh_node *node)
{
    for (uint32_t i = 0; i < node->cells.count; i++) {
        ps_packet_unref(state_of(node)->parked[i]);
        state_of(node)->parked[i] = NULL;
    }
}

static void fini(ps_mesh_node *node)
{
    ring_state *s = state_of(node);

    drop_parked(node);
    free(s->sum);
    free(s->have);
    free(s->is_mine);
    free(s->parked);
}

/* The sum is whole: it becomes for this node what it will be for the others. */
static ps_status complete(ps_mesh_node *node, uint32_t cell)
{
    ring_state *s = state_of(node);
    float *sum = s->sum + cell_of(node, cell)->at;
    ps_packet *packet = mesh_encode(node, GATHER, cell, true, node->conf.self, sum);
    ps_status st = mesh_decode(node, packet, true, PS_INTO_SET, sum);

    s->whole++;
    if (node->nodes > 1) {
        mesh_say_to(node, packet, next_of(node));
    } else {
        ps_packet_unref(packet);
    }
    return st;
}

/* What came of the cell, if anything had to, and this node's own are in the sum. */
static ps_status pass_on(ps_mesh_node *node, uint32_t cell)
{
    float *sum = state_of(node)->sum + cell_of(node, cell)->at;

    if (is_down(node, cell_of(node, cell))) {
        return complete(node, cell);
    }
    mesh_say_to(node, mesh_encode(node, REDUCE, cell, false, node->conf.self, sum), next_of(node));
    return ps_ok();
}

static ps_status start(ps_mesh_node *node)
{
    ring_state *s = state_of(node);

    drop_parked(node);
    memset(s->have, 0, (size_t)WAYS * node->cells.count);
    memset(s->is_mine, 0, node->cells.count);
    s->whole = 0;
    return ps_ok();
}

/* A partial sum and this node's own: the same bits, whichever was first. */
static ps_status add(ps_mesh_node *node, const ps_packet *packet)
{
    float *sum = state_of(node)->sum + cell_of(node, packet->piece)->at;
    ps_status st = mesh_decode(node, packet, false, PS_INTO_ADD, sum);

    return ps_is_ok(&st) ? pass_on(node, packet->piece) : st;
}

static ps_status ready(ps_mesh_node *node, uint32_t held, uint32_t part)
{
    ring_state *s = state_of(node);
    ps_status st = ps_ok();

    (void)held;
    for (uint32_t i = node->cells.first[part];
         mesh_is_ready(node, part) && i < node->cells.first[part + 1] && ps_is_ok(&st); i++) {
        const mesh_cell *cell = cell_of(node, i);

        mesh_own_sum(node, cell, s->sum + cell->at);
        s->is_mine[i] = 1;
        if (cell->share == node->conf.self) {
            st = pass_on(node, i);
        } else if (s->parked[i] != NULL) {
            st = add(node, s->parked[i]);
            ps_packet_unref(s->parked[i]);
            s->parked[i] = NULL;
        }
    }
    return st;
}

static ps_status take_reduce(ps_mesh_node *node, ps_packet *packet)
{
    ps_status st;

    if (state_of(node)->is_mine[packet->piece]) {
        return add(node, packet);
    }
    st = mesh_check(node, packet, false);
    if (ps_is_ok(&st)) {
        state_of(node)->parked[packet->piece] = ps_packet_ref(packet);
    }
    return st;
}

static ps_status take_gather(ps_mesh_node *node, const ps_packet *packet)
{
    ring_state *s = state_of(node);
    const mesh_cell *cell = cell_of(node, packet->piece);
    ps_status st = mesh_decode(node, packet, true, PS_INTO_SET, s->sum + cell->at);

    if (!ps_is_ok(&st)) {
        return st;
    }
    s->whole++;
    if (next_of(node) != end_of(node, cell)) {
        mesh_say_to(node, mesh_copy(node, packet, cell->n), next_of(node));
    }
    return ps_ok();
}

/* Nobody hears of a cell what it has said first itself, nor the whole before its own is in. */
static bool may_say(const ps_mesh_node *node, const ps_packet *packet)
{
    const ring_state *s = state_of(node);
    const mesh_cell *cell;

    if (packet->what >= WAYS || packet->piece >= node->cells.count ||
        packet->from != (node->conf.self + node->nodes - 1) % node->nodes) {
        return false;
    }
    cell = cell_of(node, packet->piece);
    if (packet->what == REDUCE) {
        return cell->share != node->conf.self;
    }
    return end_of(node, cell) != node->conf.self && s->is_mine[packet->piece] &&
           (cell->share == node->conf.self || s->have[packet->piece]);
}

static ps_status take(ps_mesh_node *node, ps_packet *packet)
{
    uint8_t *have;
    ps_status st;

    if (!may_say(node, packet)) {
        return ps_fail(PS_INVALID_ARGUMENT, "way %u, cell %u of %u from worker %u to worker %u",
                       packet->what, packet->piece, node->cells.count, packet->from,
                       node->conf.self);
    }
    have = &state_of(node)->have[(size_t)packet->what * node->cells.count + packet->piece];
    if (*have) {
        node->counters.duplicates++;
        return ps_ok();
    }
    st = packet->what == REDUCE ? take_reduce(node, packet) : take_gather(node, packet);
    *have = ps_is_ok(&st);
    if (*have) {
        node->counters.values_taken += cell_of(node, packet->piece)->n;
    }
    return st;
}

static bool is_done(const ps_mesh_node *node)
{
    return state_of(node)->whole == node->cells.count;
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
    .summary = "around a ring, in pieces: reduce-scatter, then all-gather of the same bytes",
    .check = mesh_check_sums,
    .says_sums = true,
    .state_size = sizeof(ring_state),
    .init = init,
    .fini = fini,
    .start = start,
    .ready = ready,
    .take = take,
    .is_done = is_done,
    .finish = finish,
    .missing = missing,
};
