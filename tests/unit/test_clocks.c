/* SPDX-License-Identifier: Apache-2.0 */
/* test_clocks.c - the book of clocks alone: what is in, what is complete, whom it waits for, what
 * comes late or not at all, and who is lost. No values: policies' answers are taken as they are. */
#include "tests/support/cmocka_all.h"

#include "common/base/buf.h"
#include "common/base/state.h"
#include "common/store/clocks.h"

#include <string.h>

enum { COLUMNS = 3, WORKERS = 3 };

typedef struct shelf {
    ps_book book;
    ps_store_counters counters;
} shelf;

static void init(shelf *s, const char *policy, double number)
{
    ps_book_conf conf = {.columns = COLUMNS,
                         .workers = WORKERS,
                         .contributors = WORKERS,
                         .policy = ps_consistency_find(policy),
                         .counters = &s->counters};

    *s = (shelf){0};
    conf.counters = &s->counters;
    conf.policy_params = ps_params_default(conf.policy->params);
    if (conf.policy->params != NULL) {
        conf.policy_params.v[0] = number;
    }
    ps_book_init(&s->book, &conf);
}

/* Brings contributor k's clock to a column, as an owner does; whether it was in already. */
static bool bring(shelf *s, uint32_t column, uint32_t k, uint64_t clock)
{
    ps_book *book = &s->book;
    bool is_in, is_late;
    float scale;
    ps_status st = ps_book_check_clock(book, column, k, clock, &is_in);

    assert_string_equal(st.text, "");
    if (is_in) {
        return true;
    }
    if (ps_book_arrive(book, column, k, k, clock, &scale, &is_late) == PS_BUFFER) {
        ps_book_add(book, column, is_late);
    } else {
        book->column[column].version++;
    }
    ps_book_mark(book, column, k, clock + 1);
    while (book->buffers && ps_book_is_whole(book, column, &scale)) {
        book->column[column].version++;
        ps_book_close(book, column);
    }
    return false;
}

static void bring_all(shelf *s, uint32_t k, uint64_t clock)
{
    for (uint32_t c = 0; c < COLUMNS; c++) {
        assert_false(bring(s, c, k, clock));
    }
}

static ps_code check(const shelf *s, uint32_t k, uint64_t clock)
{
    bool is_in;

    return ps_book_check_clock(&s->book, 0, k, clock, &is_in).code;
}

static void what_is_in_is_in_once_and_column_by_column(void **state)
{
    shelf s;

    (void)state;
    init(&s, "bsp", 0);
    assert_false(bring(&s, 0, 1, 0));
    assert_true(bring(&s, 0, 1, 0));
    assert_false(ps_book_is_in(&s.book, 0, 1)); /* columns 1 and 2 are missing */
    assert_false(bring(&s, 1, 1, 0));
    assert_false(bring(&s, 2, 1, 0));
    assert_true(ps_book_is_in(&s.book, 0, 1) && !ps_book_is_in(&s.book, 1, 1));
    assert_false(ps_book_is_in(&s.book, 0, 0) || ps_book_is_in(&s.book, 0, WORKERS));
    assert_int_equal(s.counters.applied, 3);
    ps_book_fini(&s.book);
}

static void a_clock_is_complete_when_all_columns_have_all(void **state)
{
    uint32_t workers[WORKERS];
    shelf s;

    (void)state;
    init(&s, "bsp", 0);
    assert_int_equal(ps_book_waits_for(&s.book, workers, WORKERS), WORKERS);
    bring_all(&s, 0, 0);
    bring_all(&s, 2, 0);
    assert_false(bring(&s, 0, 1, 0));
    assert_int_equal(s.book.column[0].version, 1);
    assert_int_equal(s.book.column[1].version, 0);
    assert_int_equal(ps_book_clock(&s.book), 0);
    assert_int_equal(ps_book_waits_for(&s.book, workers, WORKERS), 1);
    assert_int_equal(workers[0], 1);
    assert_int_equal(ps_book_open(&s.book), 4);
    assert_true(ps_book_may_pull(&s.book, 0, 2, 1) && !ps_book_may_pull(&s.book, 1, 2, 1));
    assert_false(bring(&s, 1, 1, 0));
    assert_false(bring(&s, 2, 1, 0));
    assert_int_equal(ps_book_clock(&s.book), 1);
    assert_int_equal(ps_book_open(&s.book), 0);
    ps_book_fini(&s.book);
}

