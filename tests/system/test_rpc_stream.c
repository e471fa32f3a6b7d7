/* SPDX-License-Identifier: Apache-2.0 */
/* test_rpc_stream.c - streams in, out and both ways, on loopback. */
#include "tests/support/cmocka_all.h"

#include "common/base/container_of.h"
#include "common/rpc/process.h"
#include "tests/support/echo_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Psgd__Test__Block block;

/* The client's side of one stream: sends `to_send` blocks of `size` bytes and
 * reads on, unless told otherwise. */
typedef struct talk {
    echo_world *w;
    ps_stream *stream;
    ps_buf *buf;
    size_t size;        /* of a payload; cut in `pieces` of one buffer */
    size_t pieces;      /* 0: one piece without a buffer, to be copied */
    uint64_t to_send;   /* blocks; then the stream is half closed */
    const char *text;   /* of each block */
    bool in_turn;       /* send the next when the echo is in */
    bool does_not_read; /* beyond what it was told before */
    uint64_t cancel_at; /* messages received; 0: never */
    uint64_t sent, received, bytes, number;
    unsigned bad_payloads, ends;
    unsigned turns; /* of on_sent and on_message since the last send, when in_turn */
    ps_error error;
} talk;

static void send_block(talk *t)
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
    b.text = (char *)(t->text == NULL ? "" : t->text);
    ps_stream_send(t->stream, &b.base, pieces, count);
}

static void go_on(talk *t)
{
    if (!ps_stream_can_send(t->stream)) {
        return;
    }
    if (t->sent == t->to_send) {
        ps_stream_half_close(t->stream);
    } else {
        send_block(t);
    }
}

static void on_sent(void *arg)
{
    talk *t = arg;

    if (!t->in_turn || ++t->turns == 2) {
        go_on(t);
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
        go_on(t);
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

static const ps_stream_events events = {on_message, on_sent, on_end};

static void talk_open(talk *t, echo_world *w, const char *method, int64_t timeout_us)
{
    t->w = w;
    t->buf = echo_buf(t->size);
    w->to_come++;
    t->stream = ps_stream_open(w->channel, &psgd__test__echo_service__descriptor, method,
                               timeout_us, 0, &events, t);
    if (!t->does_not_read) {
        ps_stream_read(t->stream);
    }
}

static void talk_start(talk *t, echo_world *w, const char *method, int64_t timeout_us)
{
    talk_open(t, w, method, timeout_us);
    go_on(t);
}

static void download_start(talk *t, echo_world *w, uint64_t count, uint32_t size)
{
    Psgd__Test__Ping ping = PSGD__TEST__PING__INIT;

    ping.number = count;
    ping.size = size;
    talk_open(t, w, "Download", TIMEOUT_US);
    t->sent = t->to_send = 1;
    ps_stream_send(t->stream, &ping.base, NULL, 0);
    ps_stream_half_close(t->stream);
}

/* --- bytes arrive ---------------------------------------------------------------- */

static void an_upload_arrives_whole(void **state)
{
    talk t = {.size = PS_PAYLOAD_MAX, .pieces = 1, .to_send = 20};
    echo_world w;

    (void)state;
    echo_world_begin(&w);
    talk_start(&t, &w, "Upload", TIMEOUT_US);
    echo_world_end(&w);
    assert_true(ps_is_ok(&t.error.status));
    assert_int_equal(t.ends, 1);
    assert_int_equal(t.received, 1);
    assert_int_equal(t.number, 20);
    assert_int_equal(w.bytes, 20 * (uint64_t)PS_PAYLOAD_MAX);
    assert_int_equal(w.bad_payloads, 0);
    assert_int_equal(w.half_closes, 1);
    assert_int_equal(w.gone, 0);
}

static void a_download_arrives_whole(void **state)
{
    talk t = {0};
    echo_world w;

    (void)state;
    echo_world_begin(&w);
    download_start(&t, &w, 20, PS_PAYLOAD_MAX);
    echo_world_end(&w);
    assert_true(ps_is_ok(&t.error.status));
    assert_int_equal(t.received, 20);
    assert_int_equal(t.number, 20);
    assert_int_equal(t.bytes, 20 * (uint64_t)PS_PAYLOAD_MAX);
    assert_int_equal(t.bad_payloads, 0);
}

/* Sizes around every border: of slices of gRPC, of varints, of frames. */
static void payloads_of_all_sizes_and_cuts_come_back_as_they_went(void **state)
{
    static const size_t sizes[] = {0,    1,     2,     15,    16,     23,
                                   24,   127,   128,   129,   1000,   8191,
                                   8192, 16383, 16384, 16385, 100000, PS_PAYLOAD_MAX};
    enum { SIZES = sizeof sizes / sizeof sizes[0], CUTS = 4 };
    static const size_t cuts[CUTS] = {0, 1, 3, 64};
    static talk t[SIZES][CUTS];
    echo_world w;

    (void)state;
    memset(t, 0, sizeof t);
    echo_world_begin(&w);
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t j = 0; j < CUTS; j++) {
            t[i][j] = (talk){.size = sizes[i], .pieces = cuts[j], .to_send = 2, .in_turn = true};
            talk_start(&t[i][j], &w, "Chat", TIMEOUT_US);
        }
    }
    echo_world_end(&w);
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t j = 0; j < CUTS; j++) {
            assert_true(ps_is_ok(&t[i][j].error.status));
            assert_int_equal(t[i][j].received, 2);
            assert_int_equal(t[i][j].bytes, 2 * sizes[i]);
            assert_int_equal(t[i][j].bad_payloads, 0);
        }
    }
    assert_int_equal(w.bad_payloads, 0);
}

