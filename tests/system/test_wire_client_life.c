/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_client_life.c - what happens to an exchange: others are ahead or
 * behind, answers are lost, servers go and come, the job is stopped. */
#include "tests/support/cmocka_all.h"

#include "tests/support/exchange_world.h"
#include "tests/support/patience.h"

#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include <arpa/inet.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IID_2 ", \"assignment\": {\"name\": \"iid\", \"params\": {\"redundancy\": 2}}"
#define SGD ", \"optimizer\": {\"rule\": {\"name\": \"sgd\", \"params\": {\"lr\": 1}}}"

/* --- policies that do not wait for all ------------------------------------------ */

/* How far each worker is, for the bound of ssp. */
typedef struct lead {
    uint64_t bound;
    uint32_t workers;
    atomic_uint_fast64_t begun[XW_WORKERS_MAX]; /* 1 + newest clock it has weights for */
    atomic_uint_fast64_t furthest;              /* largest lead seen */
} lead;

/* A worker's mark is set before it sends anything of the clock, so who is let
 * through has been sent for by nobody who is further behind than the bound. */
static void watch_lead(void *arg, fake_worker *w, uint64_t clock, fake_at at)
{
    lead *l = arg;

    if (at != FAKE_HAS_WEIGHTS) {
        return;
    }
    atomic_store(&l->begun[w->session.rank], clock + 1);
    for (uint32_t i = 0; i < l->workers; i++) {
        uint64_t begun = atomic_load(&l->begun[i]);
        uint64_t ahead = clock > begun ? clock - begun : 0;

        if (ahead > atomic_load(&l->furthest)) {
            atomic_store(&l->furthest, ahead);
        }
    }
}

/* Whole numbers are summed: w0 - sum of all contributions, whatever the order. */
static void must_have_all(exchange_world *w)
{
    const ps_plan *plan = w->job.plan;
    size_t n = plan->layout.param_count;
    float *want = ps_xcalloc(n, sizeof *want), *seen = ps_xcalloc(n, sizeof *seen);
    float *got = ps_xcalloc(n, sizeof *got);

    for (uint32_t i = 0; i < w->worker_count; i++) {
        assert_string_equal(w->workers[i].failure.text, "");
        assert_false(w->workers[i].went_home);
    }
    fake_twin(&w->job, FAKE_COUNTED, w->workers[0].steps, want, seen);
    for (uint32_t i = 0; i < w->server_count; i++) {
        const ps_store_counters *c;

        dp_server_weights(&w->servers[i], got);
        c = ps_store_counters_of(w->servers[i].store);
        assert_int_equal(c->applied,
                         w->workers[0].steps * w->worker_count * w->job.placement.owned_count[i]);
        assert_int_equal(c->dropped, 0);
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(got[i] == want[i]);
    }
    free(want);
    free(seen);
    free(got);
}

static void nobody_is_further_ahead_than_the_bound_of_ssp(void **state)
{
    (void)state;
    for (uint64_t bound = 0; bound < 4; bound += 3) {
        exchange_world w;
        lead l = {.bound = bound, .workers = 3};
        char choices[256];

        snprintf(choices, sizeof choices,
                 SGD ", \"update\": {\"name\": \"gradient_average\"}, \"consistency\": {\"name\": "
                     "\"ssp\", \"params\": {\"bound\": %u}}",
                 (unsigned)bound);
        xw_begin(&w, 3, 2, FAKE_COUNTED, 60, 0, choices);
        for (uint32_t i = 0; i < 3; i++) {
            w.workers[i].hook = watch_lead;
            w.workers[i].hook_arg = &l;
        }
        xw_start(&w);
        xw_join(&w);
        must_have_all(&w);
        assert_in_range(atomic_load(&l.furthest), 0, bound);
        xw_end(&w);
    }
}

static void asp_applies_every_contribution_once(void **state)
{
    exchange_world w;

    (void)state;
    xw_begin(&w, 3, 3, FAKE_COUNTED, 60, 5,
             SGD ", \"update\": {\"name\": \"gradient_average\"}, "
                 "\"consistency\": {\"name\": \"asp\"}");
    xw_start(&w);
    xw_join(&w);
    must_have_all(&w);
    xw_end(&w);
}

/* --- redundancy ------------------------------------------------------------------ */