static void nobody_is_further_ahead_than_the_policy_lets(void **state)
{
    shelf s;

    (void)state;
    init(&s, "ssp", 2);
    assert_int_equal(check(&s, 0, 1), PS_OUT_OF_RANGE); /* 0 is next */
    for (uint64_t clock = 0; clock < 3; clock++) {
        bring_all(&s, 0, clock);
    }
    assert_int_equal(check(&s, 0, 3), PS_OUT_OF_RANGE);
    assert_true(ps_book_admits(&s.book, 0, 0, 2) && !ps_book_admits(&s.book, 0, 0, 3));
    assert_false(ps_book_may_pull(&s.book, 0, 1, 1)); /* what it brings itself is not in */
    assert_true(ps_book_admits(&s.book, 0, 1, 1));
    bring_all(&s, 1, 0);
    bring_all(&s, 2, 0);
    assert_int_equal(check(&s, 0, 3), PS_OK);
    ps_book_fini(&s.book);
}

static void staleness_is_counted_from_what_was_given(void **state)
{
    shelf s;

    (void)state;
    init(&s, "asp", 0);
    bring_all(&s, 0, 0);
    bring_all(&s, 1, 0);
    ps_book_gave(&s.book, 0, 0);
    assert_false(bring(&s, 0, 2, 0)); /* two updates since version 0 */
    assert_false(bring(&s, 0, 0, 1)); /* one, since version 2 */
    assert_int_equal(s.counters.staleness_max, 2);
    assert_int_equal(s.counters.staleness_sum, 1 * COLUMNS + 2 + 1);
    assert_int_equal(s.counters.staleness_bins[2], 1); /* of 2 and 3 */
    ps_book_fini(&s.book);
}

static void a_round_that_is_closed_is_late_or_left_out(void **state)
{
    shelf s;

    (void)state;
    init(&s, "backup", 1); /* a round closes without the slowest */
    bring_all(&s, 0, 0);
    bring_all(&s, 1, 0);
    assert_int_equal(s.book.column[0].clock, 1);
    assert_false(bring(&s, 0, 2, 0)); /* late, and dropped */
    assert_int_equal(s.counters.dropped, 1);
    assert_int_equal(s.book.worker[2].share.dropped, 1);
    assert_true(ps_book_leave_out(&s.book, 1, 2, 2, 1));
    assert_false(ps_book_leave_out(&s.book, 1, 2, 2, 1));
    assert_int_equal(s.counters.left_out, 1);
    assert_true(bring(&s, 1, 2, 0));  /* it counts as in */
    assert_false(bring(&s, 2, 2, 1)); /* clock 0 passed over */
    assert_int_equal(s.counters.left_out, 2);
    assert_int_equal(s.book.worker[2].share.left_out, 2);
    ps_book_fini(&s.book);
}

