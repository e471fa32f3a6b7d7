/* SPDX-License-Identifier: Apache-2.0 */
/* test_draw.c - draws are what they were, on every host, and are spread as they say. */
#include "common/base/draw.h"

#include "tests/support/cmocka_all.h"

#include <math.h>
#include <stdbool.h>

enum { N = 200000 };

static const uint64_t seed = 20240601;

static void the_stream_is_splitmix64(void **state)
{
    (void)state;
    /* Outputs of Vigna's splitmix64.c from states 0 and 1234567. */
    assert_true(ps_draw_u64(0, 0) == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(ps_draw_u64(0, 1) == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(ps_draw_u64(1234567, 0) == UINT64_C(6457827717110365317));
    assert_true(ps_draw_u64(1234567, 2) == UINT64_C(0x883ebce5a3f27c77));
}

static void draws_are_what_they_were(void **state)
{
    /* A change here changes every run of every job: never without need. */
    static const uint32_t order[10] = {1, 7, 2, 6, 3, 9, 5, 0, 8, 4};
    static const double normal[4] = {0x1.3897717e94060p+0, -0x1.d39e2b954be19p-1,
                                     0x1.0a510b518acccp-1, 0x1.d7a1eaab94ddbp-1};
    uint64_t key = ps_draw_key(42, PS_DRAW_INIT, 2, 3, 4);
    uint32_t got[10];

    (void)state;
    assert_true(key == UINT64_C(0xf12d324b0b300a1));
    assert_true(ps_draw_key(0, PS_DRAW_TEST, 0, 0, 0) == UINT64_C(0x72ca1a02786a65a4));
    assert_int_equal(ps_draw_u32(7, 0), 0xab71f1ff);
    assert_int_equal(ps_draw_u32(7, 2), 0xdafa9e65);
    assert_true(ps_draw_unit(key, 0) == 0x1.c726e1583755fp-1);
    assert_int_equal(ps_draw_below(key, 2, 10), 6);
    for (size_t i = 0; i < 4; i++) {
        /* Computed by Python's NormalDist().inv_cdf, that rounds in another order. */
        assert_true(fabs(ps_draw_normal(key, i) / normal[i] - 1.0) < 4e-16);
    }
    ps_draw_permutation(key, got, 10);
    assert_memory_equal(got, order, sizeof order);
}

static void every_part_of_a_key_matters(void **state)
{
    uint64_t keys[7] = {
        ps_draw_key(1, PS_DRAW_INIT, 1, 1, 1),  ps_draw_key(2, PS_DRAW_INIT, 1, 1, 1),
        ps_draw_key(1, PS_DRAW_ORDER, 1, 1, 1), ps_draw_key(1, PS_DRAW_INIT, 2, 1, 1),
        ps_draw_key(1, PS_DRAW_INIT, 1, 2, 1),  ps_draw_key(1, PS_DRAW_INIT, 1, 1, 2),
        ps_draw_key(0, PS_DRAW_INIT, 0, 0, 0)};

    (void)state;
    for (size_t i = 0; i < 7; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_true(keys[i] != keys[j]);
        }
    }
}

static void units_are_uniform(void **state)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 0, 0, 0);
    double sum = 0, squares = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < N; i++) {
        double u = ps_draw_unit(key, i);

        assert_true(u >= 0.0 && u < 1.0);
        sum += u;
        squares += u * u;
    }
    /* Five standard errors: 5 sqrt(1/12/N), 5 sqrt(4/45/N). */
    assert_true(fabs(sum / N - 0.5) < 0.0033);
    assert_true(fabs(squares / N - 1.0 / 3) < 0.0034);
}

static void normals_are_normal(void **state)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 1, 0, 0);
    double sum = 0, squares = 0, cubes = 0, fourths = 0, tail = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < N; i++) {
        double x = ps_draw_normal(key, i);

        sum += x;
        squares += x * x;
        cubes += x * x * x;
        fourths += x * x * x * x;
        tail += fabs(x) > 3.0;
    }
    /* Five standard errors: the moments' variances are 1, 2, 15, 96 over N. */
    assert_true(fabs(sum / N) < 0.0112);
    assert_true(fabs(squares / N - 1.0) < 0.0159);
    assert_true(fabs(cubes / N) < 0.0433);
    assert_true(fabs(fourths / N - 3.0) < 0.11);
    assert_true(fabs(tail / N - 0.0026998) < 0.0006);
}

static void dithers_of_one_key_are_uniform_in_every_byte(void **state)
{
    size_t counts[4][256] = {{0}};
    uint32_t key = (uint32_t)ps_draw_key(seed, PS_DRAW_TEST, 2, 0, 0);

    (void)state;
    for (uint32_t i = 0; i < 256000; i++) {
        uint32_t x = ps_draw_u32(key, i);

        for (size_t b = 0; b < 4; b++) {
            counts[b][x >> (8 * b) & 0xff]++;
        }
    }
    for (size_t b = 0; b < 4; b++) {
        double chi2 = 0;

        for (size_t v = 0; v < 256; v++) {
            double off = (double)counts[b][v] - 1000.0;

            chi2 += off * off / 1000.0;
        }
        assert_true(chi2 < 255 + 5 * 22.6); /* 255 degrees: deviation sqrt(510) */
    }
}

static void below_hits_every_value_evenly(void **state)
{
    size_t counts[7] = {0};
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 3, 0, 0);

    (void)state;
    for (uint64_t i = 0; i < 70000; i++) {
        counts[ps_draw_below(key, i, 7)]++;
    }
    for (size_t v = 0; v < 7; v++) {
        assert_in_range(counts[v], 9537, 10463); /* five deviations of 92.6 */
    }
    assert_int_equal(ps_draw_below(key, 1, 1), 0);
}

static void a_permutation_has_each_index_once(void **state)
{
    enum { COUNT = 1000 };
    uint32_t order[COUNT];
    bool seen[COUNT] = {false};
    size_t moved = 0;

    (void)state;
    ps_draw_permutation(ps_draw_key(seed, PS_DRAW_ORDER, 0, 0, 0), order, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(order[i] < COUNT && !seen[order[i]]);
        seen[order[i]] = true;
        moved += order[i] != i;
    }
    assert_true(moved > COUNT * 9 / 10);
    ps_draw_permutation(1, order, 0);
    ps_draw_permutation(1, order, 1);
    assert_int_equal(order[0], 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stream_is_splitmix64),
        cmocka_unit_test(draws_are_what_they_were),
        cmocka_unit_test(every_part_of_a_key_matters),
        cmocka_unit_test(units_are_uniform),
        cmocka_unit_test(normals_are_normal),
        cmocka_unit_test(dithers_of_one_key_are_uniform_in_every_byte),
        cmocka_unit_test(below_hits_every_value_evenly),
        cmocka_unit_test(a_permutation_has_each_index_once),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_draw a_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
