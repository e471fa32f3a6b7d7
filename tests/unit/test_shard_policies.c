/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard_policies.c - what a shard does under the policies that leave workers
 * behind, look at the time, scale steps or forget contributions; in numbers. */
#include "tests/support/cmocka_all.h"

#include "tests/support/shard_world.h"

#include <string.h>

enum { N = 100 };

static ps_store_outcome pushed(const world *w, ps_store *shard, uint32_t worker, uint64_t clock,
                               uint32_t place)
{
    ps_store_outcome outcome = PS_STORE_DUPLICATE;
    ps_status st = world_push(w, shard, worker, clock, worker, place, &outcome);

    if (!ps_is_ok(&st)) {
        fail_msg("%s", st.text);
    }
    return outcome;
}

static ps_code code_of(const world *w, ps_store *shard, uint32_t worker, uint64_t clock)
{
    ps_store_outcome outcome;

    return world_push(w, shard, worker, clock, worker, 0, &outcome).code;
}

/* Asks for a clock; true if the whole answer is there. */
static bool is_given(ps_store *shard, uint32_t worker, uint64_t clock)
{
    ps_store_piece pieces[WORLD_SLICES];
    ps_store_answer answer;

    if (!ps_store_is_waiting(shard, worker)) {
        assert_int_equal(ps_store_pull_begin(shard, worker, clock).code, PS_OK);
    }
    ps_store_pull_next(shard, worker, 1 << 20, pieces, WORLD_SLICES, &answer);
    assert_int_equal(answer.clock, clock);
    return answer.is_last;
}

typedef struct given {
    uint64_t clock;
    uint32_t who;
} given;

/* The weights are `before` less 0.5 * scale * (the sum of these). */
static void expect_step(const world *w, const float *before, ps_store *shard, float scale,
                        size_t count, const given *of)
{
    const float *after = ps_store_weights(shard);
    float sum[N] = {0}, x[N];

    for (size_t c = 0; c < count; c++) {
        world_values(&w->slices[0], of[c].clock, of[c].who, x);
        for (size_t i = 0; i < N; i++) {
            sum[i] += x[i];
        }
    }
    for (size_t i = 0; i < N; i++) {
        assert_float_equal(after[i], before[i] - 0.5f * scale * sum[i], 1e-5);
    }
}

/* ---- Backup workers ---- */

static void backup_steps_on_the_mean_of_the_first_and_drops_what_comes_later(void **state)
{
    float before[N] = {0};
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "backup", 3, 1);
    w.conf.merge_scale = 1.0f / 3;
    shard = ps_store_create(&w.conf);
    assert_int_equal(pushed(&w, shard, 2, 0, 0), PS_STORE_APPLIED);
    assert_int_equal(ps_store_version(shard, 0), 0);
    assert_int_equal(code_of(&w, shard, 2, 1), PS_OUT_OF_RANGE); /* clock 0 is open */
    assert_int_equal(pushed(&w, shard, 0, 0, 0), PS_STORE_APPLIED);
    assert_int_equal(ps_store_version(shard, 0), 1);
    expect_step(&w, before, shard, 1.0f / 2, 2, (given[]){{0, 2}, {0, 0}});
    assert_true(is_given(shard, 0, 1));
    memcpy(before, ps_store_weights(shard), sizeof before);
    assert_int_equal(pushed(&w, shard, 1, 0, 0), PS_STORE_DROPPED);
    assert_int_equal(pushed(&w, shard, 1, 0, 0), PS_STORE_DUPLICATE);
    assert_true(ps_store_is_in(shard, 0, 1)); /* it may be acknowledged */
    assert_memory_equal(before, ps_store_weights(shard), sizeof before);
    assert_int_equal(ps_store_counters_of(shard)->dropped, 1);
    assert_int_equal(ps_store_worker_counters_of(shard, 1)->dropped, 1);
    assert_int_equal(ps_store_worker_counters_of(shard, 0)->applied, 1);
    ps_store_destroy(shard);
}

