/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard_rows.c - slices that go by rows beside a shard that steps on all values: the same
 * bits of rules that rest at zero, and workers that are given only what has changed. */
#include "tests/support/cmocka_all.h"

#include "tests/support/shard_world.h"

#include "common/base/draw.h"
#include "common/base/rowset.h"
#include "common/codec/wrap.h"
#include "common/optim/rows.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 5, ROWS = 60, N = WIDTH * ROWS, WORKERS = 3 };

/* A shard of one slice of ROWS rows and one of 64 values, and what its workers hold. */
typedef struct table {
    world w;
    ps_store *shard;
    float has[WORKERS][N]; /* of the first slice */
    bool by_rows;
} table;

static void begin(table *t, const char *policy, const char *optim, bool by_rows)
{
    memset(t, 0, sizeof *t);
    world_init(&t->w, policy, WORKERS, 2);
    t->w.conf.descent.optim = ps_optim_find(optim);
    t->w.conf.descent.params = ps_params_default(t->w.conf.descent.optim->params);
    t->w.conf.merge_scale = 1.0f / 3.0f;
    t->w.slices[0].n = N;
    t->w.slices[0].up_params.v[t->w.slices[0].up->own + PS_WRAP_ROWS] = WIDTH;
    t->w.slices[0].row = by_rows ? WIDTH : 0;
    t->w.slices[0].gives_rows = by_rows;
    t->by_rows = by_rows;
    t->shard = ps_store_create(&t->w.conf);
}

static void end(table *t)
{
    ps_store_destroy(t->shard);
}

/* Is the row one that the worker has met at that clock? */
static bool is_met(uint64_t clock, uint32_t worker, uint32_t row)
{
    return ps_draw_unit(ps_draw_key(5, PS_DRAW_TEST, worker, clock, 0), row) < 0.08;
}

static void push_rows(table *t, uint32_t worker, uint64_t clock)
{
    const ps_store_slice *slice = &t->w.slices[0];
    ps_store_outcome outcome;
    static uint8_t bytes[4 * N];
    ps_encoding head;
    float x[N];
    size_t len;
    ps_status st;

    world_values(slice, clock, worker, x);
    for (uint32_t r = 0; r < ROWS; r++) {
        if (!is_met(clock, worker, r)) {
            memset(x + r * WIDTH, 0, WIDTH * sizeof *x);
        }
    }
    len = ps_codec_encode(slice->up, &slice->up_params, 1, slice->index, x, N, bytes, &head);
    st = ps_store_push(t->shard, worker, clock, worker, &head.msg, bytes, len, &outcome);
    assert_string_equal(st.text, "");
    (void)world_push(&t->w, t->shard, worker, clock, worker, 1, &outcome);
}

/* Asks for the clock's weights and takes all of them; the rows of the table that came. */
static size_t pull(table *t, uint32_t worker, uint64_t clock, bool is_lost)
{
    ps_store_piece pieces[4];
    ps_store_answer answer;
    size_t rows = 0;
    ps_status st = ps_store_pull_begin(t->shard, worker, clock);

    assert_string_equal(st.text, "");
    ps_store_pull_next(t->shard, worker, 1 << 20, pieces, 4, &answer);
    assert_int_equal(answer.count, 2);
    for (size_t i = 0; i < answer.count && !is_lost; i++) {
        const Psgd__V1__Encoding *head = pieces[i].head;

        if (head->slice == t->w.slices[0].index) {
            st = ps_codec_decode(NULL, head, pieces[i].buf->data + pieces[i].at, pieces[i].len,
                                 PS_INTO_SET, t->has[worker], N);
            assert_string_equal(st.text, "");
            rows = pieces[i].len == 0 ? 0 : head->row_width > 0 ? head->row_count : ROWS;
        }
    }
    return rows;
}

static void the_bits_are_those_of_the_dense_step(const char *policy, const char *optim)
{
    static table one, other;

    begin(&one, policy, optim, true);
    begin(&other, policy, optim, false);
    for (uint64_t clock = 0; clock < 30; clock++) {
        for (uint32_t i = 0; i < WORKERS; i++) {
            uint32_t worker = (uint32_t)(i + clock) % WORKERS; /* bsp parks some of them */

            push_rows(&one, worker, clock);
            push_rows(&other, worker, clock);
        }
        for (uint32_t w = 0; w < WORKERS; w++) {
            (void)pull(&one, w, clock + 1, false);
            (void)pull(&other, w, clock + 1, false);
            assert_memory_equal(one.has[w], ps_store_weights(one.shard), sizeof one.has[w]);
            assert_memory_equal(one.has[w], other.has[w], sizeof one.has[w]);
        }
        assert_memory_equal(ps_store_weights(one.shard), ps_store_weights(other.shard),
                            ps_store_value_count(one.shard) * sizeof(float));
    }
    end(&one);
    end(&other);
}

