/* SPDX-License-Identifier: Apache-2.0 */
/* test_health.c - grpc.health.v1 of a real server, over loopback. */
#include "tests/support/cmocka_all.h"
#include "tests/support/kinds_world.h"

#include "grpc/health/v1/health.pb-c.h"

#include <string.h>

#define NAME "psgd.test.KindsService"

typedef Grpc__Health__V1__HealthCheckRequest check_request;
typedef Grpc__Health__V1__HealthCheckResponse check_response;

enum {
    SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING,
    NOT_SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING,
    SERVICE_UNKNOWN = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN
};

/* --- Check ----------------------------------------------------------------- */

typedef struct check {
    bool over;
    int status; /* of the answer, or -1 */
    ps_code code;
} check;

static void on_reply(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    check *c = arg;

    c->code = error->status.code;
    c->status = reply == NULL ? -1 : (int)((const check_response *)reply)->status;
    c->over = true;
}

static check ask(kinds_world *w, const char *service)
{
    check_request request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    char name[128];
    check c = {.status = -1};

    strcpy(name, service);
    request.service = name;
    ps_unary_start(w->channel, &grpc__health__v1__health__descriptor, "Check", &request.base,
                   TIMEOUT_US, on_reply, &c);
    kinds_world_pump(w, &c.over);
    return c;
}

static void check_knows_the_server_and_its_services(void **state)
{
    kinds_world w;

    (void)state;
    kinds_world_begin(&w);
    assert_int_equal(ask(&w, "").status, SERVING);
    assert_int_equal(ask(&w, NAME).status, SERVING);
    ps_server_set_serving(w.server, NAME, false);
    assert_int_equal(ask(&w, "").status, SERVING);
    assert_int_equal(ask(&w, NAME).status, NOT_SERVING);
    ps_server_set_serving(w.server, NAME, true);
    assert_int_equal(ask(&w, NAME).status, SERVING);
    kinds_world_end(&w);
}

static void check_of_an_unknown_service_is_not_found(void **state)
{
    kinds_world w;

    (void)state;
    kinds_world_begin(&w);
    assert_int_equal(ask(&w, "psgd.test.Kinds").code, PS_NOT_FOUND);
    assert_int_equal(ask(&w, "readiness").code, PS_NOT_FOUND);
    ps_server_set_serving(w.server, "readiness", false); /* a name may be added */
    assert_int_equal(ask(&w, "readiness").status, NOT_SERVING);
    kinds_world_end(&w);
}

/* --- Watch ----------------------------------------------------------------- */

enum { SEEN_MAX = 16 };

typedef struct watch {
    ps_stream *stream;
    bool arrived; /* since last cleared */
    bool over;
    ps_code code;
    size_t count;
    int seen[SEEN_MAX];
} watch;

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    watch *watched = arg;

    (void)payload;
    assert_true(watched->count < SEEN_MAX);
    watched->seen[watched->count++] = (int)((const check_response *)head)->status;
    watched->arrived = true;
    ps_stream_read(watched->stream);
}

static void on_end(void *arg, const ps_error *error)
{
    watch *watched = arg;

    watched->code = error->status.code;
    watched->over = true;
}

static const ps_stream_events watch_events = {.on_message = on_message, .on_end = on_end};

static void watch_begin(kinds_world *w, const char *service, watch *out)
{
    check_request request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    char name[128];

    memset(out, 0, sizeof *out);
    strcpy(name, service);
    request.service = name;
    out->stream = ps_stream_open(w->channel, &grpc__health__v1__health__descriptor, "Watch",
                                 PS_NO_TIMEOUT, 0, &watch_events, out);
    ps_stream_send(out->stream, &request.base, NULL, 0);
    ps_stream_half_close(out->stream);
    ps_stream_read(out->stream);
}

static int next_status(kinds_world *w, watch *watched)
{
    kinds_world_pump(w, &watched->arrived);
    watched->arrived = false;
    return watched->seen[watched->count - 1];
}

static void watch_end(kinds_world *w, watch *watched)
{
    ps_stream_cancel(watched->stream);
    kinds_world_pump(w, &watched->over);
    assert_int_equal(watched->code, PS_CANCELLED);
}

