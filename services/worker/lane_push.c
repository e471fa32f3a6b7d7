/* SPDX-License-Identifier: Apache-2.0 */
/* lane_push.c - the push stream of a lane: contributions out, acknowledgements in. */
#include "services/worker/server_exchange_impl.h"

#include "common/node/identity.h"

#include "common/base/clock.h"

#include <string.h>

size_t ps_lane_message_bytes(size_t last, size_t bytes, int64_t us)
{
    double fit = (double)bytes * LANE_MESSAGE_US / (double)(us > 0 ? us : 1);
    size_t least = last / 2 > LANE_MESSAGE_LEAST ? last / 2 : LANE_MESSAGE_LEAST;

    if (bytes <= LANE_MESSAGE_LEAST) {
        return last; /* tells more of the delay than of the rate */
    }
    return fit < (double)least ? least : fit < PS_PAYLOAD_MAX ? (size_t)fit : PS_PAYLOAD_MAX;
}

void ps_lane_contribution(ps_lane *lane, uint64_t clock, uint32_t block, bool is_last,
                          bool is_nothing)
{
    if (lane->owned_count == 0) {
        return;
    }
    lane->has_contribution = true;
    lane->clock = clock;
    lane->block = block;
    lane->is_last = is_last;
    lane->is_nothing = is_nothing;
    memset(lane->state, is_nothing ? SLICE_READY : SLICE_WAITS, lane->owned_count);
    lane->unsent = lane->owned_count;
    lane->ready = is_nothing ? lane->owned_count : 0;
    lane->zeros = 0;
    lane->ready_bytes = 0;
    lane->sent_bytes = 0;
    lane->wish_due = false;
}

void ps_lane_skip(ps_lane *lane, uint64_t clock)
{
    if (lane->owned_count > 0) {
        ps_lane_wish(lane, clock + 1);
    }
}

static float *gradient_of(const ps_lane *lane, const ps_slice *slice)
{
    return (float *)(void *)lane->x->grad->data + slice->at;
}

void ps_lane_slice_ready(ps_lane *lane, uint32_t position)
{
    const ps_slice *slice = &lane->x->layout->slices[lane->owned[position]];

    lane->state[position] = SLICE_READY;
    lane->ready++;
    if (lane->is_nothing) {
        return; /* sent again; what feedback has left out waits for the next */
    }
    if (ps_coder_is_zeros(&lane->x->coder, slice->index)) {
        lane->state[position] = SLICE_ZEROS;
        lane->zeros++;
        return;
    }
    lane->ready_bytes += ps_coder_size(&lane->x->coder, slice->index);
    ps_coder_carry(&lane->x->coder, slice->index, gradient_of(lane, slice));
}

/* A buffer for an encoded message that nobody holds any more. */
static ps_buf *encode_buffer(ps_lane *lane)
{
    size_t i = 0, last = sizeof lane->encoded / sizeof lane->encoded[0] - 1;

    while (i < last && lane->encoded[i] != NULL && atomic_load(&lane->encoded[i]->refs) > 1) {
        i++;
    }
    if (lane->encoded[i] != NULL && atomic_load(&lane->encoded[i]->refs) > 1) {
        ps_buf_unref(lane->encoded[i]); /* still on its way: gRPC frees it */
        lane->encoded[i] = NULL;
    }
    if (lane->encoded[i] == NULL) {
        lane->encoded[i] = ps_buf_create(PS_PAYLOAD_MAX);
    }
    lane->encoded[i]->len = 0;
    return lane->encoded[i];
}

/* Appends bytes to the message's pieces, joining what lies side by side. */
static size_t add_piece(ps_piece *pieces, size_t count, ps_buf *buf, const void *data, size_t len)
{
    if (count > 0 && pieces[count - 1].buf == buf &&
        (const uint8_t *)pieces[count - 1].data + pieces[count - 1].len == data) {
        pieces[count - 1].len += len;
        return count;
    }
    pieces[count] = (ps_piece){.data = data, .len = len, .buf = buf};
    return count + 1;
}

/* Writes slice `position` as encoding number `i` of the message; its bytes are
 * in the head. */
static size_t encode_slice(ps_lane *lane, uint32_t position, size_t i, ps_buf **out,
                           size_t piece_count)
{
    ps_server_exchange *x = lane->x;
    const ps_slice *slice = &x->layout->slices[lane->owned[position]];
    const float *grad = gradient_of(lane, slice);
    uint8_t *at;
    size_t size;

    if (ps_coder_is_plain(&x->coder, slice->index)) { /* its bytes are the gradient block's */
        size = ps_coder_encode(&x->coder, slice->index, lane->clock, lane->block, grad, NULL,
                               &lane->heads[i]);
        return add_piece(lane->pieces, piece_count, x->grad, grad, size);
    }
    if (*out == NULL) {
        *out = encode_buffer(lane);
    }
    at = (*out)->data + (*out)->len;
    size = ps_coder_encode(&x->coder, slice->index, lane->clock, lane->block, grad, at,
                           &lane->heads[i]);
    (*out)->len += size;
    return size > 0 ? add_piece(lane->pieces, piece_count, *out, at, size) : piece_count;
}

