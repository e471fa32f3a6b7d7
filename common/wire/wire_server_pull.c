/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_pull.c - see wire_server.h: receives requests, sends weights and rows. */
#include "common/wire/wire_server_impl.h"

#include "common/train/merge.h"

/* Most bytes of slices in an answer that also has rows: one slice as float32. The worker waits for
 * the rows first, so such an answer should be short. */
enum { BESIDE_ROWS = PS_SLICE_VALUES * sizeof(float) };

/* Takes from a part the next slices that the worker may have and that fit into the answer; beside
 * rows, only slices of the rows' clock. If parts are shared, takes references to their bytes.
 * Returns false if there are none, or if another thread has locked the part and w->is_thorough is
 * false. */
static bool take_slices(wire_worker *w, ps_wire_part *part, const wire_answer *a,
                        ps_store_answer *given)
{
    wire_scratch *x = w->scratch;
    bool is_shared = w->server->parts->is_shared;
    size_t room = a->rows != NULL ? BESIDE_ROWS : PS_PAYLOAD_MAX;

    *given = (ps_store_answer){0};
    if (a->bytes + room > PS_PAYLOAD_MAX || !ps_wire_server_enter(w, part)) {
        return false;
    }
    if (a->rows == NULL || ps_store_pull_clock(part->store, w->rank) == a->head.clock) {
        ps_store_pull_next(part->store, w->rank, room, x->pieces, WIRE_SERVER_BATCH, given);
    }
    for (size_t i = 0; i < given->count && is_shared; i++) {
        ps_encoding_copy(&x->copies[i], x->pieces[i].head);
        x->pieces[i].head = &x->copies[i].msg;
        (void)ps_buf_ref(x->pieces[i].buf);
    }
    ps_wire_server_leave(w, part);
    return given->count > 0;
}

/* Adds the slices that take_slices has taken, at least one, to the answer. */
static void put_slices(wire_worker *w, wire_answer *a, const ps_store_answer *given)
{
    Psgd__V1__PullWeightsResponse *head = &a->head;
    wire_scratch *x = w->scratch;

    for (size_t i = 0; i < given->count; i++) {
        const ps_store_piece *from = &x->pieces[i];

        x->heads[i] = (Psgd__V1__Encoding *)from->head;
        x->checksums[i] = from->checksum;
        if (from->len > 0) {
            x->out[a->piece_count++] =
                (ps_piece){.data = from->buf->data + from->at, .len = from->len, .buf = from->buf};
        }
    }
    head->clock = given->clock;
    head->version =
        a->rows != NULL && head->version < given->version ? head->version : given->version;
    head->slices = x->heads;
    head->n_slices = given->count;
    if (w->server->plan->update->broadcasts) { /* workers have replicas (common/store/replica.h) */
        head->is_change = given->is_change;
        head->checksums = x->checksums;
        head->n_checksums = given->count;
    }
    a->bytes += given->bytes;
}

bool ps_wire_server_give_slices(wire_worker *w, wire_answer *a)
{
    ps_wire_parts *parts = w->server->parts;
    ps_store_answer given;

    for (uint32_t i = 0; i < parts->count; i++) {
        if (take_slices(w, &parts->part[w->next_part], a, &given)) {
            put_slices(w, a, &given);
            return true;
        }
        w->next_part = (w->next_part + 1) % parts->count;
    }
    return false;
}

/* Returns whether the worker has an open pull in some part. */
static bool has_open_pull(const wire_worker *w)
{
    const ps_wire_parts *parts = w->server->parts;
    bool has = false;

    for (uint32_t i = 0; i < parts->count && !has; i++) {
        has = ps_store_is_waiting(parts->part[i].store, w->rank);
    }
    return has;
}

/* Returns whether the worker may send a request before its last one is answered. */
static bool may_ask_ahead(const wire_worker *w)
{
    return w->server->parts->is_shared || ps_merge_rows_are_asked_for(w->server->plan);
}

/* Drops the references to buffers that the answer holds. */
static void drop_answer(wire_worker *w, wire_answer *a)
{
    for (size_t i = 0; i < a->head.n_slices && w->server->parts->is_shared; i++) {
        ps_buf_unref(w->scratch->pieces[i].buf);
    }
    ps_buf_unref(a->rows);
}

/* Returns whether the answer may be sent. If code of the job has failed, the answer may be encoded
 * by it; then refuses the pull, which ends the job, and returns false. */
static bool may_send(wire_worker *w)
{
    const ps_plan *plan = w->server->plan;
    ps_refusal r;

    if (plan->script_count == 0) {
        return true;
    }
    r = ps_wire_server_check_code(w->server);
    if (!ps_wire_server_allows(&w->pull, &r)) {
        ps_wire_server_cancel(w);
        return false;
    }
    return true;
}

/* Sends the answer. If it completes the request and no read is in flight, also begins to read the
 * next request. If parts are shared, links need no read. */
