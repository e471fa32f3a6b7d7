/* SPDX-License-Identifier: Apache-2.0 */
/* test_consistency.c - the policies' answers, row by row. What a shard makes of
 * them is in test_shard_policies.c. */
#include "tests/support/cmocka_all.h"

#include "common/consistency/consistency.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { W = 3, WORDS = 64 };

typedef struct row {
    uint64_t done[W];
    uint32_t worker;
    uint64_t clock;
    bool admits, gives;
} row;

static uint64_t words[WORDS]; /* of a policy; zero when nothing was pushed */

static ps_clocks clocks_of(const uint64_t *done)
{
    ps_clocks c = {.workers = W, .contributors = W, .live = W, .done = done, .least = done[0]};

    for (uint32_t w = 1; w < W; w++) {
        c.least = done[w] < c.least ? done[w] : c.least;
    }
    c.version = c.clock = c.least;
    c.state = words;
    return c;
}

static void walk(const ps_consistency *policy, const ps_params *params, const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ps_clocks c = clocks_of(rows[i].done);

        if (policy->admit(params, &c, rows[i].worker, rows[i].clock) != rows[i].admits ||
            policy->on_pull(params, &c, rows[i].worker, rows[i].clock) != rows[i].gives) {
            fail_msg("%s: row %zu", policy->name, i);
        }
    }
}

static void push_is(const ps_consistency *policy, const ps_params *params, ps_verdict verdict)
{
    static const uint64_t done[W] = {4, 2, 7};
    ps_clocks c = clocks_of(done);

    for (uint32_t w = 0; w < W; w++) {
        for (uint64_t clock = 0; clock < 9; clock++) {
            ps_arrival a = {.worker = w, .contributor = w, .clock = clock, .staleness = 1};
            float scale = 1;

            assert_int_equal(policy->on_push(params, &c, &a, &scale), verdict);
            assert_true(scale == 1.0f);
        }
    }
}

static void bsp_waits_for_everybody(void **state)
{
    static const row rows[] = {
        {{0, 0, 0}, 0, 0, true, true},          {{1, 0, 0}, 0, 1, false, false},
        {{1, 1, 0}, 0, 1, false, false},        {{1, 1, 1}, 0, 1, true, true},
        {{1, 1, 1}, 2, 0, true, true}, /* one that is behind is let go */
        {{1, 1, 1}, 2, 2, false, false},        {{9, 9, 8}, 2, 9, false, false},
        {{9, 9, UINT64_MAX}, 0, 9, true, true},
    };
    const ps_consistency *bsp = ps_consistency_find("bsp");
    ps_params params = ps_params_default(bsp->params);
    float scale = 1;

    (void)state;
    walk(bsp, &params, rows, sizeof rows / sizeof rows[0]);
    push_is(bsp, &params, PS_BUFFER);
    assert_int_equal(bsp->lead(&params), 0);
    assert_true(bsp->is_deterministic && !bsp->survives_loss && bsp->asks_early);
    for (uint64_t last = 4; last < 6; last++) { /* of clock 4 */
        uint64_t done[W] = {5, last, 5};
        ps_clocks c = clocks_of(done);

        c.clock = 4;
        c.in = W - 1;
        assert_int_equal(bsp->closes(&params, &c, &scale), last == 5);
        assert_true(scale == 1.0f);
    }
}

static void ssp_lets_a_worker_run_ahead_by_its_bound(void **state)
{
    static const row rows[] = {
        {{0, 0, 0}, 0, 0, true, true},
        {{1, 0, 0}, 0, 1, true, true},
        {{2, 0, 0}, 0, 2, true, true},
        {{3, 0, 0}, 0, 3, false, true}, /* 3 ahead of the slowest, 2 are allowed */
        {{3, 1, 1}, 0, 3, true, true},
        {{2, 1, 1}, 0, 3, true, false}, /* its own last push is not in yet */
        {{3, 0, 5}, 1, 0, true, true},
        {{3, 5, UINT64_MAX}, 0, 3, true, true},
    };
    const ps_consistency *ssp = ps_consistency_find("ssp");
    ps_params params = ps_params_default(ssp->params);

    (void)state;
    assert_true(params.v[0] == 3);
    assert_int_equal(ps_param_find(ssp->params, "bound"), 0);
    assert_true(ssp->params[0].is_integer && ssp->params[0].min == 0 &&
                ssp->params[0].max == 1000000);
    params.v[0] = 2;
    walk(ssp, &params, rows, sizeof rows / sizeof rows[0]);
    push_is(ssp, &params, PS_APPLY);
    assert_int_equal(ssp->lead(&params), 2);
    assert_true(!ssp->is_deterministic && ssp->survives_loss && !ssp->asks_early);
}

