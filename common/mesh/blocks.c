/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.c - see blocks.h. */
#include "common/mesh/blocks.h"

#include "common/base/xalloc.h"
#include "common/codec/feedback.h"

#include <stdlib.h>
#include <string.h>

static blocks_state *state_of(const ps_mesh_machine *m)
{
    return m->state;
}

/* Returns whether this worker, one of the holders of the block, sends the cell in a step without a
 * repair: with is_split the holder whose share the cell is, otherwise the block's one sender. */
static bool speaks(const ps_mesh_machine *m, uint32_t block, uint32_t cell)
{
    const blocks_state *s = state_of(m);

    return s->is_split ? mesh_place(m, block, m->conf.self) == (int)m->cells.cell[cell].share
                       : mesh_sender(m, block) == m->conf.self;
}

/* Returns whether `to` gets any cell from this worker in a step without a repair. */
static bool tells(const ps_mesh_machine *m, uint32_t to)
{
    const ps_assignment *a = m->conf.assignment;

    for (uint32_t i = 0; i < a->held_count[m->conf.self]; i++) {
        uint32_t block = a->held[m->conf.self][i];

        for (uint32_t cell = 0; cell < m->cells.count; cell++) {
            if (speaks(m, block, cell) && mesh_place(m, block, to) < 0) {
                return true;
            }
        }
    }
    return false;
}

static void find_untold(ps_mesh_machine *m)
{
    blocks_state *s = state_of(m);

    s->untold = ps_xcalloc(m->nodes, sizeof *s->untold);
    for (uint32_t to = 0; to < m->nodes; to++) {
        bool is_other = to != m->conf.self && m->conf.assignment->redundancy < m->nodes;

        if (is_other && !tells(m, to)) {
            s->untold[s->untold_count++] = to;
        }
    }
}

void blocks_init(ps_mesh_machine *m, bool is_split)
{
    const ps_assignment *a = m->conf.assignment;
    blocks_state *s = state_of(m);

    s->is_split = is_split;
    mesh_cut(m, is_split ? a->redundancy : 1, NULL);
    s->own = ps_xcalloc(a->block_count, sizeof *s->own);
    for (uint32_t b = 0; b < a->block_count; b++) {
        s->own[b] = -1;
    }
    for (uint32_t i = 0; i < a->held_count[m->conf.self]; i++) {
        s->own[a->held[m->conf.self][i]] = (int32_t)i;
    }
    s->turn = ps_xcalloc(m->cells.count, sizeof *s->turn);
    s->is_adding = ps_xcalloc(m->cells.count, sizeof *s->is_adding);
    s->is_heard = ps_xcalloc(m->nodes, sizeof *s->is_heard);
    s->parked = ps_xcalloc((size_t)a->block_count * m->cells.count, sizeof(ps_packet *));
    s->undecoded = ps_xcalloc(m->cells.count, sizeof(void *));
    for (uint32_t cell = 0; cell < m->cells.count; cell++) {
        const ps_mesh_codec *c = mesh_codec(m, cell, false);

        if (c->codec->sum_add != NULL) {
            s->undecoded[cell] = ps_xcalloc(1, c->codec->sum_bytes(m->cells.cell[cell].n));
        }
        if (s->standing == NULL && ps_feedback_differs(c->codec, &c->params)) {
            s->standing = ps_xcalloc(m->conf.n, sizeof *s->standing);
        }
    }
    find_untold(m);
}

static void drop_parked(ps_mesh_machine *m)
{
    blocks_state *s = state_of(m);
    size_t count = (size_t)m->conf.assignment->block_count * m->cells.count;

    for (size_t i = 0; i < count; i++) {
        ps_packet_unref(s->parked[i]);
        s->parked[i] = NULL;
    }
}

void blocks_fini(ps_mesh_machine *m)
{
    blocks_state *s = state_of(m);

    drop_parked(m);
    for (uint32_t cell = 0; cell < m->cells.count; cell++) {
        free(s->undecoded[cell]);
    }
    free(s->undecoded);
    free(s->own);
    free(s->standing);
    free(s->turn);
    free(s->is_adding);
    free(s->is_heard);
    free(s->untold);
    free(s->parked);
}

static ps_packet **slot_of(const ps_mesh_machine *m, uint32_t block, uint32_t cell)
{
    return &state_of(m)->parked[(size_t)block * m->cells.count + cell];
}

