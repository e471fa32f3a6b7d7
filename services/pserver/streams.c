/* SPDX-License-Identifier: Apache-2.0 */
/* streams.c - see streams.h. */
#include "services/pserver/streams.h"

#include "common/base/log.h"
#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 256,          /* most slices in an answer */
    HEAD_BYTES = 64 << 10 /* most bytes of a message beside its payload of at most 1 MiB */
};

/* What a server keeps of one worker. */
typedef struct peer {
    ps_streams *streams;
    uint32_t rank;
    uint64_t incarnation; /* youngest seen */
    ps_call *push, *pull; /* NULL: none open */
    bool has_acked;       /* on this push stream */
    uint64_t acked_clock;
    uint32_t acked_block;
    bool has_dropped; /* the fault: this acknowledgement */
    uint64_t dropped_clock;
    uint32_t dropped_block;
} peer;

struct ps_streams {
    const ps_session *session; /* NULL: closed */
    ps_shard *shard;
    uint32_t peer_count;
    peer *peers;
    uint64_t drop_ack, acks;
    void (*complete)(void *arg);
    void *complete_arg;
    bool is_complete; /* complete was called */
    ps_traffic traffic;
    uint64_t waits;
    uint8_t scratch[PS_CODEC_VALUES * 8];
    ps_shard_piece pieces[BATCH];
    ps_piece out[BATCH];
    Psgd__V1__Encoding *heads[BATCH];
};

ps_streams *ps_streams_create(uint64_t drop_ack, void (*complete)(void *arg), void *arg)
{
    ps_streams *s = ps_xcalloc(1, sizeof *s);

    s->drop_ack = drop_ack;
    s->complete = complete;
    s->complete_arg = arg;
    return s;
}

void ps_streams_destroy(ps_streams *s)
{
    free(s);
}

ps_traffic ps_streams_traffic(const ps_streams *s)
{
    return s->traffic;
}

uint64_t ps_streams_waits(const ps_streams *s)
{
    return s->waits;
}

/* Bytes of a message as gRPC carries it: its prefix, the head, and the payload
 * behind a tag and a length. */
static size_t message_bytes(const ProtobufCMessage *head, size_t payload)
{
    size_t bytes = 5 + protobuf_c_message_get_packed_size(head) + payload;

    for (size_t left = payload; left > 0; left >>= 7) {
        bytes++;
    }
    return payload > 0 ? bytes + 1 : bytes;
}

static void count_in(ps_streams *s, const ProtobufCMessage *head, const ps_payload *payload)
{
    s->traffic.messages_in++;
    s->traffic.bytes_in += message_bytes(head, ps_payload_len(payload));
}

static void count_out(ps_streams *s, const ProtobufCMessage *head, size_t payload)
{
    s->traffic.messages_out++;
    s->traffic.bytes_out += message_bytes(head, payload);
}

/* --- who speaks ------------------------------------------------------------ */

static const char *reason_of(const ps_status *st)
{
    switch (st->code) {
    case PS_OUT_OF_RANGE:
        return "WRONG_CLOCK";
    case PS_PERMISSION_DENIED:
        return "NOT_HELD";
    case PS_INVALID_ARGUMENT:
    case PS_DATA_LOSS:
        return "BAD_SLICE";
    default:
        return NULL;
    }
}

static void refuse(ps_call *call, const char *reason, ps_status why)
{
    ps_error error;

    ps_error_init(&error, why, reason);
    ps_call_fail_error(call, &error);
}

static bool check_attempt(const ps_streams *s, ps_call *call, uint32_t attempt)
{
    if (s->session == NULL) {
        refuse(call, "NO_JOB", ps_fail(PS_FAILED_PRECONDITION, "this server holds no job"));
        return false;
    }
    if (attempt != s->session->attempt) {
        refuse(call, "WRONG_ATTEMPT",
               ps_fail(PS_ABORTED, "attempt %u of %s; this server holds attempt %u", attempt,
                       s->session->job_id, s->session->attempt));
        return false;
    }
    return true;
}

