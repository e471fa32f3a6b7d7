/* SPDX-License-Identifier: Apache-2.0 */
/* test_gemm.c - the products without packing beside naive ones in double. */
#include "common/nn/gemm.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include "tests/support/cmocka_all.h"

#include <math.h>
#include <stdlib.h>

enum { SEED = 11 };

static float *fill(size_t n, uint32_t which)
{
    uint32_t key = (uint32_t)ps_draw_key(SEED, PS_DRAW_TEST, which, 0, 0);
    float *x = ps_xmalloc(n * sizeof *x); /* exactly: a sanitizer sees the byte behind */

    for (size_t i = 0; i < n; i++) {
        x[i] = (float)ps_draw_u32(key, (uint32_t)i) * 0x1p-31f - 1.0f;
    }
    return x;
}

/* By rows with a as it is (0) and transposed (1), and by columns (2). */
static void check(const ps_gemm *g, size_t m, size_t n, size_t k, unsigned kind, bool keep)
{
    float *a = fill(m * k, 1), *b = fill(k * n, 2), *before = fill(m * n, 3), *c = fill(m * n, 3);

    if (!keep) {
        for (size_t i = 0; i < m * n; i++) {
            c[i] = NAN;
        }
    }
    if (kind == 2) {
        g->by_columns(m, n, k, a, b, keep, c);
    } else {
        g->over_rows(m, n, k, a, kind == 0 ? k : 1, kind == 0 ? 1 : m, b, keep, c);
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double want = keep ? (double)before[i * n + j] : 0.0;

            for (size_t p = 0; p < k; p++) {
                want += (double)(kind == 1 ? a[p * m + i] : a[i * k + p]) *
                        (double)(kind == 2 ? b[j * k + p] : b[p * n + j]);
            }
            /* k roundings of terms below 1, and of their sum. */
            if (!(fabs((double)c[i * n + j] - want) <= 1e-7 * (double)(k + 2) * 2)) {
                fail_msg("%s, kind %u, (%zu, %zu, %zu), keep %d: c(%zu, %zu) is %g, not %g",
                         g->name, kind, m, n, k, keep, i, j, (double)c[i * n + j], want);
            }
        }
    }
    free(a);
    free(b);
    free(before);
    free(c);
}

/* By windows: rows of b begin anywhere in a strip of values, and a's rows are apart. */
static void check_windows(const ps_gemm *g, size_t m, size_t n, size_t k)
{
    size_t strip = 3 * (n > k ? n : k) + 5, ai = k + 3;
    float *a = fill(m * ai, 1), *b = fill(strip, 2), *before = fill(m * n, 3), *c = fill(m * n, 3);
    uint32_t *at = ps_xcalloc(n + k, sizeof *at);

    for (size_t p = 0; p < k; p++) { /* the last one ends with the strip */
        at[p] = p + 1 == k ? (uint32_t)(strip - n) : (uint32_t)ps_draw_below(7, p, strip - n);
    }
    g->by_windows(m, n, k, a, b, at, c);
    for (size_t i = 0; i < m * n; i++) {
        double want = 0;

        for (size_t p = 0; p < k; p++) {
            want += (double)a[i / n * k + p] * (double)b[at[p] + i % n];
        }
        if (!(fabs((double)c[i] - want) <= 1e-7 * (double)(k + 2) * 2)) {
            fail_msg("%s, by windows (%zu, %zu, %zu): c(%zu) is %g, not %g", g->name, m, n, k, i,
                     (double)c[i], want);
        }
        c[i] = before[i];
    }
    for (size_t j = 0; j < n; j++) {
        at[j] = j + 1 == n ? (uint32_t)(strip - k) : (uint32_t)ps_draw_below(8, j, strip - k);
    }
    g->onto_windows(m, n, k, a, ai, b, at, c);
    for (size_t i = 0; i < m * n; i++) {
        double want = (double)before[i];

        for (size_t p = 0; p < k; p++) {
            want += (double)a[i / n * ai + p] * (double)b[at[i % n] + p];
        }
        if (!(fabs((double)c[i] - want) <= 1e-7 * (double)(k + 2) * 2)) {
            fail_msg("%s, onto windows (%zu, %zu, %zu): c(%zu) is %g, not %g", g->name, m, n, k, i,
                     (double)c[i], want);
        }
    }
    free(a);
    free(b);
    free(before);
    free(c);
    free(at);
}

