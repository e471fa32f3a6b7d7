/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - reduce-scatter and all-gather around a ring (Patarasuk, Yuan, JPDC 69(2), 2009), cell by
 * cell.
 *
 * Cells are divided among n workers. A cell starts at the worker whose share it is. Each worker
 * adds its own values as soon as they are final, and sends the partial sum to the next. The last
 * worker has the complete sum, which then goes round once more. Every worker sends and receives 2
 * (n - 1) / n |w|. Cells are independent, so as many are in flight as there are.
 *
 * In the first round each hop decodes and encodes the sum; in the second all pass on the same
 * bytes, so all workers have the same values. Each worker encodes each cell once a step, and adds
 * the residual to that cell's sum of the next step.
 */
#include "common/mesh/mesh_impl.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

typedef enum way { REDUCE, GATHER, WAYS } way;

typedef struct ring_state {
    /* (WAYS, cells): whether the cell's packet has arrived, in the reduce-scatter and in the
     * all-gather */
    uint8_t *have;
    uint8_t *is_mine;   /* (cells): this worker's values are in the sum */
    ps_packet **parked; /* (cells): a partial sum that arrived before this worker's were final */
} ring_state;

static ring_state *state_of(const ps_mesh_machine *m)
{
    return m->state;
}

static const mesh_cell *cell_of(const ps_mesh_machine *m, uint32_t cell)
{
    return &m->cells.cell[cell];
}

static uint32_t next_of(const ps_mesh_machine *m)
{
    return (m->conf.self + 1) % m->nodes;
}

/* Returns the worker that completes a cell. */
static uint32_t end_of(const ps_mesh_machine *m, const mesh_cell *cell)
{
    return (cell->share + m->nodes - 1) % m->nodes;
}

static bool is_down(const ps_mesh_machine *m, const mesh_cell *cell)
{
    return end_of(m, cell) == m->conf.self;
}

static void init(ps_mesh_machine *m)
{
    ring_state *s = state_of(m);

    mesh_cut(m, m->nodes, is_down);
    s->have = ps_xcalloc((size_t)WAYS * m->cells.count, 1);
    s->is_mine = ps_xcalloc(m->cells.count, 1);
    s->parked = ps_xcalloc(m->cells.count, sizeof(ps_packet *));
}

static void drop_parked(ps_mesh_machine *m)
{
    for (uint32_t i = 0; i < m->cells.count; i++) {
        ps_packet_unref(state_of(m)->parked[i]);
        state_of(m)->parked[i] = NULL;
    }
}

static void fini(ps_mesh_machine *m)
{
    ring_state *s = state_of(m);

    drop_parked(m);
    free(s->have);
    free(s->is_mine);
    free(s->parked);
}

/* Sends the sum of a cell, which contains this worker's values by now: to the next worker as a
 * partial sum, or as the complete one if this worker is the cell's last. `encoded` follows. */
static ps_status pass_on(ps_mesh_machine *m, uint32_t cell)
{
    bool is_last = is_down(m, cell_of(m, cell));

    return mesh_encode(m, is_last ? GATHER : REDUCE, cell, is_last, m->conf.self,
                       m->cells.sum + cell_of(m, cell)->at);
}

/* Sends a packet with a partial or complete sum. Before that, a complete sum replaces this worker's
 * copy by the values that the other workers will decode. */
static ps_status encoded(ps_mesh_machine *m, ps_packet *packet)
{
    ps_status st = ps_ok();

    if (packet->what == REDUCE) {
        mesh_send_to(m, packet, next_of(m));
        return st;
    }
    st = mesh_decode(m, packet, true, PS_INTO_SET);
    ps_packet_unref(packet);
    return st;
}

/* Handles a decoded packet. A partial sum is now added to this worker's values: passes their sum
 * on. A complete sum: sends the packet to the next worker, unless that one has made it. */
static ps_status decoded(ps_mesh_machine *m, ps_packet *packet)
{
    const mesh_cell *cell = cell_of(m, packet->piece);

    if (packet->what == REDUCE) {
        return pass_on(m, packet->piece);
    }
    m->cells.whole++;
    if (next_of(m) != end_of(m, cell)) {
        mesh_send_to(
            m, packet->from == m->conf.self ? ps_packet_ref(packet) : mesh_copy(m, packet, cell->n),
            next_of(m));
    }
    return ps_ok();
}

