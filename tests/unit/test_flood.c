/* SPDX-License-Identifier: Apache-2.0 */
/* test_flood.c - what the client of one connection may send, frame by frame. */
#include "common/rpc/flood.h"

#include "tests/support/cmocka_all.h"

#include <string.h>

enum { DATA = 0, HEADERS = 1, PRIORITY = 2, RST = 3, SETTINGS = 4, PING = 6, WINDOW = 8, MORE = 9 };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4, S = 1000000 };

typedef struct world {
    ps_flood flood;
    ps_flood_kind kind;
    ps_flood_verdict verdict;
    int64_t now_us;
    size_t step; /* bytes a read; 0: all at once */
} world;

static void feed(world *w, const uint8_t *bytes, size_t n)
{
    for (size_t at = 0, len; at < n && w->verdict != PS_FLOOD_CLOSE; at += len) {
        len = w->step > 0 && w->step < n - at ? w->step : n - at;
        w->verdict = ps_flood_read(&w->flood, bytes + at, len, &w->kind);
    }
}

static void send_frame(world *w, uint8_t type, uint8_t flags, uint32_t len)
{
    static const uint8_t zeroes[70000];
    const uint8_t head[9] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type, flags};

    feed(w, head, sizeof head);
    while (len > 0) {
        uint32_t part = len < sizeof zeroes ? len : (uint32_t)sizeof zeroes;

        feed(w, zeroes, part);
        len -= part;
    }
}

static void send_frames(world *w, uint8_t type, uint8_t flags, uint32_t len, unsigned count)
{
    for (unsigned i = 0; i < count && w->verdict != PS_FLOOD_CLOSE; i++) {
        send_frame(w, type, flags, len);
    }
}

