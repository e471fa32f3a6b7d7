/* SPDX-License-Identifier: Apache-2.0 */
/* test_round_rows.c - the rows of sparse tables that a worker holds for a round of local steps. */
#include "common/train/round_rows.h"

#include "tests/support/plan_rig.h"

#include <stdlib.h>

enum { WIDTH = 4, SLOTS = 1 };

static ps_plan *plan_of_rounds(void)
{
    return plan_of("{\"workers\":2,\"data\":{\"name\":\"ngram\",\"files\":[\"a\"],"
                   "\"train_limit\":2000,\"test_limit\":100,\"params\":{\"n\":3,\"words\":50}},"
                   "\"model\":{\"preset\":\"ngram\",\"params\":{\"width\":4,\"hidden\":2},"
                   "\"table\":{\"name\":\"sparse\"}},\"update\":{\"name\":\"delta\"}}");
}

/* Makes a batch of these ids. */
static void read_ids(ps_batch_rows *batch, float a, float b)
{
    float x[2] = {a, b};
    ps_status st = ps_batch_rows_read(batch, x, 1);

    assert_string_equal(st.text, "");
}

static void a_row_is_held_until_the_round_ends(void **state)
{
    ps_plan *plan = plan_of_rounds();
    const ps_variable *var = &plan->layout.variables[plan->tables[0].variable];
    ps_round_rows *rows = ps_round_rows_create(plan, SLOTS);
    float *weights = calloc(plan->layout.param_count, sizeof *weights);
    float *rule = calloc(plan->layout.param_count * SLOTS, sizeof *rule);
    float pulled[2 * WIDTH], x[2] = {0, 0}, grads[4 * WIDTH];
    uint32_t shows[2] = {3, 1}, clicks[2] = {1, 0}, met_shows[4], met_clicks[4];
    uint64_t missing[4], keys[4];
    ps_met_rows met = {.keys = keys, .grads = grads, .shows = met_shows, .clicks = met_clicks};
    const ps_round round = {.workers = 2, .taken = 2};
    ps_batch_rows batch;
    ps_status st = ps_batch_rows_init(&batch, plan);

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(plan->tables[0].width, WIDTH);
    read_ids(&batch, 40, 7);
    assert_int_equal(ps_round_rows_missing(rows, &batch, missing), 2);
    assert_true(missing[0] == 7 && missing[1] == 40);
    for (size_t i = 0; i < 2 * WIDTH; i++) {
        pulled[i] = (float)i;
    }
    ps_round_rows_add(rows, missing, 2, pulled);
    assert_int_equal(ps_round_rows_missing(rows, &batch, missing), 0);
    ps_round_rows_get(rows, &batch, rule);
    ps_batch_rows_put(&batch, weights, x, 1);
    /* A step takes 1 off both rows, and leaves state of id 40, which is at position 1. */
    for (size_t i = 0; i < 2 * WIDTH; i++) {
        assert_true(weights[var->at + i] == pulled[i]);
        weights[var->at + i] -= 1;
    }
    rule[var->at * SLOTS + WIDTH] = 5;
    assert_int_equal(ps_round_rows_steps(rows, &batch, 1), 0);
    ps_round_rows_put(rows, &batch, weights, rule, shows, clicks);
    /* Another batch has id 40 too, and the new id 3 before it: the row and its state are there. */
    read_ids(&batch, 40, 3);
    assert_int_equal(ps_round_rows_missing(rows, &batch, missing), 1);
    assert_int_equal(missing[0], 3);
    ps_round_rows_add(rows, missing, 1, pulled);
    ps_round_rows_get(rows, &batch, rule);
    assert_true(batch.rows[0] == pulled[0] && batch.rows[WIDTH] == pulled[WIDTH] - 1);
    assert_true(rule[var->at * SLOTS] == 0 && rule[var->at * SLOTS + WIDTH] == 5);
    assert_int_equal(ps_round_rows_steps(rows, &batch, 0), 0);
    assert_int_equal(ps_round_rows_steps(rows, &batch, 1), 1);
    /* What is sent is the difference, by ascending ids; id 3 was not stepped. */
    assert_int_equal(ps_round_rows_count(rows), 3);
    ps_round_rows_contribute(rows, plan->update->local, &round, 0, &met);
    assert_int_equal(met.count, 3);
    assert_true(keys[0] == 3 && keys[1] == 7 && keys[2] == 40);
    assert_true(grads[0] == 0 && grads[WIDTH] == 1 && grads[2 * WIDTH] == 1);
    assert_true(met_shows[0] == 0 && met_shows[1] == 3 && met_shows[2] == 1);
    assert_true(met_clicks[1] == 1 && met_clicks[2] == 0);
    ps_round_rows_clear(rows);
    assert_int_equal(ps_round_rows_missing(rows, &batch, missing), 2);
    ps_batch_rows_fini(&batch);
    ps_round_rows_destroy(rows);
    free(weights);
    free(rule);
    ps_plan_destroy(plan);
}

/* The table of places grows, and finds every row. */
static void many_rows_are_found(void **state)
{
    ps_plan *plan = plan_of_rounds();
    ps_round_rows *rows = ps_round_rows_create(plan, 0);
    float row[WIDTH] = {0};
    ps_batch_rows batch;
    ps_status st = ps_batch_rows_init(&batch, plan);
    uint64_t missing[2];

    (void)state;
    assert_string_equal(st.text, "");
    for (uint64_t key = 50; key < 5050; key++) {
        ps_round_rows_add(rows, &key, 1, row);
    }
    for (uint64_t key = 0; key < 50; key += 2) {
        row[0] = (float)key;
        ps_round_rows_add(rows, &key, 1, row);
    }
    for (uint32_t key = 0; key < 50; key += 2) {
        read_ids(&batch, (float)key, (float)key);
        assert_int_equal(ps_round_rows_missing(rows, &batch, missing), 0);
        ps_round_rows_get(rows, &batch, NULL);
        assert_true(batch.rows[0] == (float)key);
        read_ids(&batch, (float)key + 1, (float)key);
        assert_int_equal(ps_round_rows_missing(rows, &batch, missing), 1);
    }
    assert_int_equal(ps_round_rows_count(rows), 5025);
    ps_batch_rows_fini(&batch);
    ps_round_rows_destroy(rows);
    ps_plan_destroy(plan);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_held_until_the_round_ends),
        cmocka_unit_test(many_rows_are_found),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
