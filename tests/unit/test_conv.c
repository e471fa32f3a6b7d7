/* SPDX-License-Identifier: Apache-2.0 */
/* test_conv.c - convolutions beside a twin that goes by their definition, in double: each of the
 * ways that conv2d takes, at sizes that fill its vectors and tiles and at those that do not.
 */
#include "common/base/xalloc.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/layer_rig.h"

#include <stdlib.h>
#include <string.h>

typedef struct conv_case {
    uint32_t n, batch;
    uint32_t chw[3], filters;
    uint32_t kernel, stride, padding;
} conv_case;

static const conv_case cases[] = {
    /* Winograd: tiles of 16, 8 and 4 to a row, whole ones and not, and rows of them left over */
    {2, 2, {8, 32, 32}, 8, 3, 1, 1},
    {3, 3, {16, 16, 16}, 9, 3, 1, 1},
    {5, 6, {9, 8, 8}, 16, 3, 1, 1},
    {3, 3, {8, 6, 8}, 8, 3, 1, 1},
    {2, 2, {8, 5, 15}, 10, 3, 1, 1},
    {1, 1, {11, 7, 7}, 8, 3, 1, 1},
    {2, 2, {8, 9, 13}, 17, 3, 1, 1},
    {1, 2, {8, 1, 40}, 8, 3, 1, 1},
    {2, 2, {8, 26, 26}, 12, 3, 1, 0}, /* fewer places than values, and more */
    {2, 2, {8, 10, 17}, 8, 3, 1, 0},
    {2, 2, {8, 7, 9}, 8, 3, 1, 2},
    {2, 2, {8, 6, 6}, 8, 3, 1, 2},
    {1, 1, {8, 63, 39}, 8, 3, 1, 1}, /* more tiles than a block: rows of them at a time */
    {2, 2, {40, 33, 18}, 48, 3, 1, 1},
    {37, 40, {8, 8, 8}, 8, 3, 1, 1}, /* and more samples */
    /* strips, at any stride: windows that leave values out, and more zeros than the window */
    {2, 2, {3, 32, 32}, 7, 3, 1, 1},
    {3, 4, {8, 32, 32}, 16, 3, 2, 1},
    {5, 5, {16, 16, 16}, 6, 3, 2, 1},
    {2, 2, {3, 17, 19}, 4, 3, 2, 1},
    {2, 2, {3, 18, 20}, 4, 3, 2, 0},
    {2, 2, {4, 16, 17}, 5, 1, 2, 0},
    {2, 2, {4, 9, 8}, 5, 1, 1, 0},
    {2, 2, {2, 20, 18}, 3, 2, 2, 0},
    {1, 1, {2, 30, 31}, 3, 3, 3, 2},
    {1, 1, {2, 37, 40}, 5, 11, 4, 5},
    {2, 2, {2, 25, 36}, 3, 2, 4, 3},
    {2, 2, {2, 9, 21}, 3, 5, 2, 4},
    {2, 3, {2, 12, 8}, 3, 4, 1, 2},
    {1, 1, {2, 12, 8}, 3, 7, 1, 3},
    /* small images: one group of samples and more, and samples that fill no vector; as many
     * filters and channels as a block has, more and fewer; windows that are no square of places */
    {32, 32, {5, 2, 2}, 7, 3, 1, 1},
    {67, 70, {3, 2, 2}, 5, 3, 1, 1},
    {33, 64, {26, 4, 4}, 35, 5, 1, 2},
    {17, 17, {50, 4, 4}, 64, 3, 1, 1},
    {16, 20, {24, 1, 5}, 13, 3, 1, 1},
    {20, 20, {2, 3, 7}, 9, 7, 2, 3},
    {18, 18, {3, 8, 8}, 4, 7, 3, 6}, /* places that meet nothing of the image */
    {16, 16, {1, 1, 1}, 40, 3, 1, 1},
    /* im2col, one sample at a time and several */
    {1, 1, {2, 70, 65}, 3, 3, 1, 1},
    {3, 3, {8, 4, 4}, 8, 3, 1, 1},
    {2, 2, {3, 9, 9}, 3, 3, 2, 1},
};

enum { CASES = sizeof cases / sizeof cases[0], LAYING_OFF = 3 };

