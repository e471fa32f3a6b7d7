/* SPDX-License-Identifier: Apache-2.0 */
/* peer_inbox.c - keeps messages of peers until the machine can use them; see mesh_exchange.h.
 *
 * A stream is in order: the packets of a step arrive before those of the next one, except those
 * that a repair sends again. So an early message that waits in an inbox delays nothing else that
 * the running step needs.
 */
#include "services/worker/mesh_exchange_impl.h"

#include <assert.h>

/* Returns the bytes of memory of an early packet. */
static size_t cost_of(const ps_packet *packet)
{
    return sizeof *packet + sizeof *packet->buf + packet->len;
}

static void empty(peer_inbox *inbox)
{
    for (size_t i = inbox->at; i < inbox->count; i++) {
        ps_packet_unref(inbox->packets[i]);
    }
    inbox->at = inbox->count = 0;
}

void ps_mesh_exchange_give(ps_mesh_exchange *x, uint32_t from, ps_packet *const *packets,
                           size_t count)
{
    peer_inbox *inbox = &x->inboxes[from];

    assert(inbox->count == 0 && count > 0 && count <= PEER_BATCH);
    for (size_t i = 0; i < count; i++) {
        inbox->packets[i] = packets[i];
    }
    inbox->count = count;
    exchange_settle(x);
}

void ps_mesh_exchange_forget(ps_mesh_exchange *x, uint32_t from)
{
    empty(&x->inboxes[from]);
}

void peer_forget_inboxes(ps_mesh_exchange *x)
{
    for (uint32_t i = 0; i < x->peers; i++) {
        empty(&x->inboxes[i]);
    }
}

/* Returns whether the machine can take the packet now: any packet of the running step or an earlier
 * one, and none of a step after x->me.next. If that step has not begun here, its packets are taken
 * up to the inbox's share of PEER_EARLY_BYTES, but at least one. */
static bool may_take(const ps_mesh_exchange *x, const peer_inbox *inbox, const ps_packet *packet)
{
    size_t room = PEER_EARLY_BYTES / (x->peers > 1 ? x->peers - 1 : 1);

    if (packet->clock != x->me.next || ps_mesh_has_begun(x->me.mesh)) {
        return packet->clock <= x->me.next;
    }
    return inbox->early_bytes == 0 || inbox->early_bytes + cost_of(packet) <= room;
}

/* Moves packets of one inbox to the turn until one has to wait. */
static void lend_some(ps_mesh_exchange *x, peer_inbox *inbox)
{
    while (inbox->at < inbox->count && may_take(x, inbox, inbox->packets[inbox->at])) {
        ps_packet *packet = inbox->packets[inbox->at++];

        if (packet->clock == x->me.next && !ps_mesh_has_begun(x->me.mesh)) {
            inbox->early_bytes += cost_of(packet);
        }
        x->turn.packets[x->turn.count++] = packet;
    }
}

void peer_lend_inboxes(ps_mesh_exchange *x)
{
    for (uint32_t i = 0; i < x->peers; i++) {
        lend_some(x, &x->inboxes[i]);
    }
}

void peer_settle_inboxes(ps_mesh_exchange *x)
{
    for (uint32_t i = 0; i < x->peers; i++) {
        peer_inbox *inbox = &x->inboxes[i];
        ps_status *refused = &x->turn.refused[i], st = *refused;

        *refused = ps_ok();
        /* A message that was forgotten during the turn has left the inbox empty, or to another one
         * of which nothing was lent. */
        if (!ps_is_ok(&st) || (inbox->count > 0 && inbox->at == inbox->count)) {
            empty(inbox);
            x->conf.taken(x->conf.arg, i, &st);
        }
    }
}
