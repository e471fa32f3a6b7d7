/* SPDX-License-Identifier: Apache-2.0 */
/* test_tables.c - sparse tables behind a job's clocks: what is added up and when, that nothing
 * counts twice, and what is refused. */
#include "tests/support/cmocka_all.h"

#include "common/base/xalloc.h"
#include "common/store/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 2, KEY_END = 1000, KEYS_MAX = 4, LEAD = 5, ONE_ROW = 3 };

/* Worker k brings contributor k. */
static ps_store *make_with(const char *policy, uint32_t contributors, uint64_t tick, uint64_t keys,
                           double l2)
{
    ps_table_conf tables[2];
    ps_tables_conf conf = {.table_count = 2,
                           .tables = tables,
                           .keys_max = keys == KEY_END ? KEYS_MAX : (uint32_t)keys,
                           .tick = tick};
    ps_store_conf of = {.workers = contributors,
                        .contributors = contributors,
                        .policy = ps_consistency_find(policy),
                        .merge_scale = 0.5f};

    of.policy_params = ps_params_default(of.policy->params);
    if (strcmp(policy, "ssp") == 0) {
        of.policy_params.v[0] = LEAD;
    }
    of.descent.optim = ps_optim_find("sgd");
    of.descent.params = ps_params_default(of.descent.optim->params);
    of.descent.params.v[0] = 1.0;
    of.descent.l2 = l2;
    for (uint32_t i = 0; i < 2; i++) {
        tables[i] = ps_table_conf_default(WIDTH, of.descent.optim);
        tables[i].table = i;
        tables[i].key_end = keys;
        tables[i].init_bound = 0;
        tables[i].least_score = 0.05f;
        tables[i].rows_max = keys == ONE_ROW ? 1 : tables[i].rows_max;
    }
    of.tables = ps_tables_create(&conf);
    return ps_store_create(&of);
}

static ps_store *make_for(const char *policy, uint32_t contributors, uint64_t tick, uint64_t keys)
{
    return make_with(policy, contributors, tick, keys, 0.0);
}

static ps_store *make(const char *policy, uint32_t contributors, uint64_t tick)
{
    return make_for(policy, contributors, tick, KEY_END);
}

/* A part of one key whose values are all g; the last of its contribution or not. */
static ps_status push(ps_store *t, uint64_t clock, uint32_t k, uint32_t part, uint32_t table,
                      uint64_t key, float g, bool is_last)
{
    float grads[WIDTH] = {g, g};
    uint32_t shows = 1, clicks = 0;

    return ps_store_push_rows(t, &(ps_store_rows){.worker = k,
                                                  .clock = clock,
                                                  .contributor = k,
                                                  .part = part,
                                                  .table = table,
                                                  .is_last = is_last,
                                                  .keys = &key,
                                                  .count = 1,
                                                  .grads = grads,
                                                  .shows = &shows,
                                                  .clicks = &clicks});
}

static void must_push(ps_store *t, uint64_t clock, uint32_t k, uint64_t key, float g)
{
    ps_status st = push(t, clock, k, 0, 0, key, g, true);

    assert_string_equal(st.text, "");
}

static float value_of(ps_store *t, uint32_t table, uint64_t key)
{
    float rows[2 * WIDTH];
    ps_status st = ps_tables_pull(ps_store_tables(t), &key, 1, rows);

    assert_string_equal(st.text, "");
    return rows[table * WIDTH];
}

/* Pulls a row and drops the pull unless it is answered. */
static bool may_pull(ps_store *t, uint32_t worker, uint64_t clock)
{
    const uint64_t key = 7;
    ps_store_rows_answer answer;
    ps_status st = ps_store_rows_begin(t, worker, clock, &key, 1);

    assert_string_equal(st.text, "");
    assert_true(ps_store_is_waiting(t, worker));
    if (!ps_store_rows_next(t, worker, NULL, NULL, &answer)) {
        ps_store_pull_cancel(t, worker);
        assert_false(ps_store_is_waiting(t, worker));
        return false;
    }
    assert_true(answer.clock == clock && answer.count == 1);
    assert_true(((const float *)(const void *)answer.values->data)[0] == value_of(t, 0, 7));
    ps_buf_unref(answer.values);
    return true;
}

