/* SPDX-License-Identifier: Apache-2.0 */
/* peer_inbox.c - what other workers have said, until the machine can use it; see
 * mesh_exchange.h.
 *
 * A stream is in order, so whatever a worker says of a step comes before all that it
 * says of the next one: a message that is early holds up nothing that is needed now.
 */
#include "services/worker/mesh_exchange_impl.h"

#include <assert.h>

/* What an early packet costs. */
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

/* Can the machine use it now? */
static bool may_take(const ps_mesh_exchange *x, const peer_inbox *inbox, const ps_packet *packet)
{
    size_t room = PEER_EARLY_BYTES / (x->peers > 1 ? x->peers - 1 : 1);

    if (packet->clock != x->me.next || ps_mesh_has_begun(x->me.mesh)) {
        return packet->clock <= x->me.next;
    }
    return inbox->early_bytes == 0 || inbox->early_bytes + cost_of(packet) <= room;
}

/* As far as it goes; the rest stays. */
static bool take_some(ps_mesh_exchange *x, uint32_t from)
{
    peer_inbox *inbox = &x->inboxes[from];
    size_t before = inbox->at;
    ps_status st = ps_ok();

    while (inbox->at < inbox->count && ps_is_ok(&st) &&
           may_take(x, inbox, inbox->packets[inbox->at])) {
        ps_packet *packet = inbox->packets[inbox->at++];

        if (packet->clock == x->me.next && !ps_mesh_has_begun(x->me.mesh)) {
            inbox->early_bytes += cost_of(packet);
        }
        st = ps_mesh_take(x->me.mesh, packet);
        ps_packet_unref(packet);
    }
    if (inbox->at == before) {
        return false;
    }
    if (inbox->at == inbox->count || !ps_is_ok(&st)) {
        empty(inbox);
        x->conf.taken(x->conf.arg, from, &st);
    }
    return true;
}

bool peer_take_inboxes(ps_mesh_exchange *x)
{
    bool any = false;

    for (uint32_t i = 0; i < x->peers; i++) {
        any |= take_some(x, i);
    }
    return any;
}