static void send_answer(wire_worker *w, wire_answer *a)
{
    bool is_shared = w->server->parts->is_shared;
    wire_scratch *x = w->scratch;
    size_t pieces = a->piece_count;

    if (a->rows != NULL && a->rows->len > 0) {
        x->out[pieces++] = (ps_piece){.data = a->rows->data, .len = a->rows->len, .buf = a->rows};
    }
    if (w->is_reading || is_shared || has_open_pull(w)) {
        ps_link_send(w->pull, &a->head.base, x->out, pieces);
    } else {
        w->is_reading = true;
        ps_link_send_and_read(w->pull, &a->head.base, x->out, pieces);
    }
}

/* Sends the worker's next answer, if its link can send and something is ready. */
static bool give(wire_worker *w)
{
    wire_answer a = {.head = PSGD__V1__PULL_WEIGHTS_RESPONSE__INIT};
    int64_t began_ns;
    bool is_any = false;

    if (w->pull == NULL || !ps_link_can_send(w->pull)) {
        return false;
    }
    wire_server_trace(w->server, ps_store_pull_clock(w->server->parts->part[0].store, w->rank));
    began_ns = ps_trace_begin();
    for (size_t i = PS_PIECE_GROUPS; i-- > 0;) {
        is_any |= ps_wire_server_groups[i].give(w, &a);
    }
    is_any = is_any && may_send(w);
    if (is_any) {
        send_answer(w, &a);
        ps_trace_end(PS_TRACE_SERVE, began_ns, w->rank, NULL);
    }
    drop_answer(w, &a);
    wire_server_trace(w->server, 0);
    return is_any;
}

void ps_wire_server_pump_one(wire_worker *w)
{
    (void)give(w);
}

int64_t ps_wire_server_poll(ps_wire_server *s, uint32_t worker, bool is_thorough)
{
    wire_worker *w = &s->workers[worker];

    w->again_us = INT64_MAX;
    w->is_thorough = is_thorough;
    while (give(w)) {
    }
    w->is_thorough = true;
    return w->again_us;
}

void ps_wire_server_pump(ps_wire_server *s)
{
    for (uint32_t i = 0; i < s->worker_count; i++) {
        ps_wire_server_pump_one(&s->workers[i]);
    }
}

ps_refusal ps_wire_server_want_slices(wire_worker *w, const Psgd__V1__PullWeightsRequest *req)
{
    const ps_wire_parts *parts = w->server->parts;
    ps_status st;

    for (uint32_t i = 0; i < parts->count; i++) {
        ps_wire_part *part = &parts->part[i];

        ps_wire_part_lock(parts, part);
        st = ps_store_pull_begin(part->store, w->rank, req->clock);
        if (ps_is_ok(&st) && req->whole) {
            ps_store_pull_whole(part->store, w->rank);
        }
        ps_wire_part_unlock(parts, part);
        if (!ps_is_ok(&st)) {
            return ps_wire_server_refusal(st);
        }
    }
    return (ps_refusal){0};
}

/* Returns whether the worker has an open pull that waits for something else than the stream. Always
 * false if parts are shared. */
static bool is_waiting(const wire_worker *w)
{
    return !w->server->parts->is_shared && w->pull != NULL && ps_link_can_send(w->pull) &&
           has_open_pull(w);
}

static void on_message(void *arg, const ProtobufCMessage *message, const ps_incoming *payload)
{
    const Psgd__V1__PullWeightsRequest *req = (const Psgd__V1__PullWeightsRequest *)message;
    wire_worker *w = arg;
    ps_wire_server *s = w->server;
    ps_refusal r;

    (void)payload;
    if (req == NULL) { /* the worker has ended the stream */
        ps_wire_link *link = w->pull;

        w->pull = NULL;
        ps_wire_server_cancel(w);
        ps_link_finish(link);
        return;
    }
    r = ps_identity_check_attempt(wire_server_held(s), req->attempt);
    if (r.reason == NULL) {
        /* a request can close a sum; the step on it is then traced */
        wire_server_trace(s, req->clock);
        r = ps_wire_server_groups[req->n_keys > 0 ? PS_PIECE_ROWS : PS_PIECE_SLICES].want(w, req);
        wire_server_trace(s, 0);
    }
    if (!ps_wire_server_allows(&w->pull, &r)) {
        ps_wire_server_cancel(w);
        return;
    }
    w->is_reading = may_ask_ahead(w);
    if (w->is_reading) {
        ps_link_read(w->pull);
    }
    /* Under a policy with leaves_behind a request can close a sum whose weights other workers wait
     * for. */
    if (s->plan->policy->leaves_behind) {
        w->has_news = true;
        ps_wire_server_tell(w);
        ps_wire_server_changed(s);
    } else {
        ps_wire_server_pump_one(w);
    }
    w->waits += is_waiting(w); /* the pull waits for other workers */
}

static void on_writable(void *arg)
{
    ps_wire_server_pump_one(arg);
}

static void on_end(void *arg, const ps_error *error)
{
    wire_worker *w = arg;

    (void)error;
    w->pull = NULL;
    ps_wire_server_cancel(w);
}

const ps_link_events ps_wire_server_pull_events = {
    .on_message = on_message,
    .on_writable = on_writable,
    .on_end = on_end,
};