static void must_fail(ps_status st, ps_code code, const char *text)
{
    if (st.code != code || strstr(st.text, text) == NULL) {
        fail_msg("%s: %s; should say %s", ps_code_name(st.code), st.text, text);
    }
}

static void in_step_a_clock_is_one_step_of_what_all_brought(void **state)
{
    ps_store *t = make("bsp", 2, 0);

    (void)state;
    must_push(t, 0, 1, 7, 3);
    assert_true(ps_store_is_in(t, 0, 1) && !ps_store_is_in(t, 0, 0));
    assert_true(may_pull(t, 0, 0) && !may_pull(t, 0, 1));
    assert_true(value_of(t, 0, 7) == 0.0f);
    must_push(t, 0, 0, 7, 1);
    assert_true(may_pull(t, 0, 1) && !may_pull(t, 0, 2));
    assert_true(value_of(t, 0, 7) == -2.0f); /* (1 + 3) / 2 */
    assert_int_equal(ps_table_count(ps_tables_at(ps_store_tables(t), 0)).applied, 1);
    assert_int_equal(ps_table_count(ps_tables_at(ps_store_tables(t), 1)).rows, 0);
    ps_store_destroy(t);
}

static void penalties_are_of_the_rows_that_a_step_is_about(void **state)
{
    ps_store *t = make_with("bsp", 2, 0, KEY_END, 0.25);

    (void)state;
    must_push(t, 0, 0, 7, 2);
    must_push(t, 0, 1, 7, 2);
    assert_true(value_of(t, 0, 7) == -2.0f);
    must_push(t, 1, 0, 7, 0);
    must_push(t, 1, 1, 9, 2);
    assert_true(value_of(t, 0, 7) == -1.5f && value_of(t, 0, 9) == -1.0f);
    must_push(t, 2, 0, 9, 0);
    must_push(t, 2, 1, 9, 0);
    assert_true(value_of(t, 0, 7) == -1.5f && value_of(t, 0, 9) == -0.75f);
    ps_store_destroy(t);
    t = make_with("asp", 2, 0, KEY_END, 0.5); /* each step has its contributor's share */
    must_push(t, 0, 0, 7, 2);
    must_push(t, 1, 0, 7, 0);
    assert_true(value_of(t, 0, 7) == -0.75f); /* -1 + 0.5 / 2 */
    ps_store_destroy(t);
}

static void else_each_contribution_is_a_step(void **state)
{
    ps_store *t = make("ssp", 2, 0);
    ps_status lost;

    (void)state;
    assert_true(may_pull(t, 1, LEAD) && !may_pull(t, 1, LEAD + 1));
    must_push(t, 0, 1, 7, 3);
    must_push(t, 1, 1, 7, 3);
    assert_true(value_of(t, 0, 7) == -3.0f);
    assert_int_equal(ps_store_clock(t), 0);
    must_push(t, 0, 0, 7, 1);
    assert_int_equal(ps_store_clock(t), 1);
    assert_true(may_pull(t, 1, 1 + LEAD) && !may_pull(t, 1, 2 + LEAD));
    lost = ps_store_lose_worker(t, 0); /* nobody waits for it any more */
    assert_string_equal(lost.text, "");
    assert_int_equal(ps_store_clock(t), 2);
    ps_store_destroy(t);
}

static void half_async_adds_up_what_came_and_steps_when_its_time_has_come(void **state)
{
    enum { WAIT_US = 10000 }; /* the policy's default */
    ps_store *t = make("half_async", 3, 0);

    (void)state;
    ps_store_tick(t, 1000);
    must_push(t, 0, 2, 7, 3);
    must_push(t, 1, 2, 7, 3); /* the same contributor again */
    assert_true(value_of(t, 0, 7) == 0.0f);
    assert_true(ps_store_deadline(t) == 1000 + WAIT_US);
    ps_store_tick(t, 1000 + WAIT_US - 1);
    assert_true(value_of(t, 0, 7) == 0.0f);
    ps_store_tick(t, 1000 + WAIT_US);
    assert_true(value_of(t, 0, 7) == -3.0f); /* (3 + 3) / 2, one step */
    assert_int_equal(ps_table_count(ps_tables_at(ps_store_tables(t), 0)).applied, 1);
    for (uint32_t k = 0; k < 3; k++) { /* as many as there are contributors: at once */
        must_push(t, k == 2 ? 2 : 0, k, 8, 2);
    }
    assert_true(value_of(t, 0, 8) == -3.0f);
    ps_store_destroy(t);
}