static void nobody_waits_for_who_is_lost(void **state)
{
    ps_status st;
    shelf s;

    (void)state;
    init(&s, "bsp", 0);
    assert_int_equal(ps_book_lose(&s.book, 0).code, PS_FAILED_PRECONDITION);
    assert_int_equal(ps_book_lose(&s.book, WORKERS).code, PS_INVALID_ARGUMENT);
    ps_book_fini(&s.book);
    init(&s, "ssp", 0);
    bring_all(&s, 0, 0);
    bring_all(&s, 1, 0);
    assert_int_equal(ps_book_clock(&s.book), 0);
    st = ps_book_lose(&s.book, 2);
    assert_string_equal(st.text, "");
    assert_int_equal(ps_book_clock(&s.book), 1);
    assert_int_equal(s.book.live, WORKERS - 1);
    assert_int_equal(ps_book_check_worker(&s.book, 2, 2).code, PS_FAILED_PRECONDITION);
    assert_int_equal(ps_book_check_worker(&s.book, 0, 2).code, PS_PERMISSION_DENIED);
    assert_int_equal(ps_book_lose(&s.book, 0).code, PS_OK);
    assert_int_equal(ps_book_lose(&s.book, 1).code, PS_OK);
    assert_true(ps_book_clock(&s.book) == UINT64_MAX);
    ps_book_fini(&s.book);
}

static void with_redundancy_the_first_holder_counts(void **state)
{
    static const uint32_t counts[2] = {2, 1}, first[2] = {0, 1}, second[1] = {1};
    static const uint32_t *const held[2] = {first, second};
    ps_store_counters counters = {0};
    ps_book book;
    bool is_in;

    (void)state;
    ps_book_init(&book, &(ps_book_conf){.columns = 1,
                                        .workers = 2,
                                        .contributors = 2,
                                        .held_count = counts,
                                        .held = held,
                                        .policy = ps_consistency_find("bsp"),
                                        .counters = &counters});
    assert_int_equal(ps_book_check_worker(&book, 1, 1).code, PS_OK);
    assert_int_equal(ps_book_check_worker(&book, 1, 0).code, PS_PERMISSION_DENIED);
    ps_book_mark(&book, 0, 1, 1); /* whoever brought it */
    assert_int_equal(ps_book_check_clock(&book, 0, 1, 0, &is_in).code, PS_OK);
    assert_true(is_in);
    assert_true(book.done[1] == 1 && book.done[0] == 0); /* worker 0 owes contributor 0 */
    ps_book_fini(&book);
}

static void times_go_on_where_a_save_left_them(void **state)
{
    enum { WAIT_US = 5000 };
    float scale;
    shelf s;

    (void)state;
    init(&s, "half_async", 0);
    s.book.policy_params.v[1] = WAIT_US / 1000.0;
    s.book.now_us = 900000;
    s.book.column[0].behind_us = 800000; /* the policy sees 100000 */
    ps_book_add(&s.book, 0, false);
    assert_int_equal(s.book.column[0].first_us, 100000);
    assert_int_equal(ps_book_deadline(&s.book), 900000 + WAIT_US);
    s.book.now_us += WAIT_US - 1;
    assert_false(ps_book_is_due(&s.book, 0) || ps_book_is_whole(&s.book, 0, &scale));
    s.book.now_us++;
    assert_true(ps_book_is_due(&s.book, 0) && ps_book_is_whole(&s.book, 0, &scale));
    ps_book_fini(&s.book);
}

/* What is kept up to date at each mark is what settle finds from next alone. */
static void settle_finds_the_same_anew(void **state)
{
    static const char *const policies[] = {"bsp", "ssp", "asp", "backup", "quorum"};

    (void)state;
    for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
        uint64_t done[COLUMNS * WORKERS], whole[WORKERS];
        uint32_t pending[COLUMNS * WORKERS], left[WORKERS];
        shelf s;

        init(&s, policies[p], p == 3 ? 1 : 2);
        for (uint32_t i = 0; i < 40; i++) { /* some order that is not even */
            uint32_t c = i * 7 % COLUMNS, k = (i * 5 + i / 4) % WORKERS;

            if (check(&s, k, ps_book_next(&s.book, c, k)) == PS_OK) {
                bool is_in;
                uint64_t clock = ps_book_next(&s.book, c, k);

                if (ps_book_check_clock(&s.book, c, k, clock, &is_in).code == PS_OK) {
                    bring(&s, c, k, clock);
                }
            }
            memcpy(done, s.book.done, sizeof done);
            memcpy(pending, s.book.pending, sizeof pending);
            memcpy(whole, s.book.whole, sizeof whole);
            memcpy(left, s.book.left, sizeof left);
            ps_book_settle(&s.book);
            assert_memory_equal(done, s.book.done, sizeof done);
            assert_memory_equal(pending, s.book.pending, sizeof pending);
            assert_memory_equal(whole, s.book.whole, sizeof whole);
            assert_memory_equal(left, s.book.left, sizeof left);
        }
        assert_true(s.counters.applied > 5);
        ps_book_fini(&s.book);
    }
}