static void ssp_with_bound_0_admits_as_bsp(void **state)
{
    const ps_consistency *ssp = ps_consistency_find("ssp"), *bsp = ps_consistency_find("bsp");
    ps_params none = {{0}};

    (void)state;
    for (uint64_t a = 0; a < 4; a++) {
        for (uint64_t b = 0; b < 4; b++) {
            for (uint64_t clock = 0; clock < 5; clock++) {
                uint64_t done[W] = {a, b, 3};
                ps_clocks c = clocks_of(done);

                assert_int_equal(ssp->admit(&none, &c, 0, clock), bsp->admit(&none, &c, 0, clock));
            }
        }
    }
}

static void dssp_with_equal_bounds_admits_as_ssp(void **state)
{
    const ps_consistency *ssp = ps_consistency_find("ssp"), *dssp = ps_consistency_find("dssp");
    ps_params both = {{2, 2}};

    (void)state;
    push_is(dssp, &both, PS_APPLY);
    for (uint64_t a = 0; a < 6; a++) {
        for (uint64_t clock = 0; clock < 9; clock++) {
            uint64_t done[W] = {a, 1, 3};
            ps_clocks c = clocks_of(done);

            assert_int_equal(ssp->admit(&both, &c, 0, clock), dssp->admit(&both, &c, 0, clock));
            assert_int_equal(ssp->on_pull(&both, &c, 0, clock), dssp->on_pull(&both, &c, 0, clock));
        }
    }
    memset(words, 0, sizeof words);
    assert_int_equal(dssp->check(&(ps_params){{3, 2}}, W).code, PS_INVALID_ARGUMENT);
    assert_int_equal(dssp->check(&(ps_params){{0, 4097}}, W).code, PS_INVALID_ARGUMENT);
    assert_int_equal(dssp->check(&(ps_params){{3, 3}}, W).code, PS_OK);
}

/* r* by its definition: all pairs of points on the two lines. */
static uint64_t best_leave(int64_t fast_at, int64_t fast_us, int64_t slow_at, int64_t slow_us,
                           uint64_t r_max)
{
    int64_t best_us = INT64_MAX;
    uint64_t best = 0;

    for (uint64_t r = 0; r <= r_max; r++) {
        for (int64_t k = 1; k < 3000; k++) {
            int64_t us = llabs(fast_at + (int64_t)r * fast_us - slow_at - k * slow_us);

            if (us < best_us) {
                best_us = us;
                best = r;
            }
        }
    }
    return best;
}

static void dssp_chooses_the_leave_by_its_definition(void **state)
{
    static const int64_t intervals[][2] = {{10, 70},   {10, 75}, {3, 100},  {90, 100},
                                           {100, 100}, {0, 50},  {7, 1000}, {50, 51}};
    const ps_consistency *dssp = ps_consistency_find("dssp");
    ps_params params = {{1, 13}};
    float scale = 1;

    (void)state;
    for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
        for (int64_t shift = 0; shift < 60; shift += 13) {
            int64_t fast = intervals[i][0], slow = intervals[i][1], at = 5000;
            uint64_t done[W] = {2, 4, 4}, leave = 0;
            ps_clocks c = clocks_of(done);

            memset(words, 0, sizeof words);
            for (uint64_t clock = 0; clock < 2; clock++) { /* 0 is slow, 1 is fast */
                c.now_us = at - slow + (int64_t)clock * slow;
                (void)dssp->on_push(&params, &c, &(ps_arrival){.worker = 0, .clock = clock},
                                    &scale);
            }
            for (uint64_t clock = 3; clock < 5; clock++) {
                done[1] = clock;
                c.now_us = at + shift - fast + (int64_t)(clock - 3) * fast;
                c.least = clock == 3 ? 3 : 2; /* the first is not 2 ahead yet */
                done[0] = c.least;
                (void)dssp->on_push(&params, &c, &(ps_arrival){.worker = 1, .clock = clock},
                                    &scale);
            }
            done[1] = 5;
            while (leave < 30 && dssp->admit(&params, &c, 1, 5 + leave)) {
                leave++;
            }
            assert_int_equal(leave, best_leave(at + shift, fast, at, slow, 12) < 11
                                        ? best_leave(at + shift, fast, at, slow, 12)
                                        : 11); /* 15 is `upper` ahead of 2 */
        }
    }
    memset(words, 0, sizeof words);
}