/* The peer that opens a stream, or NULL with the call failed. */
static peer *identify(ps_streams *s, ps_call *call, const Psgd__V1__WorkerIdentity *who,
                      uint32_t attempt)
{
    peer *p;

    if (who == NULL) {
        refuse(call, "NO_IDENTITY",
               ps_fail(PS_INVALID_ARGUMENT, "worker: missing in the first message of the stream"));
        return NULL;
    }
    if (s->session != NULL && strcmp(who->job_id, s->session->job_id) != 0) {
        refuse(call, "WRONG_JOB",
               ps_fail(PS_FAILED_PRECONDITION, "worker.job_id: this server holds %s",
                       s->session->job_id));
        return NULL;
    }
    if (!check_attempt(s, call, attempt)) {
        return NULL;
    }
    if (who->layout_hash != s->session->plan->layout.hash) {
        refuse(call, "WRONG_MODEL",
               ps_fail(PS_FAILED_PRECONDITION,
                       "worker.layout_hash: %016llx; this server holds a model of %016llx",
                       (unsigned long long)who->layout_hash,
                       (unsigned long long)s->session->plan->layout.hash));
        return NULL;
    }
    if (who->rank >= s->peer_count) {
        refuse(call, "WRONG_RANK",
               ps_fail(PS_INVALID_ARGUMENT, "worker.rank: %u of %u workers", who->rank,
                       s->peer_count));
        return NULL;
    }
    p = &s->peers[who->rank];
    if (who->incarnation < p->incarnation) {
        refuse(
            call, "OLD_INCARNATION",
            ps_fail(PS_ABORTED, "worker.incarnation: a younger process is worker %u", who->rank));
        return NULL;
    }
    p->incarnation = who->incarnation;
    return p;
}

/* A stream that a newer one replaces. */
static void replace(ps_call **slot)
{
    ps_call *old = *slot;

    *slot = NULL;
    if (old != NULL) {
        refuse(old, "REPLACED", ps_fail(PS_ABORTED, "the worker has opened a newer stream"));
    }
}

/* --- pull ------------------------------------------------------------------ */

static void pump(peer *p);

static void on_answer_sent(void *arg, ps_call *call)
{
    (void)call;
    pump(arg);
}

/* Sends the next message of a pull's answer if there is one and room for it. */
static void pump(peer *p)
{
    Psgd__V1__PullWeightsResponse head = PSGD__V1__PULL_WEIGHTS_RESPONSE__INIT;
    ps_streams *s = p->streams;
    ps_shard_answer answer;
    size_t pieces = 0;

    if (p->pull == NULL || !ps_call_can_send(p->pull)) {
        return;
    }
    ps_shard_pull_next(s->shard, p->rank, PS_PAYLOAD_MAX, s->pieces, BATCH, &answer);
    if (answer.count == 0 && !answer.is_last) {
        return;
    }
    for (size_t i = 0; i < answer.count; i++) {
        const ps_shard_piece *from = &s->pieces[i];

        s->heads[i] = (Psgd__V1__Encoding *)from->head;
        if (from->len > 0) {
            s->out[pieces++] =
                (ps_piece){.data = from->buf->data + from->at, .len = from->len, .buf = from->buf};
        }
    }
    head.clock = answer.clock;
    head.version = answer.version;
    head.slices = s->heads;
    head.n_slices = answer.count;
    count_out(s, &head.base, answer.bytes);
    ps_call_send(p->pull, &head.base, s->out, pieces, on_answer_sent, p);
}

void ps_streams_pump(ps_streams *s)
{
    for (uint32_t i = 0; i < s->peer_count; i++) {
        pump(&s->peers[i]);
    }
}

static void pull_gone(void *arg, ps_call *call)
{
    peer *p = arg;

    if (p->pull == call) {
        p->pull = NULL;
        ps_shard_pull_cancel(p->streams->shard, p->rank);
    }
}

