/* SPDX-License-Identifier: Apache-2.0 */
/* test_nonfinite.c - the first value that is no finite number, wherever it stands. */
#include "common/base/nonfinite.h"

#include "tests/support/cmocka_all.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { N = 9000 };

static uint8_t bytes[N * sizeof(float) + 1];
static uint8_t copy[N * sizeof(float) + 3];

/* Puts `value` at place `at` of n ones, from the byte `shift` on, and looks, also while it copies
 * them. */
static size_t look32(float value, size_t at, size_t n, size_t shift)
{
    const float one = -1;

    for (size_t i = 0; i < n; i++) {
        memcpy(bytes + shift + i * sizeof one, i == at ? &value : &one, sizeof one);
    }
    memset(copy, 0, sizeof copy);
    assert_int_equal(ps_copy_finite(copy + 3 - shift, bytes + shift, n),
                     ps_first_nonfinite(bytes + shift, n) == n);
    assert_memory_equal(copy + 3 - shift, bytes + shift, n * sizeof one);
    return ps_first_nonfinite(bytes + shift, n);
}

static void the_first_one_is_found_at_every_place(void **state)
{
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    static const float good[] = {0, -0.0f, FLT_MAX, -FLT_MAX, FLT_MIN, 1e-45f};
    static const size_t places[] = {0, 1, 15, 16, 63, 4095, 4096, 8191, 8192, 8999};

    (void)state;
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(look32(bad[i], places[p], N, p % 2), places[p]);
            assert_int_equal(look32(bad[i], places[p], places[p] + 1, 1), places[p]);
            assert_int_equal(look32(bad[i], places[p], places[p], 0), places[p]); /* behind them */
        }
        for (size_t i = 0; i < 6; i++) {
            assert_int_equal(look32(good[i], places[p], N, p % 2), N);
        }
    }
    assert_int_equal(ps_first_nonfinite(bytes, 0), 0);
}

static void every_value_of_16_bits_is_told_from_the_others(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t value = (uint16_t)bits;
        bool is_bf16 = (bits & 0x7fff) < 0x7f80, is_f16 = (bits & 0x7fff) < 0x7c00;

        memset(bytes, 0, 200);
        memcpy(bytes + 1 + (size_t)2 * (bits % 97), &value, 2);
        assert_int_equal(ps_first_nonfinite16(bytes + 1, 97, PS_EXPONENT_BF16),
                         is_bf16 ? 97 : bits % 97);
        assert_int_equal(ps_first_nonfinite16(bytes + 1, 97, PS_EXPONENT_F16),
                         is_f16 ? 97 : bits % 97);
    }
    memset(bytes, 0xff, 2 * N); /* as many as can be */
    assert_int_equal(ps_first_nonfinite16(bytes, N, PS_EXPONENT_F16), 0);
    memset(bytes, 0, (size_t)2 * (N - 1));
    assert_int_equal(ps_first_nonfinite16(bytes, N, PS_EXPONENT_F16), N - 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_one_is_found_at_every_place),
        cmocka_unit_test(every_value_of_16_bits_is_told_from_the_others),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