/* By terms: k of them in all, of one step or more, anywhere in two strips of values. */
static void check_terms(const ps_gemm *g, size_t m, size_t n, size_t k, bool keep)
{
    size_t steps = k % 3 == 0 ? 3 : 1;
    ps_gemm_term term[130]; /* the largest of sizes */
    ps_gemm_sum of = {.m = m,
                      .n = n,
                      .steps = steps,
                      .terms = k / steps,
                      .term = term,
                      .a_row = 5,
                      .a_step = 2,
                      .b_step = 3,
                      .c_row = n + 2};
    size_t a_size = (m - 1) * of.a_row + (steps - 1) * of.a_step + 19;
    size_t b_size = n + (steps - 1) * of.b_step + 40;
    float *a = fill(a_size, 1), *b = fill(b_size, 2);
    float *before = fill(m * of.c_row, 3), *c = fill(m * of.c_row, 3);

    for (size_t t = 0; t < of.terms; t++) { /* the last one ends with both strips */
        term[t] = (ps_gemm_term){.a = t + 1 == of.terms ? 18 : (uint32_t)ps_draw_below(7, t, 19),
                                 .b = t + 1 == of.terms ? 40 : (uint32_t)ps_draw_below(8, t, 41)};
    }
    g->by_terms(&of, a, b, keep, c);
    for (size_t i = 0; i < m * of.c_row; i++) {
        size_t row = i / of.c_row, column = i % of.c_row;
        double want = keep || column >= n ? (double)before[i] : 0.0;

        for (size_t p = 0; column < n && p < k; p++) {
            const ps_gemm_term *t = &term[p % of.terms];
            size_t u = p / of.terms;

            want += (double)a[row * of.a_row + u * of.a_step + t->a] *
                    (double)b[u * of.b_step + t->b + column];
        }
        if (!(fabs((double)c[i] - want) <= 1e-7 * (double)(k + 2) * 2)) {
            fail_msg("%s, by terms (%zu, %zu, %zu), keep %d: c(%zu) is %g, not %g", g->name, m, n,
                     k, keep, i, (double)c[i], want);
        }
    }
    free(a);
    free(b);
    free(before);
    free(c);
}

/* By grids that begin anywhere in a strip of values, and onto them, of three images. */
static void check_grids(const ps_gemm *g, size_t m, size_t k, const ps_gemm_grid *grid, bool keep)
{
    enum { IMAGES = 3 };
    size_t n = grid->rows * grid->columns, strip = grid->rows * grid->pitch + 50, reach;
    float *a = fill(m * k, 1), *b = fill(IMAGES * strip, 2), *slopes = fill(IMAGES * m * n, 3);
    float *before = fill(m * (n > k ? n : k), 4), *c = fill(m * (n > k ? n : k), 4);
    uint32_t *at = ps_xcalloc(k, sizeof *at);
    ps_gemm_grids grids = {
        .grid = *grid, .images = IMAGES, .a_row = n, .a_image = m * n, .b_image = strip};

    reach = (grid->rows - 1) * grid->pitch + grid->columns;
    for (size_t p = 0; p < k; p++) { /* the last one ends with the strip */
        at[p] = (uint32_t)(p + 1 == k ? strip - reach : ps_draw_below(7, p, strip - reach));
    }
    g->by_grids(m, k, grid, a, b + 2 * strip, at, keep, c);
    for (size_t i = 0; i < m * n; i++) {
        size_t place = i % n / grid->columns * grid->pitch + i % grid->columns;
        double want = keep ? (double)before[i] : 0.0;

        for (size_t p = 0; p < k; p++) {
            want += (double)a[i / n * k + p] * (double)b[2 * strip + at[p] + place];
        }
        if (!(fabs((double)c[i] - want) <= 1e-7 * (double)(k + 2) * 2)) {
            fail_msg("%s, by grids (%zu, %zu, %zu x %zu), keep %d: c(%zu) is %g, not %g", g->name,
                     m, k, grid->rows, grid->columns, keep, i, (double)c[i], want);
        }
    }
    free(c);
    c = fill(m * (n > k ? n : k), 4);
    g->onto_grids(m, k, &grids, slopes, b, at, c);
    for (size_t i = 0; i < m * k; i++) {
        double want = (double)before[i];

        for (size_t p = 0; p < IMAGES * n; p++) {
            size_t place = p % n / grid->columns * grid->pitch + p % grid->columns;

            want += (double)slopes[p / n * m * n + i / k * n + p % n] *
                    (double)b[p / n * strip + at[i % k] + place];
        }
        if (!(fabs((double)c[i] - want) <= 1e-7 * (double)(IMAGES * n + 2) * 2)) {
            fail_msg("%s, onto grids (%zu, %zu, %zu x %zu): c(%zu) is %g, not %g", g->name, m, k,
                     grid->rows, grid->columns, i, (double)c[i], want);
        }
    }
    free(a);
    free(b);
    free(slopes);
    free(before);
    free(c);
    free(at);
}

