/* SPDX-License-Identifier: Apache-2.0 */
/* test_rpc_instance.c - one server, two loops: calls of an instance stay on its loop's thread. */
#include "common/rpc/serve.h"
#include "tests/support/cmocka_all.h"

#include "common/base/container_of.h"
#include "common/rpc/loop_thread.h"
#include "common/rpc/process.h"
#include "tests/support/echo_talk.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A server with the service itself, on `here`'s loop, and its instance "1" on a thread, whose
 * handlers see `there`. The channel of `here` leads to the instance. */
typedef struct world {
    echo_world here, there;
    ps_loop_thread *thread;
    pthread_t kept_on; /* the thread that kept a call */
    ps_event stop;
    char target[32];
} world;

static void on_down(ps_event *self, bool ok)
{
    echo_world *w = PS_CONTAINER_OF(self, echo_world, down);

    (void)ok;
    ps_loop_stop(w->loop);
}

static void must(ps_status st)
{
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s\n", st.text);
        abort();
    }
}

static void begin(world *w)
{
    ps_service services[2] = {echo_service(&w->there), echo_service(&w->here)};

    memset(w, 0, sizeof *w);
    w->here.down.fire = on_down;
    must(ps_loop_create(&w->here.loop));
    must(ps_loop_thread_start("there", &w->thread));
    services[0].instance = "1";
    services[0].loop = ps_loop_thread_loop(w->thread);
    must(ps_serve(w->here.loop, services, 2, "127.0.0.1:0", &w->here.server));
    snprintf(w->target, sizeof w->target, "127.0.0.1:%d", ps_server_port(w->here.server));
    w->here.channel = ps_channel_create_instance(w->here.loop, w->target, "1");
}

static void end(world *w)
{
    echo_world_end(&w->here);
    ps_loop_thread_stop(w->thread);
}

static void streams_and_calls_go_to_the_instance(void **state)
{
    talk t[8];
    echo_reply r;
    world w;

    (void)state;
    begin(&w);
    for (size_t i = 0; i < 8; i++) {
        t[i] = (talk){.size = 100000, .pieces = 3, .to_send = 20, .in_turn = i % 2 == 0};
        talk_start(&t[i], &w.here, "Chat", TIMEOUT_US);
    }
    echo_call(&w.here, "who is there", 7, TIMEOUT_US, &r);
    end(&w);
    for (size_t i = 0; i < 8; i++) {
        assert_true(ps_is_ok(&t[i].error.status));
        assert_int_equal(t[i].received, 20);
        assert_int_equal(t[i].bad_payloads, 0);
    }
    assert_string_equal(r.text, "who is there");
    assert_int_equal(w.there.messages, 8 * 20);
    assert_int_equal(w.there.half_closes, 8);
    assert_int_equal(w.here.messages, 0);
}

/* Ends the test's own channel too. */
typedef struct other_call {
    world *w;
    ps_channel *channel;
    ps_error error;
} other_call;

static void on_other(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    other_call *c = arg;

    (void)reply;
    c->error = *error;
    ps_channel_destroy(c->channel);
    echo_world_one_over(&c->w->here);
}

static void call_instance(other_call *c, world *w, const char *instance)
{
    Psgd__Test__Ping ping = PSGD__TEST__PING__INIT;

    c->w = w;
    c->channel = instance != NULL ? ps_channel_create_instance(w->here.loop, w->target, instance)
                                  : ps_channel_create(w->here.loop, w->target);
    ping.text = (char *)"fail";
    w->here.to_come++;
    ps_unary_start(c->channel, &psgd__test__echo_service__descriptor, "Unary", &ping.base,
                   TIMEOUT_US, on_other, c);
}

static void an_instance_that_there_is_not_is_unknown(void **state)
{
    other_call itself, other, none;
    world w;

    (void)state;
    begin(&w);
    call_instance(&itself, &w, NULL);
    call_instance(&other, &w, "2");
    call_instance(&none, &w, "");
    end(&w);
    assert_int_equal(itself.error.status.code, PS_NOT_FOUND); /* as the handler says */
    assert_int_equal(other.error.status.code, PS_UNIMPLEMENTED);
    assert_string_equal(other.error.status.text, "no method /psgd.test.EchoService/Unary/2 here");
    assert_int_equal(none.error.status.code, PS_UNIMPLEMENTED);
}

static void begin_stop(ps_event *self, bool ok)
{
    world *w = PS_CONTAINER_OF(self, world, stop);

    (void)ok;
    ps_channel_destroy(w->here.channel);
    ps_server_stop(w->here.server, 0, &w->here.down);
}

/* On the instance's thread. */
static void stop_server(echo_world *there)
{
    world *w = PS_CONTAINER_OF(there, world, there);

    w->kept_on = pthread_self();
    ps_loop_post(w->here.loop, &w->stop);
}

static void a_stopping_server_ends_calls_that_instances_keep(void **state)
{
    echo_reply r;
    world w;

    (void)state;
    begin(&w);
    w.there.on_kept = stop_server;
    w.stop.fire = begin_stop;
    echo_call(&w.here, "keep", 0, TIMEOUT_US, &r);
    w.here.to_come++; /* the stop ends the world, not the call */
    end(&w);
    assert_false(pthread_equal(w.kept_on, pthread_self()));
    assert_int_equal(r.times, 1);
    assert_int_equal(r.error.status.code, PS_UNAVAILABLE);
    assert_int_equal(w.there.gone, 1);
    assert_null(w.there.kept);
}

static void add(void *arg)
{
    (*(unsigned *)arg)++;
}

static void what_is_run_on_a_loop_is_done_when_it_returns(void **state)
{
    ps_loop_thread *thread = NULL;
    unsigned count = 0;

    (void)state;
    must(ps_loop_thread_start("counts", &thread));
    for (unsigned i = 1; i <= 1000; i++) {
        ps_loop_thread_run(thread, add, &count);
        assert_int_equal(count, i);
    }
    ps_loop_thread_stop(thread);
    ps_loop_thread_stop(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_and_calls_go_to_the_instance),
        cmocka_unit_test(an_instance_that_there_is_not_is_unknown),
        cmocka_unit_test(a_stopping_server_ends_calls_that_instances_keep),
        cmocka_unit_test(what_is_run_on_a_loop_is_done_when_it_returns),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    ps_rpc_init_process();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
