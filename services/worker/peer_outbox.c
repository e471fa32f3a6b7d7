/* SPDX-License-Identifier: Apache-2.0 */
/* peer_outbox.c - sends packets to one peer and receives its acknowledgements; see
 * mesh_exchange.h. */
#include "services/worker/mesh_exchange_impl.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/wire/identity.h"

#include <stdlib.h>
#include <string.h>

static void on_retry(ps_event *self, bool ok);

void peer_outbox_init(peer_outbox *outbox, ps_mesh_exchange *x, uint32_t to)
{
    outbox->x = x;
    outbox->to = to;
    ps_redial_init(&outbox->redial, x->conf.loop, &x->me.gate, on_retry);
}

void peer_outbox_fini(peer_outbox *outbox)
{
    for (size_t i = outbox->first; i < outbox->end; i++) {
        ps_packet_unref(outbox->queue[i]);
    }
    ps_channel_destroy(outbox->channel);
    free(outbox->queue);
}

void peer_outbox_add(peer_outbox *outbox, ps_packet *packet)
{
    if (outbox->end == outbox->cap && outbox->first > 0) {
        memmove(outbox->queue, outbox->queue + outbox->first,
                (outbox->end - outbox->first) * sizeof(ps_packet *));
        outbox->sent -= outbox->first;
        outbox->end -= outbox->first;
        outbox->first = 0;
    }
    if (outbox->end == outbox->cap) {
        outbox->cap = outbox->cap * 2 + 64;
        outbox->queue = ps_xrealloc(outbox->queue, outbox->cap * sizeof(ps_packet *));
    }
    outbox->queue[outbox->end++] = ps_packet_ref(packet);
    outbox->bytes += packet->len;
}

static void release(peer_outbox *outbox, ps_packet *packet)
{
    outbox->bytes -= packet->len;
    ps_packet_unref(packet);
}

void peer_outbox_thin(peer_outbox *outbox, uint64_t clock)
{
    size_t kept = outbox->sent;

    if (outbox->bytes <= PEER_LATE_BYTES / outbox->x->peers) {
        return;
    }
    for (size_t i = outbox->sent; i < outbox->end; i++) {
        if (outbox->queue[i]->clock < clock) {
            release(outbox, outbox->queue[i]);
        } else {
            outbox->queue[kept++] = outbox->queue[i];
        }
    }
    outbox->end = kept;
}

bool peer_outbox_is_over(const peer_outbox *outbox)
{
    bool is_empty = outbox->first == outbox->end;

    return outbox->stream == NULL && (is_empty || outbox->x->is_cut);
}

/* --- messages ----------------------------------------------------------------- */

/* Fills head i of the message, and appends a piece of payload if the packet has bytes. */
static void describe(ps_mesh_exchange *x, size_t i, ps_packet *packet, size_t *pieces)
{
    Psgd__V1__PeerPacket *head = &x->heads[i];

    psgd__v1__peer_packet__init(head);
    head->clock = packet->clock;
    head->what = packet->what;
    head->piece = packet->piece;
    if (packet->head.msg.codec_case != PSGD__V1__ENCODING__CODEC__NOT_SET) {
        head->encoding = &packet->head.msg;
    } else {
        head->word_bytes = (uint32_t)packet->len;
    }
    x->head_ptrs[i] = head;
    if (packet->len > 0) {
        x->pieces[(*pieces)++] =
            (ps_piece){.data = packet->bytes, .len = packet->len, .buf = packet->buf};
    }
}

/* Sends as many packets as fit into a message, in their order. */
static void send_some(peer_outbox *outbox)
{
    Psgd__V1__ExchangeRequest req = PSGD__V1__EXCHANGE_REQUEST__INIT;
    ps_mesh_exchange *x = outbox->x;
    ps_wire_attempt of = ps_session_attempt(x->conf.session);
    Psgd__V1__WorkerIdentity identity;
    size_t n = 0, pieces = 0, bytes = 0;

    while (outbox->sent < outbox->end && n < PEER_BATCH &&
           bytes + outbox->queue[outbox->sent]->len <= PS_PAYLOAD_MAX) {
        bytes += outbox->queue[outbox->sent]->len;
        describe(x, n++, outbox->queue[outbox->sent++], &pieces);
    }
    if (!outbox->is_greeted) {
        outbox->is_greeted = true;
        ps_identity_fill(&identity, &of, x->conf.session->rank, x->conf.incarnation);
        req.worker = &identity;
        req.to = outbox->to;
    }
    req.attempt = x->conf.session->attempt;
    req.packets = x->head_ptrs;
    req.n_packets = n;
    ps_stream_send(outbox->stream, &req.base, x->pieces, pieces);
}

