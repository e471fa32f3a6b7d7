/* SPDX-License-Identifier: Apache-2.0 */
/* connection_push.c - the push stream of a connection: sends contributions, receives
 * acknowledgements. */
#include "common/wire/connection_impl.h"

#include "common/base/clock.h"
#include "common/train/merge.h"

#include <assert.h>
#include <string.h>

size_t ps_connection_message_bytes(size_t last, size_t bytes, int64_t us)
{
    double fit = (double)bytes * CONNECTION_MESSAGE_US / (double)(us > 0 ? us : 1);
    size_t least = last / 2 > CONNECTION_MESSAGE_LEAST ? last / 2 : CONNECTION_MESSAGE_LEAST;

    if (bytes <= CONNECTION_MESSAGE_LEAST) {
        /* so few bytes say nothing about the rate, because most of the time is the network's
         * delay */
        return last;
    }
    return fit < (double)least ? least : fit < PS_PAYLOAD_MAX ? (size_t)fit : PS_PAYLOAD_MAX;
}

void ps_connection_contribution(ps_connection *conn, uint64_t clock, uint32_t block, bool is_last,
                                bool is_nothing)
{
    if (!conn->is_used) {
        return;
    }
    conn->has_contribution = true;
    conn->clock = clock;
    conn->block = block;
    conn->is_last = is_last;
    conn->is_nothing = is_nothing;
    conn->is_acked = false;
    memset(conn->state, is_nothing ? SLICE_READY : SLICE_WAITS, conn->owned_count);
    conn->unsent = conn->owned_count;
    conn->ready = is_nothing ? conn->owned_count : 0;
    conn->ready_bytes = 0;
    conn->sent_bytes = 0;
    conn->request_due = false;
    ps_connection_rows_begin(conn);
}

void ps_connection_slices_again(ps_connection *conn, ps_wire_stream stream)
{
    if (stream == PS_WIRE_PULL) {
        conn->request_sent = false;
        ps_connection_expect(conn); /* the server will send the whole answer again */
        return;
    }
    for (uint32_t i = 0; conn->has_contribution && i < conn->owned_count; i++) {
        if (conn->state[i] == SLICE_SENT) {
            conn->state[i] = SLICE_WAITS;
            conn->unsent++;
            ps_connection_slice_ready(conn, i);
        }
    }
}

void ps_connection_skip(ps_connection *conn, uint64_t clock)
{
    ps_connection_request_slices(conn, clock + 1);
}

static float *gradient_of(const ps_connection *conn, const ps_slice *slice)
{
    return (float *)(void *)conn->x->grad->data + slice->at;
}

void ps_connection_slice_ready(ps_connection *conn, uint32_t position)
{
    conn->state[position] = SLICE_READY;
    conn->ready++;
    if (conn->is_nothing) {
        return; /* zeros are sent without slices; residuals stay for the next contribution */
    }
    conn->ready_bytes += conn->took[position];
}

/* Returns an empty buffer for encoded bytes, to which nobody else has a reference. */
static ps_buf *encode_buffer(ps_connection *conn)
{
    size_t i = 0, last = sizeof conn->encoded / sizeof conn->encoded[0] - 1;

    while (i < last && conn->encoded[i] != NULL && atomic_load(&conn->encoded[i]->refs) > 1) {
        i++;
    }
    if (conn->encoded[i] != NULL && atomic_load(&conn->encoded[i]->refs) > 1) {
        /* All buffers are in use. A new one replaces this one, which is freed when its message was
         * sent. */
        ps_buf_unref(conn->encoded[i]);
        conn->encoded[i] = NULL;
    }
    if (conn->encoded[i] == NULL) {
        conn->encoded[i] = ps_buf_create(PS_PAYLOAD_MAX);
    }
    conn->encoded[i]->len = 0;
    return conn->encoded[i];
}

/* Appends bytes to the message as a piece. If they follow the last piece in memory, extends that
 * piece instead. */
static void add_piece(ps_connection *conn, connection_message *m, ps_buf *buf, const void *data,
                      size_t len)
{
    ps_piece *last = m->piece_count > 0 ? &conn->pieces[m->piece_count - 1] : NULL;

    m->bytes += len;
    if (last != NULL && last->buf == buf && (const uint8_t *)last->data + last->len == data) {
        last->len += len;
    } else if (len > 0) {
        conn->pieces[m->piece_count++] = (ps_piece){.data = data, .len = len, .buf = buf};
    }
}

uint8_t *ps_connection_room(ps_connection *conn, connection_message *m)
{
    if (m->encoded == NULL) {
        m->encoded = encode_buffer(conn);
    }
    return m->encoded->data + m->encoded->len;
}