static void two_holders_of_each_block_give_the_twin_s_bits(void **state)
{
    static const char *const choices[] = {
        IID_2,
        ", \"assignment\": {\"name\": \"duplicate\", \"params\": {\"redundancy\": 2}}",
        IID_2 ", \"codec\": {\"up\": {\"name\": \"int8\"}, \"down\": {\"name\": \"int8\"}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        exchange_world w;

        xw_begin(&w, 4, 2, FAKE_CHAINED, 12, 0, choices[i]);
        xw_start(&w);
        xw_join(&w);
        xw_must_be_as_the_twin(&w);
        xw_end(&w);
    }
}

enum { SLOW_RANK = 2, SLOW_CLOCK = 3, LATER_CLOCK = 9 };

/* One worker that is left behind. */
typedef struct laggard {
    exchange_world w;
    sem_t is_there;     /* the others may go on */
    bool weights_moved; /* while it computed */
} laggard;

/* Worker 2 has the weights of clock 3, which the others wait for before they send
 * anything of it, and begins when they are at 9. */
static void is_left_behind(void *arg, fake_worker *me, uint64_t clock, fake_at at)
{
    laggard *l = arg;
    bool is_slow = me == &l->w.workers[SLOW_RANK];

    if (clock != SLOW_CLOCK || at != (is_slow ? FAKE_HAS_WEIGHTS : FAKE_BEGINS)) {
        return;
    }
    if (!is_slow) {
        sem_wait(&l->is_there);
        return;
    }
    for (uint32_t i = 1; i < l->w.worker_count; i++) {
        sem_post(&l->is_there);
    }
    for (uint32_t i = 0; i < l->w.worker_count; i++) {
        if (&l->w.workers[i] != me) {
            fake_worker_wait(&l->w.workers[i], LATER_CLOCK);
        }
    }
}

static void leave_one_behind(laggard *l, uint32_t servers, fake_hook *hook, const char *choices)
{
    sem_init(&l->is_there, 0, 0);
    xw_begin(&l->w, 4, servers, FAKE_CHAINED, 14, 0, choices);
    for (uint32_t i = 0; i < l->w.worker_count; i++) {
        l->w.workers[i].hook = hook;
        l->w.workers[i].hook_arg = l;
    }
    xw_start(&l->w);
    xw_join(&l->w);
    xw_must_be_as_the_twin(&l->w);
    assert_true(l->w.workers[SLOW_RANK].skipped >= LATER_CLOCK - SLOW_CLOCK - 1);
    xw_end(&l->w);
    sem_destroy(&l->is_there);
}

static void a_slow_worker_is_overtaken_and_changes_no_bit(void **state)
{
    laggard l = {.weights_moved = false};

    (void)state;
    leave_one_behind(&l, 2, is_left_behind, IID_2);
}

static void nothing(void *arg)
{
    (void)arg;
}

/* Worker 2 is in the midst of a step that the others have long finished, so
 * what it has sent of it is acknowledged: it has all the time for new weights
 * to come. */
static void linger(void *arg, fake_worker *me, uint64_t clock, fake_at at)
{
    enum { ROUNDS = 100 };
    laggard *l = arg;
    size_t n = me->session.weight_count * sizeof(float);
    float *before;

    is_left_behind(l, me, clock, at);
    if (me != &l->w.workers[SLOW_RANK] || clock != SLOW_CLOCK || at != FAKE_IN_THE_MIDST) {
        return;
    }
    before = ps_xmalloc(n);
    memcpy(before, me->session.weights, n);
    (void)ps_gate_wait_acks(ps_exchange_gate(me->exchange));
    for (int i = 0; i < ROUNDS; i++) {
        side_run(&l->w.working, nothing, NULL);
        side_run(&l->w.serving, nothing, NULL);
    }
    l->weights_moved = memcmp(before, me->session.weights, n) != 0;
    free(before);
}

static void weights_do_not_change_under_a_computation(void **state)
{
    laggard l = {.weights_moved = false};

    (void)state;
    /* The last layer is large, so that it is sent while others are not ready. */
    leave_one_behind(&l, 1, linger,
                     IID_2 ", \"model\": {\"layers\": ["
                           "{\"kind\": \"dense\", \"params\": {\"units\": 2}}, "
                           "{\"kind\": \"dense\", \"params\": {\"units\": 16000}}, "
                           "{\"kind\": \"dense\", \"params\": {\"units\": 10}}]}");
    assert_false(l.weights_moved);
}

