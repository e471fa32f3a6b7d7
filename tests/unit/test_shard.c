/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard.c - what pushes do to a shard: orders, repetitions, errors, membership. */
#include "tests/support/cmocka_all.h"

#include "tests/support/shard_world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ps_store_outcome pushed(const world *w, ps_store *shard, uint32_t worker, uint64_t clock,
                               uint32_t contributor, uint32_t place)
{
    ps_store_outcome outcome;
    ps_status st = world_push(w, shard, worker, clock, contributor, place, &outcome);

    if (!ps_is_ok(&st)) {
        fail_msg("%s", st.text);
    }
    return outcome;
}

static ps_code code_of(const world *w, ps_store *shard, uint32_t worker, uint64_t clock,
                       uint32_t contributor, uint32_t place)
{
    ps_store_outcome outcome;

    return world_push(w, shard, worker, clock, contributor, place, &outcome).code;
}

/* A whole contribution of a worker that brings itself. */
static void push_all(const world *w, ps_store *shard, uint32_t worker, uint64_t clock)
{
    for (uint32_t s = 0; s < w->conf.slice_count; s++) {
        (void)pushed(w, shard, worker, clock, worker, s);
    }
}

static void same_weights(ps_store *a, ps_store *b)
{
    assert_int_equal(ps_store_value_count(a), ps_store_value_count(b));
    assert_memory_equal(ps_store_weights(a), ps_store_weights(b),
                        ps_store_value_count(a) * sizeof(float));
}

/* ---- Values that are no numbers ---- */

static void a_push_that_is_not_finite_is_refused_and_changes_nothing(void **state)
{
    static const char *const codecs[] = {"f32", "f16", "bf16", "topk"};
    static const char *const policies[] = {"bsp", "asp"};
    static float before[4096];
    static gift g;
    world w;

    (void)state;
    for (size_t c = 0; c < 8; c++) {
        ps_store_outcome outcome = PS_STORE_APPLIED;
        ps_store *shard;
        float x[256];
        ps_status st;

        world_init(&w, policies[c / 4], 2, 3);
        world_codecs(&w, codecs[c % 4], "f32");
        shard = ps_store_create(&w.conf);
        push_all(&w, shard, 0, 0);
        memcpy(before, ps_store_weights(shard), ps_store_value_count(shard) * sizeof *before);
        world_values(&w.slices[0], 0, 1, x);
        x[w.slices[0].n - 1] = NAN;
        if (c % 4 == 3) { /* of which a codec that picks the largest ones picks it */
            x[w.slices[0].n - 1] = INFINITY;
        }
        g.len = ps_codec_encode(w.slices[0].up, &w.slices[0].up_params, 1, w.slices[0].index, x,
                                w.slices[0].n, g.bytes, &g.head);
        st = ps_store_push(shard, 1, 0, 1, &g.head.msg, g.bytes, g.len, &outcome);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        assert_int_equal(outcome, PS_STORE_NOT_FINITE);
        assert_non_null(strstr(st.text, "not finite"));
        assert_memory_equal(before, ps_store_weights(shard),
                            ps_store_value_count(shard) * sizeof *before);
        push_all(&w, shard, 1, 0); /* what is right is taken after it */
        assert_int_equal(ps_store_clock(shard), 1);
        ps_store_destroy(shard);
    }
}

/* ---- Sums ---- */

static void every_order_of_arrival_gives_the_same_bits(void **state)
{
    static const uint32_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const char *const codecs[] = {"f32", "f16", "int8"};
    world w;

    (void)state;
    for (size_t c = 0; c < 3; c++) {
        ps_store *first = NULL;

        world_init(&w, "bsp", 3, 3);
        world_codecs(&w, codecs[c], codecs[c]);
        for (size_t o = 0; o < 36; o++) { /* slices of one clock in different orders */
            ps_store *shard = ps_store_create(&w.conf);

            for (uint64_t clock = 0; clock < 3; clock++) {
                for (uint32_t i = 0; i < 3; i++) {
                    (void)pushed(&w, shard, orders[o / 6][i], clock, orders[o / 6][i], 0);
                    (void)pushed(&w, shard, orders[o % 6][i], clock, orders[o % 6][i], 1);
                    (void)pushed(&w, shard, orders[o % 6][i], clock, orders[o % 6][i], 2);
                }
                assert_int_equal(ps_store_clock(shard), clock + 1);
            }
            if (first == NULL) {
                first = shard;
            } else {
                same_weights(first, shard);
                ps_store_destroy(shard);
            }
        }
        ps_store_destroy(first);
    }
}

