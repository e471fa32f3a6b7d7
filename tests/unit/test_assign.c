/* SPDX-License-Identifier: Apache-2.0 */
/* test_assign.c - who holds which blocks. */
#include "common/data/assign.h"

#include "tests/support/cmocka_all.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static ps_assignment *make(const char *name, uint32_t n, double r)
{
    const ps_assign *assign = ps_assign_find(name);
    ps_params params = ps_params_default(assign->params);
    ps_assignment *out = NULL;
    ps_status st;

    params.v[0] = r;
    st = assign->make(n, &params, &out);
    assert_string_equal(st.text, "");
    return out;
}

static void refuse(const char *name, uint32_t n, double r, const char *text)
{
    const ps_assign *assign = ps_assign_find(name);
    ps_params params = ps_params_default(assign->params);
    ps_assignment *out = NULL;
    ps_status st;

    params.v[0] = r;
    st = assign->make(n, &params, &out);
    assert_string_equal(st.text, text);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_null(out);
}

static void iid_of_four_with_two_copies_is_the_known_table(void **state)
{
    static const uint32_t holders[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
    static const uint32_t held[4][3] = {{0, 1, 2}, {0, 3, 4}, {1, 3, 5}, {2, 4, 5}};
    ps_assignment *a = make("iid", 4, 2);

    (void)state;
    assert_int_equal(a->workers, 4);
    assert_int_equal(a->redundancy, 2);
    assert_int_equal(a->block_count, 6);
    assert_memory_equal(a->holders, holders, sizeof holders);
    for (size_t w = 0; w < 4; w++) {
        assert_int_equal(a->held_count[w], 3);
        assert_memory_equal(a->held[w], held[w], sizeof held[w]);
    }
    ps_assignment_destroy(a);
}

static void duplicate_of_four_with_two_copies_is_the_known_table(void **state)
{
    static const uint32_t holders[2][2] = {{0, 1}, {2, 3}};
    ps_assignment *a = make("duplicate", 4, 2);

    (void)state;
    assert_int_equal(a->block_count, 2);
    assert_memory_equal(a->holders, holders, sizeof holders);
    for (uint32_t w = 0; w < 4; w++) {
        assert_int_equal(a->held_count[w], 1);
        assert_int_equal(a->held[w][0], w / 2);
    }
    ps_assignment_destroy(a);
}

static void one_copy_gives_each_worker_its_own_block(const ps_assign *assign, void *arg)
{
    ps_params params = ps_params_default(assign->params);
    ps_assignment *a = NULL;
    ps_status st = assign->make(5, &params, &a);

    (void)arg;
    assert_string_equal(st.text, "");
    assert_int_equal(a->block_count, 5);
    for (uint32_t w = 0; w < 5; w++) {
        assert_int_equal(a->held_count[w], 1);
        assert_int_equal(a->held[w][0], w);
    }
    ps_assignment_destroy(a);
}

static void the_default_is_one_block_a_worker(void **state)
{
    (void)state;
    ps_assign_each(one_copy_gives_each_worker_its_own_block, NULL);
}

static void check_consistent(const ps_assignment *a);

static void uneven_workers_hold_their_ratio(void **state)
{
    static const uint32_t held[5] = {3, 1, 2, 3, 1};
    const ps_assign *assign = ps_assign_find("uneven");
    ps_params params = ps_params_default(assign->params);
    ps_assignment *a = NULL;
    ps_status st;

    (void)state;
    params.v[0] = 3;
    params.v[1] = 1;
    params.v[2] = 2;
    st = assign->make(5, &params, &a);
    assert_string_equal(st.text, "");
    assert_int_equal(a->block_count, 10);
    assert_int_equal(a->redundancy, 1);
    assert_false(a->is_by_file);
    for (uint32_t w = 0; w < 5; w++) {
        assert_int_equal(a->held_count[w], held[w]);
    }
    check_consistent(a);
    ps_assignment_destroy(a);
    a = NULL;
    params.v[1] = 0;
    st = assign->make(5, &params, &a);
    assert_string_equal(st.text,
                        "uneven: ratio_3 is given but ratio_2 is not; give ratios without a gap");
    params.v[0] = params.v[2] = 0;
    st = assign->make(5, &params, &a);
    assert_string_equal(st.text,
                        "uneven: there are 5 workers and 0 ratios; at least one of each is needed");
    params.v[0] = 64;
    st = assign->make(1025, &params, &a);
    assert_string_equal(st.text,
                        "uneven: 1025 workers would have 65600 blocks; at most 65536 are allowed");
    assert_null(a);
}

static void modulo_deals_by_file(void **state)
{
    ps_assignment *a = make("modulo", 3, 0);

    (void)state;
    assert_true(a->is_by_file);
    assert_int_equal(a->block_count, 3);
    check_consistent(a);
    ps_assignment_destroy(a);
    refuse("modulo", 0, 0, "modulo: there are 0 workers; 1 to 65536 are allowed");
}

static void check_consistent(const ps_assignment *a)
{
    size_t copies = 0;

    for (size_t i = 0; i < (size_t)a->block_count * a->redundancy; i++) {
        assert_true(a->holders[i] < a->workers);
        if (i % a->redundancy != 0) {
            assert_true(a->holders[i] > a->holders[i - 1]);
        }
    }
    for (uint32_t w = 0; w < a->workers; w++) {
        copies += a->held_count[w];
        for (uint32_t i = 0; i < a->held_count[w]; i++) {
            uint32_t block = a->held[w][i];
            bool is_holder = false;

            assert_true(block < a->block_count && (i == 0 || block > a->held[w][i - 1]));
            for (uint32_t c = 0; c < a->redundancy; c++) {
                is_holder = is_holder || a->holders[block * a->redundancy + c] == w;
            }
            assert_true(is_holder);
        }
    }
    assert_int_equal(copies, (size_t)a->block_count * a->redundancy);
}

static void holders_and_held_blocks_say_the_same(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 9; n++) {
        for (uint32_t r = 1; r <= n; r++) {
            ps_assignment *a = make("iid", n, r);

            check_consistent(a);
            for (uint32_t w = 1; w < n; w++) { /* C(n-1, r-1) each */
                assert_int_equal(a->held_count[w], a->held_count[0]);
            }
            ps_assignment_destroy(a);
            if (n % r == 0) {
                a = make("duplicate", n, r);
                check_consistent(a);
                ps_assignment_destroy(a);
            }
        }
    }
}

