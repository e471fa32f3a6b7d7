/* SPDX-License-Identifier: Apache-2.0 */
/* test_exact_sum.c - sums that are exact whatever the order, and rounded once. */
#include "common/base/draw.h"
#include "common/metric/exact_sum.h"

#include "tests/support/cmocka_all.h"

#include <float.h>
#include <math.h>
#include <string.h>

__extension__ typedef __int128 wide_int;

static const uint64_t seed = 20261123;

enum { N = 3000 };

static double value_of(const double *x, size_t n)
{
    ps_exact_sum sum = {0};

    for (size_t i = 0; i < n; i++) {
        ps_exact_sum_add(&sum, x[i]);
    }
    return ps_exact_sum_value(&sum);
}

static void check(const double *x, size_t n, double want)
{
    double got = value_of(x, n);

    if (memcmp(&got, &want, sizeof got) != 0) {
        fail_msg("%.17g, should be %.17g", got, want);
    }
}

static void sums_are_rounded_once_to_nearest_even(void **state)
{
    (void)state;
    check((double[]){0}, 0, 0.0);
    check((double[]){1.0, 0x1p-53}, 2, 1.0);                      /* a tie, to even */
    check((double[]){1.0, 0x1p-53, 0x1p-1074}, 3, 1.0 + 0x1p-52); /* no tie any more */
    check((double[]){1.0, 0x1p-52, 0x1p-53}, 3, 1.0 + 0x1p-51);   /* a tie, to even */
    check((double[]){1.0, 0x1p-53, -0x1p-1074}, 3, 1.0);
    check((double[]){-1.0, -0x1p-53, -0x1p-1074}, 3, -1.0 - 0x1p-52);
    check((double[]){0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, 10, 1.0);
    check((double[]){1e300, 1.0, -1e300}, 3, 1.0);
    check((double[]){DBL_MAX, DBL_MAX, -DBL_MAX}, 3, DBL_MAX);
    check((double[]){-DBL_MAX, 0x1p-1074, DBL_MAX}, 3, 0x1p-1074);
    check((double[]){0x1p-1074, 0x1p-1074, 0x1p-1022}, 3, 0x1p-1022 + 0x1p-1073);
    check((double[]){-0x1p-1074, -0x1p-1050}, 2, -0x1p-1074 - 0x1p-1050);
    check((double[]){DBL_MAX, DBL_MAX}, 2, (double)INFINITY);
    check((double[]){5.0, -5.0}, 2, 0.0);
}

static void what_is_not_finite_is_as_addition_has_it(void **state)
{
    (void)state;
    check((double[]){1.0, (double)INFINITY, 2.0}, 3, (double)INFINITY);
    check((double[]){1.0, -(double)INFINITY}, 2, -(double)INFINITY);
    assert_true(isnan(value_of((double[]){(double)INFINITY, -(double)INFINITY}, 2)));
    assert_true(isnan(value_of((double[]){1.0, (double)NAN}, 2)));
    assert_true(isnan(value_of((double[]){(double)INFINITY, (double)NAN}, 2)));
}

/* Whole numbers times 2^-20: a twin in 128 bits has no rounding either. */
static void sums_agree_with_integers_of_128_bits(void **state)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 0, 0, 0);

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t round = 0; round < 200; round++) {
        ps_exact_sum sum = {0};
        wide_int twin = 0;

        for (uint64_t i = 0; i < 200; i++) {
            uint64_t bits = ps_draw_u64(key, round * 1000 + i);
            int64_t digits = (int64_t)(bits >> 11) * (bits & 1 ? -1 : 1); /* 53 bits */
            int shift = (int)(bits >> 1 & 31);

            ps_exact_sum_add(&sum, ldexp((double)digits, shift - 20));
            twin += (wide_int)digits * ((wide_int)1 << shift);
            assert_true(ps_exact_sum_value(&sum) == ldexp((double)twin, -20));
        }
    }
}

/* Every magnitude that there is, both signs. */
static void draw_terms(double *x)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 1, 0, 0);

    for (size_t i = 0; i < N; i++) {
        uint64_t bits = ps_draw_u64(key, i);

        do {
            memcpy(&x[i], &bits, sizeof bits);
            bits = ps_draw_u64(bits, i);
        } while (!isfinite(x[i]));
    }
}