static void a_step_is_the_rule_on_the_scaled_sum(void **state)
{
    float x[3][100];
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 3, 1);
    w.conf.merge_scale = 0.25f;
    shard = ps_store_create(&w.conf);
    for (uint32_t i = 3; i-- > 0;) {
        world_values(&w.slices[0], 0, i, x[i]);
        (void)pushed(&w, shard, i, 0, i, 0);
    }
    for (size_t i = 0; i < 100; i++) {
        float sum = x[0][i] + x[1][i];

        sum = sum + x[2][i];
        assert_true(ps_store_weights(shard)[i] == 0.0f - 0.5f * (sum * 0.25f));
    }
    ps_store_destroy(shard);
}

static void without_an_optimizer_increments_are_subtracted(void **state)
{
    float x[100], initial[100];
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 1, 1);
    w.conf.descent.optim = NULL;
    w.conf.weights = initial;
    for (size_t i = 0; i < 100; i++) {
        initial[i] = (float)i;
    }
    shard = ps_store_create(&w.conf);
    world_values(&w.slices[0], 0, 0, x);
    assert_int_equal(pushed(&w, shard, 0, 0, 0, 0), PS_STORE_APPLIED);
    for (size_t i = 0; i < 100; i++) {
        assert_true(ps_store_weights(shard)[i] == initial[i] - x[i]);
    }
    ps_store_destroy(shard);
}

static void decrements_of_state_are_subtracted_whatever_the_optimizer(void **state)
{
    float x[100], y[1000];
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 1, 2);
    w.slices[0].is_state = true;
    shard = ps_store_create(&w.conf);
    world_values(&w.slices[0], 0, 0, x);
    world_values(&w.slices[1], 0, 0, y);
    assert_int_equal(pushed(&w, shard, 0, 0, 0, 0), PS_STORE_APPLIED);
    assert_int_equal(pushed(&w, shard, 0, 0, 0, 1), PS_STORE_APPLIED);
    for (size_t i = 0; i < 100; i++) {
        assert_true(ps_store_weights(shard)[i] == 0.0f - x[i]);
    }
    assert_true(ps_store_weights(shard)[100] == 0.0f - 0.5f * y[0]);
    ps_store_destroy(shard);
}

/* Half the rate each clock, and an L2 penalty. */
static void penalised(world *w, const char *policy, float initial[100])
{
    world_init(w, policy, 2, 1);
    w->conf.merge_scale = 0.5f;
    w->conf.weights = initial;
    w->conf.descent.schedule = ps_schedule_find("step");
    w->conf.descent.schedule_params = ps_params_default(w->conf.descent.schedule->params);
    w->conf.descent.schedule_params.v[PS_WARMUP_PARAMS] = 0.5;   /* gamma */
    w->conf.descent.schedule_params.v[PS_WARMUP_PARAMS + 1] = 1; /* every */
    w->conf.descent.l2 = 0.25;
    for (size_t i = 0; i < 100; i++) {
        initial[i] = 1.0f + (float)i;
    }
}

static void a_round_steps_at_its_clock_with_the_whole_penalty(void **state)
{
    float x[2][100], initial[100];
    world w;
    ps_store *shard;

    (void)state;
    penalised(&w, "bsp", initial);
    shard = ps_store_create(&w.conf);
    for (uint64_t clock = 0; clock < 3; clock++) {
        for (uint32_t k = 2; k-- > 0;) {
            world_values(&w.slices[0], clock, k, x[k]);
            (void)pushed(&w, shard, k, clock, k, 0);
        }
        for (size_t i = 0; i < 100; i++) {
            float g = (x[0][i] + x[1][i]) * 0.5f + 0.25f * initial[i];

            initial[i] -= 0.5f / (float)(1 << clock) * g;
            assert_true(ps_store_weights(shard)[i] == initial[i]);
        }
    }
    ps_store_destroy(shard);
}