/* Adds a packet to the sum of its cell. blocks_decoded is called for it then, or later if the
 * machine is held. */
static ps_status add(ps_mesh_machine *m, ps_packet *packet)
{
    blocks_state *s = state_of(m);
    const mesh_cell *c = &m->cells.cell[packet->piece];
    void *undecoded = s->undecoded[packet->piece];
    ps_status st;

    s->is_adding[packet->piece] = true;
    if (undecoded == NULL) {
        return mesh_decode(m, packet, false, PS_INTO_ADD);
    }
    st = ps_codec_sum_add(mesh_codec(m, packet->piece, false)->codec, &packet->head.msg,
                          packet->bytes, packet->len, undecoded, c->n);
    return ps_is_ok(&st) ? blocks_decoded(m, packet) : st;
}

/* Completes the sum of a cell to which all blocks were added. */
static void complete(ps_mesh_machine *m, uint32_t cell)
{
    blocks_state *s = state_of(m);
    const ps_mesh_codec *codec = mesh_codec(m, cell, false);
    const mesh_cell *c = &m->cells.cell[cell];
    float *sum = m->cells.sum + c->at;

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
    m->cells.whole++;
}

/* Adds the parked packets of a cell to its sum in the order of blocks, up to the first block whose
 * packet has not arrived. Packets were checked on arrival. */
static ps_status advance(ps_mesh_machine *m, uint32_t cell)
{
    blocks_state *s = state_of(m);
    ps_status st = ps_ok();

    while (ps_is_ok(&st) && !s->is_adding[cell] &&
           s->turn[cell] < m->conf.assignment->block_count &&
           *slot_of(m, s->turn[cell], cell) != NULL) {
        st = add(m, *slot_of(m, s->turn[cell], cell));
    }
    return st;
}

ps_status blocks_decoded(ps_mesh_machine *m, ps_packet *packet)
{
    blocks_state *s = state_of(m);
    uint32_t cell = packet->piece;
    ps_packet **slot = slot_of(m, s->turn[cell], cell);

    ps_packet_unref(*slot);
    *slot = NULL;
    s->is_adding[cell] = false;
    if (++s->turn[cell] == m->conf.assignment->block_count) {
        complete(m, cell);
    }
    /* If the machine is not held, or the cell is not decoded, `advance` has called this function
     * and goes on itself. */
    return m->is_held && s->undecoded[cell] == NULL ? advance(m, cell) : ps_ok();
}

/* Sends a cell to all workers that do not hold its block. */
static void say(ps_mesh_machine *m, uint32_t block, ps_packet *packet)
{
    uint32_t *targets = ps_xcalloc(m->nodes, sizeof *targets), count = 0;

    for (uint32_t i = 0; i < m->nodes; i++) {
        if (mesh_place(m, block, i) < 0) {
            targets[count++] = i;
        }
    }
    mesh_send(m, packet, targets, count);
    free(targets);
}

static ps_status encode(ps_mesh_machine *m, uint32_t block, uint32_t cell)
{
    const float *x = m->blocks[state_of(m)->own[block]];

    return mesh_encode(m, block, cell, false, block, x + m->cells.cell[cell].at);
}

ps_status blocks_encoded(ps_mesh_machine *m, ps_packet *packet)
{
    uint32_t block = packet->what, cell = packet->piece;
    ps_packet **slot = slot_of(m, block, cell);

    /* the block was encoded and counted before: this is a repair */
    if (block < state_of(m)->turn[cell] || *slot != NULL) {
        say(m, block, packet);
        return ps_ok();
    }
    /* This worker adds what the others will decode, not its exact values. */
    *slot = ps_packet_ref(packet);
    if (speaks(m, block, cell)) {
        say(m, block, packet);
    } else {
        ps_packet_unref(packet);
    }
    return advance(m, cell);
}

static void hear(ps_mesh_machine *m, uint32_t from)
{
    blocks_state *s = state_of(m);

    s->unheard -= !s->is_heard[from];
    s->is_heard[from] = true;
}

ps_status blocks_start(ps_mesh_machine *m)
{
    const ps_assignment *a = m->conf.assignment;
    blocks_state *s = state_of(m);

    drop_parked(m);
    memset(m->cells.sum, 0, m->conf.n * sizeof *m->cells.sum);
    memset(s->turn, 0, m->cells.count * sizeof *s->turn);
    memset(s->is_adding, 0, m->cells.count * sizeof *s->is_adding);
    m->cells.whole = 0;
    memset(s->is_heard, 0, m->nodes * sizeof *s->is_heard);
    s->unheard = a->redundancy < m->nodes ? m->nodes - 1 : 0;
    mesh_send(m, mesh_packet(m, a->block_count, 0, 0), s->untold, s->untold_count);
    return ps_ok();
}