/* A connection that has said hello, and acknowledged the settings. */
static world connected(bool is_suspect, size_t step)
{
    world w = {.now_us = 5 * S, .step = step, .kind = PS_FLOOD_KINDS};

    ps_flood_init(&w.flood, is_suspect, w.now_us);
    feed(&w, (const uint8_t *)"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    send_frame(&w, SETTINGS, 0, 30);
    send_frame(&w, SETTINGS, ACK, 0);
    assert_int_equal(w.verdict, PS_FLOOD_PASS);
    return w;
}

static void pass_time(world *w, int64_t us)
{
    w->now_us += us;
    ps_flood_fill(&w->flood, 1, w->now_us);
}

static void frames_that_bring_nothing_close_the_connection(void **state)
{
    static const struct {
        uint8_t type, flags;
        uint32_t len;
        unsigned burst; /* that passes; twice as many do not */
        ps_flood_kind kind;
    } cases[] = {
        {PING, 0, 8, 900, PS_FLOOD_CONTROLS},     {PING, ACK, 8, 900, PS_FLOOD_CONTROLS},
        {SETTINGS, 0, 6, 900, PS_FLOOD_CONTROLS}, {PRIORITY, 0, 5, 900, PS_FLOOD_CONTROLS},
        {DATA, 0, 0, 900, PS_FLOOD_CONTROLS},     {200, 0, 10, 900, PS_FLOOD_CONTROLS},
        {200, 0, 63000, 1, PS_FLOOD_CONTROLS},    {RST, 0, 4, 512, PS_FLOOD_RESETS},
        {WINDOW, 0, 4, 60000, PS_FLOOD_WINDOWS},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        world w = connected(false, 0);

        send_frames(&w, cases[i].type, cases[i].flags, cases[i].len, cases[i].burst);
        assert_int_equal(w.verdict, PS_FLOOD_PASS);
        send_frames(&w, cases[i].type, cases[i].flags, cases[i].len, cases[i].burst);
        assert_int_equal(w.verdict, PS_FLOOD_CLOSE);
        assert_int_equal(w.kind, cases[i].kind);
        assert_non_null(ps_flood_bounds[w.kind].text);
    }
}

static void a_slow_client_goes_on_for_ever(void **state)
{
    world w = connected(false, 0);

    (void)state;
    for (unsigned second = 0; second < 100; second++) {
        send_frames(&w, PING, 0, 8, 150);
        send_frames(&w, RST, 0, 4, 100);
        send_frames(&w, WINDOW, 0, 4, 50000);
        send_frames(&w, HEADERS, END_HEADERS, 200, 250);
        send_frames(&w, DATA, END_STREAM, 40, 20000);
        assert_int_equal(w.verdict, PS_FLOOD_PASS);
        pass_time(&w, S);
    }
}

static void who_begins_calls_too_fast_is_paused(void **state)
{
    world w = connected(false, 0);

    (void)state;
    send_frames(&w, HEADERS, END_HEADERS, 200, 256);
    assert_int_equal(w.verdict, PS_FLOOD_PASS);
    send_frames(&w, HEADERS, END_HEADERS, 200, 200);
    assert_int_equal(w.verdict, PS_FLOOD_PAUSE);
    assert_int_equal(ps_flood_wait_us(&w.flood, 1), 100000); /* 200 at 2,000 a second */
    assert_int_equal(ps_flood_wait_us(&w.flood, 8), 200000); /* whose rate 8 share */
    pass_time(&w, 100000);
    assert_int_equal(ps_flood_wait_us(&w.flood, 1), 0);
    send_frames(&w, HEADERS, END_HEADERS, 200, 512);
    assert_int_equal(w.verdict, PS_FLOOD_PAUSE);
    send_frames(&w, HEADERS, END_HEADERS, 200, 2); /* which it had when it was to be paused */
    assert_int_equal(w.verdict, PS_FLOOD_CLOSE);
    assert_int_equal(w.kind, PS_FLOOD_CALLS);
}

static void small_pieces_are_paused_and_large_ones_are_not(void **state)
{
    world w = connected(false, 0);

    (void)state;
    send_frames(&w, DATA, 0, 1024, 100000);
    assert_int_equal(w.verdict, PS_FLOOD_PASS);
    send_frames(&w, DATA, 0, 1, 31000);
    assert_int_equal(w.verdict, PS_FLOOD_PAUSE);
    pass_time(&w, S);
    send_frame(&w, DATA, 0, 1);
    assert_int_equal(w.verdict, PS_FLOOD_PASS);
}

static void a_suspect_has_smaller_buckets(void **state)
{
    world w = connected(true, 0);

    (void)state;
    send_frames(&w, RST, 0, 4, 32);
    assert_int_equal(w.verdict, PS_FLOOD_PASS);
    send_frame(&w, RST, 0, 4);
    assert_int_equal(w.verdict, PS_FLOOD_CLOSE);
    w = connected(true, 0);
    send_frames(&w, HEADERS, END_HEADERS, 200, 16 + 32);
    assert_int_equal(w.verdict, PS_FLOOD_PAUSE);
    send_frame(&w, HEADERS, END_HEADERS, 200); /* it may owe less, too */
    assert_int_equal(w.verdict, PS_FLOOD_CLOSE);
}

/* Also in the midst of a connection. */
static void who_grows_suspect_loses_what_its_buckets_hold(void **state)
{
    world w = connected(false, 0);

    (void)state;
    w.flood.is_suspect = true;
    pass_time(&w, 0);
    send_frames(&w, RST, 0, 4, 32);
    assert_int_equal(w.verdict, PS_FLOOD_PASS);
    send_frame(&w, RST, 0, 4);
    assert_int_equal(w.verdict, PS_FLOOD_CLOSE);
}

static void headers_have_an_end(void **state)
{
    world w = connected(false, 0);

    (void)state;
    send_frame(&w, HEADERS, 0, 16000);
    send_frames(&w, MORE, 0, 16000, 3);
    assert_int_equal(w.verdict, PS_FLOOD_PASS);
    send_frame(&w, MORE, END_HEADERS, 1000); /* the next call begins again */
    send_frame(&w, HEADERS, 0, 16000);
    send_frames(&w, MORE, 0, 16000, 3);
    assert_int_equal(w.verdict, PS_FLOOD_PASS);
    send_frame(&w, MORE, 0, 2000);
    assert_int_equal(w.verdict, PS_FLOOD_CLOSE);
    assert_int_equal(w.kind, PS_FLOOD_HEADERS);
    w = connected(false, 0);
    send_frame(&w, HEADERS, END_HEADERS, 65536);
    assert_int_equal(w.kind, PS_FLOOD_HEADERS);
}

static void who_does_not_acknowledge_the_settings_has_a_hundred_calls(void **state)
{
    world w = {.kind = PS_FLOOD_KINDS};

    (void)state;
    ps_flood_init(&w.flood, false, 0);
    feed(&w, (const uint8_t *)"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    send_frame(&w, SETTINGS, 0, 0);
    send_frames(&w, HEADERS, END_HEADERS, 200, 100);
    assert_int_equal(w.verdict, PS_FLOOD_PASS);
    send_frame(&w, HEADERS, END_HEADERS, 200);
    assert_int_equal(w.verdict, PS_FLOOD_CLOSE);
    assert_int_equal(w.kind, PS_FLOOD_UNACKNOWLEDGED);
}

static void another_protocol_is_seen_at_its_first_wrong_byte(void **state)
{
    static const char *const texts[] = {"GET / HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nXM",
                                        "\x16\x03\x01"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (size_t step = 0; step < 3; step++) {
            world w = {.step = step, .kind = PS_FLOOD_KINDS};

            ps_flood_init(&w.flood, false, 0);
            feed(&w, (const uint8_t *)texts[i], strlen(texts[i]));
            assert_int_equal(w.verdict, PS_FLOOD_CLOSE);
            assert_int_equal(w.kind, PS_FLOOD_NOT_HTTP2);
        }
    }
}

static void reads_may_end_anywhere(void **state)
{
    (void)state;
    for (size_t step = 0; step < 30; step++) {
        world w = connected(false, step);

        send_frame(&w, HEADERS, END_HEADERS, 77);
        send_frame(&w, DATA, 0, 5000);
        send_frames(&w, RST, 0, 4, 512);
        assert_int_equal(w.verdict, PS_FLOOD_PASS);
        send_frame(&w, RST, 0, 4);
        assert_int_equal(w.kind, PS_FLOOD_RESETS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_that_bring_nothing_close_the_connection),
        cmocka_unit_test(a_slow_client_goes_on_for_ever),
        cmocka_unit_test(who_begins_calls_too_fast_is_paused),
        cmocka_unit_test(small_pieces_are_paused_and_large_ones_are_not),
        cmocka_unit_test(a_suspect_has_smaller_buckets),
        cmocka_unit_test(who_grows_suspect_loses_what_its_buckets_hold),
        cmocka_unit_test(headers_have_an_end),
        cmocka_unit_test(who_does_not_acknowledge_the_settings_has_a_hundred_calls),
        cmocka_unit_test(another_protocol_is_seen_at_its_first_wrong_byte),
        cmocka_unit_test(reads_may_end_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
