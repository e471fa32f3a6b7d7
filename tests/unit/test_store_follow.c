/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_follow.c - rows of a fixed vocabulary beside a store that steps on all values: the
 * same bits of rules that rest at zero, and workers that are given only what has changed. */
#include "tests/support/cmocka_all.h"

#include "tests/support/farm.h"
#include "tests/support/shard_world.h"

#include "common/base/draw.h"
#include "common/optim/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 5, ROWS = 60, SLICE_ROWS = 40, N = WIDTH * ROWS, WORKERS = 3, DENSE = 64 };

/* A store of a table of two slices and a dense slice, and what workers hold of the table. */
typedef struct job {
    world w;
    bool has_rows; /* else the table's slices are dense */
    uint32_t rows; /* of the table, SLICE_ROWS to ROWS */
    ps_store *store;
    float has[WORKERS][N];
} job;

static ps_store *create(const job *t)
{
    static const float weights[N + DENSE];
    static const uint32_t index[] = {10, 11, 30};
    const uint32_t sizes[] = {SLICE_ROWS * WIDTH, (t->rows - SLICE_ROWS) * WIDTH, DENSE};
    ps_store_slice slices[3];
    ps_store_conf conf = t->w.conf;
    ps_table_conf table = ps_table_conf_default(
        WIDTH, conf.descent.optim != NULL ? conf.descent.optim : &ps_table_as_is);
    ps_tables_conf tables = {.table_count = 1, .tables = &table, .keys_max = ROWS};

    for (uint32_t s = 0; s < 3; s++) {
        slices[s] = t->w.slices[s];
        slices[s].index = index[s];
        slices[s].n = sizes[s];
        slices[s].row = t->has_rows && s < 2 ? WIDTH : 0;
        slices[s].first_row = s * SLICE_ROWS;
    }
    table.slice_rows = SLICE_ROWS;
    table.first_slice = index[0];
    table.key_end = t->rows;
    table.optim_params = conf.descent.params;
    conf.slices = slices;
    conf.weights = weights;
    conf.tables = t->has_rows ? ps_tables_create(&tables) : NULL;
    return ps_store_create(&conf);
}

static void begin(job *t, const char *policy, const char *optim, bool has_rows)
{
    memset(t, 0, sizeof *t);
    world_init(&t->w, policy, WORKERS, 3);
    t->w.conf.descent.optim = optim == NULL ? NULL : ps_optim_find(optim);
    if (optim != NULL) {
        t->w.conf.descent.params = ps_params_default(t->w.conf.descent.optim->params);
    }
    t->w.conf.merge_scale = 1.0f / 3.0f;
    t->has_rows = has_rows;
    t->rows = ROWS;
    t->store = create(t);
}

static void end(job *t)
{
    ps_store_destroy(t->store);
}

static const float *weights_of(const job *t)
{
    return ps_store_weights(t->store); /* the table's slices come first */
}

static void must(ps_status st)
{
    assert_string_equal(st.text, "");
}

/* Is the row one that the worker has met at that clock? */
static bool is_met(uint64_t clock, uint32_t worker, uint32_t row)
{
    return ps_draw_unit(ps_draw_key(5, PS_DRAW_TEST, worker, clock, 0), row) < 0.08;
}

/* The gradient of the table, zeros where no row is met. */
static void values(uint64_t clock, uint32_t worker, float x[N])
{
    uint64_t key = ps_draw_key(2, PS_DRAW_TEST, 0, clock, worker);

    for (uint32_t i = 0; i < N; i++) {
        x[i] = is_met(clock, worker, i / WIDTH) ? (float)ps_draw_normal(key, i) : 0.0f;
    }
}

static void push_slice(const job *t, uint32_t worker, uint64_t clock, uint32_t index,
                       const float *x, uint32_t n)
{
    Psgd__V1__Encoding head = PSGD__V1__ENCODING__INIT;
    Psgd__V1__F32 f32 = PSGD__V1__F32__INIT;
    ps_store_outcome outcome;

    head.slice = index;
    head.payload_bytes = n * 4;
    head.codec_case = PSGD__V1__ENCODING__CODEC_F32;
    head.f32 = &f32;
    must(
        ps_store_push(t->store, worker, clock, worker, &head, (const uint8_t *)x, n * 4, &outcome));
}

static void push(const job *t, uint32_t worker, uint64_t clock)
{
    static const float zeros[DENSE];
    uint64_t keys[ROWS];
    float x[N], grads[N];
    size_t count = 0;

    values(clock, worker, x);
    push_slice(t, worker, clock, 30, zeros, DENSE);
    if (!t->has_rows) {
        push_slice(t, worker, clock, 10, x, SLICE_ROWS * WIDTH);
        push_slice(t, worker, clock, 11, x + SLICE_ROWS * WIDTH, (ROWS - SLICE_ROWS) * WIDTH);
        return;
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        if (is_met(clock, worker, r)) {
            memcpy(grads + count * WIDTH, x + r * WIDTH, WIDTH * sizeof *x);
            keys[count++] = r;
        }
    }
    must(ps_store_push_rows(t->store, &(ps_store_rows){.worker = worker,
                                                       .clock = clock,
                                                       .contributor = worker,
                                                       .is_last = true,
                                                       .keys = keys,
                                                       .count = count,
                                                       .grads = grads}));
}