/* --- what is lost ------------------------------------------------------------------- */

static void lost_acknowledgements_change_no_bit(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth <= 3; nth++) {
        exchange_world w;

        xw_begin(&w, 2, 2, FAKE_CHAINED, 6, nth, "");
        xw_start(&w);
        xw_join(&w);
        xw_must_be_as_the_twin(&w);
        assert_true(ps_store_counters_of(w.servers[0].store)->duplicates > 0);
        xw_end(&w);
    }
}

static void a_server_whose_connections_break_is_found_again(void **state)
{
    static const char *const choices[] = {
        "",
        IID_2,
        ", \"model\": {\"widths\": [600, 200]}",
        ", \"codec\": {\"up\": {\"name\": \"int8\"}, \"down\": {\"name\": \"int8\"}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        exchange_world w;

        xw_begin(&w, 3, 2, FAKE_CHAINED, 16, 0, choices[i]);
        xw_start(&w);
        fake_worker_wait(&w.workers[0], 3);
        dp_server_break(&w.servers[1]);
        dp_server_resume(&w.servers[1]);
        fake_worker_wait(&w.workers[1], 8);
        dp_server_break(&w.servers[0]);
        dp_server_break(&w.servers[1]);
        dp_server_resume(&w.servers[0]);
        dp_server_resume(&w.servers[1]);
        xw_join(&w);
        xw_must_be_as_the_twin(&w);
        xw_end(&w);
    }
}

/* --- who does not answer --------------------------------------------------------------- */

static void must_name(const ps_status *st, ps_code code, const char *who, const char *who_not)
{
    assert_int_equal(st->code, code);
    assert_non_null(strstr(st->text, who));
    assert_null(strstr(st->text, who_not));
}

/* A port where somebody listens and says nothing. */
static int listen_and_be_silent(char *address, size_t cap)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    snprintf(address, cap, "127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

static void a_server_that_never_speaks_is_named_at_the_deadline(void **state)
{
    exchange_world w;
    int64_t began_us;
    int fd;

    (void)state;
    xw_begin(&w, 1, 2, FAKE_CHAINED, 5, 0, ", \"timeouts\": {\"step_ms\": 3000}");
    fd = listen_and_be_silent(w.job.placement.servers[1].address, PS_ENDPOINT_ADDRESS_MAX);
    began_us = ps_clock_us();
    xw_start(&w);
    xw_join(&w);
    assert_in_range(ps_clock_us() - began_us, 3000000, PS_TEST_PATIENCE_S * INT64_C(1000000));
    must_name(&w.workers[0].failure, PS_DEADLINE_EXCEEDED, "ps-1", "ps-0");
    close(fd);
    xw_end(&w);
}

static void nobody_listening_is_named_at_the_deadline(void **state)
{
    exchange_world w;
    int fd;

    (void)state;
    xw_begin(&w, 1, 2, FAKE_CHAINED, 5, 0, ", \"timeouts\": {\"step_ms\": 3000}");
    fd = listen_and_be_silent(w.job.placement.servers[0].address, PS_ENDPOINT_ADDRESS_MAX);
    close(fd);
    xw_start(&w);
    xw_join(&w);
    must_name(&w.workers[0].failure, PS_DEADLINE_EXCEEDED, "ps-0", "ps-1");
    xw_end(&w);
}

/* Holds up a loop until the flag is raised. */
typedef struct freeze {
    ps_event event;
    flag thaw;
} freeze;

static void on_freeze(ps_event *self, bool ok)
{
    freeze *f = (freeze *)self; /* first member */

    (void)ok;
    flag_wait(&f->thaw);
}

static void a_server_that_freezes_is_named_and_can_be_left(void **state)
{
    exchange_world w;
    freeze f = {.event.fire = on_freeze};
    int64_t until_us = ps_clock_us() + PS_TEST_PATIENCE_S * INT64_C(1000000);
    char whom[80];

    (void)state;
    xw_begin(&w, 1, 1, FAKE_CHAINED, 10000, 0, ", \"timeouts\": {\"step_ms\": 3000}");
    flag_init(&f.thaw);
    xw_start(&w);
    fake_worker_wait(&w.workers[0], 5);
    ps_loop_post(w.serving.loop, &f.event);
    do {
        ps_gate_waited_s(ps_exchange_gate(w.workers[0].exchange), whom, sizeof whom);
    } while (strcmp(whom, "ps-0") != 0 && ps_clock_us() < until_us);
    xw_join(&w);
    must_name(&w.workers[0].failure, PS_DEADLINE_EXCEEDED, "ps-0", "ps-1");
    flag_raise(&f.thaw);
    xw_end(&w);
    flag_fini(&f.thaw);
}

static void a_server_that_ends_the_attempt_is_named(void **state)
{
    exchange_world w;

    (void)state;
    xw_begin(&w, 2, 2, FAKE_CHAINED, 10000, 0, "");
    xw_start(&w);
    fake_worker_wait(&w.workers[0], 5);
    dp_server_close(&w.servers[1]);
    xw_join(&w);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(w.workers[i].went_home);
        must_name(&w.workers[i].failure, PS_ABORTED, "ps-1", "ps-0");
    }
    xw_end(&w);
}

