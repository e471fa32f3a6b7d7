/* SPDX-License-Identifier: Apache-2.0 */
/* lane_pull.c - the pull stream of a lane: wishes out, weights in. */
#include "services/worker/server_exchange_impl.h"

#include "common/base/log.h"
#include "common/node/identity.h"
#include "common/train/merge.h"

#include <string.h>

/* The answer broke the contract: the session cannot go on. */
static void refuse(ps_lane *lane, ps_status why)
{
    why = ps_wrap(why, "weights from %s", lane->x->session->server_ids[lane->server]);
    ps_gate_fail(&lane->x->gate, &why);
    ps_stream_cancel(lane->pull.stream);
}

void ps_lane_pull_ask(ps_lane *lane)
{
    Psgd__V1__PullWeightsRequest req = PSGD__V1__PULL_WEIGHTS_REQUEST__INIT;
    Psgd__V1__WorkerIdentity identity;

    if (lane->stopping || !lane->wish_open || lane->wish_sent || lane->pull.stream == NULL ||
        !ps_stream_can_send(lane->pull.stream)) {
        return;
    }
    if (!lane->pull.greeted) {
        lane->pull.greeted = true;
        ps_identity_fill(&identity, lane->x->session, lane->x->incarnation);
        req.worker = &identity;
    }
    req.attempt = lane->x->session->attempt;
    req.clock = lane->wish;
    req.whole = lane->wish_whole;
    lane->wish_bad = 0;
    lane->wish_sent = true;
    ps_stream_send(lane->pull.stream, &req.base, NULL, 0);
}

void ps_lane_wish(ps_lane *lane, uint64_t clock)
{
    if (clock > lane->x->plan->total_clocks) {
        return; /* nobody will train on them */
    }
    lane->wish = clock;
    lane->wish_open = true;
    lane->wish_sent = false;
    lane->wish_whole = false;
    lane->wish_left = lane->owned_count;
    ps_lane_pull_ask(lane);
}

/* An answer is in that left the replica wrong: all of it again, whole. */
static void resync(ps_lane *lane)
{
    atomic_fetch_add(&lane->x->base.count.resyncs, 1);
    ps_log(PS_LOG_WARN, "lane",
           "clock %llu: %u slices of the replica are not what %s has; asking for the weights",
           (unsigned long long)lane->wish, lane->wish_bad,
           lane->x->session->server_ids[lane->server]);
    lane->wish_open = true;
    lane->wish_sent = false;
    lane->wish_whole = true;
    lane->wish_left = lane->owned_count;
    ps_lane_pull_ask(lane);
}

/* Takes one slice; true if it was new. */
static ps_status take_slice(ps_lane *lane, const Psgd__V1__PullWeightsResponse *reply, size_t i,
                            ps_payload *payload, size_t at, bool *is_new)
{
    const ps_server_exchange *x = lane->x;
    const Psgd__V1__Encoding *head = reply->slices[i];
    uint8_t scratch[PS_SLICE_VALUES * sizeof(float)];
    const ps_slice *slice;
    const uint8_t *from;
    uint32_t position;
    ps_status st;
    float *to;

    *is_new = false;
    if (head->slice >= x->layout->slice_count ||
        x->layout->slices[head->slice].server != lane->server) {
        return ps_fail(PS_DATA_LOSS, "slice %u is not of this server", head->slice);
    }
    if (head->payload_bytes > sizeof scratch ||
        at + head->payload_bytes > ps_payload_len(payload)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: %u bytes are not in the message", head->slice,
                       head->payload_bytes);
    }
    slice = &x->layout->slices[head->slice];
    if (head->others_stay && !x->plan->by_rows[slice->variable]) {
        return ps_fail(PS_DATA_LOSS, "slice %u: others_stay, which is of slices that go by rows",
                       head->slice);
    }
    position = x->position[head->slice];
    if (lane->got[position] >= lane->wish) {
        return ps_ok(); /* repeated after a break; the weights may be in use */
    }
    if (x->plan->update->broadcasts) {
        return ps_lane_take_change(
            lane, reply, i, ps_payload_view(payload, at, head->payload_bytes, scratch), is_new);
    }
    to = x->weights + slice->at;
    /* Plain float32 is copied once only, from the message into the block. */
    from =
        ps_payload_view(payload, at, head->payload_bytes,
                        ps_coder_brings_plain(x->plan, head, head->slice) ? (void *)to : scratch);
    st = ps_coder_decode(x->plan, head, head->slice, from, to);
    if (!ps_is_ok(&st)) {
        return st;
    }
    lane->got[position] = lane->wish;
    atomic_fetch_add(&lane->x->base.count.float32_down, slice->n * sizeof(float));
    *is_new = true;
    return ps_ok();
}

