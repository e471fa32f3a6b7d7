/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - sums go up a binary tree of the nodes, the whole comes down again, in
 * chunks that travel each for itself.
 *
 * Node i has the children 2 i + 1 and 2 i + 2; node 0 is the root. A node adds
 * its own, its first and its second child's, in that order, and says it to its
 * parent; the root's bytes go down unchanged, so all have the same values. 2 |w|
 * at most to and 3 |w| from a node; 2 log2 n hops, which is less than the ring's
 * 2 (n - 1) where messages are small.
 */
#include "common/exchange/mesh_impl.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

enum { UP, DOWN, CHILDREN = 2 };

typedef struct tree_chunk {
    uint8_t added;     /* children in the sum */
    bool is_whole;     /* the root's values are here */
    ps_packet *second; /* of the second child, while the first is awaited */
} tree_chunk;

typedef struct tree_state {
    float *sum; /* (n) */
    uint32_t count;
    tree_chunk *chunks; /* (count) */
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

static size_t values_of(const ps_mesh_node *node, uint32_t chunk)
{
    size_t left = node->conf.n - (size_t)chunk * PS_CODEC_VALUES;

    return left < PS_CODEC_VALUES ? left : PS_CODEC_VALUES;
}

static float *sum_of(const ps_mesh_node *node, uint32_t chunk)
{
    return state_of(node)->sum + (size_t)chunk * PS_CODEC_VALUES;
}

static void init(ps_mesh_node *node)
{
    tree_state *s = state_of(node);

    s->sum = ps_xcalloc(node->conf.n, sizeof *s->sum);
    s->count = (uint32_t)((node->conf.n + PS_CODEC_VALUES - 1) / PS_CODEC_VALUES);
    s->chunks = ps_xcalloc(s->count, sizeof *s->chunks);
    for (uint32_t i = 1; i <= CHILDREN; i++) {
        if (CHILDREN * node->conf.self + i < node->nodes) {
            s->children[s->child_count++] = CHILDREN * node->conf.self + i;
        }
    }
}

static void drop_parked(tree_state *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        ps_packet_unref(s->chunks[i].second);
        s->chunks[i] = (tree_chunk){0};
    }
    s->whole = 0;
}

static void fini(ps_mesh_node *node)
{
    tree_state *s = state_of(node);

    drop_parked(s);
    free(s->sum);
    free(s->chunks);
}

static ps_status come_down(ps_mesh_node *node, ps_packet *packet, uint32_t chunk)
{
    tree_state *s = state_of(node);
    ps_status st =
        mesh_decode(node, packet, PS_INTO_SET, sum_of(node, chunk), values_of(node, chunk));

    if (!ps_is_ok(&st)) {
        ps_packet_unref(packet);
        return st;
    }
    s->chunks[chunk].is_whole = true;
    s->whole++;
    mesh_say(node, packet, s->children, s->child_count);
    return ps_ok();
}

/* All children are in: on to the parent, or down again. */
static ps_status go_up(ps_mesh_node *node, uint32_t chunk)
{
    bool is_root = node->conf.self == 0;
    ps_packet *packet = mesh_encode(node, is_root ? DOWN : UP, chunk, chunk, node->conf.self,
                                    sum_of(node, chunk), values_of(node, chunk));

    if (is_root) {
        return come_down(node, packet, chunk);
    }
    mesh_say_to(node, packet, parent_of(node));
    return ps_ok();
}

static ps_status start(ps_mesh_node *node)
{
    tree_state *s = state_of(node);
    ps_status st = ps_ok();

    drop_parked(s);
    mesh_own_sum(node, s->sum);
    for (uint32_t chunk = 0; chunk < s->count && s->child_count == 0 && ps_is_ok(&st); chunk++) {
        st = go_up(node, chunk);
    }
    return st;
}

static ps_status add(ps_mesh_node *node, const ps_packet *packet, tree_chunk *c)
{
    ps_status st = mesh_decode(node, packet, PS_INTO_ADD, sum_of(node, packet->piece),
                               values_of(node, packet->piece));

    if (ps_is_ok(&st)) {
        c->added++;
        node->counters.values_taken += values_of(node, packet->piece);
    }
    return st;
}

static ps_status take_up(ps_mesh_node *node, ps_packet *packet)
{
    tree_state *s = state_of(node);
    tree_chunk *c = &s->chunks[packet->piece];
    bool is_second = packet->from != s->children[0];
    ps_status st;

    if (c->added > is_second || (is_second && c->second != NULL)) {
        node->counters.duplicates++;
        return ps_ok();
    }
    if (is_second && c->added == 0) { /* the order of additions is that of the children */
        st = ps_codec_check(node->conf.codec, &packet->head.msg, packet->bytes, packet->len,
                            values_of(node, packet->piece));
        c->second = ps_is_ok(&st) ? ps_packet_ref(packet) : NULL;
        return st;
    }
    st = add(node, packet, c);
    if (ps_is_ok(&st) && c->second != NULL) {
        st = add(node, c->second, c);
        ps_packet_unref(c->second);
        c->second = NULL;
    }
    return ps_is_ok(&st) && c->added == s->child_count ? go_up(node, packet->piece) : st;
}

static ps_status take(ps_mesh_node *node, ps_packet *packet)
{
    tree_state *s = state_of(node);
    bool is_child = s->child_count > 0 && (packet->from == s->children[0] ||
                                           (s->child_count > 1 && packet->from == s->children[1]));

    if (packet->piece < s->count && packet->what == UP && is_child) {
        return take_up(node, packet);
    }
    if (packet->piece < s->count && packet->what == DOWN && node->conf.self != 0 &&
        packet->from == parent_of(node)) {
        tree_chunk *c = &s->chunks[packet->piece];

        if (c->added < s->child_count) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "chunk %u came down from worker %u before worker %u said it",
                           packet->piece, packet->from, node->conf.self);
        }
        if (c->is_whole) {
            node->counters.duplicates++;
            return ps_ok();
        }
        node->counters.values_taken += values_of(node, packet->piece);
        return come_down(node, mesh_copy(node, packet, values_of(node, packet->piece)),
                         packet->piece);
    }
    return ps_fail(PS_INVALID_ARGUMENT, "%s, chunk %u of %u from worker %u to worker %u",
                   packet->what == UP     ? "up"
                   : packet->what == DOWN ? "down"
                                          : "neither up nor down",
                   packet->piece, s->count, packet->from, node->conf.self);
}

static bool is_done(const ps_mesh_node *node)
{
    return state_of(node)->whole == state_of(node)->count;
}

static void finish(ps_mesh_node *node, float *sum)
{
    memcpy(sum, state_of(node)->sum, node->conf.n * sizeof *sum);
}

static void missing(const ps_mesh_node *node, bool *peers)
{
    const tree_state *s = state_of(node);

    for (uint32_t chunk = 0; chunk < s->count; chunk++) {
        const tree_chunk *c = &s->chunks[chunk];

        if (c->added < s->child_count && c->added == 0) {
            peers[s->children[0]] = true;
        }
        if (c->added < s->child_count && s->child_count > 1 && c->second == NULL) {
            peers[s->children[1]] = true;
        }
        if (c->added == s->child_count && !c->is_whole) {
            peers[parent_of(node)] = true;
        }
    }
}

const ps_mesh ps_mesh_tree = {
    .name = "tree",
    .summary = "up a binary tree and down again, in chunks: few hops for small models",
    .check = mesh_check_sums,
    .state_size = sizeof(tree_state),
    .init = init,
    .fini = fini,
    .start = start,
    .take = take,
    .is_done = is_done,
    .finish = finish,
    .missing = missing,
};