static void a_contribution_steps_at_its_own_clock_with_its_share_of_the_penalty(void **state)
{
    static const struct {
        uint32_t worker;
        uint64_t clock;
    } pushes[] = {{0, 0}, {0, 1}, {1, 0}, {0, 2}, {1, 1}};
    float x[100], initial[100];
    world w;
    ps_store *shard;

    (void)state;
    penalised(&w, "asp", initial);
    shard = ps_store_create(&w.conf);
    for (size_t p = 0; p < sizeof pushes / sizeof pushes[0]; p++) {
        uint32_t k = pushes[p].worker;
        uint64_t clock = pushes[p].clock;

        world_values(&w.slices[0], clock, k, x);
        assert_int_equal(pushed(&w, shard, k, clock, k, 0), PS_STORE_APPLIED);
        for (size_t i = 0; i < 100; i++) {
            initial[i] -= 0.5f / (float)(1 << clock) * (x[i] * 0.5f + 0.125f * initial[i]);
            assert_true(ps_store_weights(shard)[i] == initial[i]);
        }
    }
    ps_store_destroy(shard);
}

/* Steps of one contribution each; a schedule goes by the clocks that all have done, not by
 * the number of steps. */
static void a_sum_without_rounds_steps_at_the_least_clock(void **state)
{
    static const struct {
        uint32_t worker;
        uint64_t clock, least;
    } pushes[] = {{0, 0, 0}, {1, 0, 1}, {0, 1, 1}, {1, 1, 2}};
    float x[100], initial[100];
    world w;
    ps_store *shard;

    (void)state;
    penalised(&w, "half_async", initial);
    w.conf.policy_params.v[0] = 1; /* contributions of a step */
    shard = ps_store_create(&w.conf);
    for (size_t p = 0; p < sizeof pushes / sizeof pushes[0]; p++) {
        uint32_t k = pushes[p].worker;

        world_values(&w.slices[0], pushes[p].clock, k, x);
        assert_int_equal(pushed(&w, shard, k, pushes[p].clock, k, 0), PS_STORE_APPLIED);
        for (size_t i = 0; i < 100; i++) {
            float rate = 0.5f / (float)(1 << pushes[p].least);

            initial[i] -= rate * (x[i] * 0.5f + 0.125f * initial[i]);
            assert_true(ps_store_weights(shard)[i] == initial[i]);
        }
    }
    ps_store_destroy(shard);
}

static void the_number_of_servers_changes_no_bit(void **state)
{
    float whole[WORLD_SLICES * 1000];
    size_t at = 0;

    (void)state;
    for (uint32_t servers = 1; servers <= 3; servers++) {
        at = 0;
        for (uint32_t server = 0; server < servers; server++) {
            world w;
            ps_store *shard;
            uint32_t kept = 0;

            world_init(&w, "bsp", 3, 6);
            world_codecs(&w, "int8", "int8");
            w.conf.descent.optim = ps_optim_find("adam");
            w.conf.descent.params = ps_params_default(w.conf.descent.optim->params);
            for (uint32_t s = server * 6 / servers; s < (server + 1) * 6 / servers; s++) {
                w.slices[kept++] = w.slices[s];
            }
            w.conf.slice_count = kept;
            shard = ps_store_create(&w.conf);
            for (uint64_t clock = 0; clock < 4; clock++) {
                for (uint32_t i = 0; i < 3; i++) {
                    push_all(&w, shard, (i + server + (uint32_t)clock) % 3, clock);
                }
            }
            if (servers == 1) {
                memcpy(whole, ps_store_weights(shard), ps_store_value_count(shard) * sizeof *whole);
            } else {
                assert_memory_equal(whole + at, ps_store_weights(shard),
                                    ps_store_value_count(shard) * sizeof *whole);
            }
            at += ps_store_value_count(shard);
            ps_store_destroy(shard);
        }
    }
    assert_int_equal(at, 100 + 1 + 37 + 64 + 300 + 16);
}

/* ---- Repetitions ---- */