static const ps_stream_events events;

static void open_stream(peer_outbox *outbox)
{
    const ps_session *session = outbox->x->conf.session;

    if (outbox->channel == NULL) {
        const ps_endpoint *to = ps_placement_process(&session->placement, outbox->to);

        outbox->channel = ps_channel_create(outbox->x->conf.loop, to->address);
        ps_channel_expect(outbox->channel, PS_PRINCIPAL_NODE, to->node_id);
    }
    outbox->is_greeted = false;
    outbox->acked = 0;
    outbox->sent = outbox->first; /* packets without an acknowledgement are sent again */
    outbox->stream = ps_stream_open(outbox->channel, &psgd__v1__peer_service__descriptor,
                                    "Exchange", PS_NO_TIMEOUT, 0, &events, outbox);
    ps_stream_read(outbox->stream);
}

void peer_outbox_pump(peer_outbox *outbox)
{
    bool is_empty = outbox->first == outbox->end;

    if (outbox->x->is_cut) {
        return;
    }
    if (outbox->channel == NULL && !is_empty) {
        open_stream(outbox);
    }
    if (outbox->stream == NULL || outbox->is_closed) {
        return;
    }
    if (outbox->sent < outbox->end && ps_stream_can_send(outbox->stream)) {
        send_some(outbox);
    } else if (is_empty && outbox->x->stopping && !outbox->x->turn.is_under_way) {
        outbox->is_closed = true;
        ps_stream_half_close(outbox->stream);
    }
}

void peer_outbox_cut(peer_outbox *outbox)
{
    ps_redial_stop(&outbox->redial);
    if (outbox->stream != NULL) {
        ps_stream_cancel(outbox->stream);
    }
}

/* --- events ------------------------------------------------------------------- */

static void count(peer_outbox *outbox)
{
    outbox->counted = ps_channel_traffic(outbox->channel);
    exchange_publish(outbox->x);
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    const Psgd__V1__ExchangeResponse *ack = (const Psgd__V1__ExchangeResponse *)head;
    peer_outbox *outbox = arg;

    (void)payload;
    count(outbox);
    if (ack->taken < outbox->acked || ack->taken - outbox->acked > outbox->sent - outbox->first) {
        ps_status st =
            ps_fail(PS_DATA_LOSS, "%s took %llu packets; %zu were sent after %llu",
                    ps_placement_process(&outbox->x->conf.session->placement, outbox->to)->node_id,
                    (unsigned long long)ack->taken, outbox->sent - outbox->first,
                    (unsigned long long)outbox->acked);

        exchange_fail(outbox->x, &st);
        ps_stream_cancel(outbox->stream);
        return;
    }
    ps_redial_works(&outbox->redial);
    for (; outbox->acked < ack->taken; outbox->acked++) {
        release(outbox, outbox->queue[outbox->first++]);
    }
    ps_stream_read(outbox->stream);
    peer_outbox_pump(outbox);
}

static void on_sent(void *arg)
{
    peer_outbox_pump(arg);
}

static void on_end(void *arg, const ps_error *error)
{
    peer_outbox *outbox = arg;

    outbox->stream = NULL;
    count(outbox);
    if (outbox->x->stopping && peer_outbox_is_over(outbox)) {
        exchange_end_if_over(outbox->x);
        return;
    }
    ps_redial_ended(&outbox->redial, "Exchange",
                    ps_placement_process(&outbox->x->conf.session->placement, outbox->to)->node_id,
                    error);
    /* The peer refused the stream, or the gate was closed before: ps_redial_ended does not open the
     * stream again. */
    if (outbox->x->stopping && !ps_gate_is_open(&outbox->x->me.gate)) {
        ps_mesh_exchange_cut(outbox->x);
    }
}

static const ps_stream_events events = {
    .on_message = on_message,
    .on_sent = on_sent,
    .on_end = on_end,
};

static void on_retry(ps_event *self, bool ok)
{
    peer_outbox *outbox = PS_CONTAINER_OF(self, peer_outbox, redial.retry.event);

    if (ok && !outbox->x->is_cut) {
        open_stream(outbox);
        peer_outbox_pump(outbox);
    }
}
