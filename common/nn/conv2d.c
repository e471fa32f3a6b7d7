/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d.c - every output is a weighted sum of a square window, with the same weights
 * everywhere (cross-correlation, as PyTorch has it).
 *
 * Letters as in layer.h, and F filters, K rows and columns of the window, P =
 * OH OW places of it. W is (F, C, K, K), so a matrix (F, C K K); the windows of
 * some samples side by side are a matrix col (C K K, places), and y = W col. So
 * many samples are taken at once that a product has PLACES columns or more: it
 * is what keeps products of small images fast. col is made again on the way
 * back, which costs less than to keep it for the whole batch.
 */
#include "common/nn/blas.h"
#include "common/nn/im2col.h"
#include "common/nn/layer.h"
#include "common/nn/sums.h"

#include <string.h>

enum { WEIGHT, BIAS };
enum { FILTERS, KERNEL, STRIDE, PADDING, WITH_BIAS, INIT, INIT_SCALE };
enum { PLACES = 512 };

static const ps_param conv2d_params[] = {
    {.name = "filters",
     .value = 32,
     .min = 1,
     .max = 65536,
     .is_integer = true,
     .help = "channels that come out"},
    {.name = "kernel",
     .value = 3,
     .min = 1,
     .max = 255,
     .is_integer = true,
     .help = "rows and columns of the window"},
    {.name = "stride",
     .value = 1,
     .min = 1,
     .max = 255,
     .is_integer = true,
     .help = "values from one place of the window to the next, both ways"},
    {.name = "padding",
     .value = 0,
     .min = 0,
     .max = 255,
     .is_integer = true,
     .help = "zeros around the image, on each side"},
    {.name = "bias",
     .value = 1,
     .min = 0,
     .max = 1,
     .is_integer = true,
     .help = "1: a value for each filter is added; 0: none"},
    PS_INIT_PARAM_LINES,
    {.name = NULL},
};

/* What the plan says, once more in sizes. */
typedef struct shape {
    ps_window window;
    size_t filters, places, depth; /* F, P, C K K */
    size_t in, out;                /* values of a sample */
    size_t group;                  /* samples in one product */
} shape;

static shape shape_of(const ps_layer_plan *plan)
{
    shape at = {
        .window = {.channels = plan->in.dim[0],
                   .rows = plan->in.dim[1],
                   .columns = plan->in.dim[2],
                   .kernel = (size_t)plan->params.v[KERNEL],
                   .stride = (size_t)plan->params.v[STRIDE],
                   .padding = (size_t)plan->params.v[PADDING],
                   .out_rows = plan->out.dim[1],
                   .out_columns = plan->out.dim[2]},
        .filters = plan->out.dim[0],
        .places = (size_t)plan->out.dim[1] * plan->out.dim[2],
        .in = ps_shape_size(&plan->in),
        .out = ps_shape_size(&plan->out),
    };

    at.depth = at.window.channels * at.window.kernel * at.window.kernel;
    at.group = (PLACES + at.places - 1) / at.places;
    at.group = at.group > plan->batch ? plan->batch : at.group;
    return at;
}

static ps_status check_size(const ps_layer_plan *plan)
{
    double kernel = plan->params.v[KERNEL], filters = plan->params.v[FILTERS];
    double depth = (double)plan->in.dim[0] * kernel * kernel;
    double places = (double)plan->out.dim[1] * (double)plan->out.dim[2];
    double columns = places > PLACES ? places : places + PLACES;

    if (depth * filters > PS_TENSOR_MAX || (depth + filters) * columns > PS_TENSOR_MAX) {
        return ps_fail(
            PS_INVALID_ARGUMENT,
            "conv2d: %.0f filters of %.0f values at %.0f places; products of two of them "
            "up to %d are allowed",
            filters, depth, places, PS_TENSOR_MAX);
    }
    return ps_ok();
}

static ps_status conv2d_plan(ps_layer_plan *plan)
{
    uint32_t filters = (uint32_t)plan->params.v[FILTERS], kernel = (uint32_t)plan->params.v[KERNEL];
    uint32_t stride = (uint32_t)plan->params.v[STRIDE], padding = (uint32_t)plan->params.v[PADDING];
    double fan_in, fan_out;
    uint32_t chw[3];
    shape at;
    ps_status st = ps_layer_image(plan, "conv2d", chw);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (chw[1] > PS_TENSOR_MAX || chw[2] > PS_TENSOR_MAX || kernel > chw[1] + 2 * padding ||
        kernel > chw[2] + 2 * padding) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "conv2d: a window of %u x %u does not fit an image of %u x %u with %u zeros "
                       "around",
                       kernel, kernel, chw[1], chw[2], padding);
    }
    plan->out = (ps_shape){.rank = 3,
                           .dim = {filters, (chw[1] + 2 * padding - kernel) / stride + 1,
                                   (chw[2] + 2 * padding - kernel) / stride + 1}};
    st = check_size(plan);
    if (!ps_is_ok(&st)) {
        return st;
    }
    at = shape_of(plan);
    fan_in = (double)at.depth;
    fan_out = (double)filters * kernel * kernel;
    plan->tape_floats = (at.depth + at.filters) * at.places * at.group;
    plan->var_count = plan->params.v[WITH_BIAS] != 0.0 ? 2 : 1;
    plan->vars[WEIGHT] = (ps_layer_var){
        .name = "weight",
        .shape = {.rank = 4, .dim = {filters, chw[0], kernel, kernel}},
        .init =
            ps_init_of_weight(plan->params.v[INIT], plan->params.v[INIT_SCALE], fan_in, fan_out),
    };
    plan->vars[BIAS] = (ps_layer_var){
        .name = "bias",
        .shape = {.rank = 1, .dim = {filters}},
        .init = ps_init_of_bias(plan->params.v[INIT], fan_in),
    };
    return ps_ok();
}

