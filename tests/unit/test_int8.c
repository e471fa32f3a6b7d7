/* SPDX-License-Identifier: Apache-2.0 */
/* test_int8.c - signed bytes with one scale, on every kind of kernel this processor runs. */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/codec/codec.h"
#include "common/codec/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float encode(const float *x, size_t n, uint64_t key, int8_t *q)
{
    ps_params none = {{0}};
    ps_encoding head;

    ps_codec_encode(ps_codec_find("int8"), &none, key, 0, x, n, (uint8_t *)q, &head);
    return head.u.int8.scale;
}

static void the_scale_is_the_largest_magnitude_over_127(void **state)
{
    float x[4] = {0.5f, -2.0f, 1.0f, 0.0f};
    int8_t q[4];

    (void)state;
    assert_true(encode(x, 4, 1, q) == 2.0f / 127.0f);
    assert_int_equal(q[1], -127);
    assert_true(q[2] == 63 || q[2] == 64);
    assert_true(q[0] == 31 || q[0] == 32);
    assert_int_equal(q[3], 0);
}

static void a_slice_of_zeros_has_scale_0_and_bytes_0(void **state)
{
    float x[3] = {0.0f, -0.0f, 0.0f};
    int8_t q[3] = {1, 1, 1}, none[3] = {0};

    (void)state;
    assert_true(encode(x, 3, 1, q) == 0.0f);
    assert_memory_equal(q, none, 3);
    x[0] = x[1] = x[2] = 0x1p-149f; /* over 127 that is nothing */
    assert_true(encode(x, 3, 1, q) == 0.0f);
    assert_memory_equal(q, none, 3);
}

static void what_is_no_number_leaves_the_scale_finite(void **state)
{
    float x[5] = {NAN, INFINITY, -INFINITY, 1.0f, -0.25f}, lone[2] = {INFINITY, NAN};
    int8_t q[5];

    (void)state;
    assert_true(encode(x, 5, 1, q) == 1.0f / 127.0f);
    assert_int_equal(q[0], 0);
    assert_int_equal(q[1], 127);
    assert_int_equal(q[2], -127);
    assert_int_equal(q[3], 127);
    assert_true(encode(lone, 2, 1, q) == 0.0f);
    assert_int_equal(q[0], 0);
}

static void tiny_slices_keep_their_shape(void **state)
{
    float x[3] = {0x1p-120f, -0x1p-120f, 0x1p-121f};
    int8_t q[3];

    (void)state;
    assert_true(encode(x, 3, 1, q) == 0x1p-120f / 127.0f);
    assert_int_equal(q[0], 127);
    assert_int_equal(q[1], -127);
    assert_true(q[2] == 63 || q[2] == 64);
}

static void values_on_a_step_stay_there(void **state)
{
    float x[255];
    int8_t q[255];

    (void)state;
    for (int i = -127; i <= 127; i++) {
        x[i + 127] = (float)i; /* scale 1 */
    }
    for (uint64_t key = 0; key < 100; key++) {
        assert_true(encode(x, 255, key, q) == 1.0f);
        for (int i = -127; i <= 127; i++) {
            assert_int_equal(q[i + 127], i);
        }
    }
}

static void another_key_rounds_otherwise(void **state)
{
    float x[256];
    int8_t a[256], b[256];

    (void)state;
    for (size_t i = 0; i < 256; i++) {
        x[i] = (float)ps_draw_unit(3, i);
    }
    (void)encode(x, 256, ps_draw_key(1, PS_DRAW_UP, 0, 0, 0), a);
    (void)encode(x, 256, ps_draw_key(1, PS_DRAW_UP, 0, 1, 0), b);
    assert_memory_not_equal(a, b, 256);
}

static void a_scale_that_is_no_length_is_refused(void **state)
{
    static const float wrong[] = {NAN, INFINITY, -INFINITY, -1.0f};
    const ps_codec *int8 = ps_codec_find("int8");
    float x[2] = {1, 2}, y[2] = {7, 7};
    ps_params none = {{0}};
    ps_encoding head;
    uint8_t q[2];

    (void)state;
    ps_codec_encode(int8, &none, 1, 0, x, 2, q, &head);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ps_status st;

        head.u.int8.scale = wrong[i];
        st = ps_codec_decode(int8, &head.msg, q, 2, PS_INTO_ADD, y, 2);
        assert_int_equal(st.code, PS_DATA_LOSS);
        st = ps_codec_check(int8, &head.msg, q, 2, 2);
        assert_int_equal(st.code, PS_DATA_LOSS);
    }
    assert_true(y[0] == 7.0f && y[1] == 7.0f);
}