/* --- the end ----------------------------------------------------------------------------- */

/* A worker stops its own gate at a drawn place. */
typedef struct stop_plan {
    uint64_t clock;
    fake_at at;
    flag *stopped; /* raised */
} stop_plan;

static void stop_there(void *arg, fake_worker *w, uint64_t clock, fake_at at)
{
    const stop_plan *p = arg;

    if (clock == p->clock && at == p->at) {
        fake_worker_stop(w);
        flag_raise(p->stopped);
    }
}

static void a_stop_at_any_time_ends_in_order(void **state)
{
    const char *given = getenv("PSGD_TEST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 1;

    (void)state;
    printf("PSGD_TEST_SEED=%llu\n", (unsigned long long)seed);
    for (uint64_t round = 0; round < 24; round++) {
        exchange_world w;
        stop_plan plans[3];
        flag stopped;
        uint32_t workers = 1 + (uint32_t)(round % 3);

        xw_begin(&w, workers, 2, FAKE_CHAINED, 10000, round % 4 == 3 ? 5 : 0,
                 round % 2 == 0 ? ", \"model\": {\"widths\": [500]}" : "");
        flag_init(&stopped);
        for (uint32_t i = 0; i < workers; i++) {
            plans[i].stopped = &stopped;
            plans[i].clock = ps_draw_below(seed, round * 10 + i, 6);
            plans[i].at = (fake_at)ps_draw_below(seed, round * 10 + 5 + i, 3);
            w.workers[i].hook = stop_there;
            w.workers[i].hook_arg = &plans[i];
        }
        xw_start(&w);
        flag_wait(&stopped);
        for (uint32_t i = 0; i < workers; i++) { /* who waits for the one that stopped */
            fake_worker_stop(&w.workers[i]);
        }
        xw_join(&w);
        flag_fini(&stopped);
        for (uint32_t i = 0; i < workers; i++) {
            assert_true(w.workers[i].went_home);
            assert_string_equal(w.workers[i].failure.text, "");
        }
        xw_end(&w);
    }
}

static void a_stop_while_a_server_is_away_does_not_wait_for_it(void **state)
{
    exchange_world w;

    (void)state;
    xw_begin(&w, 1, 2, FAKE_CHAINED, 10000, 0, "");
    xw_start(&w);
    fake_worker_wait(&w.workers[0], 3);
    dp_server_break(&w.servers[0]);
    fake_worker_stop(&w.workers[0]);
    xw_join(&w);
    assert_true(w.workers[0].went_home);
    xw_end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_further_ahead_than_the_bound_of_ssp),
        cmocka_unit_test(asp_applies_every_contribution_once),
        cmocka_unit_test(two_holders_of_each_block_give_the_twin_s_bits),
        cmocka_unit_test(a_slow_worker_is_overtaken_and_changes_no_bit),
        cmocka_unit_test(weights_do_not_change_under_a_computation),
        cmocka_unit_test(lost_acknowledgements_change_no_bit),
        cmocka_unit_test(a_server_whose_connections_break_is_found_again),
        cmocka_unit_test(a_server_that_never_speaks_is_named_at_the_deadline),
        cmocka_unit_test(nobody_listening_is_named_at_the_deadline),
        cmocka_unit_test(a_server_that_freezes_is_named_and_can_be_left),
        cmocka_unit_test(a_server_that_ends_the_attempt_is_named),
        cmocka_unit_test(a_stop_at_any_time_ends_in_order),
        cmocka_unit_test(a_stop_while_a_server_is_away_does_not_wait_for_it),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
