/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - partial sums go up a binary tree of the workers, the complete sum comes down, cell by
 * cell.
 *
 * Worker i has the children 2 i + 1 and 2 i + 2; worker 0 is the root. A worker adds its own
 * values, those of its first and those of its second child, in that order, and sends the sum to its
 * parent. The root's bytes go down unchanged, so all workers have the same values. Each worker
 * encodes each cell once a step, and adds the residual to the sum of the next step.
 *
 * A worker sends at most 3 |w| and receives at most 3 |w|. A cell takes 2 log2 n hops; the ring's
 * takes 2 (n - 1), which costs more where messages are small.
 */
#include "common/mesh/mesh_impl.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

enum { UP, DOWN, CHILDREN = 2 };

typedef struct tree_cell {
    bool is_mine;   /* this worker's values are in the sum */
    uint8_t added;  /* number of children whose sums are in this worker's sum too */
    bool is_adding; /* the next child's sum is being added */
    /* the sum was passed on: to the parent or, at the root, to the children */
    bool is_said;
    bool has_whole;              /* the complete sum has arrived */
    ps_packet *parked[CHILDREN]; /* children's sums that have arrived but are not added yet */
} tree_cell;

typedef struct tree_state {
    tree_cell *cells; /* (cells) */
    uint32_t children[CHILDREN], child_count;
} tree_state;

static tree_state *state_of(const ps_mesh_machine *m)
{
    return m->state;
}

static uint32_t parent_of(const ps_mesh_machine *m)
{
    return (m->conf.self - 1) / 2;
}

static uint32_t values_of(const ps_mesh_machine *m, uint32_t cell)
{
    return m->cells.cell[cell].n;
}

static float *sum_of(const ps_mesh_machine *m, uint32_t cell)
{
    return m->cells.sum + m->cells.cell[cell].at;
}

static bool is_down(const ps_mesh_machine *m, const mesh_cell *cell)
{
    (void)cell;
    return m->conf.self == 0;
}

static void init(ps_mesh_machine *m)
{
    tree_state *s = state_of(m);

    mesh_cut(m, 1, is_down);
    s->cells = ps_xcalloc(m->cells.count, sizeof *s->cells);
    for (uint32_t i = 1; i <= CHILDREN; i++) {
        if (CHILDREN * m->conf.self + i < m->nodes) {
            s->children[s->child_count++] = CHILDREN * m->conf.self + i;
        }
    }
}

static void forget_step(ps_mesh_machine *m)
{
    tree_state *s = state_of(m);

    for (uint32_t i = 0; i < m->cells.count; i++) {
        for (uint32_t k = 0; k < CHILDREN; k++) {
            ps_packet_unref(s->cells[i].parked[k]);
        }
        s->cells[i] = (tree_cell){0};
    }
    m->cells.whole = 0;
}

static void fini(ps_mesh_machine *m)
{
    tree_state *s = state_of(m);

    forget_step(m);
    free(s->cells);
}

/* Sends the sum of a cell, which contains all of this worker's subtree: to the parent or, at the
 * root, as the complete sum to the children. Calls mesh_encode, which calls `encoded`. */
static ps_status go_up(ps_mesh_machine *m, uint32_t cell)
{
    bool is_root = m->conf.self == 0;

    state_of(m)->cells[cell].is_said = true;
    return mesh_encode(m, is_root ? DOWN : UP, cell, is_root, m->conf.self, sum_of(m, cell));
}

static ps_status encoded(ps_mesh_machine *m, ps_packet *packet)
{
    ps_status st = ps_ok();

    if (packet->what == UP) {
        mesh_send_to(m, packet, parent_of(m));
        return st;
    }
    st = mesh_decode(m, packet, true, PS_INTO_SET);
    ps_packet_unref(packet);
    return st;
}

static ps_status start(ps_mesh_machine *m)
{
    forget_step(m);
    return ps_ok();
}

/* Adds the children's sums to this worker's values, the first child's before the second's, so that
 * the order of arrival does not change a bit. Sends the sum on when all are in it. */
static ps_status advance(ps_mesh_machine *m, uint32_t cell)
{
    tree_state *s = state_of(m);
    tree_cell *c = &s->cells[cell];
    ps_status st = ps_ok();

    while (ps_is_ok(&st) && c->is_mine && !c->is_adding && c->added < s->child_count &&
           c->parked[c->added] != NULL) {
        c->is_adding = true;
        st = mesh_decode(m, c->parked[c->added], false, PS_INTO_ADD);
    }
    return ps_is_ok(&st) && c->is_mine && c->added == s->child_count && !c->is_said ? go_up(m, cell)
                                                                                    : st;
}

