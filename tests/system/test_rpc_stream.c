/* SPDX-License-Identifier: Apache-2.0 */
/* test_rpc_stream.c - streams in, out and both ways, on loopback. */
#include "tests/support/cmocka_all.h"

#include "common/rpc/process.h"
#include "tests/support/echo_talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    talk_download(&t, &w, 20, PS_PAYLOAD_MAX);
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

static void a_half_close_waits_for_what_is_going_out(void **state)
{
    talk t = {.size = PS_PAYLOAD_MAX, .to_send = 1, .pieces = 1};
    echo_world w;

    (void)state;
    echo_world_begin(&w);
    talk_open(&t, &w, "Upload", TIMEOUT_US);
    talk_send(&t);
    ps_stream_half_close(t.stream);
    assert_false(ps_stream_can_send(t.stream));
    echo_world_end(&w);
    assert_true(ps_is_ok(&t.error.status));
    assert_int_equal(t.number, 1);
    assert_int_equal(w.bytes, PS_PAYLOAD_MAX);
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
    talk_open(&t, &w, "Upload", 1000 * MS); /* enough to be heard */
    talk_send(&t);
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
                              &talk_events, &t);
    ps_channel_destroy(other);
    ps_stream_read(t.stream);
    talk_go_on(&t);
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
        cmocka_unit_test(a_half_close_waits_for_what_is_going_out),
        cmocka_unit_test(a_cancelled_stream_is_gone_and_not_half_closed),
        cmocka_unit_test(a_stream_meets_its_deadline_on_both_sides),
        cmocka_unit_test(a_stopping_server_ends_open_streams),
        cmocka_unit_test(a_channel_may_be_destroyed_before_its_streams_end),
        cmocka_unit_test(a_payload_that_is_not_last_is_refused),
        cmocka_unit_test(a_payload_that_is_too_long_is_refused),
        cmocka_unit_test(a_head_that_is_too_long_is_refused),
    };

    ps_rpc_init_process();
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
