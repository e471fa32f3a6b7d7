/* SPDX-License-Identifier: Apache-2.0 */
/* test_rpc_flow.c - who does not read blocks who sends, and what that may cost. */
#include "tests/support/cmocka_all.h"

#include "common/base/container_of.h"
#include "common/rpc/process.h"
#include "tests/support/echo_talk.h"

#include <stdio.h>
#include <string.h>

enum {
    /* What lies between a sender and a reader that does not read: windows of
     * HTTP/2, buffers of TCP (net.ipv4.tcp_rmem's, too), one message in flight.
     * The bounds are those of docs/wire.md. */
    BLOCKED_MAX = 40 << 20,
    FAST_BLOCKED_MAX = 80 << 20, /* a fast stream has larger windows */
    STREAMS = 64
};

#define MUCH 4096 /* MiB that are never all sent */

typedef struct patience {
    echo_world w;
    talk t[STREAMS];
    size_t count;  /* of t */
    uint64_t need; /* messages at the server before one looks */
    ps_timer timer;
    uint64_t seen; /* messages out when last looked */
} patience;

/* Nothing went out for a while: the senders are blocked. */
static void on_look(ps_event *self, bool ok)
{
    patience *p = PS_CONTAINER_OF(self, patience, timer.event);
    uint64_t out = p->w.sent;

    assert_true(ok);
    for (size_t i = 0; i < p->count; i++) {
        out += p->t[i].sent;
    }
    if (out != p->seen || p->w.messages < p->need) {
        p->seen = out;
        ps_loop_after(p->w.loop, &p->timer, 200 * MS);
        return;
    }
    for (size_t i = 0; i < p->count; i++) {
        if (p->t[i].ends == 0) {
            ps_stream_cancel(p->t[i].stream);
        }
    }
}

static void patience_begin(patience *p, size_t count, uint64_t need)
{
    memset(p, 0, sizeof *p);
    echo_world_begin(&p->w);
    p->count = count;
    p->need = need;
    p->timer.event.fire = on_look;
    ps_loop_after(p->w.loop, &p->timer, 200 * MS);
}

static patience p; /* too large for a stack */

static void a_server_that_does_not_read_blocks_the_sender(void **state)
{
    (void)state;
    patience_begin(&p, 1, 1);
    p.t[0] = (talk){.size = PS_PAYLOAD_MAX, .to_send = MUCH, .pieces = 1, .stop_at = 1};
    talk_start(&p.t[0], &p.w, "Upload", PS_NO_TIMEOUT);
    echo_world_end(&p.w);
    assert_int_equal(p.t[0].error.status.code, PS_CANCELLED);
    assert_int_equal(p.w.messages, 1);
    assert_in_range(p.t[0].sent, 1, BLOCKED_MAX / PS_PAYLOAD_MAX);
    assert_int_equal(p.w.gone, 1);
}

static void a_server_that_reads_no_further_blocks_the_sender(void **state)
{
    enum { READ = 500 };

    (void)state;
    patience_begin(&p, 1, READ);
    p.t[0] = (talk){.size = PS_PAYLOAD_MAX, .to_send = MUCH, .pieces = 1, .stop_at = READ};
    talk_start(&p.t[0], &p.w, "Upload", PS_NO_TIMEOUT);
    echo_world_end(&p.w);
    assert_int_equal(p.t[0].error.status.code, PS_CANCELLED);
    assert_int_equal(p.w.messages, READ);
    assert_in_range(p.t[0].sent, READ, READ + FAST_BLOCKED_MAX / PS_PAYLOAD_MAX);
}

static void a_client_that_does_not_read_blocks_the_server(void **state)
{
    (void)state;
    patience_begin(&p, 1, 0);
    p.t[0] = (talk){.does_not_read = true};
    talk_download(&p.t[0], &p.w, MUCH, PS_PAYLOAD_MAX);
    echo_world_end(&p.w);
    assert_int_equal(p.t[0].error.status.code, PS_CANCELLED);
    assert_int_equal(p.t[0].received, 0);
    assert_in_range(p.w.sent, 1, BLOCKED_MAX / PS_PAYLOAD_MAX);
    assert_int_equal(p.w.gone, 1);
}

/* The bound on what gRPC holds for a server refuses giants, not honest streams. */
static void many_streams_that_are_not_read_are_blocked_not_cut_off(void **state)
{
    ps_channel *channels[STREAMS];
    char target[32];

    (void)state;
    patience_begin(&p, STREAMS, STREAMS);
    snprintf(target, sizeof target, "127.0.0.1:%d", ps_server_port(p.w.server));
    for (size_t i = 0; i < STREAMS; i++) {
        ps_channel *shared = p.w.channel;

        p.t[i] = (talk){.size = PS_PAYLOAD_MAX, .to_send = MUCH, .pieces = 1, .stop_at = 1};
        p.w.channel = channels[i] = ps_channel_create(p.w.loop, target);
        talk_start(&p.t[i], &p.w, "Upload", PS_NO_TIMEOUT);
        p.w.channel = shared;
        ps_channel_destroy(channels[i]);
    }
    echo_world_end(&p.w);
    for (size_t i = 0; i < STREAMS; i++) {
        assert_int_equal(p.t[i].error.status.code, PS_CANCELLED);
    }
    assert_int_equal(p.w.messages, STREAMS);
    assert_int_equal(p.w.gone, STREAMS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_does_not_read_blocks_the_sender),
        cmocka_unit_test(a_server_that_reads_no_further_blocks_the_sender),
        cmocka_unit_test(a_client_that_does_not_read_blocks_the_server),
        cmocka_unit_test(many_streams_that_are_not_read_are_blocked_not_cut_off),
    };

    ps_rpc_init_process();
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
