/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_pull.c - see wire_server.h: wishes in, weights out. */
#include "common/wire/wire_server_impl.h"

static void pump(wire_worker *p);

static void on_answer_sent(void *arg, ps_call *call)
{
    (void)call;
    pump(arg);
}

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

/* Sends the next message of a pull's answer if there is one and room for it. */
static void pump(wire_worker *p)
{
    Psgd__V1__PullWeightsResponse head = PSGD__V1__PULL_WEIGHTS_RESPONSE__INIT;
    ps_wire_server *s = p->server;
    ps_shard_answer answer;
    size_t pieces = 0, heads = 0, same = 0;

    if (p->pull == NULL || !ps_call_can_send(p->pull)) {
        return;
    }
    ps_shard_pull_next(s->shard, p->rank, PS_PAYLOAD_MAX, s->pieces, WIRE_SERVER_BATCH, &answer);
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
    if (s->session->plan->update->broadcasts) {
        head.is_change = answer.is_change;
        head.checksums = s->checksums;
        head.n_checksums = heads;
    }
    ps_traffic_count_out(&s->traffic, &head.base, answer.bytes);
    ps_call_send(p->pull, &head.base, s->out, pieces, on_answer_sent, p);
}

void ps_wire_server_pump(ps_wire_server *s)
{
    for (uint32_t i = 0; i < s->worker_count; i++) {
        pump(&s->workers[i]);
    }
}

static void pull_gone(void *arg, ps_call *call)
{
    wire_worker *p = arg;

    if (p->pull == call) {
        p->pull = NULL;
        ps_shard_pull_cancel(p->server->shard, p->rank);
    }
}

static void on_pull(void *arg, const ProtobufCMessage *message, ps_payload *payload, ps_call *call)
{
    const Psgd__V1__PullWeightsRequest *req = (const Psgd__V1__PullWeightsRequest *)message;
    wire_worker *p = arg;
    ps_wire_server *s = p->server;
    ps_status st;

    (void)payload;
    if (req == NULL) { /* the worker is done */
        p->pull = NULL;
        ps_shard_pull_cancel(s->shard, p->rank);
        ps_call_finish(call);
        return;
    }
    ps_traffic_count_in(&s->traffic, message, 0);
    if (!ps_wire_server_check_attempt(s, call, req->attempt)) {
        p->pull = NULL;
        return;
    }
    st = ps_shard_pull_begin(s->shard, p->rank, req->clock);
    if (!ps_is_ok(&st)) {
        p->pull = NULL;
        ps_shard_pull_cancel(s->shard, p->rank);
        ps_identity_refuse(call, ps_wire_server_reason(&st), st);
        return;
    }
    if (req->whole) {
        ps_shard_pull_whole(s->shard, p->rank);
    }
    ps_call_read(call, on_pull, p);
    if (s->session->plan->policy->leaves_behind) { /* a wish may close what waited for it */
        ps_wire_server_pump(s);
        ps_wire_server_changed(s);
    } else {
        pump(p);
    }
    if (ps_shard_is_waiting(s->shard, p->rank) && ps_call_can_send(call)) {
        s->waits++; /* nothing more to send, yet not whole */
    }
}

void ps_wire_server_handle_pull(void *service, const ProtobufCMessage *request, ps_payload *payload,
                                ps_call *call)
{
    const Psgd__V1__PullWeightsRequest *req = (const Psgd__V1__PullWeightsRequest *)request;
    ps_wire_server *s = service;
    wire_worker *p = ps_wire_server_identify(s, call, req->worker, req->attempt);

    if (p == NULL) {
        return;
    }
    ps_identity_replace(&p->pull);
    ps_shard_pull_cancel(s->shard, p->rank);
    p->pull = call;
    ps_call_on_gone(call, pull_gone, p);
    on_pull(p, request, payload, call);
}