static void repetitions_at_every_point_change_nothing(void **state)
{
    world w;
    ps_store *plain, *repeated;

    (void)state;
    world_init(&w, "bsp", 3, 2);
    plain = ps_store_create(&w.conf);
    repeated = ps_store_create(&w.conf);
    for (uint64_t clock = 0; clock < 3; clock++) {
        for (uint32_t step = 0; step < 6; step++) {
            uint32_t worker = 2 - step / 2, place = step % 2; /* last first: all park */

            (void)pushed(&w, plain, worker, clock, worker, place);
            (void)pushed(&w, repeated, worker, clock, worker, place);
            for (uint32_t again = 0; again <= step; again++) {
                uint32_t other = 2 - again / 2;

                assert_int_equal(pushed(&w, repeated, other, clock, other, again % 2),
                                 PS_STORE_DUPLICATE);
            }
            for (uint64_t old = 0; old < clock; old++) {
                assert_int_equal(pushed(&w, repeated, worker, old, worker, place),
                                 PS_STORE_DUPLICATE);
            }
            same_weights(plain, repeated);
        }
    }
    assert_int_equal(ps_store_counters_of(repeated)->applied, 18);
    assert_int_equal(ps_store_counters_of(repeated)->steps, 6);
    ps_store_destroy(plain);
    ps_store_destroy(repeated);
}

static void a_retry_after_half_a_push_brings_the_rest(void **state)
{
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 2, 4);
    shard = ps_store_create(&w.conf);
    (void)pushed(&w, shard, 0, 0, 0, 0);
    (void)pushed(&w, shard, 0, 0, 0, 1);
    assert_false(ps_store_is_in(shard, 0, 0));
    assert_int_equal(pushed(&w, shard, 0, 0, 0, 0), PS_STORE_DUPLICATE);
    assert_int_equal(pushed(&w, shard, 0, 0, 0, 1), PS_STORE_DUPLICATE);
    assert_int_equal(pushed(&w, shard, 0, 0, 0, 2), PS_STORE_APPLIED);
    assert_false(ps_store_is_in(shard, 0, 0));
    assert_int_equal(pushed(&w, shard, 0, 0, 0, 3), PS_STORE_APPLIED);
    assert_true(ps_store_is_in(shard, 0, 0));
    assert_false(ps_store_is_in(shard, 1, 0));
    assert_false(ps_store_is_in(shard, 0, 1));
    assert_false(ps_store_is_in(shard, 0, 2)); /* there is no such contributor */
    ps_store_destroy(shard);
}

/* ---- Parking ---- */

static void parked_bytes_are_counted_and_return_to_none(void **state)
{
    world w;
    ps_store *shard;
    const ps_store_counters *c;
    uint64_t pool = 0;

    (void)state;
    world_init(&w, "bsp", 3, 2); /* 100 and 1 values */
    shard = ps_store_create(&w.conf);
    c = ps_store_counters_of(shard);
    for (uint64_t clock = 0; clock < 5; clock++) {
        assert_int_equal(pushed(&w, shard, 2, clock, 2, 0), PS_STORE_PARKED);
        assert_int_equal(c->parked_bytes_now, 400);
        assert_int_equal(pushed(&w, shard, 1, clock, 1, 0), PS_STORE_PARKED);
        assert_int_equal(pushed(&w, shard, 2, clock, 2, 1), PS_STORE_PARKED);
        assert_int_equal(c->parked_bytes_now, 804);
        assert_int_equal(c->parked_now, 3);
        assert_int_equal(pushed(&w, shard, 0, clock, 0, 0), PS_STORE_APPLIED);
        assert_int_equal(c->parked_bytes_now, 4);
        assert_int_equal(pushed(&w, shard, 0, clock, 0, 1), PS_STORE_APPLIED);
        assert_int_equal(pushed(&w, shard, 1, clock, 1, 1), PS_STORE_APPLIED);
        assert_int_equal(c->parked_bytes_now, 0);
        assert_int_equal(c->parked_now, 0);
        pool = clock == 0 ? c->pool_bytes : pool;
        assert_int_equal(c->pool_bytes, pool); /* no more memory after the first clock */
    }
    assert_int_equal(c->parked_bytes_peak, 804);
    assert_int_equal(c->parked_total, 15);
    ps_store_destroy(shard);
}

static void a_shard_may_end_with_parked_pushes(void **state)
{
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 2, 3);
    shard = ps_store_create(&w.conf);
    push_all(&w, shard, 1, 0);
    ps_store_destroy(shard); /* a leak is the sanitizer's to see */
    ps_store_destroy(NULL);
}

/* ---- Errors ---- */

static ps_code code_of_gift(ps_store *shard, uint32_t worker, uint32_t contributor, const gift *g)
{
    ps_store_outcome outcome;

    return ps_store_push(shard, worker, 0, contributor, &g->head.msg, g->bytes, g->len, &outcome)
        .code;
}

