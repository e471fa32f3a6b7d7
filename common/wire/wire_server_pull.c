/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_pull.c - see wire_server.h: requests in, weights and rows out. */
#include "common/wire/wire_server_impl.h"

/* One more slice that is as it was, at the end of the ranges; how many numbers they are. */
static size_t add_same(uint32_t *same, size_t n, uint32_t slice)
{
    if (n > 0 && same[n - 2] + same[n - 1] == slice) {
        same[n - 1]++;
        return n;
    }
    same[n] = slice;
    same[n + 1] = 1;
    return n + 2;
}

/* Sends the next slices that may be had, if there are any. */
static void give_slices(wire_worker *w)
{
    Psgd__V1__PullWeightsResponse head = PSGD__V1__PULL_WEIGHTS_RESPONSE__INIT;
    ps_wire_server *s = w->server;
    ps_shard_answer answer;
    size_t pieces = 0, heads = 0, same = 0;

    ps_shard_pull_next(s->shard, w->rank, PS_PAYLOAD_MAX, s->pieces, WIRE_SERVER_BATCH, &answer);
    if (answer.count == 0 && !answer.is_last) {
        return;
    }
    for (size_t i = 0; i < answer.count; i++) {
        const ps_shard_piece *from = &s->pieces[i];

        if (from->len == 0 && from->head->others_stay) {
            same = add_same(s->same, same, from->head->slice);
            continue;
        }
        s->heads[heads] = (Psgd__V1__Encoding *)from->head;
        s->checksums[heads++] = from->checksum;
        if (from->len > 0) {
            s->out[pieces++] =
                (ps_piece){.data = from->buf->data + from->at, .len = from->len, .buf = from->buf};
        }
    }
    head.clock = answer.clock;
    head.version = answer.version;
    head.slices = s->heads;
    head.n_slices = heads;
    head.same = s->same;
    head.n_same = same;
    if (s->plan->update->broadcasts) {
        head.is_change = answer.is_change;
        head.checksums = s->checksums;
        head.n_checksums = heads;
    }
    ps_traffic_count_out(&s->traffic, &head.base, answer.bytes);
    ps_link_send(w->pull, &head.base, s->out, pieces);
}

/* Rows first: they are few bytes, and somebody waits for nothing else. */
void ps_wire_server_pump_one(wire_worker *w)
{
    if (w->pull != NULL && ps_link_can_send(w->pull) && !ps_wire_server_give_rows(w) &&
        w->pull != NULL) {
        give_slices(w);
    }
}

void ps_wire_server_pump(ps_wire_server *s)
{
    for (uint32_t i = 0; i < s->worker_count; i++) {
        ps_wire_server_pump_one(&s->workers[i]);
    }
}

/* Forgets what the worker has asked for. */
static void cancel(wire_worker *w)
{
    w->wants_rows = false;
    ps_shard_pull_cancel(w->server->shard, w->rank);
}

static ps_refusal begin(wire_worker *w, const Psgd__V1__PullWeightsRequest *req)
{
    ps_wire_server *s = w->server;
    ps_refusal r = ps_identity_check_attempt(wire_server_held(s), req->attempt);
    ps_status st;

    if (r.reason != NULL) {
        return r;
    }
    if (req->n_keys > 0) {
        return ps_wire_server_want_rows(w, req);
    }
    st = ps_shard_pull_begin(s->shard, w->rank, req->clock);
    if (!ps_is_ok(&st)) {
        return ps_wire_server_refusal(st);
    }
    if (req->whole) {
        ps_shard_pull_whole(s->shard, w->rank);
    }
    return r;
}

static void on_message(void *arg, const ProtobufCMessage *message, const ps_incoming *payload)
{
    const Psgd__V1__PullWeightsRequest *req = (const Psgd__V1__PullWeightsRequest *)message;
    wire_worker *w = arg;
    ps_wire_server *s = w->server;
    ps_refusal r;

    (void)payload;
    if (req == NULL) { /* the worker is done */
        ps_wire_link *link = w->pull;

        w->pull = NULL;
        cancel(w);
        ps_link_finish(link);
        return;
    }
    ps_traffic_count_in(&s->traffic, message, 0);
    r = begin(w, req);
    if (!ps_wire_server_allows(&w->pull, &r)) {
        cancel(w);
        return;
    }
    ps_link_read(w->pull);
    if (s->plan->policy->leaves_behind) { /* a request may close what waited for it */
        ps_wire_server_pump(s);
        ps_wire_server_changed(s);
    } else {
        ps_wire_server_pump_one(w);
    }
    if (w->pull != NULL && ps_link_can_send(w->pull) &&
        (w->wants_rows || ps_shard_is_waiting(s->shard, w->rank))) {
        s->waits++; /* nothing more to send, yet not whole */
    }
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
    cancel(w);
}

const ps_link_events ps_wire_server_pull_events = {
    .on_message = on_message,
    .on_writable = on_writable,
    .on_end = on_end,
};
