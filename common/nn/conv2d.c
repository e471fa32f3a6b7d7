/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d.c - every output is a weighted sum of a square window, with the same weights everywhere
 * (cross-correlation, as in PyTorch).
 *
 * Letters as in layer.h, and F filters, K rows and columns of the window, P = OH OW places of it.
 * W is (F, C, K, K), which is also a matrix (F, C K K). The windows of S samples are a matrix col
 * (C K K, P S), so y = W col is (F, P S).
 *
 * Samples with few places are computed in groups, so large that a product has at least PLACES
 * columns and a copy has at least RUN values, unless the batch has fewer samples. Samples of a
 * group are transposed first, so that samples are innermost; y is transposed back. Backward makes
 * col again, which costs less than keeping it for the whole batch.
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

/* The plan's shapes as sizes; the letters are those of the head of this file. */
typedef struct shape {
    ps_window window;
    size_t filters, places, depth; /* F, P, C K K */
    size_t in, out;                /* values of a sample of x and of y */
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

PS_CLONES(add_value, (value, y, n), float value, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] += value;
    }
}

/* A pass over n samples by products with col. The team shares the groups: as many at once as there
 * are threads, each with a scratch memory of its own. The products that add to the gradient by the
 * weights are computed one group after the other, and the team shares each product. */
typedef struct job {
    shape at;
    ps_team *team;
    const float *w, *bias, *x, *dy;
    float *y, *dw, *dbias, *dx, *tape;
    size_t n, first; /* first: first sample of the groups that are computed now */
    uint32_t count;  /* how many groups are computed now */
} job;

/* A group of samples, with its scratch memory. */
typedef struct group {
    scratch of;
    size_t first, count, columns;
} group;

static group group_at(const job *j, uint32_t number)
{
    const shape *at = &j->at;
    size_t first = j->first + number * at->group;
    size_t count = j->n - first < at->group ? j->n - first : at->group;

    return (group){.of = scratch_of(at, ps_team_scratch(j->team, number, j->tape)),
                   .first = first,
                   .count = count,
                   .columns = at->places * count};
}

/* Goes on to the next groups, at most one for each thread. Returns false if there are none. */
static bool next_groups(job *j)
{
    size_t left, threads = ps_team_threads(j->team);

    j->first += j->count * j->at.group;
    left = (j->n - j->first + j->at.group - 1) / j->at.group;
    j->count = (uint32_t)(left < threads ? left : threads);
    return j->count > 0;
}

static void gather(const shape *at, const scratch *of, const float *x, size_t count)
{
    if (at->group > 1) {
        ps_transpose(x, count, at->in, of->turned);
        x = of->turned;
    }
    ps_im2col(&at->window, x, count, of->col);
}

static void forward_group(void *arg, uint32_t item, uint32_t thread)
{
    const job *j = arg;
    const shape *at = &j->at;
    group g = group_at(j, item);
    float *rows = at->group > 1 ? g.of.rows : j->y + g.first * at->out;

    (void)thread;
    gather(at, &g.of, j->x + g.first * at->in, g.count);
    /* The team's threads share the groups; if there is one group, they share its product. */
    ps_gemm_nn(j->count > 1 ? NULL : j->team, at->filters, g.columns, at->depth, j->w, g.of.col,
               0.0f, rows);
    for (size_t f = 0; j->bias != NULL && f < at->filters; f++) {
        add_value(j->bias[f], rows + f * g.columns, g.columns);
    }
    if (at->group > 1) {
        ps_transpose(rows, at->out, g.count, j->y + g.first * at->out);
    }
}

/* Returns dy of a group as a matrix (F, columns); gather_group has transposed it if needed. */
static const float *slopes_of(const job *j, const group *g)
{
    return j->at.group > 1 ? g->of.rows : j->dy + g->first * j->at.out;
}

static void gather_group(void *arg, uint32_t item, uint32_t thread)
{
    const job *j = arg;
    group g = group_at(j, item);

    (void)thread;
    if (j->at.group > 1) {
        ps_transpose(j->dy + g.first * j->at.out, g.count, j->at.out, g.of.rows);
    }
    gather(&j->at, &g.of, j->x + g.first * j->at.in, g.count);
}

/* Adds to dw and dbias the gradients of the groups that are computed now, in their order. */
static void add_groups(job *j)
{
    const shape *at = &j->at;

    for (uint32_t i = 0; i < j->count; i++) {
        group g = group_at(j, i);
        const float *slopes = slopes_of(j, &g);

        for (size_t f = 0; j->dbias != NULL && f < at->filters; f++) {
            j->dbias[f] += ps_sum_f32(slopes + f * g.columns, g.columns);
        }
        ps_gemm_nt(j->team, at->filters, at->depth, g.columns, slopes, g.of.col, 1.0f, j->dw);
    }
}

