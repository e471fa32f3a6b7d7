/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_push.c - see wire_server.h: contributions in, acknowledgements out. */
#include "common/wire/wire_server_impl.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/matrix.h"

_Static_assert((int)PS_MATRIX_BYTES_MAX <= (int)PS_PAYLOAD_MAX, "it is one encoding of a message");

/* Whose contribution it is. */
typedef struct contribution {
    ps_shard *shard;
    uint32_t rank, contributor;
    uint64_t clock;
} contribution;

static ps_status take_slice(void *arg, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                            size_t len)
{
    const contribution *c = arg;
    ps_shard_outcome outcome;

    return ps_shard_push(c->shard, c->rank, c->clock, c->contributor, head, bytes, len, &outcome);
}

/* Takes the slices of one message. On failure those before the bad one are in,
 * which a repetition does not mind. */
static ps_status take(ps_wire_server *s, const wire_worker *p,
                      const Psgd__V1__PushGradientRequest *req, uint32_t contributor,
                      ps_payload *payload)
{
    const ps_plan *plan = s->session->plan;
    size_t at = 0, len = ps_payload_len(payload);
    contribution c = {
        .shard = s->shard, .rank = p->rank, .contributor = contributor, .clock = req->clock};
    ps_status st = ps_ok();

    if (plan->update->per_block && req->block >= plan->assignment->block_count) {
        return ps_fail(PS_PERMISSION_DENIED, "block: %u of %u", req->block,
                       plan->assignment->block_count);
    }
    if (req->n_slices == 0 && len == 0) {
        return ps_shard_push_zeros(s->shard, p->rank, req->clock, contributor);
    }
    for (size_t i = 0; i < req->n_slices && ps_is_ok(&st); i++) {
        const Psgd__V1__Encoding *head = req->slices[i];

        if (head->payload_bytes > len - at || head->payload_bytes > sizeof s->scratch) {
            return ps_fail(PS_DATA_LOSS,
                           "slices[%zu].payload_bytes: %u, %zu bytes are left in the payload", i,
                           head->payload_bytes, len - at);
        }
        st = ps_matrix_push(plan, &s->session->placement, s->session->rank, head,
                            head->payload_bytes == 0
                                ? NULL
                                : ps_payload_view(payload, at, head->payload_bytes, s->scratch),
                            head->payload_bytes, take_slice, &c);
        at += head->payload_bytes;
    }
    if (ps_is_ok(&st) && at != len) {
        return ps_fail(PS_DATA_LOSS, "payload: %zu bytes that belong to no slice", len - at);
    }
    return st;
}

static void on_push(void *arg, const ProtobufCMessage *message, ps_payload *payload, ps_call *call);

static void on_ack_sent(void *arg, ps_call *call)
{
    wire_worker *p = arg;

    if (p->push == call) {
        ps_call_read(call, on_push, p);
    }
}

/* The fault: is this one of the acknowledgements that get lost? */
static bool is_dropped(wire_worker *p, uint64_t clock, uint32_t block)
{
    ps_wire_server *s = p->server;

    if (s->drop_ack == 0 || ++s->acks % s->drop_ack != 0 ||
        (p->has_dropped && p->dropped_clock == clock && p->dropped_block == block)) {
        return false;
    }
    p->has_dropped = true;
    p->dropped_clock = clock;
    p->dropped_block = block;
    return true;
}

static void acknowledge(wire_worker *p, uint64_t clock, uint32_t block)
{
    Psgd__V1__PushGradientResponse ack = PSGD__V1__PUSH_GRADIENT_RESPONSE__INIT;
    ps_wire_server *s = p->server;
    ps_call *call = p->push;

    if (is_dropped(p, clock, block)) {
        p->push = NULL;
        ps_log(PS_LOG_WARN, "streams", "fault: acknowledgement %llu dropped",
               (unsigned long long)s->acks);
        ps_call_fail(call, ps_fail(PS_UNAVAILABLE, "fault: acknowledgement dropped"));
        return;
    }
    p->has_acked = true;
    p->acked_clock = clock;
    p->acked_block = block;
    ack.clock = clock;
    ack.block = block;
    ps_traffic_count_out(&s->traffic, &ack.base, 0);
    ps_call_send(call, &ack.base, NULL, 0, on_ack_sent, p);
}

static void push_gone(void *arg, ps_call *call)
{
    wire_worker *p = arg;

    if (p->push == call) {
        p->push = NULL;
    }
}

static void on_push(void *arg, const ProtobufCMessage *message, ps_payload *payload, ps_call *call)
{
    const Psgd__V1__PushGradientRequest *req = (const Psgd__V1__PushGradientRequest *)message;
    wire_worker *p = arg;
    ps_wire_server *s = p->server;
    uint32_t contributor;
    bool may_complete;
    ps_status st;

    if (req == NULL) { /* the worker is done */
        p->push = NULL;
        ps_call_finish(call);
        return;
    }
    ps_traffic_count_in(&s->traffic, message, ps_payload_len(payload));
    if (!ps_wire_server_check_attempt(s, call, req->attempt)) {
        p->push = NULL;
        return;
    }
    contributor = s->session->plan->update->per_block ? req->block : p->rank;
    may_complete = req->clock + 1 >= s->session->plan->total_clocks;
    ps_shard_tick(s->shard, ps_clock_us());
    st = take(s, p, req, contributor, payload);
    if (!ps_is_ok(&st)) {
        p->push = NULL;
        ps_identity_refuse(call, ps_wire_server_reason(&st), st);
        ps_wire_server_pump(s); /* slices before the bad one are in */
        return;
    }
    if (ps_shard_is_in(s->shard, req->clock, contributor) &&
        !(p->has_acked && p->acked_clock == req->clock && p->acked_block == req->block)) {
        acknowledge(p, req->clock, req->block);
    } else {
        ps_call_read(call, on_push, p); /* the message is gone now */
    }
    ps_wire_server_pump(s);
    if (may_complete || s->session->plan->policy->closes_at != NULL) {
        ps_wire_server_changed(s);
    }
}

void ps_wire_server_handle_push(void *service, const ProtobufCMessage *request, ps_payload *payload,
                                ps_call *call)
{
    const Psgd__V1__PushGradientRequest *req = (const Psgd__V1__PushGradientRequest *)request;
    ps_wire_server *s = service;
    wire_worker *p = ps_wire_server_identify(s, call, req->worker, req->attempt);

    if (p == NULL) {
        return;
    }
    ps_identity_replace(&p->push);
    p->push = call;
    p->has_acked = false;
    ps_call_on_gone(call, push_gone, p);
    on_push(p, request, payload, call);
}