static void the_largest_iid_fits(void **state)
{
    ps_assignment *a = make("iid", 18, 9); /* C(18,9) = 48620 */

    (void)state;
    assert_int_equal(a->block_count, 48620);
    check_consistent(a);
    ps_assignment_destroy(a);
}

static void impossible_combinations_say_why(void **state)
{
    (void)state;
    refuse("iid", 0, 1, "there are no workers; at least one is needed");
    refuse("iid", 4, 5, "redundancy is 5; 1 to 4, the number of workers, are allowed");
    refuse("iid", 4, 0, "redundancy is 0; 1 to 4, the number of workers, are allowed");
    refuse("iid", 4, 1.5, "redundancy is 1.5; 1 to 4, the number of workers, are allowed");
    refuse("iid", 4, (double)NAN, "redundancy is nan; 1 to 4, the number of workers, are allowed");
    refuse("iid", 20, 10,
           "iid: 20 workers with redundancy 10 have C(20,10) blocks, more than 65536");
    refuse("iid", UINT32_MAX, UINT32_MAX / 2,
           "iid: 4294967295 workers with redundancy 2147483647 have C(4294967295,2147483647) "
           "blocks, more than 65536");
    refuse("iid", 60000, 59999,
           "iid: 60000 workers with redundancy 59999 hold C(60000,59999)*59999 copies, more than "
           "1048576");
    refuse("duplicate", 4, 3, "duplicate: 4 workers are not a multiple of redundancy 3");
    refuse("duplicate", 70000, 1,
           "duplicate: 70000 workers with redundancy 1 have more than 65536 blocks");
}

static void unknown_names_are_unknown(void **state)
{
    (void)state;
    assert_null(ps_assign_find("nobody"));
    assert_null(ps_assign_find(""));
}

static void whole_gives_every_worker_all_samples(void **state)
{
    ps_assignment *a = make("whole", 3, 0);

    (void)state;
    assert_true(a->is_whole);
    assert_int_equal(a->block_count, 3);
    for (uint32_t w = 0; w < 3; w++) {
        assert_int_equal(a->held_count[w], 1);
        assert_int_equal(a->held[w][0], w);
    }
    assert_int_equal(ps_assignment_step(a, 64), 64);
    ps_assignment_destroy(a);
    a = make("modulo", 3, 0);
    assert_int_equal(ps_assignment_step(a, 64), 192);
    ps_assignment_destroy(a);
    refuse("whole", 0, 0, "whole: there are 0 workers; 1 to 65536 are allowed");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iid_of_four_with_two_copies_is_the_known_table),
        cmocka_unit_test(duplicate_of_four_with_two_copies_is_the_known_table),
        cmocka_unit_test(the_default_is_one_block_a_worker),
        cmocka_unit_test(uneven_workers_hold_their_ratio),
        cmocka_unit_test(modulo_deals_by_file),
        cmocka_unit_test(whole_gives_every_worker_all_samples),
        cmocka_unit_test(holders_and_held_blocks_say_the_same),
        cmocka_unit_test(the_largest_iid_fits),
        cmocka_unit_test(impossible_combinations_say_why),
        cmocka_unit_test(unknown_names_are_unknown),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
