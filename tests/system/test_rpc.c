/* SPDX-License-Identifier: Apache-2.0 */
/* test_rpc.c - unary calls, errors, and the server's life, on loopback. */
#include "common/rpc/serve.h"
#include "tests/support/cmocka_all.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/rpc/process.h"
#include "tests/support/echo_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void a_reply_brings_the_answer(void **state)
{
    echo_world w;
    echo_reply r;

    (void)state;
    echo_world_begin(&w);
    echo_call(&w, "h\xc3\xa9", 7, TIMEOUT_US, &r);
    echo_world_end(&w);
    assert_int_equal(r.times, 1);
    assert_true(ps_is_ok(&r.error.status));
    assert_string_equal(r.text, "h\xc3\xa9");
    assert_int_equal(r.number, 7);
}

static void a_handler_s_failure_reaches_the_client_whole(void **state)
{
    echo_world w;
    echo_reply r;

    (void)state;
    echo_world_begin(&w);
    echo_call(&w, "fail", 0, TIMEOUT_US, &r);
    echo_world_end(&w);
    assert_int_equal(r.error.status.code, PS_NOT_FOUND);
    assert_string_equal(r.error.status.text, "as requested");
    assert_string_equal(r.error.reason, "NOT_FOUND");
    assert_int_equal(r.error.meta_count, 0);
}

static void reason_metadata_and_violations_make_the_round_trip(void **state)
{
    echo_world w;
    echo_reply r;

    (void)state;
    echo_world_begin(&w);
    echo_call(&w, "violate", 3, TIMEOUT_US, &r);
    echo_world_end(&w);
    assert_int_equal(r.error.status.code, PS_INVALID_ARGUMENT);
    assert_string_equal(r.error.status.text, "3 fields");
    assert_string_equal(r.error.reason, "BAD_SPEC");
    assert_int_equal(r.error.meta_count, 2);
    assert_string_equal(r.error.meta[0].key, "job");
    assert_string_equal(r.error.meta[0].value, "j-1");
    assert_string_equal(r.error.meta[1].value, "caf?");
    assert_int_equal(r.error.violation_count, 3);
    assert_int_equal(r.error.violations_dropped, 0);
    assert_string_equal(r.error.violations[2].field, "spec.layers[2].size");
    assert_string_equal(r.error.violations[2].text, "100002 is not between 1 and 16384");
}

static void violations_that_do_not_fit_are_counted(void **state)
{
    enum { MANY = 100 };
    echo_world w;
    echo_reply r;

    (void)state;
    echo_world_begin(&w);
    echo_call(&w, "violate", MANY, TIMEOUT_US, &r);
    echo_world_end(&w);
    assert_int_equal(r.error.status.code, PS_INVALID_ARGUMENT);
    assert_true(r.error.violation_count > 20);
    assert_int_equal(r.error.violation_count + r.error.violations_dropped, MANY);
}

static void a_call_that_nobody_answers_meets_its_deadline(void **state)
{
    echo_world w;
    echo_reply r;

    (void)state;
    echo_world_begin(&w);
    echo_call(&w, "keep", 0, 1000 * MS, &r); /* enough to be heard */
    echo_world_end(&w);
    assert_int_equal(r.error.status.code, PS_DEADLINE_EXCEEDED);
    assert_string_equal(r.error.reason, "DEADLINE_EXCEEDED");
    assert_non_null(strstr(r.error.status.text, "127.0.0.1:")); /* names who did not answer */
    assert_int_equal(w.gone, 1);
    assert_null(w.kept);
}

/* Calls a peer that is not there. */
static ps_error call_nobody(const char *target, bool fails_fast, int64_t timeout_us)
{
    ps_channel *served;
    echo_world w;
    echo_reply r;

    echo_world_begin(&w);
    served = w.channel;
    w.channel = ps_channel_create(w.loop, target);
    if (fails_fast) {
        ps_channel_fail_fast(w.channel);
    }
    echo_call(&w, "anybody?", 0, timeout_us, &r);
    ps_channel_destroy(w.channel);
    w.channel = served;
    echo_world_end(&w);
    assert_int_equal(r.error.status.code, PS_UNAVAILABLE);
    return r.error;
}