static void watch_tells_at_once_and_then_each_change(void **state)
{
    kinds_world w;
    watch whole, one;

    (void)state;
    kinds_world_begin(&w);
    ps_server_set_serving(w.server, NAME, false);
    watch_begin(&w, "", &whole);
    watch_begin(&w, NAME, &one);
    assert_int_equal(next_status(&w, &whole), SERVING);
    assert_int_equal(next_status(&w, &one), NOT_SERVING);
    ps_server_set_serving(w.server, NAME, false); /* is no change */
    ps_server_set_serving(w.server, NAME, true);
    assert_int_equal(next_status(&w, &one), SERVING);
    ps_server_set_serving(w.server, NAME, false);
    assert_int_equal(next_status(&w, &one), NOT_SERVING);
    assert_int_equal(one.count, 3);
    assert_int_equal(whole.count, 1);
    watch_end(&w, &one);
    watch_end(&w, &whole);
    kinds_world_end(&w);
}

static void watch_of_an_unknown_service_says_so_and_stays_open(void **state)
{
    kinds_world w;
    watch one;

    (void)state;
    kinds_world_begin(&w);
    watch_begin(&w, "readiness", &one);
    assert_int_equal(next_status(&w, &one), SERVICE_UNKNOWN);
    assert_int_equal(ask(&w, "").status, SERVING); /* time for an end, if it came */
    assert_false(one.over);
    ps_server_set_serving(w.server, "readiness", true);
    assert_int_equal(next_status(&w, &one), SERVING);
    watch_end(&w, &one);
    kinds_world_end(&w);
}

static void a_storm_of_changes_costs_a_watcher_few_messages(void **state)
{
    kinds_world w;
    watch one;

    (void)state;
    kinds_world_begin(&w);
    watch_begin(&w, NAME, &one);
    assert_int_equal(next_status(&w, &one), SERVING);
    for (size_t i = 0; i < 1001; i++) {
        ps_server_set_serving(w.server, NAME, i % 2 == 1); /* ends with false */
    }
    while (next_status(&w, &one) != NOT_SERVING) {
    }
    assert_int_equal(ask(&w, NAME).status, NOT_SERVING);
    assert_true(one.count <= 3);
    watch_end(&w, &one);
    kinds_world_end(&w);
}

static void a_watcher_that_hung_up_is_forgotten(void **state)
{
    kinds_world w;
    watch many[5];

    (void)state;
    kinds_world_begin(&w);
    for (size_t i = 0; i < 5; i++) {
        watch_begin(&w, NAME, &many[i]);
        assert_int_equal(next_status(&w, &many[i]), SERVING);
    }
    watch_end(&w, &many[1]);
    watch_end(&w, &many[4]);
    watch_end(&w, &many[0]);
    assert_int_equal(ask(&w, NAME).status, SERVING);
    ps_server_set_serving(w.server, NAME, false);
    assert_int_equal(next_status(&w, &many[2]), NOT_SERVING);
    assert_int_equal(next_status(&w, &many[3]), NOT_SERVING);
    watch_end(&w, &many[2]);
    watch_end(&w, &many[3]);
    kinds_world_end(&w);
}

static void a_server_that_stops_says_so_and_ends_every_watch(void **state)
{
    kinds_world w;
    watch one, unknown;

    (void)state;
    kinds_world_begin(&w);
    watch_begin(&w, "", &one);
    watch_begin(&w, "nobody", &unknown);
    assert_int_equal(next_status(&w, &one), SERVING);
    assert_int_equal(next_status(&w, &unknown), SERVICE_UNKNOWN);
    kinds_world_stop(&w, 1000 * SECOND); /* no watch may hold it up so long */
    kinds_world_pump(&w, &w.is_down);
    kinds_world_pump(&w, &one.over);
    kinds_world_pump(&w, &unknown.over);
    assert_int_equal(one.count, 2);
    assert_int_equal(one.seen[1], NOT_SERVING);
    assert_int_equal(one.code, PS_UNAVAILABLE);
    assert_int_equal(unknown.code, PS_UNAVAILABLE);
    kinds_world_end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_knows_the_server_and_its_services),
        cmocka_unit_test(check_of_an_unknown_service_is_not_found),
        cmocka_unit_test(watch_tells_at_once_and_then_each_change),
        cmocka_unit_test(watch_of_an_unknown_service_says_so_and_stays_open),
        cmocka_unit_test(a_storm_of_changes_costs_a_watcher_few_messages),
        cmocka_unit_test(a_watcher_that_hung_up_is_forgotten),
        cmocka_unit_test(a_server_that_stops_says_so_and_ends_every_watch),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