static void asp_never_waits(void **state)
{
    static const row rows[] = {
        {{0, 0, 0}, 0, 0, true, true},
        {{1000000, 0, 0}, 0, 1000000, true, true},
        {{0, 0, 0}, 0, UINT64_MAX, true, true},
    };
    static const char *const names[] = {"asp", "stale_scaled", "lag_discard"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const ps_consistency *policy = ps_consistency_find(names[i]);
        ps_params params = ps_params_default(policy->params);

        walk(policy, &params, rows, sizeof rows / sizeof rows[0]);
        assert_true(policy->lead(&params) == UINT64_MAX);
        assert_true(!policy->is_deterministic && policy->survives_loss);
        if (i == 0) {
            push_is(policy, &params, PS_APPLY);
        }
    }
}

static void rounds_close_on_so_many(void **state)
{
    const ps_consistency *backup = ps_consistency_find("backup");
    const ps_consistency *quorum = ps_consistency_find("quorum");
    static const uint64_t done[W] = {5, 4, 4};
    ps_clocks c = clocks_of(done);
    ps_params two = {{2}}, quick = {{2, 3}};
    float scale = 1;

    (void)state;
    c.first_us = 1000;
    for (c.in = 1; c.in <= W; c.in++) {
        c.due = c.in;
        assert_int_equal(backup->closes(&(ps_params){{1}}, &c, &scale), c.in >= 2);
        assert_true(backup->closes(&two, &c, &scale));
        assert_float_equal(scale, 3.0f / (float)c.in, 1e-7);
        for (c.now_us = 3998; c.now_us < 4002; c.now_us++) {
            assert_int_equal(quorum->closes(&quick, &c, &scale), c.in >= 2 && c.now_us >= 4000);
            assert_float_equal(scale, 3.0f / (float)c.in, 1e-7);
        }
        assert_true(quorum->closes_at(&quick, &c) == (c.in >= 2 ? 4000 : INT64_MAX));
    }
    c.due = 1; /* late ones do not make a quorum */
    assert_false(quorum->closes(&quick, &c, &scale));
    assert_int_equal(backup->check(&two, 2).code, PS_INVALID_ARGUMENT);
    assert_int_equal(backup->check(&two, 3).code, PS_OK);
    assert_int_equal(quorum->check(&two, 1).code, PS_INVALID_ARGUMENT);
    assert_int_equal(quorum->check(&two, 2).code, PS_OK);
    push_is(quorum, &quick, PS_BUFFER);
}

/* Who is late is dropped; the clock that is open is not late. */
static void backup_drops_what_is_late(void **state)
{
    const ps_consistency *backup = ps_consistency_find("backup");
    static const uint64_t done[W] = {5, 4, 4};
    ps_clocks c = clocks_of(done);
    ps_params one = {{1}};
    float scale = 1;

    (void)state;
    for (uint64_t clock = 0; clock < 5; clock++) {
        assert_int_equal(backup->on_push(&one, &c, &(ps_arrival){.clock = clock}, &scale),
                         clock < 4 ? PS_DROP : PS_BUFFER);
    }
}

static void the_step_shrinks_with_staleness(void **state)
{
    static const double expect[][4] = {
        /* power, free, tau, scale */
        {1, 0, 0, 1}, {1, 0, 1, 0.5}, {1, 0, 3, 0.25}, {0.5, 0, 3, 0.5}, {2, 0, 3, 1 / 16.0},
        {0, 0, 9, 1}, {1, 3, 3, 1},   {1, 3, 4, 0.5},  {1, 3, 0, 1},
    };
    const ps_consistency *policy = ps_consistency_find("stale_scaled");
    static const uint64_t done[W] = {5, 4, 4};
    ps_clocks c = clocks_of(done);

    (void)state;
    for (size_t i = 0; i < sizeof expect / sizeof *expect; i++) {
        ps_params params = {{expect[i][0], expect[i][1]}};
        ps_arrival a = {.staleness = (uint64_t)expect[i][2]};
        float scale = 1;

        assert_int_equal(policy->on_push(&params, &c, &a, &scale), PS_APPLY);
        assert_float_equal(scale, expect[i][3], 1e-7);
    }
}

/* The rule as it was written, but for those of one speed, beside the policy, on a made-up
 * traffic. */
