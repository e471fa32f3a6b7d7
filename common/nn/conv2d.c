/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d.c - every output is a weighted sum of a square window, with the same weights everywhere
 * (cross-correlation, as in PyTorch).
 *
 * Letters as in layer.h, and F filters, K rows and columns of the window, P = OH OW places of it.
 * W is (F, C, K, K), which is also a matrix (F, C K K). The windows of S samples are a matrix col
 * (C K K, P S), so y = W col is (F, P S).
 *
 * Samples with few places are computed in groups, so large that a product has at least PLACES
 * columns and a copy has at least RUN values. Samples of a group are transposed first, so that
 * samples are innermost; y is transposed back. Backward makes col again, which costs less than
 * keeping it for the whole batch.
 *
 * Three kinds of convolutions are computed in another way; the first that fits is taken: images
 * of which much is padding (conv_small.h), windows of 3 x 3 at stride 1 with many channels
 * (winograd.h), and small images whose rows are long enough (conv_strips.h).
 */
#include "common/base/clones.h"
#include "common/nn/blas.h"
#include "common/nn/conv_small.h"
#include "common/nn/conv_strips.h"
#include "common/nn/im2col.h"
#include "common/nn/layer.h"
#include "common/nn/sums.h"
#include "common/nn/winograd.h"

enum { WEIGHT, BIAS };
enum { FILTERS, KERNEL, STRIDE, PADDING, WITH_BIAS, INIT, INIT_SCALE };
enum { PLACES = 512, RUN = 16 };

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

/* The plan's shapes as sizes; letters as above. */
typedef struct shape {
    ps_window window;
    size_t filters, places, depth; /* F, P, C K K */
    size_t in, out;                /* values of a sample */
    size_t group;                  /* samples in one product, S */
} shape;

/* The parts of the scratch memory, for one group. */
typedef struct scratch {
    float *col;    /* (C K K, P, S) */
    float *rows;   /* (F, P, S): y or dy */
    float *turned; /* (C, H, W, S): x or dx */
} scratch;

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
    at.group = at.group > 1 && at.group < RUN ? RUN : at.group;
    at.group = at.group > plan->batch ? plan->batch : at.group;
    return at;
}

static scratch scratch_of(const shape *at, float *tape)
{
    scratch of = {.col = tape, .rows = tape + at->depth * at->places * at->group};

    of.turned = of.rows + at->out * at->group;
    return of;
}

static ps_status check_size(const ps_layer_plan *plan)
{
    double kernel = plan->params.v[KERNEL], filters = plan->params.v[FILTERS];
    double depth = (double)plan->in.dim[0] * kernel * kernel;
    double places = (double)plan->out.dim[1] * (double)plan->out.dim[2];
    double columns = places > PLACES ? places : (RUN + 1.0) * PLACES;

    if (depth * filters > PS_TENSOR_MAX || (2 * depth + filters) * columns > PS_TENSOR_MAX) {
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
    ps_conv_small small;
    ps_conv_strips strips;
    ps_winograd winograd;
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
    /* A group of one sample needs no transposition. */
    plan->tape_floats = (at.depth * at.places + (at.group > 1 ? at.out + at.in : 0)) * at.group;
    if (ps_winograd_fits(&at.window, at.filters, &winograd)) {
        plan->tape_floats = ps_winograd_scratch(&winograd);
    } else if (ps_conv_strips_fits(&at.window, at.filters, plan->batch, &strips)) {
        plan->tape_floats = ps_conv_strips_scratch(&strips);
    }
    if (ps_conv_small_fits(&at.window, at.filters, plan->batch, &small) &&
        ps_conv_small_scratch(&small) > plan->tape_floats) {
        plan->tape_floats = ps_conv_small_scratch(&small);
    }
    plan->tape_is_scratch = true;
    if (plan->tape_floats > PS_TENSOR_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "conv2d: scratch of %zu values, %d are allowed",
                       plan->tape_floats, PS_TENSOR_MAX);
    }
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

static void gather(const shape *at, const scratch *of, const float *x, size_t count)
{
    if (at->group > 1) {
        ps_transpose(x, count, at->in, of->turned);
        x = of->turned;
    }
    ps_im2col(&at->window, x, count, of->col);
}

PS_CLONES(add_value, (value, y, n), float value, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] += value;
    }
}