static void a_late_contribution_takes_a_smaller_step(void **state)
{
    ps_store *t = make("stale_scaled", 2, 0);

    (void)state;
    assert_true(may_pull(t, 0, 0) && may_pull(t, 1, 0));
    must_push(t, 0, 0, 7, 2);
    assert_true(value_of(t, 0, 7) == -1.0f);
    must_push(t, 0, 1, 7, 2); /* one step late: half of it */
    assert_true(value_of(t, 0, 7) == -1.5f);
    ps_store_destroy(t);
}

static void a_round_closes_without_a_backup_worker(void **state)
{
    ps_store *t = make("backup", 3, 0);

    (void)state;
    must_push(t, 0, 0, 7, 1);
    assert_true(!may_pull(t, 0, 1));
    must_push(t, 0, 1, 7, 1);
    assert_true(may_pull(t, 0, 1));
    assert_true(value_of(t, 0, 7) == -1.5f); /* (1 + 1) / 2, for three */
    must_push(t, 0, 2, 7, 5);
    assert_true(value_of(t, 0, 7) == -1.5f);
    assert_int_equal(ps_store_counters_of(t)->dropped, 1);
    must_push(t, 1, 0, 7, 1);
    assert_int_equal(ps_store_pull_begin(t, 2, 2).code, PS_OK); /* it adds nothing to clock 1 */
    assert_int_equal(ps_store_counters_of(t)->left_out, 1);
    must_push(t, 1, 1, 7, 1);
    assert_int_equal(ps_store_clock(t), 2);
    ps_store_pull_cancel(t, 2);
    assert_int_equal(ps_store_pull_begin(t, 2, 4).code, PS_OUT_OF_RANGE);
    ps_store_destroy(t);
}

/* Workers 0 and 1 both hold contributor 0. */
static void two_workers_send_parts_of_one_contribution(void **state)
{
    static const uint32_t zero[] = {0}, both[] = {0, 1};
    static const uint32_t *const held[] = {zero, both};
    static const uint32_t held_count[] = {1, 2};
    const uint64_t key = 7;
    const uint32_t shows = 1, clicks = 0;
    float g[WIDTH] = {4, 4};
    ps_table_conf table = ps_table_conf_default(WIDTH, ps_optim_find("sgd"));
    ps_tables_conf conf = {.table_count = 1, .tables = &table, .keys_max = KEYS_MAX};
    ps_store_conf of = {.workers = 2,
                        .contributors = 2,
                        .held = held,
                        .held_count = held_count,
                        .policy = ps_consistency_find("bsp"),
                        .merge_scale = 0.5f};
    ps_store *t;

    (void)state;
    of.descent.optim = table.optim;
    of.descent.params = table.optim_params;
    of.descent.params.v[0] = 1.0;
    table.init_bound = 0;
    of.tables = ps_tables_create(&conf);
    t = ps_store_create(&of);
    for (uint32_t part = 0; part < 3; part++) { /* of worker 0 and of worker 1, in turn */
        for (uint32_t worker = 0; worker < 2; worker++) {
            ps_status st = ps_store_push_rows(t, &(ps_store_rows){.worker = worker,
                                                                  .part = part,
                                                                  .is_last = part == 2,
                                                                  .keys = &key,
                                                                  .count = part == 1,
                                                                  .grads = g,
                                                                  .shows = &shows,
                                                                  .clicks = &clicks});

            assert_string_equal(st.text, "");
        }
    }
    assert_true(ps_store_is_in(t, 0, 0) && !ps_store_is_in(t, 0, 1));
    assert_int_equal(push(t, 0, 1, 0, 0, 9, 2, true).code, PS_OK);
    assert_true(value_of(t, 0, 7) == -2.0f && value_of(t, 0, 9) == -1.0f);
    ps_store_destroy(t);
}