static void gather(const shape *at, const float *x, size_t count, float *col)
{
    for (size_t s = 0; s < count; s++) {
        ps_im2col(&at->window, x + s * at->in, col + s * at->places, count * at->places);
    }
}

static void fill(float *y, float value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = value;
    }
}

/* y (count, F, P) = rows (F, count, P) + bias. */
static void deal_out(const shape *at, const float *rows, const float *bias, size_t count, float *y)
{
    for (size_t s = 0; s < count; s++) {
        for (size_t f = 0; f < at->filters; f++) {
            const float *from = rows + (f * count + s) * at->places;
            float *to = y + s * at->out + f * at->places;
            float add = bias == NULL ? 0.0f : bias[f];

            for (size_t p = 0; p < at->places; p++) {
                to[p] = from[p] + add;
            }
        }
    }
}

static void conv2d_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                           const float *x, float *y, float *tape, size_t n)
{
    shape at = shape_of(plan);
    float *col = tape, *rows = tape + at.depth * at.places * at.group;
    const float *bias = plan->var_count > BIAS ? w[BIAS] : NULL;

    (void)pass;
    for (size_t i = 0; i < n; i += at.group) {
        size_t count = n - i < at.group ? n - i : at.group;

        gather(&at, x + i * at.in, count, col);
        if (at.group > 1) {
            ps_gemm_nn(at.filters, count * at.places, at.depth, w[WEIGHT], col, 0.0f, rows);
            deal_out(&at, rows, bias, count, y + i * at.out);
            continue;
        }
        for (size_t f = 0; bias != NULL && f < at.filters; f++) {
            fill(y + i * at.out + f * at.places, bias[f], at.places);
        }
        ps_gemm_nn(at.filters, at.places, at.depth, w[WEIGHT], col, bias != NULL ? 1.0f : 0.0f,
                   y + i * at.out);
    }
}

/* dy (count, F, P) as a matrix (F, count P): in `rows`, or where it lies. */
static const float *collect(const shape *at, const float *dy, size_t count, float *rows)
{
    if (at->group == 1) {
        return dy;
    }
    for (size_t s = 0; s < count; s++) {
        for (size_t f = 0; f < at->filters; f++) {
            memcpy(rows + (f * count + s) * at->places, dy + s * at->out + f * at->places,
                   at->places * sizeof *rows);
        }
    }
    return rows;
}

static void conv2d_backward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                            const float *x, const float *y, float *tape, const float *dy,
                            float *const *dw, float *dx, size_t n)
{
    shape at = shape_of(plan);
    float *col = tape, *rows = tape + at.depth * at.places * at.group;

    (void)pass;
    (void)y;
    for (size_t i = 0; i < n; i += at.group) {
        size_t count = n - i < at.group ? n - i : at.group, columns = count * at.places;
        const float *slope = collect(&at, dy + i * at.out, count, rows);

        for (size_t f = 0; plan->var_count > BIAS && f < at.filters; f++) {
            dw[BIAS][f] += ps_sum_f32(slope + f * columns, columns);
        }
        gather(&at, x + i * at.in, count, col);
        ps_gemm_nt(at.filters, at.depth, columns, slope, col, 1.0f, dw[WEIGHT]);
        if (dx == NULL) {
            continue;
        }
        ps_gemm_tn(at.depth, columns, at.filters, w[WEIGHT], slope, 0.0f, col);
        for (size_t s = 0; s < count; s++) {
            ps_col2im(&at.window, col + s * at.places, columns, dx + (i + s) * at.in);
        }
    }
}

const ps_layer ps_layer_conv2d = {
    .kind = "conv2d",
    .summary = "y[f, p] = sum over the window at place p of W[f] x, + b[f]; W (filters, channels, "
               "kernel, kernel), images (channels, rows, columns)",
    .params = conv2d_params,
    .plan = conv2d_plan,
    .forward = conv2d_forward,
    .backward = conv2d_backward,
};