void ps_connection_encoded(ps_connection *conn, connection_message *m, size_t bytes)
{
    add_piece(conn, m, m->encoded, m->encoded->data + m->encoded->len, bytes);
    m->encoded->len += bytes;
}

/* Appends the slice at `position` to the message, as it was encoded in an earlier attempt
 * (x->again). */
static void put_slice_again(ps_connection *conn, connection_message *m, uint32_t position)
{
    const connection_exchange *x = conn->x;
    ps_encoding *head = &conn->heads[m->head.n_slices++];

    ps_connection_encoded(conn, m,
                          ps_kept_contribution_encode(x->again, x->plan, x->placement, conn->part,
                                                      conn->owned[position],
                                                      ps_connection_room(conn, m), head));
}

/* Returns how many slices, beginning with the slice at `position`, its encoding holds. Returns 0 if
 * the slice is in the encoding of an earlier slice. */
static uint32_t brings(const ps_connection *conn, uint32_t position)
{
    const connection_exchange *x = conn->x;
    uint32_t slice = conn->owned[position];

    return ps_matrix_slices(x->plan, x->placement, conn->part, slice);
}

/* Returns whether the slice is ready and an encoding begins with it. */
static bool is_to_send(const ps_connection *conn, uint32_t position)
{
    return conn->state[position] == SLICE_READY && brings(conn, position) > 0;
}

/* Gives the codec, to encode together, the slices from `position` on that put_ready will put into
 * this message if they take as many bytes as last. Stops before a slice for which the message has
 * no room then, or whose codec does not gain by it. Sets conn->ahead to the number of slices
 * given. */
static void encode_ahead(ps_connection *conn, const connection_message *m, uint32_t position)
{
    connection_exchange *x = conn->x;
    size_t bytes = m->bytes;

    for (uint32_t k = 0; k < conn->owned_count; k++) {
        uint32_t i = (position + k) % conn->owned_count, slice = conn->owned[i];

        if (!is_to_send(conn, i)) {
            continue;
        }
        bytes += conn->took[i];
        if ((bytes > conn->message_bytes && conn->ahead > 0) ||
            m->head.n_slices + conn->ahead >= CONNECTION_BATCH ||
            !ps_coder_encode_ahead(&x->coder, slice, conn->clock, conn->block,
                                   gradient_of(conn, &x->layout->slices[slice]))) {
            break;
        }
        conn->ahead++;
    }
    if (conn->ahead > 0) {
        ps_codec_run_ahead();
    }
}

/* Encodes the slice at `position`, and appends its head and bytes to the message. If the rank keeps
 * its contributions and the part is no copy, also keeps them. */
static void put_slice(ps_connection *conn, connection_message *m, uint32_t position)
{
    connection_exchange *x = conn->x;
    const ps_slice *slice = &x->layout->slices[conn->owned[position]];
    float *grad = gradient_of(conn, slice);
    ps_encoding *head = &conn->heads[m->head.n_slices];
    bool is_plain = ps_coder_is_plain(&x->coder, slice->index);
    int64_t began_ns = ps_trace_begin();
    uint8_t *room = is_plain ? NULL : ps_connection_room(conn, m);
    size_t size;

    if (conn->ahead == 0 && x->plan->script_count > 0) {
        ps_codec_end_ahead();
        encode_ahead(conn, m, position);
    }
    conn->ahead -= conn->ahead > 0;
    m->head.n_slices++;
    size = ps_coder_encode(&x->coder, conn->part, slice->index, conn->clock, conn->block, grad,
                           room, head);
    if (x->kept != NULL && !conn->is_copy) {
        ps_kept_pushes_add(x->kept, &head->msg, is_plain ? (const uint8_t *)grad : room, size);
    }
    ps_trace_end(PS_TRACE_ENCODE, began_ns, slice->index, NULL);
    if (is_plain) { /* the gradient itself is sent, without a copy */
        add_piece(conn, m, x->grad, grad, size);
    } else {
        ps_connection_encoded(conn, m, size);
    }
}

void ps_connection_keep_rest(ps_connection *conn)
{
    connection_exchange *x = conn->x;

    if (!conn->has_contribution || conn->is_nothing || conn->is_copy || x->again != NULL) {
        return;
    }
    for (uint32_t i = 0; i < conn->owned_count; i++) {
        const ps_slice *slice = &x->layout->slices[conn->owned[i]];
        float *grad = gradient_of(conn, slice);
        bool is_plain = ps_coder_is_plain(&x->coder, slice->index);
        uint8_t *room = is_plain ? NULL : encode_buffer(conn)->data;
        ps_encoding head;
        size_t size;

        if (is_to_send(conn, i)) {
            size = ps_coder_encode(&x->coder, conn->part, slice->index, conn->clock, conn->block,
                                   grad, room, &head);
            ps_kept_pushes_add(x->kept, &head.msg, is_plain ? (const uint8_t *)grad : room, size);
        }
    }
}

