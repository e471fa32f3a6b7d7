/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.c - see blocks.h. */
#include "common/mesh/blocks.h"

#include "common/base/xalloc.h"
#include "common/codec/feedback.h"

#include <stdlib.h>
#include <string.h>

static blocks_state *state_of(const ps_mesh_node *node)
{
    return node->state;
}

/* Is it this node that says the cell? */
static bool speaks(const ps_mesh_node *node, uint32_t block, uint32_t cell)
{
    const blocks_state *s = state_of(node);

    return s->is_split
               ? mesh_place(node, block, node->conf.self) == (int)node->cells.cell[cell].share
               : mesh_speaker(node, block) == node->conf.self;
}

/* Is the other told anything of this node's in a step where all goes well? */
static bool tells(const ps_mesh_node *node, uint32_t to)
{
    const ps_assignment *a = node->conf.assignment;

    for (uint32_t i = 0; i < a->held_count[node->conf.self]; i++) {
        uint32_t block = a->held[node->conf.self][i];

        for (uint32_t cell = 0; cell < node->cells.count; cell++) {
            if (speaks(node, block, cell) && mesh_place(node, block, to) < 0) {
                return true;
            }
        }
    }
    return false;
}

static void find_untold(ps_mesh_node *node)
{
    blocks_state *s = state_of(node);

    s->untold = ps_xcalloc(node->nodes, sizeof *s->untold);
    for (uint32_t to = 0; to < node->nodes; to++) {
        bool is_other = to != node->conf.self && node->conf.assignment->redundancy < node->nodes;

        if (is_other && !tells(node, to)) {
            s->untold[s->untold_count++] = to;
        }
    }
}

void blocks_init(ps_mesh_node *node, bool is_split)
{
    const ps_assignment *a = node->conf.assignment;
    blocks_state *s = state_of(node);

    s->is_split = is_split;
    mesh_cut(node, is_split ? a->redundancy : 1, NULL);
    s->own = ps_xcalloc(a->block_count, sizeof *s->own);
    for (uint32_t b = 0; b < a->block_count; b++) {
        s->own[b] = -1;
    }
    for (uint32_t i = 0; i < a->held_count[node->conf.self]; i++) {
        s->own[a->held[node->conf.self][i]] = (int32_t)i;
    }
    s->sum = ps_xcalloc(node->conf.n, sizeof *s->sum);
    s->turn = ps_xcalloc(node->cells.count, sizeof *s->turn);
    s->is_heard = ps_xcalloc(node->nodes, sizeof *s->is_heard);
    s->parked = ps_xcalloc((size_t)a->block_count * node->cells.count, sizeof(ps_packet *));
    s->undecoded = ps_xcalloc(node->cells.count, sizeof(void *));
    for (uint32_t cell = 0; cell < node->cells.count; cell++) {
        const ps_mesh_codec *c = mesh_codec(node, cell, false);

        if (c->codec->sum_add != NULL) {
            s->undecoded[cell] = ps_xcalloc(1, c->codec->sum_bytes(node->cells.cell[cell].n));
        }
        if (s->standing == NULL && ps_feedback_differs(c->codec, &c->params)) {
            s->standing = ps_xcalloc(node->conf.n, sizeof *s->standing);
        }
    }
    find_untold(node);
}

static void drop_parked(ps_mesh_node *node)
{
    blocks_state *s = state_of(node);
    size_t count = (size_t)node->conf.assignment->block_count * node->cells.count;

    for (size_t i = 0; i < count; i++) {
        ps_packet_unref(s->parked[i]);
        s->parked[i] = NULL;
    }
}

void blocks_fini(ps_mesh_node *node)
{
    blocks_state *s = state_of(node);

    drop_parked(node);
    for (uint32_t cell = 0; cell < node->cells.count; cell++) {
        free(s->undecoded[cell]);
    }
    free(s->undecoded);
    free(s->own);
    free(s->sum);
    free(s->standing);
    free(s->turn);
    free(s->is_heard);
    free(s->untold);
    free(s->parked);
}

static ps_packet **slot_of(const ps_mesh_node *node, uint32_t block, uint32_t cell)
{
    return &state_of(node)->parked[(size_t)block * node->cells.count + cell];
}

static ps_status add(ps_mesh_node *node, const ps_packet *packet)
{
    blocks_state *s = state_of(node);
    const mesh_cell *c = &node->cells.cell[packet->piece];
    void *undecoded = s->undecoded[packet->piece];

    if (undecoded != NULL) {
        return ps_codec_sum_add(mesh_codec(node, packet->piece, false)->codec, &packet->head.msg,
                                packet->bytes, packet->len, undecoded, c->n);
    }
    return mesh_decode(node, packet, false, PS_INTO_ADD, s->sum + c->at);
}

/* All blocks are in it. */
static void complete(ps_mesh_node *node, uint32_t cell)
{
    blocks_state *s = state_of(node);
    const ps_mesh_codec *codec = mesh_codec(node, cell, false);
    const mesh_cell *c = &node->cells.cell[cell];
    float *sum = s->sum + c->at;

    if (s->undecoded[cell] != NULL) {
        codec->codec->sum_value(s->undecoded[cell], sum, c->n);
        memset(s->undecoded[cell], 0, codec->codec->sum_bytes(c->n));
    }
    if (ps_feedback_differs(codec->codec, &codec->params)) {
        for (uint32_t i = 0; i < c->n; i++) {
            s->standing[c->at + i] += sum[i];
        }
        memcpy(sum, s->standing + c->at, c->n * sizeof *sum);
    }
    s->whole++;
}