static void what_is_wrong_is_refused_and_changes_nothing(void **state)
{
    static gift g, other;
    world w, f16;
    ps_store *shard, *clean;
    uint64_t refused = 0;

    (void)state;
    world_init(&w, "bsp", 3, 2);
    world_init(&f16, "bsp", 3, 2);
    world_codecs(&w, "int8", "int8");
    world_codecs(&f16, "f16", "f16");
    shard = ps_store_create(&w.conf);
    clean = ps_store_create(&w.conf);
    for (uint32_t worker = 3; worker-- > 0;) { /* early ones too: seen before they park */
        world_gift(&w.slices[0], 0, worker, &g);
        assert_int_equal(code_of_gift(shard, 3, worker, &g), PS_INVALID_ARGUMENT);
        assert_int_equal(code_of_gift(shard, worker, 3, &g), PS_INVALID_ARGUMENT);
        assert_int_equal(code_of_gift(shard, worker, (worker + 1) % 3, &g), PS_PERMISSION_DENIED);
        g.head.msg.slice = 11; /* between two of ours */
        assert_int_equal(code_of_gift(shard, worker, worker, &g), PS_INVALID_ARGUMENT);
        g.head.msg.slice = UINT32_MAX;
        assert_int_equal(code_of_gift(shard, worker, worker, &g), PS_INVALID_ARGUMENT);
        g.head.msg.slice = w.slices[1].index; /* whose length is another */
        assert_int_equal(code_of_gift(shard, worker, worker, &g), PS_DATA_LOSS);
        g.head.msg.slice = w.slices[0].index;
        g.len--;
        assert_int_equal(code_of_gift(shard, worker, worker, &g), PS_DATA_LOSS);
        g.head.msg.payload_bytes--;
        assert_int_equal(code_of_gift(shard, worker, worker, &g), PS_DATA_LOSS);
        g.len++;
        g.head.msg.payload_bytes++;
        g.head.u.int8.scale = NAN;
        assert_int_equal(code_of_gift(shard, worker, worker, &g), PS_DATA_LOSS);
        g.head.u.int8.scale = INFINITY;
        assert_int_equal(code_of_gift(shard, worker, worker, &g), PS_DATA_LOSS);
        world_gift(&f16.slices[0], 0, worker, &other);
        assert_int_equal(code_of_gift(shard, worker, worker, &other), PS_INVALID_ARGUMENT);
        assert_int_equal(code_of(&w, shard, worker, 1, worker, 0), PS_OUT_OF_RANGE);
        assert_int_equal(code_of(&w, shard, worker, UINT64_MAX, worker, 0), PS_OUT_OF_RANGE);
        refused += 13;
        assert_int_equal(ps_store_counters_of(shard)->refused, refused);
        assert_int_equal(ps_store_counters_of(shard)->bytes_in,
                         ps_store_counters_of(clean)->bytes_in);
        push_all(&w, shard, worker, 0);
        push_all(&w, clean, worker, 0);
        same_weights(shard, clean);
    }
    assert_int_equal(ps_store_clock(shard), 1);
    ps_store_destroy(shard);
    ps_store_destroy(clean);
}

/* ---- Policies ---- */

static void ssp_applies_at_once_and_keeps_its_bound(void **state)
{
    float x[100];
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "ssp", 2, 1);
    w.conf.policy_params.v[0] = 2;
    w.conf.merge_scale = 0.5f;
    shard = ps_store_create(&w.conf);
    assert_int_equal(pushed(&w, shard, 1, 0, 1, 0), PS_STORE_APPLIED);
    world_values(&w.slices[0], 0, 1, x);
    for (size_t i = 0; i < 100; i++) {
        assert_true(ps_store_weights(shard)[i] == 0.0f - 0.5f * (x[i] * 0.5f));
    }
    assert_int_equal(code_of(&w, shard, 1, 2, 1, 0), PS_OUT_OF_RANGE); /* 1 is next */
    assert_int_equal(pushed(&w, shard, 1, 1, 1, 0), PS_STORE_APPLIED);
    assert_int_equal(pushed(&w, shard, 1, 2, 1, 0), PS_STORE_APPLIED);
    assert_int_equal(code_of(&w, shard, 1, 3, 1, 0), PS_OUT_OF_RANGE); /* 3 ahead */
    assert_int_equal(pushed(&w, shard, 0, 0, 0, 0), PS_STORE_APPLIED);
    assert_int_equal(pushed(&w, shard, 1, 3, 1, 0), PS_STORE_APPLIED);
    assert_int_equal(pushed(&w, shard, 1, 0, 1, 0), PS_STORE_DUPLICATE);
    assert_int_equal(ps_store_version(shard, 0), 5);
    ps_store_destroy(shard);
}

