/* SPDX-License-Identifier: Apache-2.0 */
/* connection_pull.c - the pull stream of a connection: sends requests, receives weights. */
#include "common/wire/connection_impl.h"

#include "common/base/log.h"
#include "common/train/merge.h"

#include <string.h>

bool ps_connection_slices_ask(ps_connection *conn, Psgd__V1__PullWeightsRequest *req)
{
    if (!conn->request_open || conn->request_sent) {
        return false;
    }
    req->clock = conn->requested;
    req->whole = conn->request_whole;
    conn->request_bad = 0;
    conn->request_sent = true;
    return true;
}

/* Returns whether the connection pulls rows by key. It may then send a request before the last one
 * is answered. */
static bool asks_by_key(const ps_connection *conn)
{
    return conn->rows != NULL && !conn->rows->way->come_with_weights;
}

void ps_connection_ask(ps_connection *conn)
{
    Psgd__V1__PullWeightsRequest req = PSGD__V1__PULL_WEIGHTS_REQUEST__INIT;
    Psgd__V1__WorkerIdentity identity;
    bool is_any = false;

    for (size_t i = PS_PIECE_GROUPS; i-- > 0 && !is_any && ps_connection_can_send(&conn->pull);) {
        is_any = ps_connection_groups[i].ask(conn, &req);
    }
    if (is_any) {
        req.worker = ps_connection_greet(&conn->pull, &identity);
        req.attempt = conn->x->attempt.attempt;
        if (conn->is_reading || asks_by_key(conn)) {
            ps_link_send(conn->pull.link, &req.base, NULL, 0);
        } else {
            conn->is_reading = true;
            ps_link_send_and_read(conn->pull.link, &req.base, NULL, 0);
        }
    }
}

void ps_connection_read(ps_connection *conn)
{
    bool is_asked = conn->request_open && conn->request_sent;

    if (!conn->is_reading && (is_asked || asks_by_key(conn))) {
        conn->is_reading = true;
        ps_link_read(conn->pull.link);
    }
}

/* Opens a request for all slices of clock conn->requested, and sends it if the stream can send.
 * is_whole: asks for the weights even if the server sends changes. */
static void open_request(ps_connection *conn, bool is_whole)
{
    conn->request_open = true;
    conn->request_sent = false;
    conn->request_whole = is_whole;
    ps_connection_expect(conn);
    ps_connection_ask(conn);
}

void ps_connection_expect(ps_connection *conn)
{
    conn->request_left = conn->owned_count;
    conn->request_rows = conn->rows != NULL && conn->rows->way->come_with_weights;
}

void ps_connection_request_slices(ps_connection *conn, uint64_t clock)
{
    bool is_any =
        conn->owned_count > 0 || (conn->rows != NULL && conn->rows->way->come_with_weights);

    if (!is_any || conn->is_copy || clock > conn->x->plan->total_clocks) {
        return; /* the part has no weights for workers, or the job ends before this clock */
    }
    conn->requested = clock;
    open_request(conn, false);
}

/* Requests all slices of the same clock again, as weights, because the replica differs from the
 * server's weights in some of them. */
static void resync(ps_connection *conn)
{
    atomic_fetch_add(&conn->x->exchange.count.resyncs, 1);
    ps_log(PS_LOG_WARN, "wire",
           "clock %llu: %u slices of the replica are not what %s has; asking for the weights",
           (unsigned long long)conn->requested, conn->request_bad, ps_connection_server(conn));
    open_request(conn, true);
}

/* Decodes slice i of an answer into the worker's weights. Its bytes begin at `at` of the
 * payload. */
static ps_status apply_weights(ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                               size_t i, const ps_incoming *payload, size_t at, bool *is_new)
{
    const connection_exchange *x = conn->x;
    const Psgd__V1__Encoding *head = reply->slices[i];
    const ps_slice *slice = &x->layout->slices[head->slice];
    uint8_t scratch[PS_SLICE_VALUES * sizeof(float)];
    float *to = x->weights + slice->at;
    /* A plain slice is copied only once, from the message into the weights. */
    const uint8_t *from =
        ps_incoming_view(payload, at, head->payload_bytes,
                         ps_coder_brings_plain(x->plan, head, head->slice) ? (void *)to : scratch);
    ps_status st = ps_coder_decode(x->plan, head, head->slice, from, to);

    *is_new = ps_is_ok(&st);
    return st;
}

/* Checks slice i of an answer, and writes its weights or applies its change to the replica. *is_new
 * becomes whether the slice now has the weights of conn->requested and did not have them before. It
 * is false if the slice had arrived already, or if the replica is not the server's weights. */
static ps_status take_slice(ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                            size_t i, const ps_incoming *payload, size_t at, bool *is_new)
{
    const connection_exchange *x = conn->x;
    const Psgd__V1__Encoding *head = reply->slices[i];
    uint32_t position;
    ps_status st;

    *is_new = false;
    if (head->slice >= x->layout->slice_count || x->placement->part_of[head->slice] != conn->part ||
        x->position[head->slice] == CONNECTION_NO_POSITION) {
        return ps_fail(PS_DATA_LOSS, "slice %u is not of this server", head->slice);
    }
    if (head->payload_bytes > PS_SLICE_VALUES * sizeof(float) ||
        head->payload_bytes > payload->len - at) {
        return ps_fail(PS_DATA_LOSS, "slice %u: %u bytes are not in the message", head->slice,
                       head->payload_bytes);
    }
    position = x->position[head->slice];
    if (conn->got[position] >= conn->requested) {
        return ps_ok(); /* the slice had arrived before; training may be using its weights */
    }
    st = (x->plan->update->broadcasts ? ps_connection_apply_replica
                                      : apply_weights)(conn, reply, i, payload, at, is_new);
    if (*is_new) {
        conn->got[position] = conn->requested;
        atomic_fetch_add(&conn->x->exchange.count.float32_down,
                         x->layout->slices[head->slice].n * sizeof(float));
    }
    return st;
}