static void lag_is_counted_as_in_the_older_system(void **state)
{
    static const double ratios[] = {0.3, 1.0, 1.2, 1.5, 2.0, 3.4};
    const ps_consistency *policy = ps_consistency_find("lag_discard");
    static const uint64_t done[W] = {5, 4, 4};
    ps_clocks c = clocks_of(done);
    size_t dropped = 0;

    (void)state;
    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++) {
        uint64_t seen = 0, mark[W] = {0}, lcg = 7;
        uint64_t limit = (uint64_t)floor(W * (ratios[i] <= 1.0 ? 1.5 : ratios[i]));

        limit = limit > W ? limit : W + 1;
        memset(words, 0, sizeof words);
        for (size_t n = 0; n < 3000; n++) {
            uint32_t who;
            bool drops;
            float scale = 1;

            lcg = lcg * 6364136223846793005u + 1442695040888963407u;
            who = (uint32_t)(lcg >> 33) % 7 % W;
            seen++;
            drops = seen - mark[who] >= limit;
            mark[who] = seen;
            assert_int_equal(policy->on_push(&(ps_params){{ratios[i]}}, &c,
                                             &(ps_arrival){.worker = who, .contributor = who},
                                             &scale) == PS_DROP,
                             drops);
            dropped += drops;
        }
    }
    assert_true(dropped > 100 && dropped < 9000);
    memset(words, 0, sizeof words);
}

static void half_async_waits_for_the_step_of_its_own(void **state)
{
    const ps_consistency *policy = ps_consistency_find("half_async");
    static const uint64_t done[W] = {5, 4, 4};
    ps_clocks c = clocks_of(done);
    ps_params params = {{0, 2}};
    float scale = 1;

    (void)state;
    c.version = 8;
    assert_true(policy->on_pull(&params, &c, 0, 5));
    assert_int_equal(policy->on_push(&params, &c, &(ps_arrival){.worker = 0, .clock = 4}, &scale),
                     PS_BUFFER);
    assert_false(policy->on_pull(&params, &c, 0, 5));
    assert_true(policy->on_pull(&params, &c, 1, 4));
    c.version = 9;
    assert_true(policy->on_pull(&params, &c, 0, 5));
    assert_false(policy->on_pull(&params, &c, 0, 6)); /* what it has not pushed */
    c.in = 1;
    c.first_us = 10;
    c.now_us = 2009;
    assert_false(policy->closes(&params, &c, &scale));
    c.now_us = 2010;
    assert_true(policy->closes(&params, &c, &scale));
    c.now_us = 10;
    c.live = 1;
    assert_true(policy->closes(&params, &c, &scale));
    c.live = W;
    c.in = 2;
    assert_false(policy->closes(&params, &c, &scale));
    assert_true(policy->closes(&(ps_params){{2, 2}}, &c, &scale));
    assert_true(scale == 1.0f); /* a sum */
    memset(words, 0, sizeof words);
}

static void check_policy(const ps_consistency *policy, void *arg)
{
    ++*(size_t *)arg;
    assert_ptr_equal(ps_consistency_find(policy->name), policy);
    assert_non_null(policy->summary);
    assert_true(!policy->has_rounds || policy->closes != NULL);
    assert_true(!policy->leaves_behind || policy->has_rounds);
    assert_true(policy->closes_at == NULL || policy->closes != NULL);
    assert_true(policy->words == NULL || policy->words(W, W) <= WORDS);
    assert_true(!policy->is_deterministic || !policy->survives_loss);
}

static void every_policy_is_found_by_its_name(void **state)
{
    size_t count = 0;

    (void)state;
    ps_consistency_each(check_policy, &count);
    assert_int_equal(count, 9);
    assert_null(ps_consistency_find("bsp2"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bsp_waits_for_everybody),
        cmocka_unit_test(ssp_lets_a_worker_run_ahead_by_its_bound),
        cmocka_unit_test(ssp_with_bound_0_admits_as_bsp),
        cmocka_unit_test(dssp_with_equal_bounds_admits_as_ssp),
        cmocka_unit_test(dssp_chooses_the_leave_by_its_definition),
        cmocka_unit_test(asp_never_waits),
        cmocka_unit_test(rounds_close_on_so_many),
        cmocka_unit_test(backup_drops_what_is_late),
        cmocka_unit_test(the_step_shrinks_with_staleness),
        cmocka_unit_test(lag_is_counted_as_in_the_older_system),
        cmocka_unit_test(half_async_waits_for_the_step_of_its_own),
        cmocka_unit_test(every_policy_is_found_by_its_name),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