enum { MOST = 7 }; /* rows in an answer */

static size_t cut(const void *arg, uint32_t table, const uint64_t *keys, size_t count)
{
    (void)arg;
    (void)table;
    (void)keys;
    return count < MOST ? count : MOST;
}

/* Asks for the clock's weights and takes what comes of the table, unless it is lost. Returns the
 * rows that came. */
static size_t pull(job *t, uint32_t worker, uint64_t clock, bool is_lost)
{
    ps_store_piece pieces[4];
    ps_store_answer answer;
    ps_store_rows_answer rows = {0};
    size_t count = 0;

    must(ps_store_pull_begin(t->store, worker, clock));
    ps_store_pull_next(t->store, worker, 1 << 20, pieces, 4, &answer);
    assert_int_equal(answer.count, t->has_rows ? 1 : 3);
    while (t->has_rows && !rows.is_last) {
        assert_true(ps_store_rows_next(t->store, worker, cut, NULL, &rows));
        assert_true(rows.count <= MOST && rows.clock == clock);
        for (size_t i = 0; i < rows.count && !is_lost; i++) {
            memcpy(t->has[worker] + rows.keys[i] * WIDTH,
                   (const float *)(const void *)rows.values->data + i * WIDTH,
                   WIDTH * sizeof(float));
        }
        count += rows.count;
        ps_buf_unref(rows.values);
    }
    assert_false(ps_store_is_waiting(t->store, worker));
    return count;
}

static void the_bits_are_those_of_the_dense_step(const char *policy, const char *optim)
{
    static job one, other;

    begin(&one, policy, optim, true);
    begin(&other, policy, optim, false);
    for (uint64_t clock = 0; clock < 30; clock++) {
        for (uint32_t i = 0; i < WORKERS; i++) {
            uint32_t worker = (uint32_t)(i + clock) % WORKERS; /* bsp parks some of them */

            push(&one, worker, clock);
            push(&other, worker, clock);
        }
        for (uint32_t w = 0; w < WORKERS; w++) {
            (void)pull(&one, w, clock + 1, false);
            (void)pull(&other, w, clock + 1, false);
            assert_memory_equal(one.has[w], weights_of(&one), sizeof one.has[w]);
        }
        assert_memory_equal(weights_of(&one), weights_of(&other), N * sizeof(float));
    }
    end(&one);
    end(&other);
}

static void rules_that_rest_step_as_on_all_values(void **state)
{
    static const char *const policies[] = {"bsp", "asp", "ssp", "half_async", "stale_scaled"};

    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        the_bits_are_those_of_the_dense_step(policies[i], "sgd");
        the_bits_are_those_of_the_dense_step(policies[i], "adagrad");
        the_bits_are_those_of_the_dense_step(policies[i], NULL); /* workers send increments */
    }
}