static void an_impossible_pull_of_rows_is_refused(void **state)
{
    ps_store *t = make("bsp", 1, 0), *none;
    uint64_t keys[] = {9, 3, KEY_END};
    ps_store_conf conf = {.workers = 1, .contributors = 1, .policy = ps_consistency_find("bsp")};

    (void)state;
    none = ps_store_create(&conf);
    must_fail(ps_store_rows_begin(none, 0, 0, keys, 1), PS_FAILED_PRECONDITION, "no sparse tables");
    must_fail(ps_store_rows_begin(t, 1, 0, keys, 1), PS_INVALID_ARGUMENT, "worker 1 of 1");
    must_fail(ps_store_rows_begin(t, 0, 0, keys, 2), PS_INVALID_ARGUMENT, "must ascend");
    must_fail(ps_store_rows_begin(t, 0, 0, keys + 2, 1), PS_INVALID_ARGUMENT, "0 to 999");
    assert_int_equal(ps_store_rows_begin(t, 0, 1, keys, 1).code, PS_OK);
    must_fail(ps_store_rows_begin(t, 0, 1, keys, 1), PS_FAILED_PRECONDITION, "not answered yet");
    ps_store_lend_tables(t); /* somebody else has them now */
    assert_false(ps_store_has_rows(t));
    must_fail(ps_store_rows_begin(t, 0, 1, keys, 1), PS_FAILED_PRECONDITION, "no sparse tables");
    ps_store_destroy(none);
    ps_store_destroy(t);
}

static void a_table_that_is_full_takes_nothing_more(void **state)
{
    ps_store *t = make_for("ssp", 1, 0, ONE_ROW);

    (void)state;
    must_push(t, 0, 0, 1, 1);
    must_fail(push(t, 1, 0, 0, 0, 2, 1, true), PS_RESOURCE_EXHAUSTED, "at most 1 are allowed");
    must_fail(push(t, 1, 0, 0, 0, 1, 1, true), PS_RESOURCE_EXHAUSTED, "at most 1 are allowed");
    ps_store_destroy(t);
}

static void what_is_in_changes_nothing_and_a_part_may_begin_anew(void **state)
{
    ps_store *t = make("bsp", 1, 0);

    (void)state;
    assert_int_equal(push(t, 0, 0, 0, 0, 3, 2, false).code, PS_OK);
    assert_int_equal(push(t, 0, 0, 1, 0, 4, 2, false).code, PS_OK);
    assert_int_equal(push(t, 0, 0, 1, 0, 4, 9, false).code, PS_OK); /* the same again */
    assert_int_equal(push(t, 0, 0, 0, 0, 5, 4, false).code, PS_OK); /* from the start */
    assert_int_equal(push(t, 0, 0, 1, 1, 5, 6, true).code, PS_OK);
    assert_true(value_of(t, 0, 3) == 0.0f && value_of(t, 0, 4) == 0.0f);
    assert_true(value_of(t, 0, 5) == -2.0f && value_of(t, 1, 5) == -3.0f);
    assert_int_equal(push(t, 0, 0, 0, 0, 5, 4, false).code, PS_OK);
    assert_int_equal(push(t, 0, 0, 1, 1, 5, 6, true).code, PS_OK);
    assert_true(value_of(t, 0, 5) == -2.0f);
    assert_int_equal(ps_store_counters_of(t)->applied, 1);
    assert_int_equal(ps_store_counters_of(t)->duplicates, 1);
    ps_store_destroy(t);
}