ps_status blocks_ready(ps_mesh_machine *m, uint32_t held, uint32_t part)
{
    uint32_t block = m->conf.assignment->held[m->conf.self][held];
    ps_status st = ps_ok();

    for (uint32_t cell = m->cells.first[part]; cell < m->cells.first[part + 1] && ps_is_ok(&st);
         cell++) {
        st = encode(m, block, cell);
    }
    return st;
}

ps_status blocks_take(ps_mesh_machine *m, ps_packet *packet)
{
    blocks_state *s = state_of(m);
    uint32_t block = packet->what, cell = packet->piece;
    ps_packet **slot;
    ps_status st;

    if (block == m->conf.assignment->block_count && cell == 0 && packet->len == 0) {
        m->counters.duplicates += s->is_heard[packet->from];
        hear(m, packet->from);
        return ps_ok();
    }
    if (block >= m->conf.assignment->block_count || cell >= m->cells.count) {
        return ps_fail(PS_INVALID_ARGUMENT, "block %u of %u, part %u of %u", block,
                       m->conf.assignment->block_count, cell, m->cells.count);
    }
    if (mesh_place(m, block, packet->from) < 0 || s->own[block] >= 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "block %u from worker %u to worker %u", block,
                       packet->from, m->conf.self);
    }
    slot = slot_of(m, block, cell);
    if (block < s->turn[cell] || *slot != NULL) {
        m->counters.duplicates++;
        hear(m, packet->from);
        return ps_ok();
    }
    st = mesh_check(m, packet, false);
    if (!ps_is_ok(&st)) {
        return st;
    }
    *slot = ps_packet_ref(packet);
    m->counters.values_taken += m->cells.cell[cell].n;
    hear(m, packet->from);
    return advance(m, cell);
}

bool blocks_is_done(const ps_mesh_machine *m)
{
    const blocks_state *s = state_of(m);

    return mesh_cells_are_whole(m) && (s->unheard == 0 || m->is_repaired);
}

/* Sends the cells of held blocks that other holders should have sent, since those may be gone. The
 * cells that this worker has sent itself are sent again by ps_mesh_tick. */
void blocks_repair(ps_mesh_machine *m)
{
    const ps_assignment *a = m->conf.assignment;

    for (uint32_t i = 0; i < a->held_count[m->conf.self]; i++) {
        uint32_t block = a->held[m->conf.self][i];

        for (uint32_t cell = 0; cell < m->cells.count; cell++) {
            if (!speaks(m, block, cell)) {
                ps_status st = encode(m, block, cell);

                (void)st; /* blocks_encoded only sends the packet, which cannot fail */
            }
        }
    }
}

void blocks_missing(const ps_mesh_machine *m, bool *peers)
{
    const ps_assignment *a = m->conf.assignment;
    const blocks_state *s = state_of(m);

    for (uint32_t block = 0; block < a->block_count; block++) {
        for (uint32_t cell = 0; cell < m->cells.count; cell++) {
            if (block < s->turn[cell] || *slot_of(m, block, cell) != NULL) {
                continue;
            }
            /* any holder may send the cell in a repair */
            for (uint32_t i = 0; i < a->redundancy; i++) {
                peers[mesh_holders(m, block)[i]] = true;
            }
        }
    }
    for (uint32_t i = 0; s->unheard > 0 && !m->is_repaired && i < m->nodes; i++) {
        peers[i] |= i != m->conf.self && !s->is_heard[i];
    }
}

void blocks_save(const ps_mesh_machine *m, uint32_t part, ps_state_out *out)
{
    const ps_mesh_part *p = &m->conf.parts[part];

    if (state_of(m)->standing != NULL) {
        ps_state_put(out, state_of(m)->standing + p->at, p->n * sizeof(float));
    }
}

void blocks_load(ps_mesh_machine *m, uint32_t part, ps_state_in *in)
{
    const ps_mesh_part *p = &m->conf.parts[part];

    if (state_of(m)->standing != NULL) {
        ps_state_take(in, state_of(m)->standing + p->at, p->n * sizeof(float));
    }
}