static void asp_goes_on_without_a_lost_worker_and_bsp_does_not(void **state)
{
    uint32_t waited[2] = {9, 9};
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 2, 1);
    shard = ps_store_create(&w.conf);
    assert_int_equal(ps_store_lose_worker(shard, 0).code, PS_FAILED_PRECONDITION);
    assert_int_equal(pushed(&w, shard, 0, 0, 0, 0), PS_STORE_APPLIED);
    ps_store_destroy(shard);
    world_init(&w, "asp", 2, 1);
    shard = ps_store_create(&w.conf);
    for (uint64_t clock = 0; clock < 3; clock++) {
        (void)pushed(&w, shard, 1, clock, 1, 0);
    }
    assert_int_equal(ps_store_clock(shard), 0);
    assert_int_equal(ps_store_waits_for(shard, waited, 2), 1);
    assert_int_equal(waited[0], 0);
    assert_int_equal(ps_store_lose_worker(shard, 2).code, PS_INVALID_ARGUMENT);
    assert_int_equal(ps_store_lose_worker(shard, 0).code, PS_OK);
    assert_int_equal(ps_store_lose_worker(shard, 0).code, PS_OK);
    assert_int_equal(ps_store_clock(shard), 3);
    assert_int_equal(code_of(&w, shard, 0, 0, 0, 0), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_store_pull_begin(shard, 0, 0).code, PS_FAILED_PRECONDITION);
    assert_int_equal(ps_store_waits_for(shard, waited, 2), 1);
    assert_int_equal(waited[0], 1);
    assert_int_equal(ps_store_lose_worker(shard, 1).code, PS_OK);
    assert_int_equal(ps_store_waits_for(shard, waited, 2), 0);
    ps_store_destroy(shard);
}

static void bsp_says_who_is_waited_for(void **state)
{
    uint32_t waited[3];
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 3, 2);
    shard = ps_store_create(&w.conf);
    assert_int_equal(ps_store_waits_for(shard, waited, 3), 3);
    push_all(&w, shard, 1, 0);
    (void)pushed(&w, shard, 2, 0, 2, 0); /* half of it */
    assert_int_equal(ps_store_waits_for(shard, waited, 1), 2);
    assert_int_equal(ps_store_waits_for(shard, waited, 3), 2);
    assert_int_equal(waited[0], 0);
    assert_int_equal(waited[1], 2);
    ps_store_destroy(shard);
}

/* Four workers, four blocks, each block held by two: k and k + 1. */
static void redundancy_counts_a_block_once(void **state)
{
    world w, alone;
    ps_store *shard, *once;

    (void)state;
    world_init(&w, "bsp", 4, 2);
    world_blocks(&w, 4);
    for (uint32_t i = 0; i < 4; i++) {
        world_hold(&w, i, i < (i + 3) % 4 ? i : (i + 3) % 4);
        world_hold(&w, i, i < (i + 3) % 4 ? (i + 3) % 4 : i);
    }
    world_init(&alone, "bsp", 4, 2);
    w.conf.merge_scale = alone.conf.merge_scale = 0.25f;
    shard = ps_store_create(&w.conf);
    once = ps_store_create(&alone.conf);
    for (uint32_t k = 0; k < 4; k++) {
        push_all(&alone, once, k, 0);
    }
    for (uint32_t s = 0; s < 2; s++) { /* workers 1 and 3 hold everything between them */
        assert_int_equal(pushed(&w, shard, 1, 0, 1, s), PS_STORE_PARKED);
        assert_int_equal(pushed(&w, shard, 2, 0, 1, s), PS_STORE_DUPLICATE);
        assert_int_equal(pushed(&w, shard, 1, 0, 0, s), PS_STORE_APPLIED);
        assert_int_equal(pushed(&w, shard, 3, 0, 3, s), PS_STORE_PARKED);
        assert_int_equal(pushed(&w, shard, 0, 0, 0, s), PS_STORE_DUPLICATE);
        assert_int_equal(pushed(&w, shard, 3, 0, 2, s), PS_STORE_APPLIED);
        assert_int_equal(pushed(&w, shard, 2, 0, 2, s), PS_STORE_DUPLICATE);
        assert_int_equal(code_of(&w, shard, 1, 0, 2, s), PS_PERMISSION_DENIED);
    }
    assert_int_equal(ps_store_clock(shard), 1);
    assert_true(ps_store_is_in(shard, 0, 3));
    same_weights(shard, once);
    ps_store_destroy(shard);
    ps_store_destroy(once);
}