/* Adds what has its turn. Packets were checked when they came. */
static ps_status advance(ps_mesh_node *node, uint32_t cell)
{
    blocks_state *s = state_of(node);
    uint32_t blocks = node->conf.assignment->block_count;

    while (s->turn[cell] < blocks) {
        ps_packet **slot = slot_of(node, s->turn[cell], cell);
        ps_status st;

        if (*slot == NULL) {
            return ps_ok();
        }
        st = add(node, *slot);
        if (!ps_is_ok(&st)) {
            return st;
        }
        ps_packet_unref(*slot);
        *slot = NULL;
        if (++s->turn[cell] == blocks) {
            complete(node, cell);
        }
    }
    return ps_ok();
}

/* Says a cell to all that do not hold its block. */
static void say(ps_mesh_node *node, uint32_t block, ps_packet *packet)
{
    uint32_t *targets = ps_xcalloc(node->nodes, sizeof *targets), count = 0;

    for (uint32_t i = 0; i < node->nodes; i++) {
        if (mesh_place(node, block, i) < 0) {
            targets[count++] = i;
        }
    }
    mesh_say(node, packet, targets, count);
    free(targets);
}

static ps_packet *encode(ps_mesh_node *node, uint32_t block, uint32_t cell)
{
    const float *x = node->blocks[state_of(node)->own[block]];

    return mesh_encode(node, block, cell, false, block, x + node->cells.cell[cell].at);
}

static void hear(ps_mesh_node *node, uint32_t from)
{
    blocks_state *s = state_of(node);

    s->unheard -= !s->is_heard[from];
    s->is_heard[from] = true;
}

ps_status blocks_start(ps_mesh_node *node)
{
    const ps_assignment *a = node->conf.assignment;
    blocks_state *s = state_of(node);

    drop_parked(node);
    memset(s->sum, 0, node->conf.n * sizeof *s->sum);
    memset(s->turn, 0, node->cells.count * sizeof *s->turn);
    s->whole = 0;
    memset(s->is_heard, 0, node->nodes * sizeof *s->is_heard);
    s->unheard = a->redundancy < node->nodes ? node->nodes - 1 : 0;
    mesh_say(node, mesh_packet(node, a->block_count, 0, 0), s->untold, s->untold_count);
    return ps_ok();
}

ps_status blocks_ready(ps_mesh_node *node, uint32_t held, uint32_t part)
{
    uint32_t block = node->conf.assignment->held[node->conf.self][held];
    ps_status st = ps_ok();

    for (uint32_t cell = node->cells.first[part];
         cell < node->cells.first[part + 1] && ps_is_ok(&st); cell++) {
        ps_packet *packet = encode(node, block, cell);

        /* Its own as the others will have it. */
        *slot_of(node, block, cell) = ps_packet_ref(packet);
        if (speaks(node, block, cell)) {
            say(node, block, ps_packet_ref(packet));
        }
        ps_packet_unref(packet);
        st = advance(node, cell);
    }
    return st;
}

ps_status blocks_take(ps_mesh_node *node, ps_packet *packet)
{
    blocks_state *s = state_of(node);
    uint32_t block = packet->what, cell = packet->piece;
    ps_packet **slot;
    ps_status st;

    if (block == node->conf.assignment->block_count && cell == 0 && packet->len == 0) {
        node->counters.duplicates += s->is_heard[packet->from];
        hear(node, packet->from);
        return ps_ok();
    }
    if (block >= node->conf.assignment->block_count || cell >= node->cells.count) {
        return ps_fail(PS_INVALID_ARGUMENT, "block %u of %u, part %u of %u", block,
                       node->conf.assignment->block_count, cell, node->cells.count);
    }
    if (mesh_place(node, block, packet->from) < 0 || s->own[block] >= 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "block %u from worker %u to worker %u", block,
                       packet->from, node->conf.self);
    }
    slot = slot_of(node, block, cell);
    if (block < s->turn[cell] || *slot != NULL) {
        node->counters.duplicates++;
        hear(node, packet->from);
        return ps_ok();
    }
    st = mesh_check(node, packet, false);
    if (!ps_is_ok(&st)) {
        return st;
    }
    *slot = ps_packet_ref(packet);
    node->counters.values_taken += node->cells.cell[cell].n;
    hear(node, packet->from);
    return advance(node, cell);
}

bool blocks_is_done(const ps_mesh_node *node)
{
    const blocks_state *s = state_of(node);

    return s->whole == node->cells.count && (s->unheard == 0 || node->is_rescued);
}

void blocks_finish(ps_mesh_node *node, float *sum)
{
    memcpy(sum, state_of(node)->sum, node->conf.n * sizeof *sum);
}

/* Whoever should have said it may be gone: every holder says all of its blocks. */
void blocks_rescue(ps_mesh_node *node)
{
    const ps_assignment *a = node->conf.assignment;

    for (uint32_t i = 0; i < a->held_count[node->conf.self]; i++) {
        uint32_t block = a->held[node->conf.self][i];

        for (uint32_t cell = 0; cell < node->cells.count; cell++) {
            if (!speaks(node, block, cell)) {
                say(node, block, encode(node, block, cell));
            }
        }
    }
}

void blocks_missing(const ps_mesh_node *node, bool *peers)
{
    const ps_assignment *a = node->conf.assignment;
    const blocks_state *s = state_of(node);

    for (uint32_t block = 0; block < a->block_count; block++) {
        for (uint32_t cell = 0; cell < node->cells.count; cell++) {
            if (block < s->turn[cell] || *slot_of(node, block, cell) != NULL) {
                continue;
            }
            for (uint32_t i = 0; i < a->redundancy; i++) { /* any of them could have */
                peers[mesh_holders(node, block)[i]] = true;
            }
        }
    }
    for (uint32_t i = 0; s->unheard > 0 && !node->is_rescued && i < node->nodes; i++) {
        peers[i] |= i != node->conf.self && !s->is_heard[i];
    }
}
