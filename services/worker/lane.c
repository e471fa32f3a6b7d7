/* SPDX-License-Identifier: Apache-2.0 */
/* lane.c - see lane.h: opening, breaking and ending of a lane's two streams. */
#include "services/worker/server_exchange_impl.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"

#include <stdlib.h>

static void on_retry_push(ps_event *self, bool ok);
static void on_retry_pull(ps_event *self, bool ok);

void ps_lane_init(ps_lane *lane, ps_server_exchange *x, uint32_t server)
{
    lane->x = x;
    lane->server = server;
    lane->owned = x->layout->owned[server];
    lane->owned_count = x->layout->owned_count[server];
    lane->state = ps_xcalloc(lane->owned_count + 1, sizeof *lane->state);
    lane->slices = ps_xcalloc(lane->owned_count + 1, sizeof *lane->slices);
    lane->got = ps_xcalloc(lane->owned_count + 1, sizeof *lane->got);
    lane->version = ps_xcalloc(lane->owned_count + 1, sizeof *lane->version);
    lane->message_bytes = PS_PAYLOAD_MAX;
    lane->push = (lane_stream){.lane = lane};
    lane->pull = (lane_stream){.lane = lane};
    ps_lane_rows_init(lane);
    ps_redial_init(&lane->push.redial, x->loop, &x->gate, on_retry_push);
    ps_redial_init(&lane->pull.redial, x->loop, &x->gate, on_retry_pull);
    for (uint32_t i = 0; i < LANE_BATCH; i++) {
        lane->head_ptrs[i] = &lane->heads[i].msg;
    }
}

void ps_lane_fini(ps_lane *lane)
{
    ps_channel_destroy(lane->channel);
    for (size_t i = 0; i < sizeof lane->encoded / sizeof lane->encoded[0]; i++) {
        ps_buf_unref(lane->encoded[i]);
    }
    ps_lane_rows_fini(lane);
    free(lane->state);
    free(lane->slices);
    free(lane->got);
    free(lane->version);
}

static void open_stream(lane_stream *s)
{
    ps_lane *lane = s->lane;
    bool is_push = s == &lane->push;

    s->greeted = false;
    s->stream = ps_stream_open(lane->channel, &psgd__v1__parameter_service__descriptor,
                               is_push ? "PushGradient" : "PullWeights", PS_NO_TIMEOUT, 0,
                               is_push ? &ps_lane_push_events : &ps_lane_pull_events, lane);
    ps_stream_read(s->stream);
    if (is_push) {
        ps_lane_pump(lane);
    } else {
        ps_lane_pull_ask(lane);
    }
}

void ps_lane_open(ps_lane *lane)
{
    if (lane->owned_count == 0) {
        return;
    }
    lane->channel = ps_channel_create(lane->x->loop, lane->x->session->servers[lane->server]);
    ps_lane_rows_open(lane);
    open_stream(&lane->push);
    open_stream(&lane->pull);
    if (lane->x->asks_early) {
        ps_lane_wish(lane, 1); /* the weights of clock 0 came with the packages */
    }
}

void ps_lane_stop(ps_lane *lane)
{
    lane->stopping = true;
    ps_lane_rows_stop(lane);
    ps_redial_stop(&lane->push.redial);
    ps_redial_stop(&lane->pull.redial);
    if (lane->push.stream != NULL) {
        ps_stream_cancel(lane->push.stream);
    }
    if (lane->pull.stream != NULL) {
        ps_stream_cancel(lane->pull.stream);
    }
}

bool ps_lane_is_over(const ps_lane *lane)
{
    return lane->push.stream == NULL && lane->pull.stream == NULL && ps_lane_rows_are_over(lane);
}

void ps_lane_stream_ended(lane_stream *s, const char *what, const ps_error *error)
{
    ps_lane *lane = s->lane;
    const char *who = lane->x->session->server_ids[lane->server];

    s->stream = NULL;
    if (lane->stopping) {
        ps_server_exchange_lane_ended(lane->x);
        return;
    }
    ps_redial_ended(&s->redial, what, who, error);
}

static void on_retry_push(ps_event *self, bool ok)
{
    lane_stream *s = PS_CONTAINER_OF(self, lane_stream, redial.retry.event);
    ps_lane *lane = s->lane;

    if (!ok || lane->stopping) {
        return;
    }
    for (uint32_t i = 0; lane->has_contribution && i < lane->owned_count; i++) {
        if (lane->state[i] == SLICE_SENT) { /* perhaps it never came */
            lane->state[i] = SLICE_WAITS;
            lane->unsent++;
            ps_lane_slice_ready(lane, i);
        }
    }
    open_stream(s);
}

static void on_retry_pull(ps_event *self, bool ok)
{
    lane_stream *s = PS_CONTAINER_OF(self, lane_stream, redial.retry.event);

    if (ok && !s->lane->stopping) {
        s->lane->wish_sent = false;
        s->lane->wish_left = s->lane->owned_count; /* what came before comes again */
        open_stream(s);
    }
}
