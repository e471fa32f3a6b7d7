/* SPDX-License-Identifier: Apache-2.0 */
/* test_order.c - the order of an epoch is one permutation for all nodes. */
#include "common/data/assign.h"

#include "tests/support/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 60000 };

static void an_order_has_every_sample_once(void **state)
{
    uint32_t *order = malloc(COUNT * sizeof *order);
    uint8_t *seen = calloc(COUNT, 1);

    (void)state;
    assert_non_null(order);
    assert_non_null(seen);
    ps_worker_order(7, 3, 0, order, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(order[i] < COUNT && seen[order[i]] == 0);
        seen[order[i]] = 1;
    }
    free(order);
    free(seen);
}

static void orders_are_what_they_were(void **state)
{
    /* A change here changes every run of every job. Computed by a Python twin. */
    static const uint32_t first[8] = {163, 57, 968, 827, 529, 515, 239, 586};
    uint32_t order[1000];

    (void)state;
    ps_worker_order(42, 1, 0, order, 1000);
    assert_memory_equal(order, first, sizeof first);
}

static void seed_and_epoch_both_matter(void **state)
{
    uint32_t a[100], b[100];

    (void)state;
    ps_worker_order(1, 1, 0, a, 100);
    ps_worker_order(1, 1, 0, b, 100);
    assert_memory_equal(a, b, sizeof a);
    ps_worker_order(1, 2, 0, b, 100);
    assert_memory_not_equal(a, b, sizeof a);
    ps_worker_order(2, 1, 0, b, 100);
    assert_memory_not_equal(a, b, sizeof a);
}

static void small_counts_work(void **state)
{
    uint32_t order[1] = {9};

    (void)state;
    ps_worker_order(1, 1, 0, order, 0);
    assert_int_equal(order[0], 9);
    ps_worker_order(1, 1, 0, order, 1);
    assert_int_equal(order[0], 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_has_every_sample_once),
        cmocka_unit_test(orders_are_what_they_were),
        cmocka_unit_test(seed_and_epoch_both_matter),
        cmocka_unit_test(small_counts_work),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