static void what_cannot_be_is_refused_and_changes_nothing(void **state)
{
    ps_store *t = make("bsp", 2, 0);
    uint64_t keys[] = {1, 2, 3, 4, 5};
    uint32_t shows[] = {1, 1, 1, 1, 1}, clicks[] = {0, 0, 2, 0, 0};
    float grads[5 * WIDTH] = {0};
    ps_store_rows p = {.is_last = true, .keys = keys, .count = 5, .grads = grads, .shows = shows};

    (void)state;
    p.clicks = clicks;
    must_fail(push(t, 1, 0, 0, 0, 1, 1, true), PS_OUT_OF_RANGE, "clock 1");
    must_fail(push(t, 0, 2, 0, 0, 1, 1, true), PS_INVALID_ARGUMENT, "worker 2 of 2");
    must_fail(push(t, 0, 0, 0, 2, 1, 1, true), PS_INVALID_ARGUMENT, "table 2 of 2");
    must_fail(push(t, 0, 0, 1, 0, 1, 1, true), PS_OUT_OF_RANGE, "part 1");
    must_fail(push(t, 0, 0, 0, 0, KEY_END, 1, true), PS_INVALID_ARGUMENT, "0 to 999");
    must_fail(push(t, 0, 0, 0, 0, 1, NAN, true), PS_INVALID_ARGUMENT, "key 1 is nan");
    must_fail(push(t, 0, 0, 0, 0, 1, INFINITY, true), PS_INVALID_ARGUMENT, "finite");
    must_fail(ps_store_push_rows(t, &p), PS_RESOURCE_EXHAUSTED, "at most 4");
    p.count = 3;
    must_fail(ps_store_push_rows(t, &p), PS_INVALID_ARGUMENT, "clicks[2]: 2 of 1");
    keys[1] = 1;
    must_fail(ps_store_push_rows(t, &p), PS_INVALID_ARGUMENT, "must ascend");
    assert_int_equal(push(t, 0, 0, 0, 0, 9, 1, false).code, PS_OK);
    must_fail(push(t, 0, 0, 1, 0, 9, 1, true), PS_INVALID_ARGUMENT, "of a part before");
    assert_int_equal(ps_store_counters_of(t)->refused, 11);
    must_push(t, 0, 0, 1, 2);
    must_fail(push(t, 1, 0, 0, 0, 1, 1, true), PS_OUT_OF_RANGE, "clock 0 is not complete");
    must_push(t, 0, 1, 1, 2);
    assert_true(value_of(t, 0, 1) == -2.0f && value_of(t, 0, 9) == 0.0f);
    ps_store_destroy(t);
}

/* Each contributor brings half of the ids, together more than a million. */
static void a_step_is_of_as_many_rows_as_all_bring_together(void **state)
{
    enum { HALF = 600000 };
    ps_store *t = make_for("bsp", 2, 0, 2 * HALF);
    uint64_t *keys = ps_xcalloc(HALF, sizeof *keys);
    uint32_t *none = ps_xcalloc(HALF, sizeof *none);
    float *grads = ps_xcalloc(HALF, WIDTH * sizeof *grads);
    ps_store_rows p = {.is_last = true, .keys = keys, .count = HALF, .grads = grads};

    (void)state;
    p.shows = p.clicks = none;
    for (uint32_t k = 0; k < 2; k++) {
        ps_status st;

        p.contributor = p.worker = k;
        for (size_t i = 0; i < HALF; i++) {
            keys[i] = 2 * i + k;
            grads[i * WIDTH] = 2;
        }
        st = ps_store_push_rows(t, &p);
        assert_string_equal(st.text, "");
    }
    assert_int_equal(ps_table_count(ps_tables_at(ps_store_tables(t), 0)).applied, 2 * HALF);
    assert_true(value_of(t, 0, 0) == -1.0f && value_of(t, 0, 2 * HALF - 1) == -1.0f);
    free(keys);
    free(none);
    free(grads);
    ps_store_destroy(t);
}

/* What a call between two clocks saw. */
typedef struct seen {
    ps_store *store;
    unsigned calls;
    uint64_t clock;
    float value;
} seen;

static void look_between(void *arg, ps_tables *tables, uint64_t clock)
{
    seen *s = arg;

    assert_ptr_equal(tables, ps_store_tables(s->store));
    s->calls++;
    s->clock = clock;
    s->value = value_of(s->store, 0, 5);
    (void)ps_table_shrink(ps_tables_at(tables, 0));
}

