/* SPDX-License-Identifier: Apache-2.0 */
/* test_peers.c - exchanges among workers over real streams: the bits that come of
 * it, what is counted, and what becomes of it when somebody is silent or away. */
#include "tests/support/cmocka_all.h"

#include "tests/support/exchange_world.h"
#include "tests/support/patience.h"

#include "common/base/clock.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define MESH(name) ", \"exchange\": {\"name\": \"" name "\"}"
#define HASTY(name) ", \"exchange\": {\"name\": \"" name "\", \"params\": {\"window_ms\": 1500}}"
#define IID(r) ", \"assignment\": {\"name\": \"iid\", \"params\": {\"redundancy\": " #r "}}"
#define TWICE ", \"assignment\": {\"name\": \"duplicate\", \"params\": {\"redundancy\": 2}}"
#define UP(name) ", \"codec\": {\"up\": {\"name\": \"" name "\"}}"
#define UP_EF(name)                                                                                \
    ", \"codec\": {\"up\": {\"name\": \"" name "\", \"params\": {\"error_feedback\": 1}}}"
#define BOTH_EF(name)                                                                              \
    ", \"codec\": {\"up\": {\"name\": \"" name "\", \"params\": {\"error_feedback\": 1}},"         \
    " \"down\": {\"name\": \"" name "\", \"params\": {\"error_feedback\": 1}}}"
#define MIXED                                                                                      \
    ", \"codec\": {\"up\": {\"name\": \"sign\", \"params\": {\"error_feedback\": 1}},"             \
    " \"variables\": [{\"match\": \"dense0.*\", \"up\": {\"name\": \"int8\"}}]}"
#define UP_ALONE(name)                                                                             \
    ", \"codec\": {\"up\": {\"name\": \"" name "\", \"params\": {\"error_feedback\": 0}}}"
#define LARGE ", \"model\": {\"widths\": [700, 300]}"
#define WORKERS_STEP ", \"optimizer\": {\"side\": \"OPTIMIZER_SIDE_WORKER\"}"

static void train(exchange_world *w, uint32_t workers, fake_kind kind, uint64_t steps,
                  const char *choices)
{
    xw_begin(w, workers, 0, kind, steps, 0, choices);
    xw_start(w);
    xw_join(w);
}

static void must_train_as_the_twin(uint32_t workers, fake_kind kind, uint64_t steps,
                                   const char *choices)
{
    exchange_world w;

    train(&w, workers, kind, steps, choices);
    xw_must_be_as_the_twin(&w);
    xw_end(&w);
}

/* --- bits -------------------------------------------------------------------- */

/* The twin adds blocks in their order, as servers do. */
static void plain_and_ndc_give_the_bits_of_servers(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers++) {
        must_train_as_the_twin(workers, FAKE_CHAINED, 10, MESH("plain"));
        must_train_as_the_twin(workers, FAKE_CHAINED, 10, MESH("ndc"));
    }
    must_train_as_the_twin(4, FAKE_CHAINED, 6, MESH("plain") IID(2));
    must_train_as_the_twin(4, FAKE_CHAINED, 6, MESH("plain") IID(4));
    must_train_as_the_twin(5, FAKE_CHAINED, 6, MESH("ndc") IID(3));
    must_train_as_the_twin(6, FAKE_CHAINED, 6, MESH("ndc") TWICE);
}

static void messages_of_a_mebibyte_arrive(void **state)
{
    (void)state;
    must_train_as_the_twin(3, FAKE_CHAINED, 3, MESH("plain") LARGE);
    must_train_as_the_twin(4, FAKE_CHAINED, 3, MESH("ndc") LARGE IID(2));
}