static void conv2d_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                           const float *x, float *y, float *tape, size_t n)
{
    shape at = shape_of(plan);
    scratch of = scratch_of(&at, tape);
    ps_conv_small small;
    ps_conv_strips strips;
    ps_winograd winograd;

    if (ps_conv_small_fits(&at.window, at.filters, n, &small)) {
        ps_conv_small_forward(&small, w[WEIGHT], plan->var_count > BIAS ? w[BIAS] : NULL, x, y,
                              tape, n);
        return;
    }
    if (ps_winograd_fits(&at.window, at.filters, &winograd)) {
        ps_winograd_forward(&winograd, w[WEIGHT], plan->var_count > BIAS ? w[BIAS] : NULL, x, y,
                            tape, n);
        return;
    }
    if (ps_conv_strips_fits(&at.window, at.filters, plan->batch, &strips)) {
        ps_conv_strips_forward(&strips, w[WEIGHT], plan->var_count > BIAS ? w[BIAS] : NULL, x, y,
                               tape, n);
        return;
    }
    for (size_t i = 0; i < n; i += at.group) {
        size_t count = n - i < at.group ? n - i : at.group, columns = at.places * count;
        float *rows = at.group > 1 ? of.rows : y + i * at.out;

        gather(&at, &of, x + i * at.in, count);
        ps_gemm_nn(pass->team, at.filters, columns, at.depth, w[WEIGHT], of.col, 0.0f, rows);
        for (size_t f = 0; plan->var_count > BIAS && f < at.filters; f++) {
            add_value(w[BIAS][f], rows + f * columns, columns);
        }
        if (at.group > 1) {
            ps_transpose(rows, at.out, count, y + i * at.out);
        }
    }
}

/* Adds the gradient of the bias, sample by sample. */
static void add_bias_slopes(const ps_layer_plan *plan, const float *dy, float *const *dw, size_t n)
{
    size_t filters = plan->out.dim[0], places = (size_t)plan->out.dim[1] * plan->out.dim[2];

    for (size_t i = 0; plan->var_count > BIAS && i < n * filters; i++) {
        dw[BIAS][i % filters] += ps_sum_f32(dy + i * places, places);
    }
}

static void conv2d_backward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                            const float *x, const float *y, float *tape, const float *dy,
                            float *const *dw, float *dx, size_t n)
{
    shape at = shape_of(plan);
    scratch of = scratch_of(&at, tape);
    ps_conv_small small;
    ps_conv_strips strips;
    ps_winograd winograd;

    (void)y;
    if (ps_conv_small_fits(&at.window, at.filters, n, &small)) {
        ps_conv_small_backward(&small, w[WEIGHT], x, dy, dw[WEIGHT],
                               plan->var_count > BIAS ? dw[BIAS] : NULL, dx, tape, n);
        return;
    }
    if (ps_winograd_fits(&at.window, at.filters, &winograd)) {
        add_bias_slopes(plan, dy, dw, n);
        ps_winograd_backward(&winograd, w[WEIGHT], x, dy, dw[WEIGHT], dx, tape, n);
        return;
    }
    if (ps_conv_strips_fits(&at.window, at.filters, plan->batch, &strips)) {
        add_bias_slopes(plan, dy, dw, n);
        ps_conv_strips_backward(&strips, w[WEIGHT], x, dy, dw[WEIGHT], dx, tape, n);
        return;
    }
    for (size_t i = 0; i < n; i += at.group) {
        size_t count = n - i < at.group ? n - i : at.group, columns = at.places * count;
        const float *slope = dy + i * at.out;

        if (at.group > 1) {
            ps_transpose(slope, count, at.out, of.rows);
            slope = of.rows;
        }
        for (size_t f = 0; plan->var_count > BIAS && f < at.filters; f++) {
            dw[BIAS][f] += ps_sum_f32(slope + f * columns, columns);
        }
        gather(&at, &of, x + i * at.in, count);
        ps_gemm_nt(pass->team, at.filters, at.depth, columns, slope, of.col, 1.0f, dw[WEIGHT]);
        if (dx == NULL) {
            continue;
        }
        ps_gemm_tn(pass->team, at.depth, columns, at.filters, w[WEIGHT], slope, 0.0f, of.col);
        ps_col2im(&at.window, of.col, count, at.group > 1 ? of.turned : dx + i * at.in);
        if (at.group > 1) {
            ps_transpose(of.turned, at.in, count, dx + i * at.in);
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