static rig conv_rig(const conv_case *of, double bias, size_t shift)
{
    static const char *const names[] = {"filters", "kernel", "stride", "padding", "bias"};
    const double values[] = {of->filters, of->kernel, of->stride, of->padding, bias};
    const ps_layer *layer = ps_layer_find("conv2d");
    ps_params params = ps_params_default(layer->params);

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        params.v[ps_param_find(layer->params, names[i])] = values[i];
    }
    return rig_of(layer, of->n, of->batch,
                  (ps_shape){.rank = 3, .dim = {of->chw[0], of->chw[1], of->chw[2]}}, &params,
                  shift);
}

/* What should be in a tensor, and the sum of the sizes of what was added up. */
typedef struct sums {
    double *v, *size;
} sums;

static sums sums_of(size_t n)
{
    return (sums){.v = ps_xcalloc(n, sizeof(double)), .size = ps_xcalloc(n, sizeof(double))};
}

static void add(const sums *to, size_t i, double value)
{
    to->v[i] += value;
    to->size[i] += fabs(value);
}

static void compare(const sums *want, const tensor *got, double times, const char *what)
{
    for (size_t i = 0; i < got->n; i++) {
        assert_true(is_close((double)got->v[i], times * want->v[i],
                             1e-6 * times * (want->size[i] + 1e-3), what, i));
    }
    free(want->v);
    free(want->size);
}

/* Backward was run twice: gradients of variables are added to, that of x is not. */
static void compare_with_twin(const rig *at, const conv_case *of)
{
    size_t rows = at->plan.out.dim[1], columns = at->plan.out.dim[2], side = of->kernel;
    sums y = sums_of(at->y.n), dx = sums_of(at->dx.n), dw = sums_of(at->dw[0].n);
    sums db = sums_of(of->filters);

    for (size_t o = 0; o < at->y.n; o++) {
        size_t s = o % columns, r = o / columns % rows, f = o / columns / rows % of->filters;
        size_t b = o / columns / rows / of->filters;
        double slope = (double)at->dy.v[o];

        add(&y, o, at->plan.var_count > 1 ? (double)at->w[1].v[f] : 0.0);
        add(&db, f, slope);
        for (size_t k = 0; k < of->chw[0] * side * side; k++) {
            size_t row = r * of->stride + k / side % side - of->padding; /* may wrap below 0 */
            size_t column = s * of->stride + k % side - of->padding;
            size_t in = ((b * of->chw[0] + k / side / side) * of->chw[1] + row) * of->chw[2];
            size_t weight = f * of->chw[0] * side * side + k;

            if (row < of->chw[1] && column < of->chw[2]) {
                add(&y, o, (double)at->w[0].v[weight] * (double)at->x.v[in + column]);
                add(&dw, weight, slope * (double)at->x.v[in + column]);
                add(&dx, in + column, slope * (double)at->w[0].v[weight]);
            }
        }
    }
    compare(&y, &at->y, 1, "y");
    compare(&dx, &at->dx, 1, "dx");
    compare(&dw, &at->dw[0], 2, "dw");
    if (at->plan.var_count > 1) {
        compare(&db, &at->dw[1], 2, "db");
    } else {
        free(db.v);
        free(db.size);
    }
}

static void every_way_gives_the_values_and_gradients_of_the_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        for (size_t variant = 0; variant < 2; variant++) {
            rig at = conv_rig(&cases[i], (double)variant, variant * LAYING_OFF);

            rig_clear(&at);
            rig_forward(&at);
            rig_backward(&at, at.dx.v);
            rig_backward(&at, at.dx.v);
            compare_with_twin(&at, &cases[i]);
            rig_drop(&at);
        }
    }
}

static void gradients_of_weights_do_not_need_that_of_the_input(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        rig at = conv_rig(&cases[i], 1, 1), other = conv_rig(&cases[i], 1, 0);

        rig_clear(&at);
        rig_clear(&other);
        rig_forward(&at);
        rig_forward(&other);
        rig_backward(&at, NULL);
        rig_backward(&other, other.dx.v);
        assert_memory_equal(at.dw[0].v, other.dw[0].v, at.dw[0].n * sizeof(float));
        assert_memory_equal(at.dw[1].v, other.dw[1].v, at.dw[1].n * sizeof(float));
        rig_drop(&at);
        rig_drop(&other);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_gives_the_values_and_gradients_of_the_definition),
        cmocka_unit_test(gradients_of_weights_do_not_need_that_of_the_input),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