static void a_worker_left_behind_goes_on_with_the_open_clock(void **state)
{
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "backup", 3, 2);
    shard = ps_store_create(&w.conf);
    for (uint64_t clock = 0; clock < 5; clock++) {
        for (uint32_t s = 0; s < 2; s++) {
            (void)pushed(&w, shard, 0, clock, s);
            (void)pushed(&w, shard, 1, clock, s);
        }
    }
    assert_int_equal(ps_store_clock(shard), 5);
    assert_int_equal(pushed(&w, shard, 2, 5, 0), PS_STORE_APPLIED); /* leaves 0 to 4 out */
    assert_int_equal(ps_store_worker_counters_of(shard, 2)->left_out, 5);
    assert_false(ps_store_is_in(shard, 5, 2)); /* the other slice is not in */
    assert_int_equal(pushed(&w, shard, 2, 5, 1), PS_STORE_APPLIED);
    assert_true(ps_store_is_in(shard, 5, 2));
    assert_int_equal(ps_store_worker_counters_of(shard, 2)->left_out, 10);
    assert_int_equal(pushed(&w, shard, 2, 3, 0), PS_STORE_DUPLICATE); /* too late to think again */
    ps_store_destroy(shard);
}

static void a_pull_says_that_nothing_more_comes_for_earlier_clocks(void **state)
{
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "backup", 3, 1);
    shard = ps_store_create(&w.conf);
    assert_int_equal(ps_store_pull_begin(shard, 2, 2).code, PS_OUT_OF_RANGE); /* clock 0 is open */
    assert_int_equal(ps_store_pull_begin(shard, 2, 1).code, PS_OK); /* it leaves clock 0 out */
    assert_int_equal(ps_store_counters_of(shard)->left_out, 1);
    (void)pushed(&w, shard, 0, 0, 0);
    assert_int_equal(ps_store_clock(shard), 0); /* worker 1 may still come, and is needed */
    assert_int_equal(ps_store_lose_worker(shard, 1).code, PS_OK);
    assert_int_equal(ps_store_clock(shard), 1); /* nobody is left who could come */
    assert_true(is_given(shard, 2, 1));
    ps_store_destroy(shard);
}

static void backup_goes_on_with_fewer_than_it_wants_when_workers_are_lost(void **state)
{
    float before[N] = {0};
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "backup", 4, 1);
    shard = ps_store_create(&w.conf);
    assert_int_equal(ps_store_lose_worker(shard, 0).code, PS_OK);
    assert_int_equal(ps_store_lose_worker(shard, 3).code, PS_OK);
    (void)pushed(&w, shard, 1, 0, 0);
    assert_int_equal(ps_store_clock(shard), 0);
    (void)pushed(&w, shard, 2, 0, 0);
    assert_int_equal(ps_store_clock(shard), 1);
    expect_step(&w, before, shard, 4.0f / 2, 2, (given[]){{0, 1}, {0, 2}});
    ps_store_destroy(shard);
}

/* ---- Quorum ---- */

static void quorum_waits_for_all_until_its_time_is_up(void **state)
{
    float before[N] = {0};
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "quorum", 3, 1);
    w.conf.policy_params = (ps_params){{2, 10}}; /* two, 10 ms */
    shard = ps_store_create(&w.conf);
    ps_store_tick(shard, 1000);
    assert_true(ps_store_deadline(shard) == INT64_MAX);
    (void)pushed(&w, shard, 0, 0, 0);
    assert_true(ps_store_deadline(shard) == INT64_MAX); /* one alone is no quorum */
    ps_store_tick(shard, 9000);
    (void)pushed(&w, shard, 1, 0, 0);
    assert_true(ps_store_deadline(shard) == 11000);
    assert_false(is_given(shard, 0, 1));
    ps_store_tick(shard, 10999);
    assert_int_equal(ps_store_version(shard, 0), 0);
    ps_store_tick(shard, 11000);
    assert_int_equal(ps_store_version(shard, 0), 1);
    assert_true(is_given(shard, 0, 1));
    expect_step(&w, before, shard, 3.0f / 2, 2, (given[]){{0, 0}, {0, 1}});
    ps_store_destroy(shard);
}

static void what_comes_after_the_quorum_joins_the_next_step(void **state)
{
    float before[N];
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "quorum", 3, 1);
    w.conf.policy_params = (ps_params){{2, 0}};
    shard = ps_store_create(&w.conf);
    (void)pushed(&w, shard, 0, 0, 0);
    (void)pushed(&w, shard, 1, 0, 0); /* closes at once */
    assert_int_equal(ps_store_clock(shard), 1);
    memcpy(before, ps_store_weights(shard), sizeof before);
    assert_int_equal(pushed(&w, shard, 2, 0, 0), PS_STORE_APPLIED);
    assert_int_equal(ps_store_counters_of(shard)->late, 1);
    assert_int_equal(ps_store_open(shard), 1);
    (void)pushed(&w, shard, 1, 1, 0);
    assert_int_equal(ps_store_clock(shard), 1); /* the late one counts for no quorum */
    (void)pushed(&w, shard, 0, 1, 0);
    assert_int_equal(ps_store_clock(shard), 2);
    expect_step(&w, before, shard, 3.0f / 3, 3, (given[]){{0, 2}, {1, 1}, {1, 0}});
    assert_int_equal(ps_store_counters_of(shard)->dropped, 0);
    ps_store_destroy(shard);
}