static void every_grid_gives_the_product(void **state)
{
    static const size_t sizes[] = {1, 3, 4, 11, 12, 13, 31};
    static const ps_gemm_grid grids[] = {{2, 4, 7},   {6, 4, 4},  {1, 8, 8},   {2, 8, 10},
                                         {3, 8, 9},   {8, 8, 10}, {1, 16, 16}, {3, 16, 17},
                                         {2, 48, 50}, {5, 40, 41}};
    const size_t count = sizeof sizes / sizeof sizes[0];
    size_t checked = 0;

    (void)state;
    for (ps_cpu l = PS_CPU_AVX2; l <= ps_cpu_level(); l++) {
        for (size_t i = 0; i < count * count; i++) {
            for (size_t k = 0; k < sizeof grids / sizeof grids[0]; k++) {
                if (ps_gemm_reads(ps_gemm_of(l), grids[k].rows, grids[k].columns)) {
                    check_grids(ps_gemm_of(l), sizes[i % count], sizes[i / count], &grids[k],
                                (i + k) % 2 == 0);
                    checked++;
                }
            }
        }
        assert_true(checked > 0);
    }
}

static void every_shape_gives_the_product(void **state)
{
    static const size_t sizes[] = {1, 2, 3, 5, 6, 7, 8, 15, 16, 17, 33, 64, 67, 130};
    const size_t count = sizeof sizes / sizeof sizes[0];

    (void)state;
    for (ps_cpu l = PS_CPU_AVX2; l <= ps_cpu_level(); l++) {
        for (size_t i = 0; i < count * count * count; i++) {
            size_t m = sizes[i % count], n = sizes[i / count % count], k = sizes[i / count / count];

            for (unsigned kind = 0; kind < 3; kind++) {
                check(ps_gemm_of(l), m, n, k, kind, (i + kind) % 2 == 0);
            }
            check_windows(ps_gemm_of(l), m, n, k);
            check_terms(ps_gemm_of(l), m, n, k, i % 2 == 0);
        }
    }
}

static void nothing_times_nothing_is_zero(void **state)
{
    (void)state;
    for (ps_cpu l = PS_CPU_AVX2; l <= ps_cpu_level(); l++) {
        for (unsigned kind = 0; kind < 3; kind++) {
            check(ps_gemm_of(l), 7, 9, 0, kind, false);
            check(ps_gemm_of(l), 7, 9, 0, kind, true);
        }
    }
}

static void only_what_fits_a_cache_fits(void **state)
{
    (void)state;
    assert_true(ps_gemm_fits(64, 128, 784));
    assert_true(ps_gemm_fits(0, 0, 0));
    assert_false(ps_gemm_fits(512, 512, 512));
    assert_false(ps_gemm_fits((size_t)1 << 33, (size_t)1 << 31, 1)); /* the product overflows */
    assert_false(ps_gemm_fits(1, 1, SIZE_MAX));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_gives_the_product),
        cmocka_unit_test(every_grid_gives_the_product),
        cmocka_unit_test(nothing_times_nothing_is_zero),
        cmocka_unit_test(only_what_fits_a_cache_fits),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