/* The head that every message of a contribution has. */
static void send_message(ps_lane *lane, size_t slices, size_t pieces)
{
    Psgd__V1__PushGradientRequest req = PSGD__V1__PUSH_GRADIENT_REQUEST__INIT;
    Psgd__V1__WorkerIdentity identity;

    if (!lane->push.greeted) {
        lane->push.greeted = true;
        ps_identity_fill(&identity, lane->x->session, lane->x->incarnation);
        req.worker = &identity;
    }
    req.attempt = lane->x->session->attempt;
    req.clock = lane->clock;
    req.block = lane->block;
    req.slices = lane->head_ptrs;
    req.n_slices = slices;
    ps_stream_send(lane->push.stream, &req.base, lane->pieces, pieces);
}

/* No slices stand for zeros in all of them that were not sent. */
static void send_nothing(ps_lane *lane)
{
    size_t values = 0;

    for (uint32_t i = 0; !lane->is_nothing && i < lane->owned_count; i++) {
        values += lane->state[i] == SLICE_ZEROS ? lane->x->layout->slices[lane->owned[i]].n : 0;
    }
    atomic_fetch_add(&lane->x->base.count.float32_up, values * sizeof(float));
    memset(lane->state, SLICE_SENT, lane->owned_count);
    lane->unsent = 0;
    lane->ready = 0;
    lane->zeros = 0;
    send_message(lane, 0, 0);
}

/* Is it to be in the next message? */
static bool is_to_send(const ps_lane *lane, uint32_t position, bool has_few_zeros)
{
    return lane->state[position] == SLICE_READY ||
           (lane->state[position] == SLICE_ZEROS && has_few_zeros);
}

/* Slices from position i on that an encoding has brought, `values` of them together. */
static size_t mark_sent(ps_lane *lane, uint32_t i, uint32_t count, size_t size)
{
    size_t values = 0;

    for (uint32_t k = i; k < i + count; k++) {
        bool is_zeros = lane->state[k] == SLICE_ZEROS;

        lane->ready_bytes -= is_zeros ? 0 : size;
        lane->zeros -= is_zeros;
        lane->state[k] = SLICE_SENT;
        values += lane->x->layout->slices[lane->owned[k]].n;
        size = 0; /* the first one's is that of all */
    }
    lane->unsent -= count;
    lane->ready -= count;
    return values;
}

/* One message of ready slices, lowest first. */
static void send_ready(ps_lane *lane)
{
    size_t bytes = 0, pieces = 0, n = 0, values = 0;
    bool has_few_zeros = lane->zeros <= LANE_ZEROS;
    ps_buf *out = NULL;

    for (uint32_t i = 0; i < lane->owned_count && n < LANE_BATCH && lane->ready > 0; i++) {
        size_t size;

        if (!is_to_send(lane, i, has_few_zeros)) {
            continue;
        }
        size = ps_coder_size(&lane->x->coder, lane->owned[i]);
        if (bytes + size > lane->message_bytes && n > 0) {
            break;
        }
        pieces = encode_slice(lane, i, n, &out, pieces);
        bytes += lane->heads[n++].msg.payload_bytes;
        values += mark_sent(lane, i, ps_matrix_slices(lane->x->plan, lane->owned[i]), size);
    }
    if (lane->sent_bytes == 0) {
        lane->began_us = ps_clock_us();
    }
    lane->sent_bytes += bytes;
    send_message(lane, n, pieces);
    atomic_fetch_add(&lane->x->base.count.float32_up, values * sizeof(float));
}

/* New weights overwrite the old: not while these are still read. That may be
 * after the acknowledgement, where another holder of the block was faster. */
static void ask_if_due(ps_lane *lane)
{
    if (lane->wish_due && lane->ready == lane->unsent) {
        lane->wish_due = false;
        ps_lane_wish(lane, lane->clock + 1);
    }
}

void ps_lane_pump(ps_lane *lane)
{
    ask_if_due(lane);
    if (lane->stopping || !lane->has_contribution || lane->ready == 0 ||
        lane->push.stream == NULL || !ps_stream_can_send(lane->push.stream)) {
        return;
    }
    if (lane->is_nothing || (lane->zeros > LANE_ZEROS && lane->zeros == lane->unsent)) {
        send_nothing(lane);
    } else if (lane->ready == lane->zeros && lane->zeros > LANE_ZEROS) {
        return; /* with the rest */
    } else if (lane->ready == lane->unsent || lane->ready_bytes >= LANE_SEND_BYTES ||
               lane->ready_bytes >= lane->message_bytes) {
        send_ready(lane);
    }
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    ps_lane *lane = arg;
    const Psgd__V1__PushGradientResponse *ack = (const Psgd__V1__PushGradientResponse *)head;

    (void)payload;
    ps_redial_works(&lane->push.redial);
    ps_server_exchange_count(lane->x, lane);
    /* One for an earlier contribution is the echo of a repetition. */
    if (lane->has_contribution && ack->clock == lane->clock && ack->block == lane->block) {
        lane->has_contribution = false;
        lane->message_bytes = ps_lane_message_bytes(lane->message_bytes, lane->sent_bytes,
                                                    ps_clock_us() - lane->began_us);
        lane->wish_due = lane->is_last && !lane->x->asks_early;
        ask_if_due(lane);
        ps_gate_lane_acked(&lane->x->gate, lane->server);
    }
    if (lane->push.stream != NULL) {
        ps_stream_read(lane->push.stream);
    }
}

static void on_sent(void *arg)
{
    ps_lane_pump(arg);
}

static void on_end(void *arg, const ps_error *error)
{
    ps_lane *lane = arg;

    ps_lane_stream_ended(&lane->push, "PushGradient", error);
}

const ps_stream_events ps_lane_push_events = {
    .on_message = on_message,
    .on_sent = on_sent,
    .on_end = on_end,
};