/* Tells the gate which slices an answer has delivered; `version` is the version of their weights.
 * If the request is complete and the exchange asks early (asks_early), requests the weights of the
 * next clock, unless conn->requested may be repeated (ps_connection_repeats). If all slices have
 * arrived but some could not be applied to the replica, requests all of them again. */
static void took(ps_connection *conn, uint64_t version)
{
    connection_exchange *x = conn->x;

    conn->request_open = conn->request_left > 0 || conn->request_rows || conn->request_bad > 0;
    if (ps_merge_may_overtake(x->plan)) {
        ps_gate_overtake(&x->gate, conn->requested, version);
    }
    ps_gate_delivered(&x->gate, conn->part, conn->fresh, conn->fresh_count, conn->requested,
                      !conn->request_open);
    if (!conn->request_open && x->asks_early && !ps_connection_repeats(x, conn->requested)) {
        ps_connection_request_slices(conn, conn->requested + 1);
    } else if (conn->request_left == 0 && !conn->request_rows && conn->request_bad > 0) {
        resync(conn);
    }
}

/* Lets a script's codec decode the slices of an answer together, from number i on, as many as it
 * can. Returns how many these are. */
static size_t decode_ahead(const ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                           size_t i, const ps_incoming *payload, size_t at)
{
    uint8_t scratch[PS_SLICE_VALUES * sizeof(float)];

    return ps_coder_decode_ahead(conn->x->layout, reply->slices + i, reply->n_slices - i, payload,
                                 at, scratch, sizeof scratch);
}

ps_status ps_connection_slices_take(ps_connection *conn, const Psgd__V1__PullWeightsResponse *reply,
                                    const ps_incoming *payload, size_t *at)
{
    size_t ahead = 0;
    ps_status st;

    if (reply->n_slices == 0) {
        return ps_ok();
    }
    if (!conn->request_open || reply->clock != conn->requested ||
        reply->n_slices > CONNECTION_BATCH || reply->n_slices > conn->request_left) {
        return ps_fail(PS_DATA_LOSS,
                       "an answer for clock %llu with %zu slices, asked for clock %llu of %u",
                       (unsigned long long)reply->clock, reply->n_slices,
                       (unsigned long long)conn->requested, conn->request_left);
    }
    for (size_t i = 0; i < reply->n_slices; i++) {
        bool is_new;

        if (ahead == 0 && reply->slices[i]->codec_case == PSGD__V1__ENCODING__CODEC_SCRIPT) {
            ahead = decode_ahead(conn, reply, i, payload, *at);
        }
        ahead -= ahead > 0;
        st = take_slice(conn, reply, i, payload, *at, &is_new);
        if (!ps_is_ok(&st)) {
            ps_codec_end_ahead();
            return st;
        }
        *at += reply->slices[i]->payload_bytes;
        if (is_new) {
            conn->fresh[conn->fresh_count++] = reply->slices[i]->slice;
        }
    }
    ps_codec_end_ahead();
    conn->request_left -= (uint32_t)reply->n_slices;
    conn->has_weights = true;
    return ps_ok();
}

static void on_message(void *arg, const ProtobufCMessage *head, const ps_incoming *payload)
{
    ps_connection *conn = arg;
    const Psgd__V1__PullWeightsResponse *reply = (const Psgd__V1__PullWeightsResponse *)head;
    const char *what = NULL;
    ps_status st = ps_ok();
    size_t at = 0;
    int64_t began_ns;

    connection_trace(conn, reply->clock);
    began_ns = ps_trace_begin();
    conn->is_reading = false;
    ps_redial_works(&conn->pull.redial);
    ps_connection_count(conn);
    conn->fresh_count = 0;
    conn->has_weights = false;
    for (size_t i = 0; i < PS_PIECE_GROUPS && ps_is_ok(&st); i++) {
        what = ps_connection_groups[i].name;
        st = ps_connection_groups[i].take(conn, reply, payload, &at);
    }
    if (ps_is_ok(&st) && at != payload->len) {
        what = "an answer";
        st = ps_fail(PS_DATA_LOSS, "payload: %zu bytes that belong to no slice", payload->len - at);
    }
    ps_trace_end_of(PS_TRACE_TAKE, began_ns, conn->part, reply->clock);
    connection_trace(conn, 0);
    if (!ps_is_ok(&st)) {
        ps_connection_refuse(conn, what, st);
        return;
    }
    if (conn->has_weights) {
        took(conn, reply->version);
    }
    ps_connection_ask(conn);
    ps_connection_read(conn);
}

static void on_writable(void *arg)
{
    ps_connection_ask(arg);
}

static void on_end(void *arg, const ps_error *error)
{
    ps_connection *conn = arg;

    ps_connection_stream_ended(&conn->pull, "PullWeights", error);
}

const ps_link_events ps_connection_pull_events = {
    .on_message = on_message,
    .on_writable = on_writable,
    .on_end = on_end,
};
