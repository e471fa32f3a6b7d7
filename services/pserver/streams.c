/* SPDX-License-Identifier: Apache-2.0 */
/* streams.c - see streams.h: who speaks, what is counted, life and end. */
#include "services/pserver/streams_impl.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

static void on_due(ps_event *self, bool ok)
{
    ps_streams *s = PS_CONTAINER_OF(self, ps_streams, due.event);

    if (ok && s->shard != NULL) {
        ps_shard_tick(s->shard, ps_clock_us());
        ps_streams_pump(s);
        ps_streams_changed(s);
    }
}

ps_streams *ps_streams_create(ps_loop *loop, uint64_t drop_ack, void (*complete)(void *arg),
                              void *arg)
{
    ps_streams *s = ps_xcalloc(1, sizeof *s);

    s->loop = loop;
    s->due.event.fire = on_due;

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

void ps_streams_count_in(ps_streams *s, const ProtobufCMessage *head, const ps_payload *payload)
{
    s->traffic.messages_in++;
    s->traffic.bytes_in += message_bytes(head, ps_payload_len(payload));
}

void ps_streams_count_out(ps_streams *s, const ProtobufCMessage *head, size_t payload)
{
    s->traffic.messages_out++;
    s->traffic.bytes_out += message_bytes(head, payload);
}

/* --- the shard ------------------------------------------------------------- */

void ps_streams_changed(ps_streams *s)
{
    int64_t at_us = ps_shard_deadline(s->shard), now_us;

    if (at_us != INT64_MAX && s->loop != NULL) {
        now_us = ps_clock_us();
        ps_loop_after(s->loop, &s->due, at_us > now_us ? at_us - now_us : 0);
    }
    if (!s->is_complete && s->complete != NULL &&
        ps_shard_clock(s->shard) >= s->session->plan->total_clocks) {
        s->is_complete = true;
        s->complete(s->complete_arg);
    }
}

ps_status ps_streams_lose(ps_streams *s, uint32_t worker)
{
    ps_status st = ps_shard_lose_worker(s->shard, worker);
    streams_peer *p;
    ps_call *push, *pull;

    if (!ps_is_ok(&st)) {
        return st;
    }
    p = &s->peers[worker];
    push = p->push;
    pull = p->pull;
    p->push = p->pull = NULL;
    st = ps_fail(PS_ABORTED, "worker %u counts as lost", worker);
    if (push != NULL) {
        ps_streams_refuse(push, "WORKER_LOST", st);
    }
    if (pull != NULL) {
        ps_streams_refuse(pull, "WORKER_LOST", st);
    }
    ps_streams_pump(s);
    ps_streams_changed(s);
    return ps_ok();
}

/* --- who speaks ------------------------------------------------------------ */

const char *ps_streams_reason(const ps_status *st)
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

void ps_streams_refuse(ps_call *call, const char *reason, ps_status why)
{
    ps_error error;

    ps_error_init(&error, why, reason);
    ps_call_fail_error(call, &error);
}

bool ps_streams_check_attempt(const ps_streams *s, ps_call *call, uint32_t attempt)
{
    if (s->session == NULL) {
        ps_streams_refuse(call, "NO_JOB",
                          ps_fail(PS_FAILED_PRECONDITION, "this server holds no job"));
        return false;
    }
    if (attempt != s->session->attempt) {
        ps_streams_refuse(call, "WRONG_ATTEMPT",
                          ps_fail(PS_ABORTED, "attempt %u of %s; this server holds attempt %u",
                                  attempt, s->session->job_id, s->session->attempt));
        return false;
    }
    return true;
}

streams_peer *ps_streams_identify(ps_streams *s, ps_call *call, const Psgd__V1__WorkerIdentity *who,
                                  uint32_t attempt)
{
    streams_peer *p;

    if (who == NULL) {
        ps_streams_refuse(
            call, "NO_IDENTITY",
            ps_fail(PS_INVALID_ARGUMENT, "worker: missing in the first message of the stream"));
        return NULL;
    }
    if (s->session != NULL && strcmp(who->job_id, s->session->job_id) != 0) {
        ps_streams_refuse(call, "WRONG_JOB",
                          ps_fail(PS_FAILED_PRECONDITION, "worker.job_id: this server holds %s",
                                  s->session->job_id));
        return NULL;
    }
    if (!ps_streams_check_attempt(s, call, attempt)) {
        return NULL;
    }
    if (who->layout_hash != s->session->plan->layout.hash) {
        ps_streams_refuse(
            call, "WRONG_MODEL",
            ps_fail(PS_FAILED_PRECONDITION,
                    "worker.layout_hash: %016llx; this server holds a model of %016llx",
                    (unsigned long long)who->layout_hash,
                    (unsigned long long)s->session->plan->layout.hash));
        return NULL;
    }
    if (who->rank >= s->peer_count) {
        ps_streams_refuse(call, "WRONG_RANK",
                          ps_fail(PS_INVALID_ARGUMENT, "worker.rank: %u of %u workers", who->rank,
                                  s->peer_count));
        return NULL;
    }
    p = &s->peers[who->rank];
    if (who->incarnation < p->incarnation) {
        ps_streams_refuse(
            call, "OLD_INCARNATION",
            ps_fail(PS_ABORTED, "worker.incarnation: a younger process is worker %u", who->rank));
        return NULL;
    }
    p->incarnation = who->incarnation;
    return p;
}

void ps_streams_replace(ps_call **slot)
{
    ps_call *old = *slot;

    *slot = NULL;
    if (old != NULL) {
        ps_streams_refuse(old, "REPLACED",
                          ps_fail(PS_ABORTED, "the worker has opened a newer stream"));
    }
}

/* --- life ------------------------------------------------------------------ */

static const ps_method methods[] = {
    {.name = "PushGradient",
     .handle = ps_streams_handle_push,
     .streams_in = true,
     .streams_out = true,
     .max_bytes = STREAMS_HEAD_BYTES},
    {.name = "PullWeights",
     .handle = ps_streams_handle_pull,
     .streams_in = true,
     .streams_out = true,
     .max_bytes = STREAMS_HEAD_BYTES},
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
                ps_streams_refuse(calls[c], "ATTEMPT_OVER", ps_fail(PS_ABORTED, "%s", why));
            }
        }
    }
    if (s->loop != NULL) {
        ps_loop_cancel(s->loop, &s->due);
    }
    free(s->peers);
    s->peers = NULL;
    s->peer_count = 0;
    s->session = NULL;
    s->shard = NULL;
}