static void a_worker_without_blocks_is_not_waited_for(void **state)
{
    world w;
    ps_store *shard;
    uint32_t waited[3];

    (void)state;
    world_init(&w, "bsp", 3, 1);
    world_blocks(&w, 2);
    world_hold(&w, 0, 0);
    world_hold(&w, 2, 1);
    shard = ps_store_create(&w.conf);
    assert_int_equal(ps_store_waits_for(shard, waited, 3), 2);
    (void)pushed(&w, shard, 0, 0, 0, 0);
    (void)pushed(&w, shard, 2, 0, 1, 0);
    assert_int_equal(ps_store_clock(shard), 1);
    ps_store_destroy(shard);
}

/* A policy of this test: buffers, drops what workers 0 and 2 send from clock 1
 * on, and everything in clock 3. */
static uint64_t no_lead(const ps_params *params)
{
    (void)params;
    return 0;
}

static ps_verdict keeps_worker_1(const ps_params *params, const ps_clocks *c, const ps_arrival *a,
                                 float *scale)
{
    (void)params;
    (void)c;
    (void)scale;
    return a->clock == 0 || (a->worker == 1 && a->clock != 3) ? PS_BUFFER : PS_DROP;
}

static void what_a_policy_drops_counts_as_in(void **state)
{
    static const uint32_t orders[3][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    ps_consistency dropping = *ps_consistency_find("bsp");
    float x[100], before[100];
    world w;

    (void)state;
    dropping.lead = no_lead;
    dropping.on_push = keeps_worker_1;
    for (size_t o = 0; o < 3; o++) {
        ps_store *shard;

        world_init(&w, "bsp", 3, 1);
        w.conf.policy = &dropping;
        shard = ps_store_create(&w.conf);
        for (uint64_t clock = 0; clock < 3; clock++) {
            memcpy(before, ps_store_weights(shard), sizeof before);
            for (size_t i = 0; i < 3; i++) {
                uint32_t worker = orders[o][i];
                ps_store_outcome outcome = pushed(&w, shard, worker, clock, worker, 0);

                assert_int_equal(outcome == PS_STORE_DROPPED, clock > 0 && worker != 1);
                assert_int_equal(pushed(&w, shard, worker, clock, worker, 0), PS_STORE_DUPLICATE);
            }
            assert_int_equal(ps_store_clock(shard), clock + 1);
        }
        world_values(&w.slices[0], 2, 1, x);
        for (size_t i = 0; i < 100; i++) {
            assert_true(ps_store_weights(shard)[i] == before[i] - 0.5f * x[i]);
        }
        assert_int_equal(ps_store_counters_of(shard)->parked_now, 0);
        memcpy(before, ps_store_weights(shard), sizeof before);
        for (size_t i = 0; i < 3; i++) { /* nothing is left of clock 3: no step */
            (void)pushed(&w, shard, orders[o][i], 3, orders[o][i], 0);
        }
        assert_int_equal(ps_store_clock(shard), 4);
        assert_int_equal(ps_store_version(shard, 0), 3);
        assert_memory_equal(before, ps_store_weights(shard), sizeof before);
        ps_store_destroy(shard);
    }
}

/* ---- Zeros ---- */

static void a_push_without_slices_is_zeros_for_all(void **state)
{
    world w;
    ps_store *shard, *other;

    (void)state;
    world_init(&w, "bsp", 2, 3);
    shard = ps_store_create(&w.conf);
    other = ps_store_create(&w.conf);
    (void)pushed(&w, shard, 1, 0, 1, 1); /* one slice is there before: it stays */
    assert_int_equal(ps_store_push_zeros(shard, 1, 0, 1).code, PS_OK);
    assert_int_equal(ps_store_counters_of(shard)->duplicates, 0); /* the others were meant */
    assert_true(ps_store_is_in(shard, 0, 1));
    assert_int_equal(ps_store_push_zeros(shard, 1, 0, 1).code, PS_OK);
    assert_int_equal(ps_store_counters_of(shard)->duplicates, 3);
    push_all(&w, shard, 0, 0);
    assert_int_equal(ps_store_clock(shard), 1);
    world_init(&w, "bsp", 1, 3);
    ps_store_destroy(other);
    other = ps_store_create(&w.conf);
    push_all(&w, other, 0, 0);
    assert_memory_equal(ps_store_weights(shard), ps_store_weights(other), 400);
    assert_memory_not_equal(ps_store_weights(shard) + 100, ps_store_weights(other) + 100, 4);
    assert_memory_equal(ps_store_weights(shard) + 101, ps_store_weights(other) + 101, 37 * 4);
    ps_store_destroy(shard);
    ps_store_destroy(other);
}

static void zeros_are_refused_for_all_slices_or_none(void **state)
{
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "asp", 1, 2);
    shard = ps_store_create(&w.conf);
    (void)pushed(&w, shard, 0, 0, 0, 0);
    assert_int_equal(ps_store_push_zeros(shard, 0, 1, 0).code, PS_OUT_OF_RANGE); /* slice 1 */
    assert_int_equal(ps_store_version(shard, 0), 1);
    assert_int_equal(ps_store_version(shard, 1), 0);
    assert_int_equal(ps_store_push_zeros(shard, 1, 0, 0).code, PS_INVALID_ARGUMENT);
    assert_int_equal(ps_store_push_zeros(shard, 0, 0, 0).code, PS_OK);
    assert_int_equal(ps_store_version(shard, 1), 1);
    ps_store_destroy(shard);
}