static void a_peer_that_is_not_there_is_unreachable(void **state)
{
    ps_error error = call_nobody("127.0.0.1:1", false, 300 * MS);

    (void)state;
    assert_string_equal(error.reason, "UNREACHABLE");
    assert_string_equal(error.status.text,
                        "127.0.0.1:1: cannot be reached within the time allowed");
}

static void a_channel_that_fails_fast_does_not_wait_for_a_connection(void **state)
{
    /* The deadline is one that only a test that fails meets. */
    ps_error error = call_nobody("127.0.0.1:1", true, TIMEOUT_US);

    (void)state;
    assert_string_equal(error.reason, "NOT_CONNECTED");
    assert_string_equal(error.status.text, "127.0.0.1:1: cannot be reached: Connection refused");
    error = call_nobody("there-is-no.invalid:1", true, TIMEOUT_US);
    assert_string_equal(error.reason, "NOT_CONNECTED");
}

static ps_unary *to_cancel;

static void cancel_it(echo_world *w)
{
    (void)w;
    ps_unary_cancel(to_cancel);
}

static void a_cancelled_call_is_gone_at_the_server(void **state)
{
    echo_world w;
    echo_reply r;

    (void)state;
    echo_world_begin(&w);
    w.on_kept = cancel_it;
    to_cancel = echo_call(&w, "keep", 0, TIMEOUT_US, &r);
    echo_world_end(&w);
    assert_int_equal(r.times, 1);
    assert_int_equal(r.error.status.code, PS_CANCELLED);
    assert_int_equal(w.gone, 1);
}

static void stop_server(echo_world *w)
{
    ps_channel_destroy(w->channel);
    ps_server_stop(w->server, 0, &w->down);
}

static void a_stopping_server_ends_kept_calls(void **state)
{
    echo_world w;
    echo_reply r;

    (void)state;
    echo_world_begin(&w);
    w.on_kept = stop_server;
    echo_call(&w, "keep", 0, TIMEOUT_US, &r);
    w.to_come = -1; /* the server is stopped by hand */
    echo_world_end(&w);
    assert_false(ps_is_ok(&r.error.status));
    assert_int_equal(w.gone, 1);
}

static void a_handler_learns_who_calls(void **state)
{
    echo_world w;
    echo_reply r;

    (void)state;
    echo_world_begin(&w);
    echo_call(&w, "peer", 0, TIMEOUT_US, &r);
    echo_world_end(&w);
    assert_int_equal(strncmp(r.text, "ipv4:127.0.0.1:", 15), 0);
}

static void messages_and_bytes_are_counted(void **state)
{
    enum { BYTES = 5 + 2 + 8 + 2 }; /* prefix, text, number */
    echo_world w;
    echo_reply r;

    (void)state;
    echo_world_begin(&w);
    echo_call(&w, "12345678", 1, TIMEOUT_US, &r);
    echo_world_end(&w);
    assert_int_equal(w.client_traffic.bytes_out, BYTES);
    assert_int_equal(w.client_traffic.bytes_in, BYTES);
    assert_int_equal(w.client_traffic.messages_out, 1);
    assert_int_equal(w.client_traffic.messages_in, 1);
}

/* --- what is not asked for ------------------------------------------------------ */

static void an_unknown_method_is_unimplemented(void **state)
{
    Psgd__Test__Odd odd = PSGD__TEST__ODD__INIT;
    echo_world w;
    echo_reply r;

    (void)state;
    echo_world_begin(&w);
    odd_call(&w, "Missing", &odd, &r);
    echo_world_end(&w);
    assert_int_equal(r.error.status.code, PS_UNIMPLEMENTED);
    assert_string_equal(r.error.status.text, "no method /psgd.test.EchoService/Missing here");
    assert_string_equal(r.error.reason, "UNKNOWN_METHOD");
}