static void a_call_comes_once_between_two_clocks(void **state)
{
    ps_store *t = make("bsp", 2, 0);
    seen s = {.store = t};
    float before;
    ps_status st = ps_store_at_clock(t, 2, look_between, &s);

    (void)state;
    assert_string_equal(st.text, "");
    must_fail(ps_store_at_clock(t, 3, look_between, &s), PS_FAILED_PRECONDITION,
              "another call on the tables is due at step 2");
    must_push(t, 0, 0, 5, 1);
    must_push(t, 0, 1, 5, 1);
    must_push(t, 1, 0, 5, 1);
    assert_int_equal(s.calls, 0);
    before = value_of(t, 0, 5);
    must_push(t, 1, 1, 5, 1);
    assert_int_equal(s.calls, 1);
    assert_int_equal(s.clock, 2);
    assert_true(s.value != before); /* the step of clock 1 is in */
    assert_float_equal(s.value, value_of(t, 0, 5), 0);
    assert_int_equal(ps_table_count(ps_tables_at(ps_store_tables(t), 0)).ticks, 1);
    must_fail(ps_store_at_clock(t, 2, look_between, &s), PS_OUT_OF_RANGE,
              "step 2 is over, the tables are at step 2");
    st = ps_store_at_clock(t, 3, look_between, &s);
    assert_string_equal(st.text, "");
    ps_store_forget_at_clock(t, 4); /* another one */
    ps_store_forget_at_clock(t, 3);
    must_push(t, 2, 0, 5, 1);
    must_push(t, 2, 1, 5, 1);
    assert_int_equal(s.calls, 1);
    ps_store_lend_tables(t);
    must_fail(ps_store_at_clock(t, 9, look_between, &s), PS_FAILED_PRECONDITION,
              "no sparse tables that train");
    ps_store_destroy(t);
}

static void tables_shrink_once_at_each_of_their_clocks(void **state)
{
    static const uint64_t clocks[] = {2, 10, 11}; /* at 10 they age anyway */
    ps_store *t = make("bsp", 2, 10);

    (void)state;
    ps_tables_shrink_at(ps_store_tables(t), clocks, 3);
    for (uint64_t clock = 0; clock < 12; clock++) {
        unsigned ticks = (clock >= 2) + 2u * (clock >= 10) + (clock >= 11);

        must_push(t, clock, 0, 5, 1);
        assert_int_equal(ps_table_count(ps_tables_at(ps_store_tables(t), 0)).ticks, ticks);
        must_push(t, clock, 1, 5, 1);
    }
    ps_store_destroy(t);
}

static void rows_age_by_clocks(void **state)
{
    ps_store *t = make("bsp", 1, 10);

    (void)state;
    must_push(t, 0, 0, 5, 1); /* a show without a click: a score of 0.1, each tick 0.98 of it */
    for (uint64_t clock = 1; clock < 400; clock++) {
        must_push(t, clock, 0, 6, 1);
    }
    assert_int_equal(ps_table_count(ps_tables_at(ps_store_tables(t), 0)).ticks, 39 + 1);
    assert_true(value_of(t, 0, 5) == 0.0f); /* 0.98^35 < 0.5: it is gone */
    assert_true(value_of(t, 0, 6) < -100.0f);
    ps_store_destroy(t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_step_a_clock_is_one_step_of_what_all_brought),
        cmocka_unit_test(penalties_are_of_the_rows_that_a_step_is_about),
        cmocka_unit_test(else_each_contribution_is_a_step),
        cmocka_unit_test(half_async_adds_up_what_came_and_steps_when_its_time_has_come),
        cmocka_unit_test(a_late_contribution_takes_a_smaller_step),
        cmocka_unit_test(a_round_closes_without_a_backup_worker),
        cmocka_unit_test(two_workers_send_parts_of_one_contribution),
        cmocka_unit_test(an_impossible_pull_of_rows_is_refused),
        cmocka_unit_test(a_table_that_is_full_takes_nothing_more),
        cmocka_unit_test(what_is_in_changes_nothing_and_a_part_may_begin_anew),
        cmocka_unit_test(what_cannot_be_is_refused_and_changes_nothing),
        cmocka_unit_test(a_step_is_of_as_many_rows_as_all_bring_together),
        cmocka_unit_test(a_call_comes_once_between_two_clocks),
        cmocka_unit_test(tables_shrink_once_at_each_of_their_clocks),
        cmocka_unit_test(rows_age_by_clocks),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
