/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - sums go up a binary tree of the nodes, the whole comes down again, in
 * cells that travel each for itself.
 *
 * Node i has the children 2 i + 1 and 2 i + 2; node 0 is the root. A node adds
 * its own, its first and its second child's, in that order, and says it to its
 * parent; the root's bytes go down unchanged, so all have the same values. Each node encodes
 * each cell once a step: what it lost there, it adds to the sum in the next. 2 |w|
 * at most to and 3 |w| from a node; 2 log2 n hops, which is less than the ring's
 * 2 (n - 1) where messages are small.
 */
#include "common/mesh/mesh_impl.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

enum { UP, DOWN, CHILDREN = 2 };

typedef struct tree_cell {
    bool is_mine;                /* this node's own values are in the sum */
    uint8_t added;               /* children that are too */
    bool is_said;                /* all of them: it has gone up */
    bool is_whole;               /* the root's values are here */
    ps_packet *parked[CHILDREN]; /* of children who wait for their turn */
} tree_cell;

typedef struct tree_state {
    float *sum;       /* (n) */
    tree_cell *cells; /* (cells) */
    uint32_t whole;
    uint32_t children[CHILDREN], child_count;
} tree_state;

static tree_state *state_of(const ps_mesh_node *node)
{
    return node->state;
}

static uint32_t parent_of(const ps_mesh_node *node)
{
    return (node->conf.self - 1) / 2;
}

static uint32_t values_of(const ps_mesh_node *node, uint32_t cell)
{
    return node->cells.cell[cell].n;
}

static float *sum_of(const ps_mesh_node *node, uint32_t cell)
{
    return state_of(node)->sum + node->cells.cell[cell].at;
}

static bool is_down(const ps_mesh_node *node, const mesh_cell *cell)
{
    (void)cell;
    return node->conf.self == 0;
}

static void init(ps_mesh_node *node)
{
    tree_state *s = state_of(node);

    mesh_cut(node, 1, is_down);
    s->sum = ps_xcalloc(node->conf.n, sizeof *s->sum);
    s->cells = ps_xcalloc(node->cells.count, sizeof *s->cells);
    for (uint32_t i = 1; i <= CHILDREN; i++) {
        if (CHILDREN * node->conf.self + i < node->nodes) {
            s->children[s->child_count++] = CHILDREN * node->conf.self + i;
        }
    }
}

static void forget_step(ps_mesh_node *node)
{
    tree_state *s = state_of(node);

    for (uint32_t i = 0; i < node->cells.count; i++) {
        for (uint32_t k = 0; k < CHILDREN; k++) {
            ps_packet_unref(s->cells[i].parked[k]);
        }
        s->cells[i] = (tree_cell){0};
    }
    s->whole = 0;
}

static void fini(ps_mesh_node *node)
{
    tree_state *s = state_of(node);

    forget_step(node);
    free(s->sum);
    free(s->cells);
}

static ps_status come_down(ps_mesh_node *node, ps_packet *packet, uint32_t cell)
{
    tree_state *s = state_of(node);
    ps_status st = mesh_decode(node, packet, true, PS_INTO_SET, sum_of(node, cell));

    if (!ps_is_ok(&st)) {
        ps_packet_unref(packet);
        return st;
    }
    s->cells[cell].is_whole = true;
    s->whole++;
    mesh_say(node, packet, s->children, s->child_count);
    return ps_ok();
}

/* This node's own and all children's are in: on to the parent, or down again. */
static ps_status go_up(ps_mesh_node *node, uint32_t cell)
{
    bool is_root = node->conf.self == 0;
    ps_packet *packet =
        mesh_encode(node, is_root ? DOWN : UP, cell, is_root, node->conf.self, sum_of(node, cell));

    state_of(node)->cells[cell].is_said = true;
    if (is_root) {
        return come_down(node, packet, cell);
    }
    mesh_say_to(node, packet, parent_of(node));
    return ps_ok();
}

static ps_status start(ps_mesh_node *node)
{
    forget_step(node);
    return ps_ok();
}

