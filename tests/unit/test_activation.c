/* SPDX-License-Identifier: Apache-2.0 */
/* test_activation.c - how exact tanh, sigmoid and relu are, and that their bits are the same
 * anywhere. */
#include "common/base/cpu.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/layer.h"
#include "common/nn/math32.h"

#include "tests/support/cmocka_all.h"

#include <stdlib.h>

static const ps_pass in_training = {.is_training = true, .scale = 1.0f};
static const uint64_t seed = 20240602;

static float value_of(const char *kind, float x)
{
    ps_layer_plan plan = {.in = {.rank = 1, .dim = {1}}, .batch = 1};
    float y = 0;

    ps_layer_find(kind)->forward(&plan, &in_training, NULL, &x, &y, NULL, 1);
    return y;
}

/* Over 2 million values, spread over exponents and over the range that matters. */
static void compare_with_libm(const char *kind, double (*twin)(double), double range)
{
    enum { N = 1 << 20 };
    ps_layer_plan plan = {.in = {.rank = 1, .dim = {N}}, .batch = 1};
    float *x = ps_xaligned_alloc(N * sizeof *x), *y = ps_xaligned_alloc(N * sizeof *y);
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 20, 0, 0);
    double worst = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < N; i++) {
            double u = 2.0 * ps_draw_unit(key, i) - 1.0;

            x[i] = (float)(pass == 0 ? u * range : ldexp(u, -(int)(i % 100)));
        }
        ps_layer_find(kind)->forward(&plan, &in_training, NULL, x, y, NULL, 1);
        for (size_t i = 0; i < N; i++) {
            double want = twin((double)x[i]);
            double error = fabs((double)y[i] - want) / ldexp(1.0, ilogb(want) - 23);

            worst = error > worst ? error : worst;
        }
    }
    print_message("%s: %.2f units in the last place\n", kind, worst);
    assert_true(worst < 4.0);
    free(x);
    free(y);
}

static double logistic(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static void tanh_and_sigmoid_are_exact_to_four_units_in_the_last_place(void **state)
{
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    compare_with_libm("tanh", tanh, 12);
    compare_with_libm("sigmoid", logistic, 80);
}

static void activations_keep_their_bounds_signs_and_nan(void **state)
{
    (void)state;
    assert_true(value_of("tanh", 1e30f) == 1.0f && value_of("tanh", -INFINITY) == -1.0f);
    assert_true(value_of("tanh", 0.0f) == 0.0f && signbit(value_of("tanh", -0.0f)));
    assert_true(value_of("tanh", 1e-30f) == 1e-30f);
    assert_true(value_of("sigmoid", INFINITY) == 1.0f && value_of("sigmoid", 0.0f) == 0.5f);
    assert_true(value_of("sigmoid", -INFINITY) >= 0.0f && value_of("sigmoid", -1e4f) < 1e-37f);
    assert_true(value_of("relu", -3.0f) == 0.0f && value_of("relu", 3.0f) == 3.0f);
    assert_true(isnan(value_of("tanh", NAN)) && isnan(value_of("sigmoid", NAN)));
    assert_true(isnan(value_of("relu", NAN)));
}

/* One value at a time takes another path through the machine than a vector does. */
static void activations_of_one_value_and_of_many_have_the_same_bits(void **state)
{
    enum { N = 1003 };
    static const char *const kinds[3] = {"tanh", "sigmoid", "relu"};
    ps_layer_plan one = {.in = {.rank = 1, .dim = {1}}, .batch = 1};
    ps_layer_plan all = {.in = {.rank = 1, .dim = {N}}, .batch = 1};
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 22, 0, 0);
    float x[N], dy[N], y[N], dx[N];

    (void)state;
    for (size_t i = 0; i < N; i++) {
        x[i] = (float)(3.0 * ps_draw_normal(key, i));
        dy[i] = (float)ps_draw_normal(key, N + i);
    }
    for (size_t k = 0; k < 3; k++) {
        const ps_layer *layer = ps_layer_find(kinds[k]);

        layer->forward(&all, &in_training, NULL, x, y, NULL, 1);
        layer->backward(&all, &in_training, NULL, x, y, NULL, dy, NULL, dx, 1);
        for (size_t i = 0; i < N; i++) {
            float value = value_of(kinds[k], x[i]), slope;

            layer->backward(&one, &in_training, NULL, &x[i], &value, NULL, &dy[i], NULL, &slope, 1);
            assert_memory_equal(&value, &y[i], sizeof value);
            assert_memory_equal(&slope, &dx[i], sizeof slope);
        }
    }
}

#if defined(__x86_64__)
/* n values: tanh, logistic function and exponential of x. */
typedef void width_fn(const float *x, float *t, float *s, float *e, size_t n);

#define WIDTH(name, isa)                                                                           \
    __attribute__((target(isa))) static void name(const float *restrict x, float *restrict t,      \
                                                  float *restrict s, float *restrict e, size_t n)  \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            t[i] = ps_tanh_f32(x[i]);                                                              \
            s[i] = ps_sigmoid_f32(x[i]);                                                           \
            e[i] = ps_exp_f32(x[i]);                                                               \
        }                                                                                          \
    }
WIDTH(with_sse2, "sse2")
WIDTH(with_avx2, "avx2,fma")
WIDTH(with_avx512, "avx512f")

static void exp_tanh_and_sigmoid_have_the_same_bits_at_every_width_of_vectors(void **state)
{
    enum { N = 100003 };
    width_fn *const fns[3] = {with_sse2, ps_cpu_level() >= PS_CPU_AVX2 ? with_avx2 : NULL,
                              ps_cpu_level() >= PS_CPU_AVX512 ? with_avx512 : NULL};
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 21, 0, 0);
    float *x = ps_xcalloc(N, sizeof *x);
    float *want = ps_xcalloc(3 * N, sizeof *want), *got = ps_xcalloc(3 * N, sizeof *got);

    (void)state;
    for (size_t i = 0; i < N; i++) {
        x[i] = (float)(100.0 * ps_draw_normal(key, i) * pow(2.0, -(double)(i % 20)));
    }
    with_sse2(x, want, want + N, want + 2 * N, N);
    for (size_t f = 1; f < 3; f++) {
        if (fns[f] != NULL) {
            fns[f](x, got, got + N, got + 2 * N, N);
            assert_memory_equal(got, want, 3 * N * sizeof *got);
        }
    }
    free(x);
    free(want);
    free(got);
}
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tanh_and_sigmoid_are_exact_to_four_units_in_the_last_place),
        cmocka_unit_test(activations_keep_their_bounds_signs_and_nan),
        cmocka_unit_test(activations_of_one_value_and_of_many_have_the_same_bits),
#if defined(__x86_64__)
        cmocka_unit_test(exp_tanh_and_sigmoid_have_the_same_bits_at_every_width_of_vectors),
#endif
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