static void staleness_is_what_others_did_in_between(void **state)
{
    ps_store_piece piece;
    ps_store_answer answer;
    const ps_store_counters *c;
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "asp", 2, 1);
    shard = ps_store_create(&w.conf);
    c = ps_store_counters_of(shard);
    assert_int_equal(ps_store_pull_begin(shard, 0, 0).code, PS_OK);
    ps_store_pull_next(shard, 0, 1 << 20, &piece, 1, &answer);
    (void)pushed(&w, shard, 1, 0, 1, 0);
    (void)pushed(&w, shard, 1, 1, 1, 0); /* without a pull: 1 behind */
    (void)pushed(&w, shard, 0, 0, 0, 0);
    assert_int_equal(c->staleness_count, 3);
    assert_int_equal(c->staleness_max, 2);
    assert_int_equal(c->staleness_sum, 0 + 1 + 2);
    ps_store_destroy(shard);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_that_is_not_finite_is_refused_and_changes_nothing),
        cmocka_unit_test(every_order_of_arrival_gives_the_same_bits),
        cmocka_unit_test(a_step_is_the_rule_on_the_scaled_sum),
        cmocka_unit_test(without_an_optimizer_increments_are_subtracted),
        cmocka_unit_test(decrements_of_state_are_subtracted_whatever_the_optimizer),
        cmocka_unit_test(a_round_steps_at_its_clock_with_the_whole_penalty),
        cmocka_unit_test(a_contribution_steps_at_its_own_clock_with_its_share_of_the_penalty),
        cmocka_unit_test(a_sum_without_rounds_steps_at_the_least_clock),
        cmocka_unit_test(the_number_of_servers_changes_no_bit),
        cmocka_unit_test(repetitions_at_every_point_change_nothing),
        cmocka_unit_test(a_retry_after_half_a_push_brings_the_rest),
        cmocka_unit_test(parked_bytes_are_counted_and_return_to_none),
        cmocka_unit_test(a_shard_may_end_with_parked_pushes),
        cmocka_unit_test(what_is_wrong_is_refused_and_changes_nothing),
        cmocka_unit_test(ssp_applies_at_once_and_keeps_its_bound),
        cmocka_unit_test(asp_goes_on_without_a_lost_worker_and_bsp_does_not),
        cmocka_unit_test(bsp_says_who_is_waited_for),
        cmocka_unit_test(redundancy_counts_a_block_once),
        cmocka_unit_test(a_worker_without_blocks_is_not_waited_for),
        cmocka_unit_test(what_a_policy_drops_counts_as_in),
        cmocka_unit_test(a_push_without_slices_is_zeros_for_all),
        cmocka_unit_test(zeros_are_refused_for_all_slices_or_none),
        cmocka_unit_test(staleness_is_what_others_did_in_between),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