/* Marks all slices as sent, because a message without slices says that they are zeros. */
static void put_nothing(ps_connection *conn)
{
    memset(conn->state, SLICE_SENT, conn->owned_count);
    conn->unsent = 0;
    conn->ready = 0;
}

/* Sets conn->from, the position from which ready slices are sent. If the transport spreads, ranks
 * begin at positions that divide the ready slices evenly, rank 0 at the first ready one. Else all
 * ranks begin at position 0. */
static void spread(ps_connection *conn)
{
    const connection_exchange *x = conn->x;
    uint64_t skip = (uint64_t)conn->ready * x->rank / x->plan->spec->workers;

    conn->from = 0;
    for (uint32_t i = 0; x->transport->spreads && i < conn->owned_count; i++) {
        if (conn->state[i] == SLICE_READY) {
            conn->from = i;
            if (skip-- == 0) {
                return;
            }
        }
    }
}

/* Marks `count` slices from position i on as sent, which one encoding of `bytes` bytes holds.
 * Returns the number of values of these slices. */
static size_t mark_sent(ps_connection *conn, uint32_t i, uint32_t count, size_t bytes)
{
    size_t values = 0;

    conn->ready_bytes -= conn->took[i];
    conn->took[i] = (uint32_t)bytes;
    for (uint32_t k = i; k < i + count; k++) {
        conn->state[k] = SLICE_SENT;
        values += conn->x->layout->slices[conn->owned[k]].n;
    }
    conn->unsent -= count;
    conn->ready -= count;
    assert(conn->ready > 0 || conn->ready_bytes == 0);
    return values;
}

/* Adds ready slices to the message, as many as fit: from position conn->from on, then from position
 * 0. */
static void put_ready(ps_connection *conn, connection_message *m)
{
    uint32_t from = conn->from;
    size_t values = 0;

    m->head.slices = conn->head_ptrs;
    for (uint32_t k = 0;
         k < conn->owned_count && m->head.n_slices < CONNECTION_BATCH && conn->ready > 0; k++) {
        uint32_t i = (from + k) % conn->owned_count;
        size_t size, before = m->bytes;

        if (!is_to_send(conn, i)) {
            continue;
        }
        size = ps_coder_size(&conn->x->coder, conn->part, conn->owned[i]);
        if (before + size > conn->message_bytes && m->head.n_slices > 0) {
            conn->from = conn->x->transport->spreads ? i : 0;
            break;
        }
        (conn->x->again != NULL ? put_slice_again : put_slice)(conn, m, i);
        values += mark_sent(conn, i, brings(conn, i), m->bytes - before);
    }
    conn->ahead = 0;
    ps_codec_end_ahead();
    if (!conn->is_copy) {
        atomic_fetch_add(&conn->x->exchange.count.float32_up, values * sizeof(float));
    }
}

/* Requests the next weights if that is due (request_due: the clock's last contribution is
 * acknowledged) and the contribution is completely computed: each slice is ready or sent, and its
 * rows are ready. Weights that arrived earlier would overwrite what the rest of the contribution is
 * computed from. The acknowledgement can come before that: with redundancy, when another worker has
 * sent the same block. */
static void ask_if_due(ps_connection *conn)
{
    bool has_rows = conn->rows == NULL || conn->rows->is_ready;

    if (conn->request_due && conn->ready == conn->unsent && has_rows) {
        conn->request_due = false;
        ps_connection_request_slices(conn, conn->clock + 1);
    }
}

bool ps_connection_slices_put(ps_connection *conn, connection_message *m)
{
    if (conn->ready == 0) {
        return false;
    }
    if (conn->is_nothing) {
        put_nothing(conn);
    } else if (conn->ready == conn->unsent ||
               conn->ready_bytes >= conn->x->transport->batch_bytes ||
               conn->ready_bytes >= conn->message_bytes) {
        put_ready(conn, m);
    } else {
        return false;
    }
    return true;
}

/* Returns whether all slices and rows of the contribution were sent. */
static bool is_all_sent(const ps_connection *conn)
{
    return conn->unsent == 0 && (conn->rows == NULL || conn->rows->is_sent);
}

/* Adds the worker's report to the message if the part keeps reports (ps_wire_keeps_reports) and
 * this is the last message of the worker's last contribution to the clock. */
