/* SPDX-License-Identifier: Apache-2.0 */
/* packet.c - packets: see mesh.h and mesh_impl.h. */
#include "common/mesh/mesh_impl.h"

#include "common/base/xalloc.h"

#include <stdlib.h>

ps_packet *ps_packet_create(size_t cap)
{
    ps_packet *packet = ps_xcalloc(1, sizeof *packet);

    atomic_init(&packet->refs, 1);
    psgd__v1__encoding__init(&packet->head.msg);
    packet->buf = ps_buf_create(cap);
    packet->bytes = packet->buf->data;
    return packet;
}

ps_packet *ps_packet_ref(ps_packet *packet)
{
    atomic_fetch_add_explicit(&packet->refs, 1, memory_order_relaxed);
    return packet;
}

void ps_packet_unref(ps_packet *packet)
{
    if (packet != NULL && atomic_fetch_sub_explicit(&packet->refs, 1, memory_order_acq_rel) == 1) {
        ps_buf_unref(packet->buf);
        free(packet);
    }
}

ps_packet *mesh_packet(ps_mesh_machine *m, uint32_t what, uint32_t piece, size_t cap)
{
    ps_packet *packet = ps_packet_create(cap);

    packet->clock = m->clock;
    packet->from = m->conf.self;
    packet->what = what;
    packet->piece = piece;
    return packet;
}

ps_packet *mesh_copy(ps_mesh_machine *m, const ps_packet *packet, size_t n)
{
    ps_packet *copy = mesh_packet(m, packet->what, packet->piece, 0);

    ps_encoding_copy(&copy->head, &packet->head.msg);
    ps_buf_unref(copy->buf);
    copy->buf = ps_buf_ref(packet->buf);
    copy->bytes = packet->bytes;
    copy->len = packet->len;
    copy->n = (uint32_t)n;
    return copy;
}