static void ten_thousand_messages_go_to_and_fro(void **state)
{
    talk t = {.size = 100, .pieces = 1, .to_send = 10000, .in_turn = true};
    echo_world w;

    (void)state;
    echo_world_begin(&w);
    talk_start(&t, &w, "Chat", 6 * TIMEOUT_US);
    echo_world_end(&w);
    assert_true(ps_is_ok(&t.error.status));
    assert_int_equal(t.received, 10000);
    assert_int_equal(t.number, 10000);
    assert_int_equal(t.bytes, 1000000);
    assert_int_equal(w.half_closes, 1);
}

static void many_streams_share_a_channel(void **state)
{
    enum { STREAMS = 100 };
    static talk t[STREAMS];
    echo_world w;

    (void)state;
    echo_world_begin(&w);
    for (size_t i = 0; i < STREAMS; i++) {
        t[i] = (talk){.size = 1000 + i, .pieces = 1, .to_send = 20, .in_turn = true};
        talk_start(&t[i], &w, "Chat", TIMEOUT_US);
    }
    echo_world_end(&w);
    for (size_t i = 0; i < STREAMS; i++) {
        assert_true(ps_is_ok(&t[i].error.status));
        assert_int_equal(t[i].bytes, 20 * (1000 + i));
        assert_int_equal(t[i].bad_payloads, 0);
    }
}

/* --- ends ------------------------------------------------------------------------ */

static void a_half_close_without_a_message_is_refused(void **state)
{
    talk t = {.to_send = 0};
    echo_world w;

    (void)state;
    echo_world_begin(&w);
    talk_start(&t, &w, "Upload", TIMEOUT_US);
    echo_world_end(&w);
    assert_int_equal(t.error.status.code, PS_INVALID_ARGUMENT);
    assert_string_equal(t.error.status.text, "/psgd.test.EchoService/Upload: no request message");
}

static void a_failure_in_mid_stream_reaches_the_sender(void **state)
{
    talk t = {.size = 1000, .to_send = 1000000, .pieces = 1, .text = "fail"};
    echo_world w;

    (void)state;
    echo_world_begin(&w);
    talk_start(&t, &w, "Upload", TIMEOUT_US);
    echo_world_end(&w);
    assert_int_equal(t.error.status.code, PS_ABORTED);
    assert_string_equal(t.error.status.text, "block 1");
    assert_int_equal(t.ends, 1);
    assert_int_equal(w.messages, 1);
}

static void a_finish_waits_for_what_is_going_out(void **state)
{
    talk t = {.size = PS_PAYLOAD_MAX, .to_send = 1, .pieces = 1, .text = "finish"};
    echo_world w;

    (void)state;
    echo_world_begin(&w);
    talk_start(&t, &w, "Chat", TIMEOUT_US);
    echo_world_end(&w);
    assert_true(ps_is_ok(&t.error.status));
    assert_int_equal(t.received, 1);
    assert_int_equal(t.bytes, PS_PAYLOAD_MAX);
}