/* ---- Half-async ---- */

static void half_async_sums_what_came_in_time_and_keeps_no_rounds(void **state)
{
    float before[N] = {0};
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "half_async", 3, 1);
    w.conf.policy_params = (ps_params){{0, 5}};
    shard = ps_store_create(&w.conf);
    ps_store_tick(shard, 100);
    (void)pushed(&w, shard, 0, 0, 0);
    assert_false(is_given(shard, 0, 1)); /* its own is not in a step yet */
    assert_true(ps_store_deadline(shard) == 5100);
    (void)pushed(&w, shard, 1, 0, 0);
    ps_store_tick(shard, 5100);
    assert_int_equal(ps_store_version(shard, 0), 1);
    expect_step(&w, before, shard, 1, 2, (given[]){{0, 0}, {0, 1}});
    assert_true(is_given(shard, 0, 1));
    memcpy(before, ps_store_weights(shard), sizeof before);
    (void)pushed(&w, shard, 0, 1, 0); /* clocks of different age in one sum */
    (void)pushed(&w, shard, 2, 0, 0);
    assert_int_equal(ps_store_version(shard, 0), 1);
    (void)pushed(&w, shard, 1, 1, 0); /* everybody who lives is in: no need to wait */
    assert_int_equal(ps_store_version(shard, 0), 2);
    expect_step(&w, before, shard, 1, 3, (given[]){{1, 0}, {0, 2}, {1, 1}});
    ps_store_destroy(shard);
}

static void half_async_steps_on_so_many_and_does_not_wait_for_the_lost(void **state)
{
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "half_async", 3, 1);
    w.conf.policy_params = (ps_params){{2, 1000}};
    shard = ps_store_create(&w.conf);
    (void)pushed(&w, shard, 0, 0, 0);
    (void)pushed(&w, shard, 1, 0, 0);
    assert_int_equal(ps_store_version(shard, 0), 1); /* merge */
    (void)pushed(&w, shard, 0, 1, 0);
    assert_int_equal(ps_store_lose_worker(shard, 1).code, PS_OK);
    assert_int_equal(ps_store_version(shard, 0), 1);
    assert_int_equal(ps_store_lose_worker(shard, 2).code, PS_OK);
    assert_int_equal(ps_store_version(shard, 0), 2); /* nobody else could come */
    ps_store_destroy(shard);
}

/* ---- Scaled steps ---- */

/* Worker 1 pushes on weights that are `stale` updates old; gives the step. */
static void stale_step(const char *optim, uint64_t stale, double power, float *d)
{
    float before[N];
    world w;
    ps_store *shard;

    world_init(&w, "stale_scaled", 2, 1);
    w.conf.policy_params = (ps_params){{power, 1}}; /* one is free */
    w.conf.descent.optim = ps_optim_find(optim);
    w.conf.descent.params = ps_params_default(w.conf.descent.optim->params);
    shard = ps_store_create(&w.conf);
    for (uint64_t clock = 0; clock < 8; clock++) {
        (void)is_given(shard, 0, clock);
        if (clock == 8 - stale) {
            assert_true(is_given(shard, 1, 0));
        }
        (void)pushed(&w, shard, 0, clock, 0);
    }
    memcpy(before, ps_store_weights(shard), sizeof before);
    (void)pushed(&w, shard, 1, 0, 0);
    for (size_t i = 0; i < N; i++) {
        d[i] = ps_store_weights(shard)[i] - before[i];
    }
    assert_int_equal(ps_store_counters_of(shard)->staleness_max, stale);
    assert_int_equal(ps_store_counters_of(shard)->staleness_bins[stale == 4 ? 3 : 1], 1);
    assert_int_equal(ps_store_counters_of(shard)->staleness_bins[0], 8);
    ps_store_destroy(shard);
}

