/* SPDX-License-Identifier: Apache-2.0 */
/* peer_lane.c - packets out to one worker, acknowledgements in; see peer_exchange.h. */
#include "services/worker/peer_exchange_impl.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/wire/identity.h"

#include <stdlib.h>
#include <string.h>

static void on_retry(ps_event *self, bool ok);

void peer_lane_init(peer_lane *lane, ps_peer_exchange *x, uint32_t to)
{
    lane->x = x;
    lane->to = to;
    ps_redial_init(&lane->redial, x->conf.loop, &x->me.gate, on_retry);
}

void peer_lane_fini(peer_lane *lane)
{
    for (size_t i = lane->first; i < lane->end; i++) {
        ps_packet_unref(lane->queue[i]);
    }
    ps_channel_destroy(lane->channel);
    free(lane->queue);
}

void peer_lane_say(peer_lane *lane, ps_packet *packet)
{
    if (lane->end == lane->cap && lane->first > 0) {
        memmove(lane->queue, lane->queue + lane->first,
                (lane->end - lane->first) * sizeof(ps_packet *));
        lane->sent -= lane->first;
        lane->end -= lane->first;
        lane->first = 0;
    }
    if (lane->end == lane->cap) {
        lane->cap = lane->cap * 2 + 64;
        lane->queue = ps_xrealloc(lane->queue, lane->cap * sizeof(ps_packet *));
    }
    lane->queue[lane->end++] = ps_packet_ref(packet);
    lane->bytes += packet->len;
}

static void release(peer_lane *lane, ps_packet *packet)
{
    lane->bytes -= packet->len;
    ps_packet_unref(packet);
}

void peer_lane_thin(peer_lane *lane, uint64_t clock)
{
    size_t kept = lane->sent;

    if (lane->bytes <= PEER_LATE_BYTES / lane->x->peers) {
        return;
    }
    for (size_t i = lane->sent; i < lane->end; i++) {
        if (lane->queue[i]->clock < clock) {
            release(lane, lane->queue[i]);
        } else {
            lane->queue[kept++] = lane->queue[i];
        }
    }
    lane->end = kept;
}

bool peer_lane_is_over(const peer_lane *lane)
{
    bool is_empty = lane->first == lane->end;

    return lane->stream == NULL && (is_empty || lane->x->is_cut);
}

/* --- messages ----------------------------------------------------------------- */

/* Fills head number i, and the piece if there are bytes. */
static void describe(ps_peer_exchange *x, size_t i, ps_packet *packet, size_t *pieces)
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

/* As many packets as a message holds, in the order said. */
static void send_some(peer_lane *lane)
{
    Psgd__V1__ExchangeRequest req = PSGD__V1__EXCHANGE_REQUEST__INIT;
    ps_peer_exchange *x = lane->x;
    ps_wire_attempt of = ps_session_attempt(x->conf.session);
    Psgd__V1__WorkerIdentity identity;
    size_t n = 0, pieces = 0, bytes = 0;

    while (lane->sent < lane->end && n < PEER_BATCH &&
           bytes + lane->queue[lane->sent]->len <= PS_PAYLOAD_MAX) {
        bytes += lane->queue[lane->sent]->len;
        describe(x, n++, lane->queue[lane->sent++], &pieces);
    }
    if (!lane->is_greeted) {
        lane->is_greeted = true;
        ps_identity_fill(&identity, &of, x->conf.session->rank, x->conf.incarnation);
        req.worker = &identity;
        req.to = lane->to;
    }
    req.attempt = x->conf.session->attempt;
    req.packets = x->head_ptrs;
    req.n_packets = n;
    ps_stream_send(lane->stream, &req.base, x->pieces, pieces);
}

static const ps_stream_events events;

static void open_stream(peer_lane *lane)
{
    const ps_session *session = lane->x->conf.session;

    if (lane->channel == NULL) {
        lane->channel = ps_channel_create(
            lane->x->conf.loop, ps_placement_process(&session->placement, lane->to)->address);
    }
    lane->is_greeted = false;
    lane->acked = 0;
    lane->sent = lane->first; /* perhaps it never came */
    lane->stream = ps_stream_open(lane->channel, &psgd__v1__peer_service__descriptor, "Exchange",
                                  PS_NO_TIMEOUT, 0, &events, lane);
    ps_stream_read(lane->stream);
}

void peer_lane_pump(peer_lane *lane)
{
    bool is_empty = lane->first == lane->end;

    if (lane->x->is_cut) {
        return;
    }
    if (lane->channel == NULL && !is_empty) {
        open_stream(lane);
    }
    if (lane->stream == NULL || lane->is_closed) {
        return;
    }
    if (lane->sent < lane->end && ps_stream_can_send(lane->stream)) {
        send_some(lane);
    } else if (is_empty && lane->x->stopping) {
        lane->is_closed = true;
        ps_stream_half_close(lane->stream);
    }
}

void peer_lane_cut(peer_lane *lane)
{
    ps_redial_stop(&lane->redial);
    if (lane->stream != NULL) {
        ps_stream_cancel(lane->stream);
    }
}

/* --- events ------------------------------------------------------------------- */

static void count(peer_lane *lane)
{
    lane->counted = ps_channel_traffic(lane->channel);
    peer_publish(lane->x);
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    const Psgd__V1__ExchangeResponse *ack = (const Psgd__V1__ExchangeResponse *)head;
    peer_lane *lane = arg;

    (void)payload;
    count(lane);
    if (ack->taken < lane->acked || ack->taken - lane->acked > lane->sent - lane->first) {
        ps_status st =
            ps_fail(PS_DATA_LOSS, "%s took %llu packets; %zu were sent after %llu",
                    ps_placement_process(&lane->x->conf.session->placement, lane->to)->node_id,
                    (unsigned long long)ack->taken, lane->sent - lane->first,
                    (unsigned long long)lane->acked);

        peer_fail(lane->x, &st);
        ps_stream_cancel(lane->stream);
        return;
    }
    ps_redial_works(&lane->redial);
    for (; lane->acked < ack->taken; lane->acked++) {
        release(lane, lane->queue[lane->first++]);
    }
    ps_stream_read(lane->stream);
    peer_lane_pump(lane);
}

static void on_sent(void *arg)
{
    peer_lane_pump(arg);
}

static void on_end(void *arg, const ps_error *error)
{
    peer_lane *lane = arg;

    lane->stream = NULL;
    count(lane);
    if (lane->x->stopping && peer_lane_is_over(lane)) {
        peer_lane_over(lane->x);
        return;
    }
    ps_redial_ended(&lane->redial, "Exchange",
                    ps_placement_process(&lane->x->conf.session->placement, lane->to)->node_id,
                    error);
    if (lane->x->stopping &&
        !ps_gate_is_open(&lane->x->me.gate)) { /* refused: it will not be opened */
        ps_peer_exchange_cut(lane->x);
    }
}

static const ps_stream_events events = {
    .on_message = on_message,
    .on_sent = on_sent,
    .on_end = on_end,
};

static void on_retry(ps_event *self, bool ok)
{
    peer_lane *lane = PS_CONTAINER_OF(self, peer_lane, redial.retry.event);

    if (ok && !lane->x->is_cut) {
        open_stream(lane);
        peer_lane_pump(lane);
    }
}
