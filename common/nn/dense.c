/* SPDX-License-Identifier: Apache-2.0 */
/* dense.c - every output is a weighted sum of all inputs.
 *
 * Letters as in layer.h. W is (O, I), as in PyTorch, so that models can be exchanged. A sample of
 * any shape counts as a row of I values.
 */
#include "common/base/clones.h"
#include "common/nn/blas.h"
#include "common/nn/layer.h"

#include <string.h>

enum { WEIGHT, BIAS };
enum { UNITS, INIT, INIT_SCALE };

static const ps_param dense_params[] = {
    {.name = "units",
     .value = 128,
     .min = 1,
     .max = 1 << 20,
     .is_integer = true,
     .help = "values that come out for each sample"},
    PS_INIT_PARAM_LINES,
    {.name = NULL},
};

static ps_status dense_plan(ps_layer_plan *plan)
{
    size_t in = ps_shape_size(&plan->in);
    uint32_t units = (uint32_t)plan->params.v[UNITS];

    if (in == 0 || in > PS_TENSOR_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "dense: %zu values go in, 1 to %d are allowed", in,
                       PS_TENSOR_MAX);
    }
    if (units == 0 || units > PS_TENSOR_MAX / in) {
        return ps_fail(PS_INVALID_ARGUMENT, "dense: %zu x %u weights, 1 to %d are allowed", in,
                       units, PS_TENSOR_MAX);
    }
    plan->out = (ps_shape){.rank = 1, .dim = {units}};
    plan->var_count = 2;
    plan->vars[WEIGHT] = (ps_layer_var){
        .name = "weight",
        .shape = {.rank = 2, .dim = {units, (uint32_t)in}},
        .init =
            ps_init_of_weight(plan->params.v[INIT], plan->params.v[INIT_SCALE], (double)in, units),
    };
    plan->vars[BIAS] = (ps_layer_var){
        .name = "bias",
        .shape = {.rank = 1, .dim = {units}},
        .init = ps_init_of_bias(plan->params.v[INIT], (double)in),
    };
    return ps_ok();
}

/* The bias of n samples, or its gradient; both are `width` wide. */
typedef struct rows {
    const float *bias, *dy;
    float *y, *dbias;
    size_t n, width;
} rows;

/* Sets samples [from, to) of y to the bias, to which the product is added. */
static void put_bias(void *arg, size_t from, size_t to)
{
    const rows *of = arg;

    for (size_t i = from; i < to; i++) {
        memcpy(of->y + i * of->width, of->bias, of->width * sizeof *of->y);
    }
}

static void dense_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                          const float *x, float *y, float *tape, size_t n)
{
    size_t in = ps_shape_size(&plan->in), out = ps_shape_size(&plan->out);
    rows of = {.bias = w[BIAS], .y = y, .n = n, .width = out};

    (void)tape;
    ps_team_ranges(ps_team_for(pass->team, n * out, PS_TEAM_VALUES), n, 1, put_bias, &of);
    ps_gemm_nt(pass->team, n, out, in, x, w[WEIGHT], 1.0f, y);
}

/* Adds to sum (columns) the sum of the rows of a (n, columns), in row order. Rows of a are `width`
 * values apart. */
PS_CLONES(add_rows, (a, n, width, columns, sum), const float *restrict a, size_t n, size_t width,
          size_t columns, float *restrict sum)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = a + i * width;

        for (size_t j = 0; j < columns; j++) {
            sum[j] += row[j];
        }
    }
}

/* Adds the sums over all samples of dy, for outputs [from, to), to the gradient of the bias. */
static void add_bias(void *arg, size_t from, size_t to)
{
    const rows *of = arg;

    add_rows(of->dy + from, of->n, of->width, to - from, of->dbias + from);
}

static void dense_backward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                           const float *x, const float *y, float *tape, const float *dy,
                           float *const *dw, float *dx, size_t n)
{
    size_t in = ps_shape_size(&plan->in), out = ps_shape_size(&plan->out);
    rows of = {.dy = dy, .dbias = dw[BIAS], .n = n, .width = out};

    (void)y;
    (void)tape;
    ps_gemm_tn(pass->team, out, in, n, dy, x, 1.0f, dw[WEIGHT]);
    ps_team_ranges(ps_team_for(pass->team, n * out, PS_TEAM_VALUES), out, PS_TEAM_LINE, add_bias,
                   &of);
    if (dx != NULL) {
        ps_gemm_nn(pass->team, n, in, out, dy, w[WEIGHT], 0.0f, dx);
    }
}

const ps_layer ps_layer_dense = {
    .kind = "dense",
    .summary = "y = x W^T + b; W (units, in)",
    .params = dense_params,
    .plan = dense_plan,
    .forward = dense_forward,
    .backward = dense_backward,
};