/* The header's formula, one value at a time. */
static int formula(float x, float inverse, uint32_t key, uint32_t i)
{
    float u = (float)(((double)(ps_draw_u32(key, i) >> 16) + 0.5) / 65536.0 - 0.5);

    return (int)nearbyintf(x * inverse + u);
}

static void check_twin(const ps_kernels *k, uint64_t seed)
{
    enum { MOST = 131 };

    for (uint64_t round = 0; round < 10000; round++) {
        size_t n = (size_t)ps_draw_below(seed, round * 200, MOST) + 1;
        float x[MOST], y[MOST], z[MOST], inverse, scale;
        uint8_t a[MOST], b[MOST];
        uint32_t key = (uint32_t)ps_draw_u64(seed, round * 200 + 1), bits;

        for (size_t i = 0; i < n; i++) {
            bits = (uint32_t)ps_draw_u64(seed, round * 200 + 2 + i);
            memcpy(&y[i], &bits, sizeof bits);
            x[i] = (float)ps_draw_normal(seed, round * 200 + 2 + i);
            z[i] = (float)i;
        }
        assert_int_equal(k->largest(y, n), ps_kernels_plain.largest(y, n)); /* any bits */
        bits = k->largest(x, n);
        memcpy(&scale, &bits, sizeof scale);
        inverse = nextafterf(127.0f / scale, 0);
        k->int8_encode(x, inverse, key, a, n);
        ps_kernels_plain.int8_encode(x, inverse, key, b, n);
        assert_memory_equal(a, b, n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal((int8_t)a[i], formula(x[i], inverse, key, (uint32_t)i));
        }
        memcpy(y, z, sizeof y);
        k->int8_add(a, scale, y, n);
        ps_kernels_plain.int8_add(a, scale, z, n);
        assert_memory_equal(y, z, n * sizeof *y);
        k->int8_set(a, scale, y, n);
        ps_kernels_plain.int8_set(a, scale, z, n);
        assert_memory_equal(y, z, n * sizeof *y);
    }
}

/* Any largest magnitude: the bytes stay within +-127, the largest among them. */
static void the_largest_value_is_127_and_none_is_more(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 20000; round++) {
        uint32_t bits = (uint32_t)ps_draw_u64(5, round) & 0x7fffffffu;
        float x[2];
        int8_t q[2];

        bits = bits < 0x7f800000u ? bits : bits - 0x10000000u;
        memcpy(&x[0], &bits, sizeof bits);
        x[1] = -x[0];
        if (encode(x, 2, round, q) > 0.0f) {
            assert_true(q[0] == 127 || q[0] == 126);
            assert_true(q[1] == -127 || q[1] == -126);
        }
    }
}

/* 127 / m is rounded, and may come out so large that m itself would be more
 * than 127 and, one time in 2^16, be rounded up to 128. */
static void no_draw_lifts_the_largest_value_to_128(void **state)
{
    static float x[PS_CODEC_VALUES];
    static int8_t q[PS_CODEC_VALUES];
    float most = 1.0f;

    (void)state;
    while (most * (127.0f / most) <= 127.0f) {
        most += 0x1p-10f;
        assert_true(most < 2.0f);
    }
    for (size_t i = 0; i < PS_CODEC_VALUES; i++) {
        x[i] = most;
    }
    for (uint64_t key = 0; key < 60; key++) {
        (void)encode(x, PS_CODEC_VALUES, ps_draw_key(6, PS_DRAW_TEST, key, 0, 0), q);
        for (size_t i = 0; i < PS_CODEC_VALUES; i++) {
            assert_true(q[i] >= 126);
        }
    }
}

static void every_kernel_gives_the_plain_one_s_bytes(void **state)
{
    const char *given = getenv("PSGD_TEST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 21;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (ps_cpu l = PS_CPU_BASELINE; l <= ps_cpu_level(); l++) {
        check_twin(ps_kernels_of(l), seed);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scale_is_the_largest_magnitude_over_127),
        cmocka_unit_test(a_slice_of_zeros_has_scale_0_and_bytes_0),
        cmocka_unit_test(what_is_no_number_leaves_the_scale_finite),
        cmocka_unit_test(the_largest_value_is_127_and_none_is_more),
        cmocka_unit_test(no_draw_lifts_the_largest_value_to_128),
        cmocka_unit_test(tiny_slices_keep_their_shape),
        cmocka_unit_test(values_on_a_step_stay_there),
        cmocka_unit_test(another_key_rounds_otherwise),
        cmocka_unit_test(a_scale_that_is_no_length_is_refused),
        cmocka_unit_test(every_kernel_gives_the_plain_one_s_bytes),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