static void rules_that_rest_step_as_on_all_values(void **state)
{
    static const char *const policies[] = {"bsp", "asp", "ssp", "half_async"};

    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        the_bits_are_those_of_the_dense_step(policies[i], "sgd");
        the_bits_are_those_of_the_dense_step(policies[i], "adagrad");
    }
}

static void a_lazy_rule_steps_the_touched_rows_alone(void **state)
{
    static table t;
    float w[N] = {0}, slots[2 * N] = {0};
    const ps_optim *adam = ps_optim_find("adam");

    (void)state;
    begin(&t, "asp", "adam", true);
    for (uint64_t step = 0; step < 20; step++) {
        float x[N];

        push_rows(&t, 0, step);
        world_values(&t.w.slices[0], step, 0, x);
        for (uint32_t r = 0; r < ROWS; r++) {
            ps_rows row = {.id = &r, .count = 1, .width = WIDTH};
            float g[WIDTH];

            for (size_t i = 0; i < WIDTH; i++) {
                g[i] = x[r * WIDTH + i] * t.w.conf.merge_scale;
            }
            if (is_met(step, 0, r)) {
                adam->step_rows(&t.w.conf.descent.params, step + 1, &row, g, slots, w, N);
            }
        }
    }
    assert_memory_equal(ps_store_weights(t.shard), w, sizeof w);
    end(&t);
}

/* How many rows somebody has met at the clocks from..to. */
static size_t count_met(uint64_t from, uint64_t to)
{
    size_t count = 0;

    for (uint32_t r = 0; r < ROWS; r++) {
        bool any = false;

        for (uint64_t clock = from; clock <= to; clock++) {
            for (uint32_t w = 0; w < WORKERS; w++) {
                any = any || is_met(clock, w, r);
            }
        }
        count += any;
    }
    return count;
}

static void an_answer_is_what_has_changed_since_the_last_one(void **state)
{
    static table t;

    (void)state;
    begin(&t, "bsp", "sgd", true);
    for (uint64_t clock = 0; clock < 12; clock++) {
        for (uint32_t w = 0; w < WORKERS; w++) {
            push_rows(&t, w, clock);
        }
        assert_int_equal(pull(&t, 0, clock + 1, false), count_met(clock, clock));
    }
    assert_int_equal(pull(&t, 1, 12, false), count_met(0, 11)); /* it has not asked before */
    assert_memory_equal(t.has[1], t.has[0], sizeof t.has[0]);
    end(&t);
}

static void an_answer_that_was_lost_comes_again(void **state)
{
    static table t;

    (void)state;
    begin(&t, "asp", "sgd", true);
    for (uint64_t clock = 0; clock < 12; clock++) {
        push_rows(&t, 0, clock);
        push_rows(&t, 1, clock);
        if (clock % 3 == 1) { /* what came between the two stays out of the worker's books */
            (void)pull(&t, 1, clock + 1, true);
            push_rows(&t, 2, clock / 3);
            (void)pull(&t, 1, clock + 1, false);
            assert_memory_equal(t.has[1], ps_store_weights(t.shard), sizeof t.has[1]);
        } else {
            (void)pull(&t, 1, clock + 1, false);
        }
    }
    push_rows(&t, 0, 12);
    (void)pull(&t, 1, 13, false);
    assert_memory_equal(t.has[1], ps_store_weights(t.shard), sizeof t.has[1]);
    end(&t);
}

static void a_worker_that_took_the_first_of_two_answers_misses_nothing(void **state)
{
    static table t;

    (void)state;
    begin(&t, "asp", "sgd", true);
    push_rows(&t, 0, 0);
    (void)pull(&t, 1, 1, false); /* it has this one; the stream breaks, and it asks again */
    push_rows(&t, 0, 1);
    (void)pull(&t, 1, 1, true); /* and, having it, leaves out what comes */
    push_rows(&t, 0, 2);
    (void)pull(&t, 1, 2, false);
    assert_memory_equal(t.has[1], ps_store_weights(t.shard), sizeof t.has[1]);
    end(&t);
}

static void pushes_that_are_no_gradients_are_refused(void **state)
{
    static table t;
    Psgd__V1__Encoding head = PSGD__V1__ENCODING__INIT;
    ps_store_outcome outcome;
    ps_status st;

    (void)state;
    begin(&t, "bsp", "sgd", true);
    head.slice = t.w.slices[0].index;
    head.others_stay = true;
    st = ps_store_push(t.shard, 0, 0, 0, &head, NULL, 0, &outcome);
    assert_int_equal(st.code, PS_DATA_LOSS);
    assert_non_null(strstr(st.text, "others_stay"));
    end(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_that_rest_step_as_on_all_values),
        cmocka_unit_test(a_lazy_rule_steps_the_touched_rows_alone),
        cmocka_unit_test(an_answer_is_what_has_changed_since_the_last_one),
        cmocka_unit_test(an_answer_that_was_lost_comes_again),
        cmocka_unit_test(a_worker_that_took_the_first_of_two_answers_misses_nothing),
        cmocka_unit_test(pushes_that_are_no_gradients_are_refused),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
