/* SPDX-License-Identifier: Apache-2.0 */
/* deeds.c - encodes and decodes cells (deeds): at once or, if the machine was held, several
 * together, for codecs that gain from that (ps_codec_ahead). */
#include "common/mesh/mesh_impl.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/codec/feedback.h"

#include <stdlib.h>
#include <string.h>

enum { TOGETHER = 16 }; /* most deeds that are given to a codec at a time */

static const ps_mesh_codec *codec_of(const ps_mesh_machine *m, const mesh_deed *deed)
{
    return mesh_codec(m, deed->cell, deed->is_down);
}

static uint64_t key_of(const ps_mesh_machine *m, const mesh_deed *deed)
{
    return ps_draw_key(m->conf.seed, PS_DRAW_UP, deed->cell, m->clock, deed->contributor);
}

/* Copies the values to encode to `room` and adds the codec's state of the cell to them; deed->x
 * becomes this copy. Does nothing if it was done before, or if the cell has no state. */
static void carry(const ps_mesh_machine *m, mesh_deed *deed, float *room)
{
    const ps_mesh_codec *c = codec_of(m, deed);
    float *kept = m->cells.kept_of[deed->cell];
    size_t n = m->cells.cell[deed->cell].n;

    if (kept != NULL && !deed->is_carried) {
        memcpy(room, deed->x, n * sizeof *room);
        deed->x = room;
        ps_feedback_carry(c->codec, &c->params, kept, room, n);
        deed->is_carried = true;
    }
}

static ps_status encode(ps_mesh_machine *m, mesh_deed *deed)
{
    const ps_mesh_codec *c = codec_of(m, deed);
    size_t n = m->cells.cell[deed->cell].n;
    ps_packet *packet = mesh_packet(m, deed->what, deed->cell, c->codec->size(&c->params, n));

    carry(m, deed, m->scratch);
    packet->n = (uint32_t)n;
    packet->len =
        ps_feedback_encode(c->codec, &c->params, m->cells.kept_of[deed->cell], key_of(m, deed),
                           deed->cell, deed->x, n, packet->bytes, &packet->head);
    return m->conf.mesh->encoded(m, packet);
}

static ps_status decode(ps_mesh_machine *m, const mesh_deed *deed)
{
    const ps_packet *packet = deed->packet;
    ps_status st = ps_codec_decode(
        codec_of(m, deed)->codec, &packet->head.msg, packet->bytes, packet->len, deed->into,
        m->cells.sum + m->cells.cell[deed->cell].at, m->cells.cell[deed->cell].n);

    return ps_is_ok(&st) ? m->conf.mesh->decoded(m, deed->packet) : st;
}

static ps_status put_off(ps_mesh_machine *m, const mesh_deed *deed)
{
    mesh_deeds *all = &m->deeds;

    if (all->count == all->cap) {
        all->cap = all->cap * 2 + 64;
        all->deed = ps_xrealloc(all->deed, all->cap * sizeof *all->deed);
    }
    all->deed[all->count] = *deed;
    if (deed->packet != NULL) {
        ps_packet_ref(deed->packet);
    }
    all->count++;
    return ps_ok();
}

ps_status mesh_encode(ps_mesh_machine *m, uint32_t what, uint32_t cell, bool is_down,
                      uint32_t contributor, const float *x)
{
    mesh_deed deed = {
        .what = what, .cell = cell, .is_down = is_down, .contributor = contributor, .x = x};

    return m->is_held ? put_off(m, &deed) : encode(m, &deed);
}

ps_status mesh_decode(ps_mesh_machine *m, ps_packet *packet, bool is_down, ps_into into)
{
    mesh_deed deed = {.cell = packet->piece, .is_down = is_down, .packet = packet, .into = into};
    ps_status st;

    if (!m->is_held) {
        return decode(m, &deed);
    }
    st = mesh_check(m, packet, is_down);
    return ps_is_ok(&st) ? put_off(m, &deed) : st;
}

/* Returns whether the deed `at` can be done together with the deeds [first, at): all of them
 * encode, or all decode; their codecs gain from it; and none of them changes the codec's state that
 * another one needs, as two encodings of one cell do. */