static void no_order_and_no_grouping_changes_a_bit(void **state)
{
    static double x[N];
    static uint32_t order[N];
    uint8_t want[PS_SUM_BYTES], got[PS_SUM_BYTES];
    ps_exact_sum whole = {0};

    (void)state;
    draw_terms(x);
    for (size_t i = 0; i < N; i++) {
        ps_exact_sum_add(&whole, x[i]);
    }
    ps_exact_sum_write(&whole, want);
    for (uint64_t round = 1; round <= 20; round++) {
        ps_exact_sum part[7] = {0}, sum = {0};

        ps_draw_permutation(ps_draw_key(seed, PS_DRAW_TEST, 2, round, 0), order, N);
        for (size_t i = 0; i < N; i++) {
            ps_exact_sum_add(&part[ps_draw_below(round, i, 7)], x[order[i]]);
        }
        for (size_t k = 0; k < 7; k++) {
            ps_exact_sum_merge(&sum, &part[(k * round) % 7]);
        }
        ps_exact_sum_write(&sum, got);
        if (round % 7 != 0) { /* else one part was merged seven times */
            assert_memory_equal(got, want, sizeof want);
            assert_true(ps_exact_sum_value(&sum) == ps_exact_sum_value(&whole));
        } else {
            assert_memory_not_equal(got, want, sizeof want);
        }
    }
}

static void a_sum_and_its_opposite_leave_nothing(void **state)
{
    static double x[N];
    static const uint8_t zeros[PS_SUM_BYTES];
    uint8_t bytes[PS_SUM_BYTES];
    ps_exact_sum sum = {0};

    (void)state;
    draw_terms(x);
    for (size_t i = 0; i < 2 * N; i++) {
        ps_exact_sum_add(&sum, i < N ? x[i] : -x[2 * N - 1 - i]);
    }
    ps_exact_sum_write(&sum, bytes);
    assert_memory_equal(bytes, zeros, sizeof zeros);
}

static void what_was_written_is_read_and_goes_on(void **state)
{
    static double x[N];
    uint8_t bytes[PS_SUM_BYTES];
    ps_exact_sum sum = {0}, read;

    (void)state;
    draw_terms(x);
    x[7] = -(double)INFINITY;
    for (size_t i = 0; i < N; i++) {
        ps_status st;

        ps_exact_sum_add(&sum, x[i]);
        ps_exact_sum_write(&sum, bytes);
        st = ps_exact_sum_read(&read, bytes);
        assert_true(ps_is_ok(&st));
        assert_true(ps_exact_sum_value(&read) == ps_exact_sum_value(&sum));
    }
}

static void another_form_is_refused(void **state)
{
    uint8_t bytes[PS_SUM_BYTES] = {0};
    ps_exact_sum sum;
    ps_status st;

    (void)state;
    bytes[0] = 8;
    st = ps_exact_sum_read(&sum, bytes);
    assert_int_equal(st.code, PS_DATA_LOSS);
    bytes[0] = 0;
    bytes[5] = 1;
    st = ps_exact_sum_read(&sum, bytes);
    assert_int_equal(st.code, PS_DATA_LOSS);
    bytes[5] = 0;
    bytes[PS_SUM_BYTES - 1] = 1;
    st = ps_exact_sum_read(&sum, bytes);
    assert_int_equal(st.code, PS_DATA_LOSS);
    bytes[PS_SUM_BYTES - 1] = 0;
    st = ps_exact_sum_read(&sum, bytes);
    assert_true(ps_is_ok(&st));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_rounded_once_to_nearest_even),
        cmocka_unit_test(what_is_not_finite_is_as_addition_has_it),
        cmocka_unit_test(sums_agree_with_integers_of_128_bits),
        cmocka_unit_test(no_order_and_no_grouping_changes_a_bit),
        cmocka_unit_test(a_sum_and_its_opposite_leave_nothing),
        cmocka_unit_test(what_was_written_is_read_and_goes_on),
        cmocka_unit_test(another_form_is_refused),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