static void on_pull(void *arg, const ProtobufCMessage *message, ps_payload *payload, ps_call *call)
{
    const Psgd__V1__PullWeightsRequest *req = (const Psgd__V1__PullWeightsRequest *)message;
    peer *p = arg;
    ps_streams *s = p->streams;
    ps_status st;

    (void)payload;
    if (req == NULL) { /* the worker is done */
        p->pull = NULL;
        ps_shard_pull_cancel(s->shard, p->rank);
        ps_call_finish(call);
        return;
    }
    count_in(s, message, NULL);
    if (!check_attempt(s, call, req->attempt)) {
        p->pull = NULL;
        return;
    }
    st = ps_shard_pull_begin(s->shard, p->rank, req->clock);
    if (!ps_is_ok(&st)) {
        p->pull = NULL;
        ps_shard_pull_cancel(s->shard, p->rank);
        refuse(call, reason_of(&st), st);
        return;
    }
    ps_call_read(call, on_pull, p);
    pump(p);
    if (ps_shard_is_waiting(s->shard, p->rank) && ps_call_can_send(call)) {
        s->waits++; /* nothing more to send, yet not whole */
    }
}

static void handle_pull(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    const Psgd__V1__PullWeightsRequest *req = (const Psgd__V1__PullWeightsRequest *)request;
    ps_streams *s = service;
    peer *p = identify(s, call, req->worker, req->attempt);

    if (p == NULL) {
        return;
    }
    replace(&p->pull);
    ps_shard_pull_cancel(s->shard, p->rank);
    p->pull = call;
    ps_call_on_gone(call, pull_gone, p);
    on_pull(p, request, payload, call);
}

/* --- push ------------------------------------------------------------------ */

/* Takes the slices of one message. On failure those before the bad one are in,
 * which a repetition does not mind. */
static ps_status take(ps_streams *s, const peer *p, const Psgd__V1__PushGradientRequest *req,
                      uint32_t contributor, ps_payload *payload)
{
    const ps_plan *plan = s->session->plan;
    size_t at = 0, len = ps_payload_len(payload);
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
        ps_shard_outcome outcome;

        if (head->payload_bytes > len - at || head->payload_bytes > sizeof s->scratch) {
            return ps_fail(PS_DATA_LOSS,
                           "slices[%zu].payload_bytes: %u, %zu bytes are left in the payload", i,
                           head->payload_bytes, len - at);
        }
        st = ps_shard_push(s->shard, p->rank, req->clock, contributor, head,
                           head->payload_bytes == 0
                               ? NULL
                               : ps_payload_view(payload, at, head->payload_bytes, s->scratch),
                           head->payload_bytes, &outcome);
        at += head->payload_bytes;
    }
    if (ps_is_ok(&st) && at != len) {
        return ps_fail(PS_DATA_LOSS, "payload: %zu bytes that belong to no slice", len - at);
    }
    return st;
}

/* After a contribution to the last step. */
static void check_complete(ps_streams *s)
{
    if (!s->is_complete && s->complete != NULL &&
        ps_shard_clock(s->shard) >= s->session->plan->total_steps) {
        s->is_complete = true;
        s->complete(s->complete_arg);
    }
}

static void on_push(void *arg, const ProtobufCMessage *message, ps_payload *payload, ps_call *call);

static void on_ack_sent(void *arg, ps_call *call)
{
    peer *p = arg;

    if (p->push == call) {
        ps_call_read(call, on_push, p);
    }
}

/* The fault: is this one of the acknowledgements that get lost? */
static bool is_dropped(peer *p, uint64_t clock, uint32_t block)
{
    ps_streams *s = p->streams;

    if (s->drop_ack == 0 || ++s->acks % s->drop_ack != 0 ||
        (p->has_dropped && p->dropped_clock == clock && p->dropped_block == block)) {
        return false;
    }
    p->has_dropped = true;
    p->dropped_clock = clock;
    p->dropped_block = block;
    return true;
}