static void a_stale_step_is_scaled_whatever_the_optimizer(void **state)
{
    static const char *const optims[] = {"sgd", "adam"};
    float fresh[N], scaled[N], root[N];

    (void)state;
    for (size_t o = 0; o < 2; o++) {
        stale_step(optims[o], 1, 1, fresh);
        stale_step(optims[o], 4, 1, scaled);
        stale_step(optims[o], 4, 0.5, root);
        for (size_t i = 0; i < N; i++) {
            assert_float_equal(scaled[i], fresh[i] / 4, 1e-6);
            assert_float_equal(root[i], fresh[i] / 2, 1e-6);
            assert_true(fresh[i] != 0);
        }
    }
}

/* ---- Lag ---- */

static void lag_discard_drops_and_counts_and_never_forgets(void **state)
{
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "lag_discard", 2, 1);
    shard = ps_store_create(&w.conf); /* threshold 3 */
    for (uint64_t clock = 0; clock < 4; clock++) {
        assert_int_equal(pushed(&w, shard, 0, clock, 0), PS_STORE_APPLIED);
    }
    assert_int_equal(pushed(&w, shard, 1, 0, 0), PS_STORE_DROPPED); /* lag 5 */
    assert_int_equal(pushed(&w, shard, 1, 1, 0), PS_STORE_APPLIED); /* lag 1: the drop counted */
    assert_int_equal(pushed(&w, shard, 0, 4, 0), PS_STORE_DROPPED); /* lag 3 */
    assert_int_equal(pushed(&w, shard, 0, 5, 0), PS_STORE_APPLIED);
    assert_true(is_given(shard, 1, 2)); /* fresh weights, dropped or not */
    assert_int_equal(ps_store_version(shard, 0), 6);
    assert_int_equal(ps_store_worker_counters_of(shard, 0)->applied, 5);
    assert_int_equal(ps_store_worker_counters_of(shard, 0)->dropped, 1);
    assert_int_equal(ps_store_worker_counters_of(shard, 1)->dropped, 1);
    ps_store_destroy(shard);
}

/* ---- Dynamic bound ---- */

/* Two workers: 1 has pushed clocks 0 to 2, slow_us apart, and then nothing. 0
 * pushes one clock each millisecond, its clock 4 (5 pushes: 2 ahead, one more
 * than `lower`) just when the other one pushed last. Returns how many clocks it
 * was let begin. */
static uint64_t clocks_begun(int64_t slow_us)
{
    world w;
    ps_store *shard;
    uint64_t clock = 0;

    world_init(&w, "dssp", 2, 1);
    w.conf.policy_params = (ps_params){{1, 9}};
    shard = ps_store_create(&w.conf);
    for (uint64_t c = 0; c < 3; c++) {
        ps_store_tick(shard, 10000000 + (int64_t)c * slow_us);
        (void)pushed(&w, shard, 1, c, 0);
    }
    while (is_given(shard, 0, clock)) {
        ps_store_tick(shard, 10000000 + 2 * slow_us + ((int64_t)clock - 4) * 1000);
        (void)pushed(&w, shard, 0, clock, 0);
        clock++;
    }
    ps_store_destroy(shard);
    return clock;
}

static void dssp_lets_the_fastest_go_on_until_the_slowest_comes(void **state)
{
    (void)state;
    assert_int_equal(clocks_begun(1000), 5 + 1); /* its next push comes after one more */
    assert_int_equal(clocks_begun(4000), 5 + 4);
    assert_int_equal(clocks_begun(7000), 5 + 7);
    assert_int_equal(clocks_begun(1000000), 3 + 9 + 1); /* `upper` ahead, and no further */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backup_steps_on_the_mean_of_the_first_and_drops_what_comes_later),
        cmocka_unit_test(a_worker_left_behind_goes_on_with_the_open_clock),
        cmocka_unit_test(a_pull_says_that_nothing_more_comes_for_earlier_clocks),
        cmocka_unit_test(backup_goes_on_with_fewer_than_it_wants_when_workers_are_lost),
        cmocka_unit_test(quorum_waits_for_all_until_its_time_is_up),
        cmocka_unit_test(what_comes_after_the_quorum_joins_the_next_step),
        cmocka_unit_test(half_async_sums_what_came_in_time_and_keeps_no_rounds),
        cmocka_unit_test(half_async_steps_on_so_many_and_does_not_wait_for_the_lost),
        cmocka_unit_test(a_stale_step_is_scaled_whatever_the_optimizer),
        cmocka_unit_test(lag_discard_drops_and_counts_and_never_forgets),
        cmocka_unit_test(dssp_lets_the_fastest_go_on_until_the_slowest_comes),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