static void put_report(const ps_connection *conn, Psgd__V1__PushGradientRequest *head)
{
    const connection_exchange *x = conn->x;

    if (x->report != NULL && is_all_sent(conn) && conn->is_last &&
        ps_wire_keeps_reports(x->placement, conn->part)) {
        head->report = (ProtobufCBinaryData){.len = x->report->len, .data = x->report->data};
        head->report_is_partial = x->report_is_partial;
    }
}

/* Fails the gate and returns true if code of the job has failed. What it has encoded stands for
 * zeros then, and gradients of data that it has transformed are wrong. So nothing of it may be
 * sent: the job may go on with another node in place of this one. */
static bool fails_with_code(const ps_connection *conn)
{
    ps_status st = conn->x->plan->script_count > 0 ? ps_plan_code_failure(conn->x->plan) : ps_ok();

    if (!ps_is_ok(&st)) {
        ps_gate_fail(&conn->x->gate, &st);
    }
    return !ps_is_ok(&st);
}

/* Sends the next message of the contribution if slices or rows are ready. Returns whether it sent
 * one. */
static bool send_next(ps_connection *conn)
{
    connection_message m = {.head = PSGD__V1__PUSH_GRADIENT_REQUEST__INIT};
    Psgd__V1__WorkerIdentity identity;
    int64_t began_ns;
    bool is_any = false;

    for (size_t i = 0; i < PS_PIECE_GROUPS; i++) {
        is_any |= ps_connection_groups[i].put(conn, &m);
    }
    if (!is_any || fails_with_code(conn)) {
        return false;
    }
    if (conn->sent_bytes == 0) {
        conn->began_us = ps_clock_us();
    }
    conn->sent_bytes += m.bytes;
    m.head.worker = ps_connection_greet(&conn->push, &identity);
    m.head.attempt = conn->x->attempt.attempt;
    m.head.clock = conn->clock;
    m.head.block = conn->block;
    put_report(conn, &m.head);
    began_ns = ps_trace_begin();
    ps_link_send(conn->push.link, &m.head.base, conn->pieces, m.piece_count);
    ps_trace_end_of(PS_TRACE_SEND, began_ns, conn->part, conn->clock + 1);
    return true;
}

/* Returns whether an acknowledged contribution must still be sent to its end, because the part
 * keeps reports. That happens at a clock that is repeated after a loss. A server that has the
 * contribution from an earlier attempt acknowledges its first message, but the rank's report goes
 * with its last one. */
static bool owes_report(const ps_connection *conn)
{
    const connection_exchange *x = conn->x;

    return !is_all_sent(conn) && ps_connection_repeats(x, conn->clock) &&
           !ps_merge_may_overtake(x->plan) && ps_wire_keeps_reports(x->placement, conn->part);
}

/* Ends the contribution in hand if it is acknowledged and no report is owed (owes_report). */
static void end_if_over(ps_connection *conn)
{
    connection_exchange *x = conn->x;

    if (!conn->has_contribution || !conn->is_acked || owes_report(conn)) {
        return;
    }
    conn->has_contribution = false;
    if (x->transport->adapts) {
        conn->message_bytes = ps_connection_message_bytes(conn->message_bytes, conn->sent_bytes,
                                                          ps_clock_us() - conn->began_us);
    }
    conn->request_due = conn->is_last && (!x->asks_early || ps_connection_repeats(x, conn->clock));
    ask_if_due(conn);
    ps_gate_acked(&x->gate, conn->part);
}

void ps_connection_pump(ps_connection *conn)
{
    ask_if_due(conn);
    spread(conn);
    connection_trace(conn, conn->clock + 1);
    while (conn->has_contribution && ps_connection_can_send(&conn->push) && send_next(conn)) {
    }
    end_if_over(conn);
    connection_trace(conn, 0);
}

static void on_message(void *arg, const ProtobufCMessage *head, const ps_incoming *payload)
{
    ps_connection *conn = arg;
    const Psgd__V1__PushGradientResponse *ack = (const Psgd__V1__PushGradientResponse *)head;

    (void)payload;
    ps_redial_works(&conn->push.redial);
    ps_connection_count(conn);
    /* An acknowledgement of an earlier contribution answers a message that was sent twice; it is
     * ignored. */
    if (conn->has_contribution && ack->clock == conn->clock && ack->block == conn->block) {
        conn->is_acked = true;
        end_if_over(conn);
    }
    if (conn->push.link != NULL) {
        ps_link_read(conn->push.link);
    }
}

static void on_writable(void *arg)
{
    ps_connection_pump(arg);
}

static void on_end(void *arg, const ps_error *error)
{
    ps_connection *conn = arg;

    ps_connection_stream_ended(&conn->push, "PushGradient", error);
}

const ps_link_events ps_connection_push_events = {
    .on_message = on_message,
    .on_writable = on_writable,
    .on_end = on_end,
};