static void a_cancelled_stream_is_gone_and_not_half_closed(void **state)
{
    enum { TIMES = 50 }; /* the order of gRPC's two events is not fixed */
    static talk t[TIMES];
    echo_world w;

    (void)state;
    echo_world_begin(&w);
    for (size_t i = 0; i < TIMES; i++) {
        t[i] = (talk){.size = 10, .to_send = 1000, .pieces = 1, .in_turn = true, .cancel_at = 3};
        talk_start(&t[i], &w, "Chat", TIMEOUT_US);
    }
    echo_world_end(&w);
    for (size_t i = 0; i < TIMES; i++) {
        assert_int_equal(t[i].error.status.code, PS_CANCELLED);
        assert_int_equal(t[i].ends, 1);
        assert_int_equal(t[i].received, 3);
    }
    assert_int_equal(w.half_closes, 0);
    assert_int_equal(w.gone, TIMES);
}

static void a_stream_meets_its_deadline_on_both_sides(void **state)
{
    talk t = {.size = 10, .to_send = 1, .pieces = 1, .text = "stop reading"};
    echo_world w;

    (void)state;
    echo_world_begin(&w);
    talk_open(&t, &w, "Upload", 100 * MS);
    send_block(&t);
    t.to_send = 2; /* not half closed */
    t.in_turn = true;
    echo_world_end(&w);
    assert_int_equal(t.error.status.code, PS_DEADLINE_EXCEEDED);
    assert_int_equal(w.gone, 1);
}

static void stop_server(echo_world *w)
{
    ps_channel_destroy(w->channel);
    ps_server_stop(w->server, 0, &w->down);
}

static void a_stopping_server_ends_open_streams(void **state)
{
    talk t = {.size = 10, .to_send = 2, .pieces = 1, .text = "stop reading", .in_turn = true};
    echo_world w;

    (void)state;
    echo_world_begin(&w);
    w.on_kept = stop_server;
    talk_start(&t, &w, "Upload", TIMEOUT_US);
    w.to_come = -1; /* the server is stopped by hand */
    echo_world_end(&w);
    assert_false(ps_is_ok(&t.error.status));
    assert_int_equal(t.ends, 1);
    assert_int_equal(w.gone, 1);
}

static void a_channel_may_be_destroyed_before_its_streams_end(void **state)
{
    talk t = {.size = 10, .to_send = 100, .pieces = 1, .in_turn = true};
    ps_channel *other;
    char target[32];
    echo_world w;

    (void)state;
    echo_world_begin(&w);
    snprintf(target, sizeof target, "127.0.0.1:%d", ps_server_port(w.server));
    other = ps_channel_create(w.loop, target);
    t.w = &w;
    t.buf = echo_buf(t.size);
    w.to_come++;
    t.stream = ps_stream_open(other, &psgd__test__echo_service__descriptor, "Chat", TIMEOUT_US, 0,
                              &events, &t);
    ps_channel_destroy(other);
    ps_stream_read(t.stream);
    go_on(&t);
    echo_world_end(&w);
    assert_true(ps_is_ok(&t.error.status));
    assert_int_equal(t.received, 100);
}

/* --- what is not asked for ---------------------------------------------------------- */

static void refuses(const Psgd__Test__Odd *odd, ps_code code, const char *text)
{
    echo_world w;
    echo_reply r;

    echo_world_begin(&w);
    odd_call(&w, "Upload", odd, &r);
    echo_world_end(&w);
    assert_int_equal(r.error.status.code, code);
    assert_string_equal(r.error.status.text, text);
    assert_int_equal(w.messages, 0);
}

static void a_payload_that_is_not_last_is_refused(void **state)
{
    Psgd__Test__Odd odd = PSGD__TEST__ODD__INIT;

    (void)state;
    odd.payload = (ProtobufCBinaryData){5, (uint8_t *)"12345"};
    odd.late = (ProtobufCBinaryData){1, (uint8_t *)"6"};
    refuses(&odd, PS_INVALID_ARGUMENT, "psgd.test.Block: the payload (field 15) must come last");
}

static void a_payload_that_is_too_long_is_refused(void **state)
{
    Psgd__Test__Odd odd = PSGD__TEST__ODD__INIT;
    uint8_t *bytes = calloc(1, PS_PAYLOAD_MAX + 1);

    (void)state;
    odd.payload = (ProtobufCBinaryData){PS_PAYLOAD_MAX + 1, bytes};
    refuses(&odd, PS_RESOURCE_EXHAUSTED,
            "psgd.test.Block: 0 bytes, and 1048577 of payload: at most 65536 and 1048576");
    free(bytes);
}

