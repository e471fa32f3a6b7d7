/* SPDX-License-Identifier: Apache-2.0 */
/* raw_stream.c - see raw_stream.h. */
#include "tests/support/raw_stream.h"

#include "tests/support/patience.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- on the loop's thread ----------------------------------------------------- */

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    raw_stream *s = arg;
    raw_message m = {.bytes = ps_payload_len(payload)};

    if (head->descriptor == &psgd__v1__pull_weights_response__descriptor) {
        const Psgd__V1__PullWeightsResponse *r = (const Psgd__V1__PullWeightsResponse *)head;

        m.clock = r->clock;
        m.version = r->version;
        m.bytes_in_memory = r->place != NULL ? r->place->bytes : 0;
        m.slices = r->rows != NULL ? r->rows->count : r->n_slices;
    } else if (head->descriptor == &psgd__v1__exchange_response__descriptor) {
        m.taken = ((const Psgd__V1__ExchangeResponse *)head)->taken;
    } else {
        const Psgd__V1__PushGradientResponse *r = (const Psgd__V1__PushGradientResponse *)head;

        m.clock = r->clock;
        m.block = r->block;
        m.takes_memory = r->takes_memory;
    }
    pthread_mutex_lock(&s->mutex);
    if (s->count < RAW_MESSAGES_MAX) {
        s->messages[s->count] = m;
    }
    s->count++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    ps_stream_read(s->stream);
}

static void on_sent(void *arg)
{
    raw_stream *s = arg;

    pthread_mutex_lock(&s->mutex);
    s->can_send = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static void on_end(void *arg, const ps_error *error)
{
    raw_stream *s = arg;

    s->stream = NULL;
    pthread_mutex_lock(&s->mutex);
    s->ended = true;
    s->error = *error;
    s->traffic = ps_channel_traffic(s->channel);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static const ps_stream_events events = {on_message, on_sent, on_end};

static void do_open(void *arg)
{
    raw_stream *s = arg;

    s->channel = ps_channel_create(s->on->loop, s->address);
    s->stream = ps_stream_open(s->channel, s->service, s->method, PS_NO_TIMEOUT, 0, &events, s);
    if (s->is_reading) {
        ps_stream_read(s->stream);
    }
}

typedef struct sending {
    raw_stream *s;
    const ProtobufCMessage *head;
    ps_piece piece;
} sending;

static void do_send(void *arg)
{
    sending *m = arg;

    if (m->s->stream != NULL) {
        ps_stream_send(m->s->stream, m->head, &m->piece, m->piece.len > 0 ? 1 : 0);
    }
}

static void do_half_close(void *arg)
{
    raw_stream *s = arg;

    if (s->stream != NULL) {
        ps_stream_half_close(s->stream);
    }
}

static void do_cancel(void *arg)
{
    raw_stream *s = arg;

    if (s->stream != NULL) {
        ps_stream_cancel(s->stream);
    }
}

static void do_close(void *arg)
{
    raw_stream *s = arg;

    ps_channel_destroy(s->channel);
}

/* --- on the test's thread ------------------------------------------------------- */

void raw_open(raw_stream *s, side *on, const char *address, const char *method, bool is_reading)
{
    bool is_peer = strcmp(method, "Exchange") == 0;

    *s = (raw_stream){
        .on = on,
        .address = address,
        .method = method,
        .service = is_peer ? &psgd__v1__peer_service__descriptor
                           : &psgd__v1__parameter_service__descriptor,
        .is_reading = is_reading,
        .can_send = true,
    };
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    side_run(on, do_open, s);
}

static void wait_for_change(raw_stream *s)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PS_TEST_PATIENCE_S;
    if (pthread_cond_timedwait(&s->changed, &s->mutex, &until) != 0) {
        fprintf(stderr, "%s: nothing came for a minute\n", s->method);
        abort();
    }
}

bool raw_send(raw_stream *s, const ProtobufCMessage *head, const void *payload, size_t len)
{
    sending m = {.s = s, .head = head, .piece = {.data = payload, .len = len}};
    bool ended;

    pthread_mutex_lock(&s->mutex);
    while (!s->can_send && !s->ended) {
        wait_for_change(s);
    }
    ended = s->ended;
    s->can_send = false;
    pthread_mutex_unlock(&s->mutex);
    if (!ended) {
        side_run(s->on, do_send, &m);
    }
    return !ended;
}

bool raw_wait(raw_stream *s, size_t count)
{
    bool there;

    pthread_mutex_lock(&s->mutex);
    while (s->count < count && !s->ended) {
        wait_for_change(s);
    }
    there = s->count >= count;
    pthread_mutex_unlock(&s->mutex);
    return there;
}

size_t raw_count(raw_stream *s)
{
    size_t count;

    pthread_mutex_lock(&s->mutex);
    count = s->count;
    pthread_mutex_unlock(&s->mutex);
    return count;
}

void raw_half_close(raw_stream *s)
{
    side_run(s->on, do_half_close, s);
}

void raw_cancel(raw_stream *s)
{
    side_run(s->on, do_cancel, s);
}

const ps_error *raw_end(raw_stream *s)
{
    pthread_mutex_lock(&s->mutex);
    while (!s->ended) {
        wait_for_change(s);
    }
    pthread_mutex_unlock(&s->mutex);
    return &s->error;
}

void raw_close(raw_stream *s)
{
    raw_cancel(s);
    (void)raw_end(s);
    side_run(s->on, do_close, s);
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->changed);
}