static void a_lazy_rule_steps_the_touched_rows_alone(void **state)
{
    static job t;
    float w[N] = {0}, slots[2 * N] = {0};
    const ps_optim *adam = ps_optim_find("adam");

    (void)state;
    begin(&t, "asp", "adam", true);
    for (uint64_t step = 0; step < 20; step++) {
        float x[N];

        push(&t, 0, step);
        values(step, 0, x);
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
    assert_memory_equal(weights_of(&t), w, sizeof w);
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
    static job t;
    const uint64_t key = 3;

    (void)state;
    begin(&t, "bsp", "sgd", true);
    for (uint64_t clock = 0; clock < 12; clock++) {
        for (uint32_t w = 0; w < WORKERS; w++) {
            push(&t, w, clock);
        }
        assert_int_equal(pull(&t, 0, clock + 1, false), count_met(clock, clock));
    }
    assert_int_equal(pull(&t, 1, 12, false), count_met(0, 11)); /* it has not asked before */
    assert_memory_equal(t.has[1], t.has[0], sizeof t.has[0]);
    assert_int_equal(ps_store_rows_begin(t.store, 0, 12, &key, 1).code, PS_FAILED_PRECONDITION);
    end(&t);
}

static void an_answer_that_was_lost_comes_again(void **state)
{
    static job t;

    (void)state;
    begin(&t, "asp", "sgd", true);
    for (uint64_t clock = 0; clock < 12; clock++) {
        push(&t, 0, clock);
        push(&t, 1, clock);
        if (clock % 3 == 1) { /* what came between the two stays out of the worker's books */
            (void)pull(&t, 1, clock + 1, true);
            push(&t, 2, clock / 3);
            (void)pull(&t, 1, clock + 1, false);
            assert_memory_equal(t.has[1], weights_of(&t), sizeof t.has[1]);
        } else {
            (void)pull(&t, 1, clock + 1, false);
        }
    }
    push(&t, 0, 12);
    (void)pull(&t, 1, 13, false);
    assert_memory_equal(t.has[1], weights_of(&t), sizeof t.has[1]);
    end(&t);
}

static void a_worker_that_took_the_first_of_two_answers_misses_nothing(void **state)
{
    static job t;

    (void)state;
    begin(&t, "asp", "sgd", true);
    push(&t, 0, 0);
    (void)pull(&t, 1, 1, false); /* it has this one; the stream breaks, and it asks again */
    push(&t, 0, 1);
    (void)pull(&t, 1, 1, true); /* and, having it, leaves out what comes */
    push(&t, 0, 2);
    (void)pull(&t, 1, 2, false);
    assert_memory_equal(t.has[1], weights_of(&t), sizeof t.has[1]);
    end(&t);
}

/* Saves the job's store and goes on with one that is read back. */
static void begin_again(job *t)
{
    farm_file file = {0};

    must(ps_store_save(t->store, farm_write, &file));
    ps_store_destroy(t->store);
    t->store = create(t);
    must(ps_store_load(t->store, file.bytes, file.len));
    must(ps_store_load_end(t->store));
    free(file.bytes);
}

/* A store in the midst of a clock, saved and read back. */
static void a_saved_vocabulary_goes_on(const char *policy, const char *optim)
{
    static job one, other;

    begin(&one, policy, optim, true);
    begin(&other, policy, optim, true);
    for (uint64_t clock = 0; clock < 9; clock++) {
        for (uint32_t w = 0; w < WORKERS; w++) {
            push(&one, w, clock);
            push(&other, w, clock);
            if (w == 1 && clock % 4 == 2) {
                begin_again(&other);
            }
        }
        for (uint32_t w = 0; w < WORKERS; w++) {
            (void)pull(&one, w, clock + 1, false);
            (void)pull(&other, w, clock + 1, false);
            assert_memory_equal(one.has[w], other.has[w], sizeof one.has[w]);
        }
    }
    assert_memory_equal(one.has[0], weights_of(&one), sizeof one.has[0]);
    end(&one);
    end(&other);
}

/* Saves a store between two clocks and reads it back. The workers have what they were given. */
static void workers_that_have_the_rows_are_given_what_changes_later(void **state)
{
    static const bool have[] = {false, true};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        static job t;
        size_t stepped = 0, later;

        begin(&t, "bsp", "adam", true);
        t.w.conf.workers_have_rows = have[i];
        for (uint64_t clock = 0; clock < 6; clock++) {
            for (uint32_t w = 0; w < WORKERS; w++) {
                push(&t, w, clock);
            }
            for (uint32_t w = 0; w < WORKERS; w++) {
                (void)pull(&t, w, clock + 1, false);
            }
        }
        begin_again(&t);
        for (uint32_t w = 0; w < WORKERS; w++) {
            push(&t, w, 6);
        }
        for (uint32_t row = 0; row < ROWS; row++) {
            bool any = false, now = false;

            for (uint32_t w = 0; w < WORKERS; w++) {
                now |= is_met(6, w, row);
                for (uint64_t clock = 0; clock <= 6; clock++) {
                    any |= is_met(clock, w, row);
                }
            }
            stepped += have[i] ? now : any;
        }
        later = pull(&t, 0, 7, false);
        assert_int_equal(later, stepped);
        assert_memory_equal(t.has[0], weights_of(&t), sizeof t.has[0]);
        end(&t);
    }
}

static void a_fixed_vocabulary_can_be_saved_at_any_time(void **state)
{
    (void)state;
    a_saved_vocabulary_goes_on("bsp", "adam");
    a_saved_vocabulary_goes_on("asp", "adagrad");
    a_saved_vocabulary_goes_on("bsp", NULL);
}

static void a_saved_vocabulary_of_another_size_is_refused(void **state)
{
    static const uint32_t sizes[][2] = {{ROWS, ROWS - 1}, {ROWS - 1, ROWS}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        static job t;
        farm_file file = {0};
        char text[80];
        ps_status st;

        begin(&t, "bsp", "adam", true);
        for (size_t k = 0; k < 2; k++) {
            end(&t);
            t.rows = sizes[i][k];
            t.store = create(&t);
            if (k == 0) {
                must(ps_store_save(t.store, farm_write, &file));
            }
        }
        st = ps_store_load(t.store, file.bytes, file.len);
        assert_int_equal(st.code, PS_DATA_LOSS);
        (void)snprintf(text, sizeof text, "%u rows of virtual shard 11; table 0 has %u",
                       sizes[i][0] - SLICE_ROWS, sizes[i][1] - SLICE_ROWS);
        assert_non_null(strstr(st.text, text));
        free(file.bytes);
        end(&t);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_that_rest_step_as_on_all_values),
        cmocka_unit_test(a_lazy_rule_steps_the_touched_rows_alone),
        cmocka_unit_test(an_answer_is_what_has_changed_since_the_last_one),
        cmocka_unit_test(an_answer_that_was_lost_comes_again),
        cmocka_unit_test(a_worker_that_took_the_first_of_two_answers_misses_nothing),
        cmocka_unit_test(a_fixed_vocabulary_can_be_saved_at_any_time),
        cmocka_unit_test(workers_that_have_the_rows_are_given_what_changes_later),
        cmocka_unit_test(a_saved_vocabulary_of_another_size_is_refused),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