static void whole_numbers_are_summed_exactly_by_every_exchange(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 5; workers++) {
        must_train_as_the_twin(workers, FAKE_COUNTED, 6, MESH("ring"));
        must_train_as_the_twin(workers, FAKE_COUNTED, 6, MESH("tree"));
    }
    for (uint32_t workers = 2; workers <= 4; workers++) {
        must_train_as_the_twin(workers, FAKE_COUNTED, 6, MESH("ccdc"));
    }
    must_train_as_the_twin(4, FAKE_COUNTED, 6, MESH("ccdc") IID(2));
    must_train_as_the_twin(4, FAKE_COUNTED, 6, MESH("ccdc") IID(3));
    must_train_as_the_twin(5, FAKE_COUNTED, 4, MESH("ccdc") IID(3));
    must_train_as_the_twin(6, FAKE_COUNTED, 4, MESH("ccdc") IID(3));
    must_train_as_the_twin(4, FAKE_COUNTED, 4, MESH("ring") IID(2) LARGE);
    must_train_as_the_twin(4, FAKE_COUNTED, 4, MESH("tree") TWICE LARGE);
}

/* So no server changes what comes of a codec: the same slices, draws and memory of what was
 * lost. */
static void plain_and_ndc_give_the_bits_of_servers_with_any_codec(void **state)
{
    (void)state;
    must_train_as_the_twin(3, FAKE_CHAINED, 6, MESH("plain") UP("int8"));
    must_train_as_the_twin(4, FAKE_CHAINED, 6, MESH("plain") IID(2) UP("qsgd"));
    must_train_as_the_twin(4, FAKE_CHAINED, 6, MESH("plain") UP_EF("sign"));
    must_train_as_the_twin(3, FAKE_CHAINED, 6, MESH("ndc") UP_EF("topk") LARGE);
    must_train_as_the_twin(4, FAKE_CHAINED, 6, MESH("plain") MIXED);
    must_train_as_the_twin(3, FAKE_CHAINED, 6,
                           MESH("plain") MIXED ", \"update\": {\"name\": \"gradient_average\"}");
}

static void what_workers_bring_instead_of_blocks_is_summed(void **state)
{
    (void)state;
    must_train_as_the_twin(3, FAKE_CHAINED, 8,
                           MESH("plain") ", \"update\": {\"name\": \"gradient_average\"}");
    must_train_as_the_twin(4, FAKE_COUNTED, 8,
                           MESH("ring") ", \"update\": {\"name\": \"gradient_average\"}");
    must_train_as_the_twin(3, FAKE_CHAINED, 8, MESH("plain") WORKERS_STEP);
}

static void all_workers_have_the_same_bits_whatever_is_lost(void **state)
{
    static const char *const choices[] = {
        MESH("plain") UP("int8"),
        MESH("plain") UP_ALONE("sign"),
        MESH("plain") UP_ALONE("topk"),
        MESH("ndc") UP("f16"),
        MESH("ring") UP("int8"),
        MESH("ring") UP("bf16"),
        MESH("tree") UP("int8"),
        MESH("ring") BOTH_EF("onebit"),
        MESH("ring") TWICE UP_EF("topk") LARGE,
        MESH("tree") BOTH_EF("topk"),
        MESH("tree") MIXED,
        MESH(
            "plain") ", \"codec\": {\"up\": {\"name\": \"int8\", \"params\": {\"difference\": 1}}}",
        MESH("plain") UP("powersgd"),
        MESH("plain") UP("vote"),
        MESH("ring"),
        MESH("tree"),
        MESH("ccdc"),
    };

    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        exchange_world w;

        train(&w, 4, FAKE_CHAINED, 8, choices[i]);
        xw_must_be_alike(&w);
        xw_end(&w);
    }
}

/* --- what is counted ------------------------------------------------------------ */

/* Bytes of all workers as float32, for |w| values in a sum. */
static void must_say(const char *choices, uint32_t workers, double values_per_w)
{
    enum { STEPS = 6 };
    uint64_t up = 0, up_float32 = 0, down = 0, down_float32 = 0, want;
    exchange_world w;

    train(&w, workers, FAKE_COUNTED, STEPS, choices);
    want = (uint64_t)(values_per_w * STEPS * (double)w.job.plan->layout.param_count) * 4;
    for (uint32_t i = 0; i < workers; i++) {
        const ps_exchange_stats *s = &w.workers[i].stats;

        up += s->bytes_up;
        down += s->bytes_down;
        up_float32 += s->bytes_up_float32;
        down_float32 += s->bytes_down_float32;
        assert_in_range(s->messages_up, 1, 40 * STEPS);
    }
    assert_in_range(up_float32, want - want / 1000, want + want / 1000);
    assert_int_equal(down_float32, up_float32);
    assert_in_range(up, want, want + want / 50);
    assert_in_range(down, want, want + want / 50);
    xw_end(&w);
}

