/* SPDX-License-Identifier: Apache-2.0 */
/* test_f16.c - binary16 to the last bit, on every kind of kernel this processor runs. */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/codec/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float float_of(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}

/* The value of a finite binary16, from its definition. */
static double value_of(uint16_t h)
{
    int exponent = (h >> 10) & 31;
    double fraction = h & 1023, sign = (h & 0x8000) != 0 ? -1 : 1;

    return exponent == 0 ? sign * ldexp(fraction, -24)
                         : sign * ldexp(1024 + fraction, exponent - 25);
}

static void check_every_half(const ps_kernels *k)
{
    for (uint32_t block = 0; block < 65536; block += 64) {
        uint16_t h[64], back[64];
        float x[64];

        for (uint32_t i = 0; i < 64; i++) {
            h[i] = (uint16_t)(block + i);
        }
        k->f16_set((const uint8_t *)h, x, 64);
        k->f16_encode(x, (uint8_t *)back, 64);
        for (uint32_t i = 0; i < 64; i++) {
            uint32_t mag = h[i] & 0x7fffu;

            if (mag < 0x7c00) {
                assert_true((double)x[i] == value_of(h[i]));
                assert_true(!signbit(x[i]) == !(h[i] & 0x8000));
            } else if (mag == 0x7c00) {
                assert_true(isinf(x[i]));
            } else {
                assert_true(isnan(x[i]));
            }
            assert_int_equal(back[i], mag > 0x7c00 ? h[i] | 0x200 : h[i]);
        }
    }
}

static void every_half_comes_back(void **state)
{
    (void)state;
    for (ps_cpu l = PS_CPU_BASELINE; l <= ps_cpu_level(); l++) {
        check_every_half(ps_kernels_of(l));
    }
}

static uint16_t encode_one(const ps_kernels *k, double x)
{
    float f[16];
    uint16_t h[16];

    for (size_t i = 0; i < 16; i++) {
        f[i] = (float)x;
    }
    k->f16_encode(f, (uint8_t *)h, 16);
    assert_int_equal(h[0], h[15]);
    k->f16_encode(f, (uint8_t *)h, 1); /* the tail is the same arithmetic */
    assert_int_equal(h[0], h[15]);
    return h[0];
}

/* Between every two neighbours: below, at and above the middle. */
static void check_rounding(const ps_kernels *k)
{
    for (uint32_t h = 0; h < 0x7bff; h++) {
        double low = value_of((uint16_t)h), high = value_of((uint16_t)(h + 1));
        double middle = (low + high) / 2; /* exact in binary32 */
        uint32_t even = h % 2 == 0 ? h : h + 1;

        assert_int_equal(encode_one(k, (double)nextafterf((float)middle, 0)), h);
        assert_int_equal(encode_one(k, middle), even);
        assert_int_equal(encode_one(k, (double)nextafterf((float)middle, INFINITY)), h + 1);
        assert_int_equal(encode_one(k, -middle), even | 0x8000);
    }
}

static void ties_go_to_even(void **state)
{
    (void)state;
    for (ps_cpu l = PS_CPU_BASELINE; l <= ps_cpu_level(); l++) {
        check_rounding(ps_kernels_of(l));
    }
}

static void check_edges(const ps_kernels *k)
{
    assert_int_equal(encode_one(k, 65504.0), 0x7bff);
    assert_int_equal(encode_one(k, (double)nextafterf(65520.0f, 0)), 0x7bff);
    assert_int_equal(encode_one(k, 65520.0), 0x7c00);
    assert_int_equal(encode_one(k, -1e30), 0xfc00);
    assert_int_equal(encode_one(k, (double)INFINITY), 0x7c00);
    assert_int_equal(encode_one(k, (double)-INFINITY), 0xfc00);
    assert_int_equal(encode_one(k, (double)NAN) & 0x7e00, 0x7e00);
    assert_int_equal(encode_one(k, 0x1p-25), 0);
    assert_int_equal(encode_one(k, 0x1.000002p-25), 1);
    assert_int_equal(encode_one(k, 0x1p-149), 0);
    assert_int_equal(encode_one(k, -0.0), 0x8000);
}

static void overflow_infinities_and_nan_are_kept(void **state)
{
    (void)state;
    for (ps_cpu l = PS_CPU_BASELINE; l <= ps_cpu_level(); l++) {
        check_edges(ps_kernels_of(l));
    }
}

/* Random bits, so all classes of values, at odd places and lengths. */
static void check_twin(const ps_kernels *k, uint64_t key)
{
    enum { MOST = 67 };

    for (uint64_t round = 0; round < 20000; round++) {
        size_t n = (size_t)ps_draw_below(key, round * 100, MOST + 1);
        float x[MOST], y[MOST], z[MOST];
        uint8_t a[2 * MOST + 1], b[2 * MOST + 1];

        for (size_t i = 0; i < n; i++) {
            x[i] = float_of((uint32_t)ps_draw_u64(key, round * 100 + 1 + i));
            y[i] = z[i] = (float)i;
        }
        k->f16_encode(x, a + 1, n);
        ps_kernels_plain.f16_encode(x, b + 1, n);
        assert_memory_equal(a + 1, b + 1, 2 * n);
        k->f16_add(a + 1, y, n);
        ps_kernels_plain.f16_add(a + 1, z, n);
        for (size_t i = 0; i < n; i++) {
            /* Which NaN a sum gives is the compiler's choice of operand order. */
            assert_true(bits_of(y[i]) == bits_of(z[i]) || (isnan(y[i]) && isnan(z[i])));
        }
        k->f16_set(a + 1, y, n);
        ps_kernels_plain.f16_set(a + 1, z, n);
        assert_memory_equal(y, z, n * sizeof *y);
    }
}

static void every_kernel_gives_the_plain_one_s_bits(void **state)
{
    const char *given = getenv("PSGD_TEST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 20;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (ps_cpu l = PS_CPU_BASELINE; l <= ps_cpu_level(); l++) {
        check_twin(ps_kernels_of(l), seed);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_comes_back),
        cmocka_unit_test(ties_go_to_even),
        cmocka_unit_test(overflow_infinities_and_nan_are_kept),
        cmocka_unit_test(every_kernel_gives_the_plain_one_s_bits),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