/* Saves all columns of one book and reads them into the other. */
static void move_columns(const shelf *from, shelf *to)
{
    ps_buf *file = NULL;
    ps_state_out out;
    ps_state_in in;
    ps_status st;

    ps_state_out_init(&out, "PSGDTEST", 1, ps_state_write_buf, &file);
    ps_state_begin(&out, 1, 0);
    for (uint32_t c = 0; c < COLUMNS; c++) {
        ps_book_put(&from->book, c, &out);
    }
    ps_state_finish(&out);
    st = ps_state_out_end(&out);
    assert_string_equal(st.text, "");
    st = ps_state_open(&in, "PSGDTEST", 1, 1, file->data, file->len);
    assert_string_equal(st.text, "");
    for (uint32_t c = 0; c < COLUMNS; c++) {
        ps_book_take(&to->book, c, &in);
    }
    assert_true(ps_state_is_ok(&in));
    ps_book_settle(&to->book);
    ps_buf_unref(file);
}

static void a_ledger_has_each_contribution_once_and_outlasts_a_save(void **state)
{
    enum { CLOCKS = 6, SAVED_AT = 4 };
    ps_ledger all = {CLOCKS * WORKERS, 0}, found = {0}, other = {0};
    bool is_first = true;
    shelf s, later;

    (void)state;
    init(&s, "bsp", 0);
    init(&later, "bsp", 0);
    for (uint64_t clock = 0; clock < CLOCKS; clock++) {
        if (clock == SAVED_AT) {
            move_columns(&s, &later);
        }
        for (uint32_t k = WORKERS; k-- > 0;) {
            shelf *to = clock < SAVED_AT ? &s : &later;

            bring_all(to, k, clock);
            assert_true(bring(to, 1, k, clock)); /* repeated: it does not count */
            all.hash += ps_book_hash(clock, k);
        }
    }
    assert_int_equal(ps_book_ledger(&later.book, &is_first, &found), 0);
    assert_true(!is_first && found.count == all.count && found.hash == all.hash);
    is_first = true;
    assert_int_equal(ps_book_ledger(&s.book, &is_first, &other), 0);
    assert_true(other.count == SAVED_AT * WORKERS && other.hash != found.hash);
    assert_int_equal(ps_book_ledger(&later.book, &is_first, &other), COLUMNS); /* all differ from it */
    assert_int_not_equal(ps_book_hash(1, 2), ps_book_hash(2, 1));
    ps_book_fini(&s.book);
    ps_book_fini(&later.book);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_is_in_once_and_column_by_column),
        cmocka_unit_test(a_clock_is_complete_when_all_columns_have_all),
        cmocka_unit_test(nobody_is_further_ahead_than_the_policy_lets),
        cmocka_unit_test(staleness_is_counted_from_what_was_given),
        cmocka_unit_test(a_round_that_is_closed_is_late_or_left_out),
        cmocka_unit_test(nobody_waits_for_who_is_lost),
        cmocka_unit_test(with_redundancy_the_first_holder_counts),
        cmocka_unit_test(times_go_on_where_a_save_left_them),
        cmocka_unit_test(settle_finds_the_same_anew),
        cmocka_unit_test(a_ledger_has_each_contribution_once_and_outlasts_a_save),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
