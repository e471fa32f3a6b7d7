/* SPDX-License-Identifier: Apache-2.0 */
/* test_update.c - the factors of updates, and that all of them give the mean gradient. */
#include "tests/support/cmocka_all.h"

#include "common/update/update.h"

#include <math.h>

static const ps_update_facts facts[] = {
    {.workers = 1, .block_size = 64, .block_count = 1, .redundancy = 1},
    {.workers = 4, .block_size = 16, .block_count = 4, .redundancy = 1},
    {.workers = 4, .block_size = 16, .block_count = 4, .redundancy = 2},
    {.workers = 4, .block_size = 7, .block_count = 6, .redundancy = 3},
};

enum { FACTS = sizeof facts / sizeof facts[0] };

static void gradient_sends_block_means_and_averages_them(void **state)
{
    const ps_update *u = ps_update_find("gradient");

    (void)state;
    assert_true(u->per_block);
    for (size_t i = 0; i < FACTS; i++) {
        assert_true(u->block_scale(&facts[i]) == 1.0f / (float)facts[i].block_size);
        assert_true(u->merge_scale(&facts[i]) == 1.0f / (float)facts[i].block_count);
    }
}

static void gradient_average_sends_shares_that_only_add(void **state)
{
    const ps_update *u = ps_update_find("gradient_average");

    (void)state;
    assert_false(u->per_block);
    for (size_t i = 0; i < FACTS; i++) {
        float samples = (float)(facts[i].block_size * facts[i].block_count * facts[i].redundancy);

        assert_true(u->block_scale(&facts[i]) == 1.0f / samples);
        assert_true(u->merge_scale(&facts[i]) == 1.0f);
    }
}

/* A sample of gradient 1 counts 1 / (samples of the step) in the merged one,
 * whatever the update: a block of S samples counted once, or r times. */
static void is_a_mean(const ps_update *u, void *arg)
{
    (void)arg;
    assert_ptr_equal(ps_update_find(u->name), u);
    if (u->local != NULL) {
        assert_null(u->block_scale); /* test_update_local.c says what they merge to */
        assert_false(u->per_block);
        return;
    }
    for (size_t i = 0; i < FACTS; i++) {
        double copies = u->per_block ? 1 : facts[i].redundancy;
        double total = (double)u->block_scale(&facts[i]) * facts[i].block_size * copies *
                       facts[i].block_count * (double)u->merge_scale(&facts[i]);

        assert_true(fabs(total - 1) < 1e-6); /* two roundings to float32 */
    }
}

static void every_update_of_gradients_merges_to_the_mean_over_samples(void **state)
{
    (void)state;
    ps_update_each(is_a_mean, NULL);
    assert_null(ps_update_find("gradients"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_sends_block_means_and_averages_them),
        cmocka_unit_test(gradient_average_sends_shares_that_only_add),
        cmocka_unit_test(every_update_of_gradients_merges_to_the_mean_over_samples),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