static void refuses_text(const void *text, size_t len, ps_code code, const char *reason)
{
    Psgd__Test__Odd odd = PSGD__TEST__ODD__INIT;
    echo_world w;
    echo_reply bad, good;

    odd.text = (ProtobufCBinaryData){len, (uint8_t *)text};
    echo_world_begin(&w);
    odd_call(&w, "Unary", &odd, &bad);
    echo_call(&w, "and on it goes", 1, TIMEOUT_US, &good);
    echo_world_end(&w);
    assert_int_equal(bad.error.status.code, code);
    assert_string_equal(bad.error.reason, reason);
    assert_string_equal(good.text, "and on it goes");
}

static void a_string_that_is_not_utf8_is_refused(void **state)
{
    (void)state;
    refuses_text("abc\xff", 4, PS_INVALID_ARGUMENT, "MALFORMED_MESSAGE");
}

static void a_string_with_a_nul_is_refused(void **state)
{
    (void)state;
    refuses_text("ab\0c", 4, PS_INVALID_ARGUMENT, "MALFORMED_MESSAGE");
}

static void a_message_longer_than_its_method_allows_is_refused(void **state)
{
    enum { LEN = 70000 };
    char *text = ps_xmalloc(LEN);

    (void)state;
    memset(text, 'x', LEN);
    refuses_text(text, LEN, PS_RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE");
    free(text);
}

static void a_message_longer_than_all_methods_allow_is_refused(void **state)
{
    enum { LEN = 5 << 20 };
    char *text = ps_xmalloc(LEN);

    (void)state;
    memset(text, 'x', LEN);
    refuses_text(text, LEN, PS_RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED"); /* gRPC's own words */
    free(text);
}

/* --- the server's life ------------------------------------------------------------ */

static void start_fails(const ps_service *service, const char *address, ps_code code,
                        const char *text)
{
    ps_loop *loop;
    ps_server *server = NULL;
    ps_status st = ps_loop_create(&loop);

    assert_true(ps_is_ok(&st));
    st = ps_serve(loop, service, 1, address, &server);
    assert_int_equal(st.code, code);
    assert_string_equal(st.text, text);
    assert_null(server);
    ps_loop_destroy(loop);
}

static void a_table_that_lacks_a_method_is_refused(void **state)
{
    ps_service service = echo_service(NULL);

    (void)state;
    service.method_count--;
    start_fails(&service, "127.0.0.1:0", PS_FAILED_PRECONDITION,
                "psgd.test.EchoService: no handler for Chat");
}

static void an_address_that_is_none_is_a_status_not_a_crash(void **state)
{
    ps_service service = echo_service(NULL);

    (void)state;
    start_fails(&service, "256.0.0.1:1", PS_UNAVAILABLE,
                "cannot listen on 256.0.0.1:1: address \"256.0.0.1:1\": the host is neither a "
                "name nor an IP address; write host:port");
}

static void a_second_server_on_one_port_is_refused(void **state)
{
    ps_service service = echo_service(NULL);
    ps_server *second = NULL;
    char address[32];
    echo_world w;
    echo_reply r;
    ps_status st;

    (void)state;
    echo_world_begin(&w);
    snprintf(address, sizeof address, "127.0.0.1:%d", ps_server_port(w.server));
    st = ps_serve(w.loop, &service, 1, address, &second);
    assert_int_equal(st.code, PS_UNAVAILABLE);
    assert_non_null(strstr(st.text, ": Address already in use"));
    assert_null(second);
    echo_call(&w, "the first still answers", 1, TIMEOUT_US, &r);
    echo_world_end(&w);
    assert_string_equal(r.text, "the first still answers");
}

/* A server that goes away and comes back under the same address. */
typedef struct comeback {
    echo_world w;
    ps_event gone;
    ps_timer back;
    int port;
    echo_reply before;
    unsigned lost; /* calls that went down with the old connection */
    ps_error after;
} comeback;

static void on_back(ps_event *self, bool ok)
{
    comeback *c = PS_CONTAINER_OF(self, comeback, back.event);
    ps_service service = echo_service(&c->w);
    char address[32];
    ps_status st;

    assert_true(ok);
    snprintf(address, sizeof address, "127.0.0.1:%d", c->port);
    st = ps_serve(c->w.loop, &service, 1, address, &c->w.server);
    assert_true(ps_is_ok(&st));
}

static void call_again(comeback *c);

static void on_after(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    comeback *c = arg;

    c->after = *error;
    if (reply == NULL && error->status.code == PS_UNAVAILABLE && c->lost++ < 3) {
        call_again(c);
    } else {
        echo_world_one_over(&c->w);
    }
}

static void call_again(comeback *c)
{
    Psgd__Test__Ping ping = PSGD__TEST__PING__INIT;

    ps_unary_start(c->w.channel, &psgd__test__echo_service__descriptor, "Unary", &ping.base,
                   TIMEOUT_US, on_after, c);
}

static void on_gone(ps_event *self, bool ok)
{
    comeback *c = PS_CONTAINER_OF(self, comeback, gone);

    (void)ok;
    call_again(c); /* nobody is there, which the client may not know yet */
    ps_loop_after(c->w.loop, &c->back, 300 * MS);
}

static void leave(echo_world *w)
{
    comeback *c = PS_CONTAINER_OF(w, comeback, w);

    ps_server_stop(w->server, 0, &c->gone);
}

static void a_server_that_comes_back_is_found_again(void **state)
{
    comeback *c = ps_xcalloc(1, sizeof *c);

    (void)state;
    echo_world_begin(&c->w);
    c->gone.fire = on_gone;
    c->back.event.fire = on_back;
    c->port = ps_server_port(c->w.server);
    c->w.on_kept = leave;
    echo_call(&c->w, "keep", 0, TIMEOUT_US, &c->before);
    c->w.to_come++; /* the call after */
    echo_world_end(&c->w);
    assert_int_equal(c->before.error.status.code, PS_UNAVAILABLE);
    assert_true(ps_is_ok(&c->after.status));
    free(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_brings_the_answer),
        cmocka_unit_test(a_handler_s_failure_reaches_the_client_whole),
        cmocka_unit_test(reason_metadata_and_violations_make_the_round_trip),
        cmocka_unit_test(violations_that_do_not_fit_are_counted),
        cmocka_unit_test(a_call_that_nobody_answers_meets_its_deadline),
        cmocka_unit_test(a_peer_that_is_not_there_is_unreachable),
        cmocka_unit_test(a_channel_that_fails_fast_does_not_wait_for_a_connection),
        cmocka_unit_test(a_cancelled_call_is_gone_at_the_server),
        cmocka_unit_test(a_stopping_server_ends_kept_calls),
        cmocka_unit_test(a_handler_learns_who_calls),
        cmocka_unit_test(messages_and_bytes_are_counted),
        cmocka_unit_test(an_unknown_method_is_unimplemented),
        cmocka_unit_test(a_string_that_is_not_utf8_is_refused),
        cmocka_unit_test(a_string_with_a_nul_is_refused),
        cmocka_unit_test(a_message_longer_than_its_method_allows_is_refused),
        cmocka_unit_test(a_message_longer_than_all_methods_allow_is_refused),
        cmocka_unit_test(a_table_that_lacks_a_method_is_refused),
        cmocka_unit_test(an_address_that_is_none_is_a_status_not_a_crash),
        cmocka_unit_test(a_second_server_on_one_port_is_refused),
        cmocka_unit_test(a_server_that_comes_back_is_found_again),
    };

    ps_rpc_init_process();
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