static void what_was_sent_is_what_the_exchange_says(void **state)
{
    (void)state;
    must_say(MESH("plain") LARGE, 4, 4 * 3);        /* K (n - r) */
    must_say(MESH("plain") LARGE IID(2), 4, 6 * 2); /* K = 6 */
    must_say(MESH("ndc") LARGE IID(2), 4, 6 * 2);
    must_say(MESH("ccdc") LARGE IID(2), 4, 12 * 2 / 2.0); /* 12 multicasts to 2, |w| / 2 each */
    must_say(MESH("ring") LARGE, 4, 2 * 3);
    must_say(MESH("tree") LARGE, 4, 2 * 3);
}

static void fewer_bytes_are_sent_with_a_codec(void **state)
{
    exchange_world w;

    (void)state;
    /* A byte a value half the way, and two the other half. */
    train(&w, 3, FAKE_CHAINED, 6,
          MESH("ring") LARGE
          ", \"codec\": {\"up\": {\"name\": \"int8\"}, \"down\": {\"name\": \"f16\"}}");
    for (uint32_t i = 0; i < 3; i++) {
        const ps_exchange_stats *s = &w.workers[i].stats;

        assert_in_range(s->bytes_up, s->bytes_up_float32 * 3 / 8,
                        s->bytes_up_float32 * 3 / 8 + s->bytes_up_float32 / 100);
    }
    xw_end(&w);
}

/* --- while gradients are computed ------------------------------------------------ */

enum { HEARD = 400000 }; /* bytes */

typedef struct hearing {
    exchange_world w;
    bool in_time;
} hearing;

/* The worker computes no further before the other has heard most of what is final so far. */
static void wait_to_be_heard(void *arg, fake_worker *w, uint64_t clock, fake_at at)
{
    hearing *h = arg;
    fake_worker *other = &h->w.workers[1 - w->session.rank];
    int64_t until_us = ps_clock_us() + PS_TEST_PATIENCE_S * INT64_C(1000000);

    if (at != FAKE_HAS_ONE_LEFT || clock > 0) {
        return;
    }
    while (!h->in_time && ps_clock_us() < until_us) {
        h->in_time = ps_exchange_get_stats(other->exchange).bytes_down >= HEARD;
        sched_yield();
    }
}

/* Were all sent at the end of a step, this would wait in vain. The other computes on. */
static void gradients_leave_while_others_are_computed(void **state)
{
    static const char *const meshes[] = {MESH("plain") LARGE, MESH("ring") LARGE,
                                         MESH("tree") LARGE};

    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        hearing h = {.in_time = false};

        xw_begin(&h.w, 2, 0, i == 0 ? FAKE_CHAINED : FAKE_COUNTED, 3, 0, meshes[i]);
        h.w.workers[1].hook = wait_to_be_heard;
        h.w.workers[1].hook_arg = &h;
        xw_start(&h.w);
        xw_join(&h.w);
        assert_true(h.in_time);
        xw_must_be_as_the_twin(&h.w);
        xw_end(&h.w);
    }
}

/* --- who is away ----------------------------------------------------------------- */

/* Somebody's connections break in the midst of a step, and in that of the next one. */
static void break_others(void *arg, fake_worker *w, uint64_t clock, fake_at at)
{
    exchange_world *world = arg;

    if (at == FAKE_IN_THE_MIDST && (clock == 3 || clock == 4)) {
        fake_worker *other = &world->workers[(w->session.rank + clock) % world->worker_count];

        fake_worker_break(other);
        fake_worker_resume(other);
    }
}