static bool goes_with(const ps_mesh_machine *m, size_t first, size_t at)
{
    const mesh_deed *deeds = m->deeds.deed, *deed = &deeds[at];

    if (codec_of(m, deed)->codec->ahead == NULL ||
        (deed->packet != NULL) != (deeds[first].packet != NULL)) {
        return false;
    }
    for (size_t i = first; i < at && deed->packet == NULL; i++) {
        if (deeds[i].cell == deed->cell && m->cells.kept_of[deed->cell] != NULL) {
            return false;
        }
    }
    return true;
}

/* Gives a deed to its codec, to be done together with those given before. Returns false if the
 * codec does not take one more. */
static bool give(ps_mesh_machine *m, mesh_deed *deed, float *room)
{
    const ps_mesh_codec *c = codec_of(m, deed);
    size_t n = m->cells.cell[deed->cell].n;

    if (deed->packet != NULL) {
        return ps_codec_decode_ahead(&deed->packet->head.msg, deed->packet->bytes, n);
    }
    carry(m, deed, room);
    return ps_codec_encode_ahead(c->codec, &c->params, key_of(m, deed), deed->x, n, NULL);
}

/* Does the first deeds that are put off, as many as go together; at least one. */
static ps_status do_some(ps_mesh_machine *m)
{
    mesh_deeds *all = &m->deeds;
    size_t first = all->first, given = 0;
    ps_status st = ps_ok();

    while (given < TOGETHER && first + given < all->count && goes_with(m, first, first + given) &&
           give(m, &all->deed[first + given], all->room + given * PS_CODEC_VALUES)) {
        given++;
    }
    ps_codec_run_ahead();
    for (size_t i = 0; i < given && ps_is_ok(&st); i++) {
        /* a copy: encode and decode may put off more deeds, which moves the array */
        mesh_deed deed = all->deed[all->first++];

        st = deed.packet != NULL ? decode(m, &deed) : encode(m, &deed);
        ps_packet_unref(deed.packet);
    }
    ps_codec_end_ahead();
    /* Does the next deed alone if none could be given, or if `carry` was done for it: its values
     * are in `room`, which the next call overwrites. */
    if (ps_is_ok(&st) && all->first < all->count &&
        (given == 0 || all->deed[all->first].is_carried)) {
        mesh_deed deed = all->deed[all->first++];

        st = deed.packet != NULL ? decode(m, &deed) : encode(m, &deed);
        ps_packet_unref(deed.packet);
    }
    return st;
}

static void forget(ps_mesh_machine *m)
{
    while (m->deeds.first < m->deeds.count) {
        ps_packet_unref(m->deeds.deed[m->deeds.first++].packet);
    }
    m->deeds.first = m->deeds.count = 0;
}

void mesh_deeds_init(ps_mesh_machine *m)
{
    for (uint32_t p = 0; p < m->conf.part_count; p++) {
        m->may_block |= m->conf.parts[p].up.codec->ahead != NULL;
        m->may_block |= m->conf.mesh->sends_sums && m->conf.parts[p].down.codec->ahead != NULL;
    }
    if (m->may_block) {
        m->deeds.room = ps_xcalloc((size_t)TOGETHER * PS_CODEC_VALUES, sizeof *m->deeds.room);
    }
}

void mesh_deeds_fini(ps_mesh_machine *m)
{
    forget(m);
    free(m->deeds.deed);
    free(m->deeds.room);
}

bool ps_mesh_may_block(const ps_mesh_machine *m)
{
    return m->may_block;
}

void ps_mesh_hold(ps_mesh_machine *m)
{
    m->is_held = m->may_block;
}

static bool is_wanted(const ps_mesh_machine *m)
{
    return m->conf.is_wanted == NULL || m->conf.is_wanted(m->conf.arg);
}

ps_status ps_mesh_release(ps_mesh_machine *m, ps_status st)
{
    while (ps_is_ok(&st) && m->deeds.first < m->deeds.count) {
        st = is_wanted(m) ? do_some(m) : ps_fail(PS_CANCELLED, "the exchange was given up");
    }
    forget(m);
    m->is_held = false;
    mesh_look(m);
    return st;
}