static void acknowledge(peer *p, uint64_t clock, uint32_t block)
{
    Psgd__V1__PushGradientResponse ack = PSGD__V1__PUSH_GRADIENT_RESPONSE__INIT;
    ps_streams *s = p->streams;
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
    count_out(s, &ack.base, 0);
    ps_call_send(call, &ack.base, NULL, 0, on_ack_sent, p);
}

static void push_gone(void *arg, ps_call *call)
{
    peer *p = arg;

    if (p->push == call) {
        p->push = NULL;
    }
}

static void on_push(void *arg, const ProtobufCMessage *message, ps_payload *payload, ps_call *call)
{
    const Psgd__V1__PushGradientRequest *req = (const Psgd__V1__PushGradientRequest *)message;
    peer *p = arg;
    ps_streams *s = p->streams;
    uint32_t contributor;
    bool is_last_step;
    ps_status st;

    if (req == NULL) { /* the worker is done */
        p->push = NULL;
        ps_call_finish(call);
        return;
    }
    count_in(s, message, payload);
    if (!check_attempt(s, call, req->attempt)) {
        p->push = NULL;
        return;
    }
    contributor = s->session->plan->update->per_block ? req->block : p->rank;
    is_last_step = req->clock + 1 >= s->session->plan->total_steps;
    st = take(s, p, req, contributor, payload);
    if (!ps_is_ok(&st)) {
        p->push = NULL;
        refuse(call, reason_of(&st), st);
        ps_streams_pump(s); /* slices before the bad one are in */
        return;
    }
    if (ps_shard_is_in(s->shard, req->clock, contributor) &&
        !(p->has_acked && p->acked_clock == req->clock && p->acked_block == req->block)) {
        acknowledge(p, req->clock, req->block);
    } else {
        ps_call_read(call, on_push, p); /* the message is gone now */
    }
    ps_streams_pump(s);
    if (is_last_step) {
        check_complete(s);
    }
}

static void handle_push(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    const Psgd__V1__PushGradientRequest *req = (const Psgd__V1__PushGradientRequest *)request;
    ps_streams *s = service;
    peer *p = identify(s, call, req->worker, req->attempt);

    if (p == NULL) {
        return;
    }
    replace(&p->push);
    p->push = call;
    p->has_acked = false;
    ps_call_on_gone(call, push_gone, p);
    on_push(p, request, payload, call);
}

/* --- life ------------------------------------------------------------------ */

static const ps_method methods[] = {
    {.name = "PushGradient",
     .handle = handle_push,
     .streams_in = true,
     .streams_out = true,
     .max_bytes = HEAD_BYTES},
    {.name = "PullWeights",
     .handle = handle_pull,
     .streams_in = true,
     .streams_out = true,
     .max_bytes = HEAD_BYTES},
};

ps_service ps_streams_service(ps_streams *s)
{
    return (ps_service){
        .type = &psgd__v1__parameter_service__descriptor,
        .methods = methods,
        .method_count = sizeof methods / sizeof methods[0],
        .state = s,
    };
}

void ps_streams_open(ps_streams *s, const ps_session *session, ps_shard *shard)
{
    s->session = session;
    s->shard = shard;
    s->peer_count = session->worker_count;
    s->peers = ps_xcalloc(s->peer_count, sizeof *s->peers);
    s->traffic = (ps_traffic){0};
    s->waits = 0;
    s->is_complete = false;
    for (uint32_t i = 0; i < s->peer_count; i++) {
        s->peers[i].streams = s;
        s->peers[i].rank = i;
    }
}

void ps_streams_close(ps_streams *s, const char *why)
{
    for (uint32_t i = 0; i < s->peer_count; i++) {
        ps_call *calls[] = {s->peers[i].push, s->peers[i].pull};

        s->peers[i].push = s->peers[i].pull = NULL;
        for (size_t c = 0; c < 2; c++) {
            if (calls[c] != NULL) {
                refuse(calls[c], "ATTEMPT_OVER", ps_fail(PS_ABORTED, "%s", why));
            }
        }
    }
    free(s->peers);
    s->peers = NULL;
    s->peer_count = 0;
    s->session = NULL;
    s->shard = NULL;
}