/* Adds whose turn it is: the order does not depend on who came first. */
static ps_status advance(ps_mesh_node *node, uint32_t cell)
{
    tree_state *s = state_of(node);
    tree_cell *c = &s->cells[cell];

    while (c->is_mine && c->added < s->child_count && c->parked[c->added] != NULL) {
        ps_status st =
            mesh_decode(node, c->parked[c->added], false, PS_INTO_ADD, sum_of(node, cell));

        if (!ps_is_ok(&st)) {
            return st;
        }
        ps_packet_unref(c->parked[c->added]);
        c->parked[c->added++] = NULL;
    }
    return c->is_mine && c->added == s->child_count ? go_up(node, cell) : ps_ok();
}

static ps_status ready(ps_mesh_node *node, uint32_t held, uint32_t part)
{
    ps_status st = ps_ok();

    (void)held;
    for (uint32_t i = node->cells.first[part];
         mesh_is_ready(node, part) && i < node->cells.first[part + 1] && ps_is_ok(&st); i++) {
        mesh_own_sum(node, &node->cells.cell[i], sum_of(node, i));
        state_of(node)->cells[i].is_mine = true;
        st = advance(node, i);
    }
    return st;
}

static ps_status take_up(ps_mesh_node *node, ps_packet *packet)
{
    tree_state *s = state_of(node);
    tree_cell *c = &s->cells[packet->piece];
    uint32_t child = packet->from != s->children[0];
    ps_status st;

    if (c->added > child || c->parked[child] != NULL) {
        node->counters.duplicates++;
        return ps_ok();
    }
    st = mesh_check(node, packet, false);
    if (!ps_is_ok(&st)) {
        return st;
    }
    node->counters.values_taken += values_of(node, packet->piece);
    c->parked[child] = ps_packet_ref(packet);
    return advance(node, packet->piece);
}

static ps_status take_down(ps_mesh_node *node, const ps_packet *packet)
{
    const tree_cell *c = &state_of(node)->cells[packet->piece];

    if (!c->is_said) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "cell %u came down from worker %u before worker %u said it", packet->piece,
                       packet->from, node->conf.self);
    }
    if (c->is_whole) {
        node->counters.duplicates++;
        return ps_ok();
    }
    node->counters.values_taken += values_of(node, packet->piece);
    return come_down(node, mesh_copy(node, packet, values_of(node, packet->piece)), packet->piece);
}

static ps_status take(ps_mesh_node *node, ps_packet *packet)
{
    tree_state *s = state_of(node);
    bool is_child = s->child_count > 0 && (packet->from == s->children[0] ||
                                           (s->child_count > 1 && packet->from == s->children[1]));

    if (packet->piece < node->cells.count && packet->what == UP && is_child) {
        return take_up(node, packet);
    }
    if (packet->piece < node->cells.count && packet->what == DOWN && node->conf.self != 0 &&
        packet->from == parent_of(node)) {
        return take_down(node, packet);
    }
    return ps_fail(PS_INVALID_ARGUMENT, "%s, cell %u of %u from worker %u to worker %u",
                   packet->what == UP     ? "up"
                   : packet->what == DOWN ? "down"
                                          : "neither up nor down",
                   packet->piece, node->cells.count, packet->from, node->conf.self);
}

static bool is_done(const ps_mesh_node *node)
{
    return state_of(node)->whole == node->cells.count;
}

static void finish(ps_mesh_node *node, float *sum)
{
    memcpy(sum, state_of(node)->sum, node->conf.n * sizeof *sum);
}

static void missing(const ps_mesh_node *node, bool *peers)
{
    const tree_state *s = state_of(node);

    for (uint32_t i = 0; i < node->cells.count; i++) {
        const tree_cell *c = &s->cells[i];

        for (uint32_t k = c->added; k < s->child_count; k++) {
            if (c->parked[k] == NULL) {
                peers[s->children[k]] = true;
            }
        }
        if (c->is_said && !c->is_whole) {
            peers[parent_of(node)] = true;
        }
    }
}

const ps_mesh ps_mesh_tree = {
    .name = "tree",
    .summary = "up a binary tree and down again, in pieces: few hops for small models",
    .check = mesh_check_sums,
    .says_sums = true,
    .state_size = sizeof(tree_state),
    .init = init,
    .fini = fini,
    .start = start,
    .ready = ready,
    .take = take,
    .is_done = is_done,
    .finish = finish,
    .missing = missing,
};