/* Computes dx of a group. */
static void return_group(void *arg, uint32_t item, uint32_t thread)
{
    const job *j = arg;
    const shape *at = &j->at;
    group g = group_at(j, item);
    float *dx = j->dx + g.first * at->in;

    (void)thread;
    ps_gemm_tn(j->count > 1 ? NULL : j->team, at->depth, g.columns, at->filters, j->w,
               slopes_of(j, &g), 0.0f, g.of.col);
    ps_col2im(&at->window, g.of.col, g.count, at->group > 1 ? g.of.turned : dx);
    if (at->group > 1) {
        ps_transpose(g.of.turned, at->in, g.count, dx);
    }
}

/* Returns the team, or NULL if the convolution of n samples is too small to share. */
static ps_team *team_of(const ps_pass *pass, const shape *at, size_t n)
{
    return ps_team_for(pass->team, n * at->filters * at->places * at->depth, PS_TEAM_PRODUCTS);
}

static void conv2d_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                           const float *x, float *y, float *tape, size_t n)
{
    const float *bias = plan->var_count > BIAS ? w[BIAS] : NULL;
    job j = {.at = shape_of(plan), .w = w[WEIGHT], .bias = bias, .x = x, .y = y, .tape = tape};
    ps_conv_small small;
    ps_conv_strips strips;
    ps_winograd winograd;

    j.n = n;
    j.team = team_of(pass, &j.at, n);
    if (ps_conv_small_fits(&j.at.window, j.at.filters, n, &small)) {
        ps_conv_small_forward(&small, j.team, w[WEIGHT], bias, x, y, tape, n);
        return;
    }
    if (ps_winograd_fits(&j.at.window, j.at.filters, &winograd)) {
        ps_winograd_forward(&winograd, j.team, w[WEIGHT], bias, x, y, tape, n);
        return;
    }
    if (ps_conv_strips_fits(&j.at.window, j.at.filters, plan->batch, &strips)) {
        ps_conv_strips_forward(&strips, j.team, w[WEIGHT], bias, x, y, tape, n);
        return;
    }
    while (next_groups(&j)) {
        ps_team_run(j.team, j.count, forward_group, &j);
    }
}

/* The gradient of the bias, and what it is computed from. */
typedef struct bias_slopes {
    const float *dy;
    float *dbias;
    size_t n, filters, places;
} bias_slopes;

/* Adds the gradient of the bias of filters [from, to), sample by sample. */
static void add_bias(void *arg, size_t from, size_t to)
{
    const bias_slopes *of = arg;

    for (size_t i = 0; i < of->n; i++) {
        for (size_t f = from; f < to; f++) {
            of->dbias[f] += ps_sum_f32(of->dy + (i * of->filters + f) * of->places, of->places);
        }
    }
}

static void add_bias_slopes(ps_team *team, const shape *at, const float *dy, float *dbias, size_t n)
{
    bias_slopes of = {
        .dy = dy, .dbias = dbias, .n = n, .filters = at->filters, .places = at->places};

    if (dbias != NULL) {
        ps_team_ranges(ps_team_for(team, n * at->out, PS_TEAM_VALUES), at->filters, 1, add_bias,
                       &of);
    }
}

static void conv2d_backward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                            const float *x, const float *y, float *tape, const float *dy,
                            float *const *dw, float *dx, size_t n)
{
    float *dbias = plan->var_count > BIAS ? dw[BIAS] : NULL;
    job j = {.at = shape_of(plan),
             .w = w[WEIGHT],
             .x = x,
             .dy = dy,
             .dw = dw[WEIGHT],
             .dbias = dbias,
             .dx = dx,
             .tape = tape,
             .n = n};
    ps_conv_small small;
    ps_conv_strips strips;
    ps_winograd winograd;

    (void)y;
    j.team = team_of(pass, &j.at, n);
    if (ps_conv_small_fits(&j.at.window, j.at.filters, n, &small)) {
        ps_conv_small_backward(&small, j.team, w[WEIGHT], x, dy, dw[WEIGHT], dbias, dx, tape, n);
        return;
    }
    if (ps_winograd_fits(&j.at.window, j.at.filters, &winograd)) {
        add_bias_slopes(j.team, &j.at, dy, dbias, n);
        ps_winograd_backward(&winograd, j.team, w[WEIGHT], x, dy, dw[WEIGHT], dx, tape, n);
        return;
    }
    if (ps_conv_strips_fits(&j.at.window, j.at.filters, plan->batch, &strips)) {
        add_bias_slopes(j.team, &j.at, dy, dbias, n);
        ps_conv_strips_backward(&strips, j.team, w[WEIGHT], x, dy, dw[WEIGHT], dx, tape, n);
        return;
    }
    while (next_groups(&j)) {
        ps_team_run(j.team, j.count, gather_group, &j);
        add_groups(&j);
        if (dx != NULL) {
            ps_team_run(j.team, j.count, return_group, &j);
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