static void a_stream_that_broke_is_opened_again(void **state)
{
    static const char *const meshes[] = {MESH("plain"),     MESH("plain") UP_EF("onebit"),
                                         MESH("ndc") MIXED, MESH("ccdc") IID(2),
                                         MESH("ring"),      MESH("tree")};

    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        exchange_world w;

        xw_begin(&w, 4, 0, FAKE_COUNTED, 8, 0, meshes[i]);
        w.workers[0].hook = break_others;
        w.workers[0].hook_arg = &w;
        xw_start(&w);
        xw_join(&w);
        xw_must_be_as_the_twin(&w);
        xw_end(&w);
    }
}

/* All but the last of the workers. */
static void start_without_the_last(exchange_world *w)
{
    for (uint32_t k = 0; k + 1 < w->worker_count; k++) {
        fake_worker_start(&w->workers[k], k);
    }
}

static void who_is_silent_too_long_is_named(void **state)
{
    static const char *const meshes[] = {HASTY("plain"), HASTY("ccdc")};

    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        exchange_world w;

        xw_begin(&w, 3, 0, FAKE_CHAINED, 4, 0, meshes[i]);
        start_without_the_last(&w);
        for (uint32_t k = 0; k < 2; k++) {
            fake_worker_join(&w.workers[k]);
        }
        assert_true(w.workers[0].went_home);
        assert_int_equal(w.workers[0].failure.code, PS_DEADLINE_EXCEEDED);
        assert_non_null(
            strstr(w.workers[0].failure.text, "step 0: nothing for 2 x 1500 ms from worker 2"));
        w.worker_count = 2;
        fake_worker_fini(&w.workers[2]);
        xw_end(&w);
    }
}

/* Each block has another holder; the one who was silent then has all that it lacks. */
static void the_repair_goes_on_without_one_who_catches_up_later(void **state)
{
    static const char *const meshes[] = {HASTY("plain") IID(2), HASTY("ndc") TWICE,
                                         HASTY("ccdc") IID(2)};

    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        exchange_world w;

        xw_begin(&w, 4, 0, i < 2 ? FAKE_CHAINED : FAKE_COUNTED, 2, 0, meshes[i]);
        start_without_the_last(&w);
        for (uint32_t k = 0; k < 3; k++) {
            fake_worker_wait(&w.workers[k], UINT64_MAX);
            assert_string_equal(w.workers[k].failure.text, "");
        }
        fake_worker_start(&w.workers[3], 3);
        xw_join(&w);
        xw_must_be_as_the_twin(&w);
        xw_end(&w);
    }
}

static void a_stop_ends_the_exchange_in_any_state(void **state)
{
    (void)state;
    for (uint32_t started = 1; started <= 3; started++) {
        exchange_world w;

        xw_begin(&w, 3, 0, FAKE_CHAINED, 50, 0, MESH("plain"));
        for (uint32_t k = 0; k < started; k++) {
            fake_worker_start(&w.workers[k], k);
        }
        fake_worker_stop(&w.workers[0]);
        fake_worker_join(&w.workers[0]);
        for (uint32_t k = 1; k < started; k++) {
            fake_worker_stop(&w.workers[k]);
            fake_worker_join(&w.workers[k]);
            assert_string_equal(w.workers[k].failure.text, "");
        }
        for (uint32_t k = started; k < 3; k++) {
            fake_worker_fini(&w.workers[k]);
        }
        w.worker_count = started;
        xw_end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_ndc_give_the_bits_of_servers),
        cmocka_unit_test(plain_and_ndc_give_the_bits_of_servers_with_any_codec),
        cmocka_unit_test(messages_of_a_mebibyte_arrive),
        cmocka_unit_test(whole_numbers_are_summed_exactly_by_every_exchange),
        cmocka_unit_test(what_workers_bring_instead_of_blocks_is_summed),
        cmocka_unit_test(all_workers_have_the_same_bits_whatever_is_lost),
        cmocka_unit_test(what_was_sent_is_what_the_exchange_says),
        cmocka_unit_test(fewer_bytes_are_sent_with_a_codec),
        cmocka_unit_test(gradients_leave_while_others_are_computed),
        cmocka_unit_test(a_stream_that_broke_is_opened_again),
        cmocka_unit_test(who_is_silent_too_long_is_named),
        cmocka_unit_test(the_repair_goes_on_without_one_who_catches_up_later),
        cmocka_unit_test(a_stop_ends_the_exchange_in_any_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
