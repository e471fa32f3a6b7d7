/* SPDX-License-Identifier: Apache-2.0 */
/* test_winograd.c - convolutions of tiles, by each table that the processor has, beside the sums
 * of the definition: of small whole numbers, so that both are exact. */
#include "common/nn/winograd.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include "tests/support/cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 12, SIDE = 3 };

/* Whole numbers from -3 to 3. */
static float *fill(size_t n, uint32_t which)
{
    uint32_t key = (uint32_t)ps_draw_key(SEED, PS_DRAW_TEST, which, 0, 0);
    float *x = ps_xmalloc(n * sizeof *x); /* exactly: a sanitizer sees the byte behind */

    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(ps_draw_u32(key, (uint32_t)i) % 7) - 3.0f;
    }
    return x;
}

static float *nothing(size_t n)
{
    return ps_xcalloc(n, sizeof(float));
}

typedef struct numbers {
    float *w, *bias, *x, *dy;
    float *y, *dx, *dw;
} numbers;

/* Every pair of a value of x and one of y that a weight joins. */
static void by_definition(const ps_window *at, size_t filters, size_t n, const numbers *of)
{
    size_t in = at->rows * at->columns, out = at->out_rows * at->out_columns;
    size_t depth = at->channels * SIDE * SIDE;

    for (size_t i = 0; i < n * filters * out; i++) {
        size_t f = i / out % filters, image = i / out / filters;
        size_t row = i % out / at->out_columns, column = i % at->out_columns;

        of->y[i] = of->bias[f];
        for (size_t k = 0; k < depth; k++) {
            size_t r = row + k / SIDE % SIDE, c = column + k % SIDE;
            size_t place = (image * at->channels + k / SIDE / SIDE) * in;

            if (r < at->padding || r - at->padding >= at->rows || c < at->padding ||
                c - at->padding >= at->columns) {
                continue;
            }
            place += (r - at->padding) * at->columns + c - at->padding;
            of->y[i] += of->w[f * depth + k] * of->x[place];
            of->dw[f * depth + k] += of->dy[i] * of->x[place];
            of->dx[place] += of->dy[i] * of->w[f * depth + k];
        }
    }
}

static void must_be(const char *what, const float *is, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (is[i] != want[i]) {
            fail_msg("%s[%zu] is %g, not %g", what, i, (double)is[i], (double)want[i]);
        }
    }
}

static void compare(const ps_winograd *at, const numbers *of, const numbers *want, size_t n)
{
    const ps_winograd_way *to = &at->forward;
    size_t in = n * to->channels * to->rows * to->columns, weights = to->channels * to->filters * 9;
    size_t out = n * to->filters * to->out_rows * to->out_columns;
    size_t floats = ps_winograd_scratch(at);
    float *scratch = ps_xmalloc(floats * sizeof *scratch);

    for (size_t i = 0; i < floats; i++) {
        scratch[i] = NAN;
    }
    memset(of->dw, 0, weights * sizeof *of->dw);
    ps_winograd_forward(at, NULL, of->w, of->bias, of->x, of->y, scratch, n);
    ps_winograd_backward(at, NULL, of->w, of->x, of->dy, of->dw, of->dx, scratch, n);
    must_be("y", of->y, want->y, out);
    must_be("dx", of->dx, want->dx, in);
    must_be("dw", of->dw, want->dw, weights);
    free(scratch);
}

static void check(const ps_window *at, size_t filters, size_t n)
{
    size_t in = n * at->channels * at->rows * at->columns, weights = at->channels * filters * 9;
    size_t out = n * filters * at->out_rows * at->out_columns;
    numbers of = {.w = fill(weights, 1),
                  .bias = fill(filters, 2),
                  .x = fill(in, 3),
                  .dy = fill(out, 4),
                  .y = nothing(out),
                  .dx = nothing(in),
                  .dw = nothing(weights)};
    numbers want = of;
    ps_winograd plan;

    want.y = nothing(out);
    want.dx = nothing(in);
    want.dw = nothing(weights);
    by_definition(at, filters, n, &want);
    if (ps_winograd_fits(at, filters, &plan)) { /* else there is no table */
        for (ps_cpu l = PS_CPU_AVX2; l <= ps_cpu_level(); l++) {
            plan.tiles = ps_winograd_tiles_of(l);
            plan.gemm = ps_gemm_of(l);
            compare(&plan, &of, &want, n);
        }
    }
    free(of.w);
    free(of.bias);
    free(of.x);
    free(of.dy);
    free(of.y);
    free(of.dx);
    free(of.dw);
    free(want.y);
    free(want.dx);
    free(want.dw);
}

/* Of 3 x 3, one place at a time. */
static ps_window window_of(size_t channels, size_t rows, size_t columns, size_t padding)
{
    return (ps_window){.channels = channels,
                       .rows = rows,
                       .columns = columns,
                       .kernel = SIDE,
                       .stride = 1,
                       .padding = padding,
                       .out_rows = rows + 2 * padding - 2,
                       .out_columns = columns + 2 * padding - 2};
}

static void every_table_gives_the_sums_of_the_definition(void **state)
{
    static const size_t sides[] = {7, 8, 9, 13, 16, 17, 31, 32, 33, 36, 66};
    enum { SIDES = sizeof sides / sizeof sides[0] };

    (void)state;
    for (size_t i = 0; i < SIDES * SIDES; i++) {
        size_t rows = i % 11 == 5 ? 3 : sides[i % SIDES];
        ps_window at = window_of(8 + i % 3, rows, sides[i / SIDES], i % 3);

        check(&at, 8 + i % 5, 1 + i % 4);
    }
}

/* Of more tiles than one block has. */
static void an_image_larger_than_a_block_is_cut(void **state)
{
    ps_window at = window_of(40, 70, 50, 1);
    ps_winograd plan;

    (void)state;
    if (ps_winograd_fits(&at, 24, &plan)) {
        assert_true(plan.forward.band < plan.forward.down);
    }
    check(&at, 24, 2);
}

static void only_small_windows_of_many_channels_fit(void **state)
{
    ps_window at = window_of(8, 8, 8, 1);
    bool there = ps_cpu_level() >= PS_CPU_AVX2;
    ps_winograd plan;

    (void)state;
    assert_int_equal(ps_winograd_fits(&at, 8, &plan), there);
    assert_false(ps_winograd_fits(&at, 7, &plan));
    at.channels = 7;
    assert_false(ps_winograd_fits(&at, 8, &plan));
    at.channels = 8;
    at.stride = 2;
    assert_false(ps_winograd_fits(&at, 8, &plan));
    at.stride = 1;
    at.columns = at.out_columns = 6; /* three tiles */
    assert_false(ps_winograd_fits(&at, 8, &plan));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_gives_the_sums_of_the_definition),
        cmocka_unit_test(an_image_larger_than_a_block_is_cut),
        cmocka_unit_test(only_small_windows_of_many_channels_fit),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
