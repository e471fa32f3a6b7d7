/* SPDX-License-Identifier: Apache-2.0 */
/* echo_talk.c - see echo_talk.h. */
#include "tests/support/echo_talk.h"

typedef Psgd__Test__Block block;

void talk_send(talk *t)
{
    enum { PIECES_MAX = 64 };
    ps_piece pieces[PIECES_MAX];
    size_t count = t->pieces == 0 ? 1 : t->pieces, each = t->size / count;
    block b = PSGD__TEST__BLOCK__INIT;

    for (size_t i = 0; i < count; i++) {
        pieces[i].data = t->buf->data + i * each;
        pieces[i].len = i + 1 == count ? t->size - i * each : each;
        pieces[i].buf = t->pieces == 0 ? NULL : t->buf;
    }
    t->turns = 0;
    b.number = ++t->sent;
    b.text = (char *)(t->sent == t->stop_at ? "stop reading" : t->text == NULL ? "" : t->text);
    ps_stream_send(t->stream, &b.base, pieces, count);
}

void talk_go_on(talk *t)
{
    if (!ps_stream_can_send(t->stream)) {
        return;
    }
    if (t->sent == t->to_send) {
        ps_stream_half_close(t->stream);
    } else {
        talk_send(t);
    }
}

static void on_sent(void *arg)
{
    talk *t = arg;

    if (!t->in_turn || ++t->turns == 2) {
        talk_go_on(t);
    }
}

static void check_payload(talk *t, ps_payload *payload)
{
    enum { STEP = 777 };
    uint8_t scratch[STEP];
    size_t len = ps_payload_len(payload);

    t->bytes += len;
    for (size_t at = 0; at < len; at += STEP) {
        size_t n = len - at < STEP ? len - at : STEP;

        if (!echo_bytes_match(ps_payload_view(payload, at, n, scratch), at, n)) {
            t->bad_payloads++;
            return;
        }
    }
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    talk *t = arg;

    t->received++;
    if (head->descriptor == &psgd__test__block__descriptor) {
        t->number = ((const block *)head)->number;
        check_payload(t, payload);
    } else {
        t->number = ((const Psgd__Test__Pong *)head)->number;
    }
    if (t->received == t->cancel_at) {
        ps_stream_cancel(t->stream);
        return;
    }
    ps_stream_read(t->stream);
    if (t->in_turn && ++t->turns == 2) {
        talk_go_on(t);
    }
}

static void on_end(void *arg, const ps_error *error)
{
    talk *t = arg;

    t->ends++;
    t->error = *error;
    ps_buf_unref(t->buf);
    echo_world_one_over(t->w);
}

const ps_stream_events talk_events = {on_message, on_sent, on_end};

void talk_open(talk *t, echo_world *w, const char *method, int64_t timeout_us)
{
    t->w = w;
    t->buf = echo_buf(t->size);
    w->to_come++;
    t->stream = ps_stream_open(w->channel, &psgd__test__echo_service__descriptor, method,
                               timeout_us, 0, &talk_events, t);
    if (!t->does_not_read) {
        ps_stream_read(t->stream);
    }
}

void talk_start(talk *t, echo_world *w, const char *method, int64_t timeout_us)
{
    talk_open(t, w, method, timeout_us);
    talk_go_on(t);
}

void talk_download(talk *t, echo_world *w, uint64_t count, uint32_t size)
{
    Psgd__Test__Ping ping = PSGD__TEST__PING__INIT;

    ping.number = count;
    ping.size = size;
    talk_open(t, w, "Download", TIMEOUT_US);
    t->sent = t->to_send = 1;
    ps_stream_send(t->stream, &ping.base, NULL, 0);
    ps_stream_half_close(t->stream);
}