static void a_head_that_is_too_long_is_refused(void **state)
{
    Psgd__Test__Odd odd = PSGD__TEST__ODD__INIT;
    uint8_t *bytes = calloc(1, 70000);

    (void)state;
    memset(bytes, 'x', 70000);
    odd.text_of_block = (ProtobufCBinaryData){70000, bytes};
    odd.payload = (ProtobufCBinaryData){3, bytes};
    refuses(&odd, PS_RESOURCE_EXHAUSTED,
            "psgd.test.Block: 70009 bytes, and 0 of payload: at most 65536 and 1048576");
    free(bytes);
}

/* --- flow control -------------------------------------------------------------------- */

typedef struct patience {
    echo_world w;
    talk t;
    ps_timer timer;
    uint64_t seen; /* messages out when last looked */
} patience;

/* Nothing went out for a while: the sender is blocked. */
static void on_look(ps_event *self, bool ok)
{
    patience *p = PS_CONTAINER_OF(self, patience, timer.event);
    uint64_t out = p->t.sent + p->w.sent;

    assert_true(ok);
    if (out != p->seen) {
        p->seen = out;
        ps_loop_after(p->w.loop, &p->timer, 200 * MS);
    } else {
        ps_stream_cancel(p->t.stream);
    }
}

/* What lies between a sender and a reader that does not read: windows of
 * HTTP/2 and of TCP, one message in flight; never all that is to be sent. */
enum { BLOCKED_MAX = 32 << 20, MUCH = 4096 };

static void a_server_that_does_not_read_blocks_the_sender(void **state)
{
    patience p = {.t = {.size = PS_PAYLOAD_MAX, .to_send = MUCH, .pieces = 1}};

    (void)state;
    echo_world_begin(&p.w);
    p.timer.event.fire = on_look;
    p.t.text = "stop reading";
    talk_start(&p.t, &p.w, "Upload", PS_NO_TIMEOUT);
    ps_loop_after(p.w.loop, &p.timer, 200 * MS);
    echo_world_end(&p.w);
    assert_int_equal(p.t.error.status.code, PS_CANCELLED);
    assert_int_equal(p.w.messages, 1);
    assert_in_range(p.t.sent, 1, BLOCKED_MAX / PS_PAYLOAD_MAX);
    assert_int_equal(p.w.gone, 1);
}

static void a_client_that_does_not_read_blocks_the_server(void **state)
{
    patience p = {.t = {.does_not_read = true}};

    (void)state;
    echo_world_begin(&p.w);
    p.timer.event.fire = on_look;
    download_start(&p.t, &p.w, MUCH, PS_PAYLOAD_MAX);
    ps_loop_after(p.w.loop, &p.timer, 200 * MS);
    echo_world_end(&p.w);
    assert_int_equal(p.t.received, 0);
    assert_in_range(p.w.sent, 1, BLOCKED_MAX / PS_PAYLOAD_MAX);
    assert_int_equal(p.w.gone, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_upload_arrives_whole),
        cmocka_unit_test(a_download_arrives_whole),
        cmocka_unit_test(payloads_of_all_sizes_and_cuts_come_back_as_they_went),
        cmocka_unit_test(ten_thousand_messages_go_to_and_fro),
        cmocka_unit_test(many_streams_share_a_channel),
        cmocka_unit_test(a_half_close_without_a_message_is_refused),
        cmocka_unit_test(a_failure_in_mid_stream_reaches_the_sender),
        cmocka_unit_test(a_finish_waits_for_what_is_going_out),
        cmocka_unit_test(a_cancelled_stream_is_gone_and_not_half_closed),
        cmocka_unit_test(a_stream_meets_its_deadline_on_both_sides),
        cmocka_unit_test(a_stopping_server_ends_open_streams),
        cmocka_unit_test(a_channel_may_be_destroyed_before_its_streams_end),
        cmocka_unit_test(a_payload_that_is_not_last_is_refused),
        cmocka_unit_test(a_payload_that_is_too_long_is_refused),
        cmocka_unit_test(a_head_that_is_too_long_is_refused),
        cmocka_unit_test(a_server_that_does_not_read_blocks_the_sender),
        cmocka_unit_test(a_client_that_does_not_read_blocks_the_server),
    };

    ps_rpc_init_process();
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