/* Slices of an answer that are as they were: those that are new into lane->slices from
 * *count on. *all: how many there are. */
static ps_status take_same(ps_lane *lane, const Psgd__V1__PullWeightsResponse *reply,
                           uint32_t *count, uint32_t *all)
{
    const ps_server_exchange *x = lane->x;

    *all = 0;
    if (reply->n_same % 2 != 0) {
        return ps_fail(PS_DATA_LOSS, "same: %zu numbers, pairs are allowed", reply->n_same);
    }
    for (size_t i = 0; i < reply->n_same; i += 2) {
        uint32_t first = reply->same[i], n = reply->same[i + 1];

        if (first >= x->layout->slice_count || n > x->layout->slice_count - first ||
            n > lane->wish_left - (uint32_t)reply->n_slices - *all) {
            return ps_fail(PS_DATA_LOSS, "same: %u slices from %u on, of %u; %u are wanted", n,
                           first, x->layout->slice_count, lane->wish_left);
        }
        for (uint32_t s = first; s < first + n; s++) {
            if (x->layout->slices[s].server != lane->server ||
                !x->plan->by_rows[x->layout->slices[s].variable]) {
                return ps_fail(PS_DATA_LOSS, "same: slice %u is not one that goes by rows here", s);
            }
            if (lane->got[x->position[s]] < lane->wish) {
                lane->got[x->position[s]] = lane->wish;
                lane->slices[(*count)++] = s;
                atomic_fetch_add(&lane->x->base.count.float32_down,
                                 x->layout->slices[s].n * sizeof(float));
            }
        }
        *all += n;
    }
    return ps_ok();
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    ps_lane *lane = arg;
    const Psgd__V1__PullWeightsResponse *reply = (const Psgd__V1__PullWeightsResponse *)head;
    uint32_t count = 0, same;
    size_t at = 0;
    ps_status st;

    ps_redial_works(&lane->pull.redial);
    ps_server_exchange_count(lane->x, lane);
    if (!lane->wish_open || reply->clock != lane->wish || reply->n_slices > LANE_BATCH ||
        reply->n_slices > lane->wish_left) {
        refuse(lane, ps_fail(PS_DATA_LOSS,
                             "an answer for clock %llu with %zu slices, asked for clock %llu of %u",
                             (unsigned long long)reply->clock, reply->n_slices,
                             (unsigned long long)lane->wish, lane->wish_left));
        return;
    }
    for (size_t i = 0; i < reply->n_slices; i++) {
        bool is_new;

        st = take_slice(lane, reply, i, payload, at, &is_new);

        if (!ps_is_ok(&st)) {
            refuse(lane, st);
            return;
        }
        at += reply->slices[i]->payload_bytes;
        if (is_new) {
            lane->slices[count++] = reply->slices[i]->slice;
        }
    }
    st = take_same(lane, reply, &count, &same);
    if (!ps_is_ok(&st)) {
        refuse(lane, st);
        return;
    }
    lane->wish_left -= (uint32_t)reply->n_slices + same;
    lane->wish_open = lane->wish_left > 0 || lane->wish_bad > 0;
    if (ps_merge_may_overtake(lane->x->plan) && reply->n_slices + same > 0) {
        ps_gate_overtake(&lane->x->gate, reply->clock, reply->version);
    }
    ps_gate_lane_brought(&lane->x->gate, lane->server, lane->slices, count, reply->clock,
                         !lane->wish_open);
    if (!lane->wish_open && lane->x->asks_early) {
        ps_lane_wish(lane, lane->wish + 1);
    } else if (lane->wish_left == 0 && lane->wish_bad > 0) {
        resync(lane);
    }
    ps_stream_read(lane->pull.stream);
}

static void on_sent(void *arg)
{
    ps_lane_pull_ask(arg);
}

static void on_end(void *arg, const ps_error *error)
{
    ps_lane *lane = arg;

    ps_lane_stream_ended(&lane->pull, "PullWeights", error);
}

const ps_stream_events ps_lane_pull_events = {
    .on_message = on_message,
    .on_sent = on_sent,
    .on_end = on_end,
};