static ps_status start(ps_mesh_machine *m)
{
    ring_state *s = state_of(m);

    drop_parked(m);
    memset(s->have, 0, (size_t)WAYS * m->cells.count);
    memset(s->is_mine, 0, m->cells.count);
    m->cells.whole = 0;
    return ps_ok();
}

static ps_status ready(ps_mesh_machine *m, uint32_t held, uint32_t part)
{
    ring_state *s = state_of(m);
    ps_status st = ps_ok();

    (void)held;
    for (uint32_t i = m->cells.first[part];
         mesh_is_ready(m, part) && i < m->cells.first[part + 1] && ps_is_ok(&st); i++) {
        const mesh_cell *cell = cell_of(m, i);

        mesh_own_sum(m, cell, m->cells.sum + cell->at);
        s->is_mine[i] = 1;
        if (cell->share == m->conf.self) {
            st = pass_on(m, i);
        } else if (s->parked[i] != NULL) {
            st = mesh_decode(m, s->parked[i], false, PS_INTO_ADD);
            ps_packet_unref(s->parked[i]);
            s->parked[i] = NULL;
        }
    }
    return st;
}

/* Adds a partial sum to this worker's values if these are final. Else parks it, so the order of
 * arrival does not change a bit. */
static ps_status take_reduce(ps_mesh_machine *m, ps_packet *packet)
{
    ps_status st;

    if (state_of(m)->is_mine[packet->piece]) {
        return mesh_decode(m, packet, false, PS_INTO_ADD);
    }
    st = mesh_check(m, packet, false);
    if (ps_is_ok(&st)) {
        state_of(m)->parked[packet->piece] = ps_packet_ref(packet);
    }
    return st;
}

/* Returns whether a packet is possible: it comes from the worker before this one, and it has either
 * a partial sum of a cell that does not start at this worker, or a complete sum of a cell that this
 * worker does not complete and whose partial sum this worker has passed on. */
static bool may_send(const ps_mesh_machine *m, const ps_packet *packet)
{
    const ring_state *s = state_of(m);
    const mesh_cell *cell;

    if (packet->what >= WAYS || packet->piece >= m->cells.count ||
        packet->from != (m->conf.self + m->nodes - 1) % m->nodes) {
        return false;
    }
    cell = cell_of(m, packet->piece);
    if (packet->what == REDUCE) {
        return cell->share != m->conf.self;
    }
    return end_of(m, cell) != m->conf.self && s->is_mine[packet->piece] &&
           (cell->share == m->conf.self || s->have[packet->piece]);
}

static ps_status take(ps_mesh_machine *m, ps_packet *packet)
{
    uint8_t *have;
    ps_status st;

    if (!may_send(m, packet)) {
        return ps_fail(PS_INVALID_ARGUMENT, "way %u, cell %u of %u from worker %u to worker %u",
                       packet->what, packet->piece, m->cells.count, packet->from, m->conf.self);
    }
    have = &state_of(m)->have[(size_t)packet->what * m->cells.count + packet->piece];
    if (*have) {
        m->counters.duplicates++;
        return ps_ok();
    }
    st =
        packet->what == REDUCE ? take_reduce(m, packet) : mesh_decode(m, packet, true, PS_INTO_SET);
    *have = ps_is_ok(&st);
    if (*have) {
        m->counters.values_taken += cell_of(m, packet->piece)->n;
    }
    return st;
}

/* Names the worker before this one, because only that worker sends to this one. It is late itself,
 * or it waits for another worker. */
static void missing(const ps_mesh_machine *m, bool *peers)
{
    peers[(m->conf.self + m->nodes - 1) % m->nodes] = true;
}

static uint32_t neighbours(const ps_mesh_machine *m, uint32_t *to)
{
    to[0] = next_of(m);
    return 1;
}

static uint32_t towards(const ps_mesh_machine *m, uint32_t origin)
{
    (void)origin;
    return (m->conf.self + m->nodes - 1) % m->nodes;
}

const ps_mesh ps_mesh_ring = {
    .name = "ring",
    .summary = "around a ring, in pieces: reduce-scatter, then all-gather of the same bytes",
    .check = mesh_check_sums,
    .sends_sums = true,
    .state_size = sizeof(ring_state),
    .init = init,
    .fini = fini,
    .start = start,
    .ready = ready,
    .take = take,
    .encoded = encoded,
    .decoded = decoded,
    .is_done = mesh_cells_are_whole,
    .finish = mesh_cells_finish,
    .missing = missing,
    .neighbours = neighbours,
    .towards = towards,
};