static ps_status decoded(ps_mesh_machine *m, ps_packet *packet)
{
    tree_state *s = state_of(m);
    tree_cell *c = &s->cells[packet->piece];

    /* the complete sum: made here at the root, or a copy of the parent's packet */
    if (packet->what == DOWN) {
        c->has_whole = true;
        m->cells.whole++;
        mesh_send(m, ps_packet_ref(packet), s->children, s->child_count);
        return ps_ok();
    }
    ps_packet_unref(c->parked[c->added]);
    c->parked[c->added++] = NULL;
    c->is_adding = false;
    /* If the machine is not held, `advance` has called this function and goes on itself. */
    return m->is_held ? advance(m, packet->piece) : ps_ok();
}

static ps_status ready(ps_mesh_machine *m, uint32_t held, uint32_t part)
{
    ps_status st = ps_ok();

    (void)held;
    for (uint32_t i = m->cells.first[part];
         mesh_is_ready(m, part) && i < m->cells.first[part + 1] && ps_is_ok(&st); i++) {
        mesh_own_sum(m, &m->cells.cell[i], sum_of(m, i));
        state_of(m)->cells[i].is_mine = true;
        st = advance(m, i);
    }
    return st;
}

static ps_status take_up(ps_mesh_machine *m, ps_packet *packet)
{
    tree_state *s = state_of(m);
    tree_cell *c = &s->cells[packet->piece];
    uint32_t child = packet->from != s->children[0];
    ps_status st;

    if (c->added > child || c->parked[child] != NULL) {
        m->counters.duplicates++;
        return ps_ok();
    }
    st = mesh_check(m, packet, false);
    if (!ps_is_ok(&st)) {
        return st;
    }
    m->counters.values_taken += values_of(m, packet->piece);
    c->parked[child] = ps_packet_ref(packet);
    return advance(m, packet->piece);
}

static ps_status take_down(ps_mesh_machine *m, const ps_packet *packet)
{
    tree_cell *c = &state_of(m)->cells[packet->piece];
    ps_packet *copy;
    ps_status st;

    if (!c->is_said) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "cell %u came down from worker %u before worker %u said it", packet->piece,
                       packet->from, m->conf.self);
    }
    if (c->has_whole) {
        m->counters.duplicates++;
        return ps_ok();
    }
    copy = mesh_copy(m, packet, values_of(m, packet->piece));
    st = mesh_decode(m, copy, true, PS_INTO_SET);
    ps_packet_unref(copy);
    c->has_whole = ps_is_ok(&st);
    if (c->has_whole) {
        m->counters.values_taken += values_of(m, packet->piece);
    }
    return st;
}

static ps_status take(ps_mesh_machine *m, ps_packet *packet)
{
    tree_state *s = state_of(m);
    bool is_child = s->child_count > 0 && (packet->from == s->children[0] ||
                                           (s->child_count > 1 && packet->from == s->children[1]));

    if (packet->piece < m->cells.count && packet->what == UP && is_child) {
        return take_up(m, packet);
    }
    if (packet->piece < m->cells.count && packet->what == DOWN && m->conf.self != 0 &&
        packet->from == parent_of(m)) {
        return take_down(m, packet);
    }
    return ps_fail(PS_INVALID_ARGUMENT, "%s, cell %u of %u from worker %u to worker %u",
                   packet->what == UP     ? "up"
                   : packet->what == DOWN ? "down"
                                          : "neither up nor down",
                   packet->piece, m->cells.count, packet->from, m->conf.self);
}

static void missing(const ps_mesh_machine *m, bool *peers)
{
    const tree_state *s = state_of(m);

    for (uint32_t i = 0; i < m->cells.count; i++) {
        const tree_cell *c = &s->cells[i];

        for (uint32_t k = c->added; k < s->child_count; k++) {
            if (c->parked[k] == NULL) {
                peers[s->children[k]] = true;
            }
        }
        if (c->is_said && !c->has_whole) {
            peers[parent_of(m)] = true;
        }
    }
}

static uint32_t neighbours(const ps_mesh_machine *m, uint32_t *to)
{
    const tree_state *s = state_of(m);
    uint32_t count = s->child_count;

    memcpy(to, s->children, count * sizeof *to);
    if (m->conf.self != 0) {
        to[count++] = parent_of(m);
    }
    return count;
}

/* Climbs from worker `origin` up the tree. Returns the child of this worker that it comes to or, if
 * `origin` is not below this worker, the parent of this worker. */
static uint32_t towards(const ps_mesh_machine *m, uint32_t origin)
{
    while (origin != 0 && (origin - 1) / CHILDREN != m->conf.self) {
        origin = (origin - 1) / CHILDREN;
    }
    return origin != 0 ? origin : parent_of(m);
}

const ps_mesh ps_mesh_tree = {
    .name = "tree",
    .summary = "up a binary tree and down again, in pieces: few hops for small models",
    .check = mesh_check_sums,
    .sends_sums = true,
    .state_size = sizeof(tree_state),
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
