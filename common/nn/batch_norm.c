/* SPDX-License-Identifier: Apache-2.0 */
/* batch_norm.c - gives every channel mean 0 and variance 1 over the batch, then scales and shifts
 * it (Ioffe and Szegedy 2015).
 *
 * The statistics of a channel are taken over all its values in all samples. In a flat input every
 * value is a channel. In training, mean and variance are those of the batch. Outside of training
 * they are the running ones, which are state (layer.h) with the decrement momentum * (running -
 * batch). As in PyTorch, `batch` is for the running variance the batch's variance times M / (M -
 * 1), M being the number of values of a channel in the batch; if M is 1, times 1.
 *
 * On images this layer is bound by memory: forward reads x twice, backward reads x and dy twice
 * each. So a relu that follows, with or without an addition before it, is computed in the same
 * passes (layer.h, with_relu).
 */
#include "common/base/clones.h"
#include "common/nn/copy_rows.h"
#include "common/nn/layer.h"
#include "common/nn/sums.h"

#include <math.h>

enum { GAMMA, BETA, MEAN, VARIANCE };
enum { MOMENTUM, EPSILON };

static const ps_param batch_norm_params[] = {
    {.name = "momentum",
     .value = 0.1,
     .min = 0,
     .max = 1,
     .help = "share of a batch in the running statistics"},
    {.name = "epsilon", .value = 1e-5, .min = 1e-12, .max = 1, .help = "added to the variance"},
    {.name = NULL},
};

static ps_status batch_norm_plan(ps_layer_plan *plan)
{
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};

    plan->out = plan->in;
    plan->var_count = 4;
    for (unsigned v = 0; v < plan->var_count; v++) {
        plan->vars[v] = (ps_layer_var){
            .name = names[v],
            .shape = {.rank = 1, .dim = {plan->in.dim[0]}},
            .init = {PS_INIT_CONSTANT, v == GAMMA || v == VARIANCE ? 1.0f : 0.0f},
            .is_state = v == MEAN || v == VARIANCE,
        };
    }
    plan->tape_floats = 2 * (size_t)plan->in.dim[0];
    return ps_ok();
}

/* The line that maps a channel's values: y = (x - mean) * scale + shift. */
typedef struct line {
    float mean, scale, shift;
} line;

static inline __attribute__((always_inline)) float value_at(line of, float x)
{
    return (x - of.mean) * of.scale + of.shift;
}

PS_CLONES(normalise, (x, of, y, n), const float *restrict x, line of, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = value_at(of, x[i]);
    }
}

PS_CLONES(normalise_relu, (x, of, y, n), const float *restrict x, line of, float *restrict y,
          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = value_at(of, x[i]);

        y[i] = v < 0.0f ? 0.0f : v;
    }
}

PS_CLONES(normalise_sum_relu, (x, of, added, y, n), const float *restrict x, line of,
          const float *restrict added, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = value_at(of, x[i]) + added[i];

        y[i] = v < 0.0f ? 0.0f : v;
    }
}

/* Computes the gradient before a relu whose input is value_at(of, x). */
PS_CLONES(gate, (x, of, dy, to, n), const float *restrict x, line of, const float *restrict dy,
          float *restrict to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float slope =
            dy[i]; /* read unconditionally: a conditional read vectorises only with masked loads */

        to[i] = value_at(of, x[i]) > 0.0f ? slope : 0.0f;
    }
}

/* Computes the gradient before a relu with the output y. */
PS_CLONES(gate_by_result, (y, dy, to, n), const float *restrict y, const float *restrict dy,
          float *restrict to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float slope = dy[i];

        to[i] = y[i] > 0.0f ? slope : 0.0f;
    }
}

PS_CLONES(gate_in_place, (y, dy, n), const float *restrict y, float *restrict dy, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float slope = dy[i];

        dy[i] = y[i] > 0.0f ? slope : 0.0f;
    }
}

/* The coefficients of a channel in backward: dx = a dy - b - c (x - mean). */
typedef struct way_back {
    float mean, a, b, c;
} way_back;

PS_CLONES(slopes, (x, dy, of, dx, n), const float *restrict x, const float *restrict dy,
          way_back of, float *restrict dx, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        dx[i] = of.a * dy[i] - of.b - of.c * (x[i] - of.mean);
    }
}

PS_CLONES(slopes_in_place, (x, of, dx, n), const float *restrict x, way_back of, float *restrict dx,
          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        dx[i] = of.a * dx[i] - of.b - of.c * (x[i] - of.mean);
    }
}

enum {
    /* channels that are computed at once, so that a sample's values of them lie side by side */
    CHANNELS = 64,
    PIECE = 1024 /* values of the gradient before the relu that are kept at once */
};

/* Computes mean and sum of squared deviations of each channel, merged plane by plane (Chan, Golub
 * and LeVeque 1979). Reads x once, the last sample first, because it was written last and is still
 * in the cache. */
static void measure(const float *x, size_t n, size_t channels, size_t plane, size_t size,
                    double *mean, double *squares)
{
    for (size_t c = 0; c < channels; c++) {
        mean[c] = squares[c] = 0.0;
    }
    for (size_t seen = 0; seen < n; seen++) {
        double share = 1.0 / ((double)seen + 1.0);
        double weight = (double)plane * (double)seen * share;

        for (size_t c = 0; c < channels; c++) {
            const float *at = x + (n - 1 - seen) * size + c * plane;
            double of_plane = (double)ps_sum_f32(at, plane) / (double)plane;
            double away = of_plane - mean[c];

            if (c + 1 < channels) {
                ps_prefetch(at + plane, plane);
            }
            mean[c] += away * share;
            squares[c] += away * away * weight;
            if (plane > 1) {
                squares[c] += (double)ps_sum_squares_f32(at, (float)of_plane, plane);
            }
        }
    }
}

/* Returns the line of a channel. Raises a variance below zero to zero: a running variance can have
 * become negative when it was sent rounded. */
static line line_of(const ps_layer_plan *plan, const float *const *w, size_t c, float mean,
                    float variance)
{
    double root = sqrt(fmax((double)variance, 0.0) + plan->params.v[EPSILON]);

    return (line){.mean = mean, .scale = (float)((double)w[GAMMA][c] / root), .shift = w[BETA][c]};
}

typedef void finish_fn(const ps_pass *pass, const float *x, line of, size_t at, float *y, size_t n);

/* The operands of forward, whose channels threads share. */
typedef struct way_out {
    const ps_layer_plan *plan;
    const ps_pass *pass;
    const float *const *w;
    const float *x;
    float *y, *tape;
    size_t n, channels, plane, size;
    finish_fn *finish;
} way_out;

/* Computes y of channels [first, first + some), at most CHANNELS. In training also writes their
 * means and variances to the tape. */
static void forward_some(const way_out *of, size_t first, size_t some)
{
    const ps_pass *pass = of->pass;
    double means[CHANNELS], squares[CHANNELS], count = (double)of->n * (double)of->plane;
    line lines[CHANNELS];

    if (pass->is_training) {
        measure(of->x + first * of->plane, of->n, some, of->plane, of->size, means, squares);
    }
    for (size_t k = 0; k < some; k++) {
        size_t c = first + k;
        float *mean = &of->tape[c], *variance = &of->tape[of->channels + c];

        if (pass->is_training) {
            *mean = (float)means[k];
            *variance = (float)(squares[k] / count);
        }
        lines[k] = line_of(of->plan, of->w, c, pass->is_training ? *mean : of->w[MEAN][c],
                           pass->is_training ? *variance : of->w[VARIANCE][c]);
    }
    for (size_t i = 0; i < of->n * some; i++) {
        size_t at = i / some * of->size + (first + i % some) * of->plane;

        of->finish(pass, of->x, lines[i % some], at, of->y, of->plane);
    }
}

static void forward_channels(void *arg, size_t from, size_t to)
{
    for (size_t first = from; first < to; first += CHANNELS) {
        forward_some(arg, first, to - first < CHANNELS ? to - first : CHANNELS);
    }
}

/* Runs `fn` over the channels of n samples, which the team's threads share. If a channel has only
 * one value in a sample, each thread gets as many channels as fill whole cache lines. */
static void share(const ps_pass *pass, size_t n, size_t channels, size_t plane, ps_range_fn *fn,
                  void *arg)
{
    if (n > 0) {
        ps_team_ranges(ps_team_for(pass->team, n * channels * plane, PS_TEAM_VALUES), channels,
                       plane > 1 ? 1 : PS_TEAM_LINE, fn, arg);
    }
}

static void forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                    const float *x, float *y, float *tape, size_t n, finish_fn *finish)
{
    size_t size = ps_shape_size(&plan->in), channels = plan->in.dim[0];
    way_out of = {.plan = plan,
                  .pass = pass,
                  .w = w,
                  .x = x,
                  .y = y,
                  .tape = tape,
                  .n = n,
                  .channels = channels,
                  .plane = size / channels,
                  .size = size,
                  .finish = finish};

    share(pass, n, channels, of.plane, forward_channels, &of);
}

static void finish_bare(const ps_pass *pass, const float *x, line of, size_t at, float *y, size_t n)
{
    (void)pass;
    normalise(x + at, of, y + at, n);
}

static void finish_relu(const ps_pass *pass, const float *x, line of, size_t at, float *y, size_t n)
{
    if (pass->added != NULL) {
        normalise_sum_relu(x + at, of, pass->added + at, y + at, n);
    } else {
        normalise_relu(x + at, of, y + at, n);
    }
}

static void batch_norm_forward(const ps_layer_plan *plan, const ps_pass *pass,
                               const float *const *w, const float *x, float *y, float *tape,
                               size_t n)
{
    forward(plan, pass, w, x, y, tape, n, finish_bare);
}

static void relu_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                         const float *x, float *y, float *tape, size_t n)
{
    forward(plan, pass, w, x, y, tape, n, finish_relu);
}

/* The operands of backward. */
typedef struct step {
    const ps_pass *pass;
    const ps_layer_plan *plan;
    bool has_relu;
    const float *const *w;
    const float *x, *y, *dy, *tape;
    float *dx, *const *dw;
    size_t n, channels, plane, size;
} step;

/* Returns the gradient before the relu of n values from `at` on: in dy, in `kept` (PIECE), or in
 * dadded. There are two passes over dy. The first one, `is_first`, writes dadded if it is wanted;
 * the second one reads dadded. */
static const float *slopes_at(const step *of, line along, size_t at, size_t n, bool is_first,
                              float *kept)
{
    float *dadded = of->pass->dadded;

    if (!of->has_relu) {
        return of->dy + at;
    }
    if (of->pass->added == NULL) {
        gate(of->x + at, along, of->dy + at, kept, n);
        return kept;
    }
    if (dadded == NULL) {
        gate_by_result(of->y + at, of->dy + at, kept, n);
        return kept;
    }
    if (is_first && dadded == of->dy) {
        gate_in_place(of->y + at, dadded + at, n);
    } else if (is_first) {
        gate_by_result(of->y + at, of->dy + at, dadded + at, n);
    }
    return dadded + at;
}

/* Computes, for each channel, the sum of its gradients s before the relu and the sum of s (x -
 * mean). Takes the last sample first. */
static void sum_slopes(const step *of, size_t first, size_t some, const line *lines, double *sum,
                       double *product)
{
    float kept[PIECE];

    for (size_t k = 0; k < some; k++) {
        sum[k] = product[k] = 0.0;
    }
    for (size_t i = 0; i < of->n * some; i++) {
        size_t k = i % some, at = (of->n - 1 - i / some) * of->size + (first + k) * of->plane;

        for (size_t p = 0; p < of->plane; p += PIECE) {
            size_t n = of->plane - p < PIECE ? of->plane - p : PIECE;
            const float *s;
            float a, b;

            if (k + 1 < some) {
                ps_prefetch(of->x + at + p + of->plane, n);
                ps_prefetch(of->dy + at + p + of->plane, n);
            }
            s = slopes_at(of, lines[k], at + p, n, true, kept);
            ps_sum_pair_f32(s, of->x + at + p, lines[k].mean, n, &a, &b);
            sum[k] += (double)a;
            product[k] += (double)b;
        }
    }
}

static void write_slopes(const step *of, size_t first, size_t some, const line *lines,
                         const way_back *back)
{
    float kept[PIECE];

    for (size_t i = 0; i < of->n * some; i++) {
        size_t k = i % some, from = i / some * of->size + (first + k) * of->plane;

        for (size_t p = 0; p < of->plane; p += PIECE) {
            size_t n = of->plane - p < PIECE ? of->plane - p : PIECE, at = from + p;
            const float *s = slopes_at(of, lines[k], at, n, false, kept);

            if (s == of->dx + at) {
                slopes_in_place(of->x + at, back[k], of->dx + at, n);
            } else {
                slopes(of->x + at, s, back[k], of->dx + at, n);
            }
        }
    }
}

/* Adds the gradients of channels [first, first + some), at most CHANNELS, to dw, and computes dx of
 * these channels unless that is NULL. */
static void backward_some(const step *of, size_t first, size_t some)
{
    const float *tape = of->tape, *const *w = of->w;
    float *const *dw = of->dw;
    double count = (double)of->n * (double)of->plane;
    double unbias = count > 1.0 ? count / (count - 1.0) : 1.0;
    double move = of->plan->params.v[MOMENTUM] * (double)of->pass->scale * (double)of->n;
    double sum[CHANNELS], product[CHANNELS];
    line lines[CHANNELS];
    way_back back[CHANNELS];

    for (size_t k = 0, c = first; k < some; k++, c++) {
        lines[k] = line_of(of->plan, w, c, tape[c], tape[of->channels + c]);
    }
    sum_slopes(of, first, some, lines, sum, product);
    for (size_t k = 0, c = first; k < some; k++, c++) {
        double mean = (double)tape[c], variance = (double)tape[of->channels + c];
        double inverse = 1.0 / sqrt(variance + of->plan->params.v[EPSILON]);
        double a = (double)w[GAMMA][c] * inverse;

        dw[GAMMA][c] += (float)(product[k] * inverse);
        dw[BETA][c] += (float)sum[k];
        dw[MEAN][c] += (float)(move * ((double)w[MEAN][c] - mean));
        dw[VARIANCE][c] += (float)(move * ((double)w[VARIANCE][c] - unbias * variance));
        back[k] = (way_back){.mean = tape[c],
                             .a = (float)a,
                             .b = (float)(a * sum[k] / count),
                             .c = (float)(a * product[k] * inverse * inverse / count)};
    }
    if (of->dx != NULL) {
        write_slopes(of, first, some, lines, back);
    }
}

static void backward_channels(void *arg, size_t from, size_t to)
{
    for (size_t first = from; first < to; first += CHANNELS) {
        backward_some(arg, first, to - first < CHANNELS ? to - first : CHANNELS);
    }
}

static void backward(bool has_relu, const ps_layer_plan *plan, const ps_pass *pass,
                     const float *const *w, const float *x, const float *y, const float *tape,
                     const float *dy, float *const *dw, float *dx, size_t n)
{
    size_t size = ps_shape_size(&plan->in), channels = plan->in.dim[0];
    step of = {.pass = pass,
               .plan = plan,
               .has_relu = has_relu,
               .w = w,
               .x = x,
               .y = y,
               .dy = dy,
               .tape = tape,
               .dx = dx,
               .dw = dw,
               .n = n,
               .channels = channels,
               .plane = size / channels,
               .size = size};

    share(pass, n, channels, of.plane, backward_channels, &of);
}

static void batch_norm_backward(const ps_layer_plan *plan, const ps_pass *pass,
                                const float *const *w, const float *x, const float *y, float *tape,
                                const float *dy, float *const *dw, float *dx, size_t n)
{
    backward(false, plan, pass, w, x, y, tape, dy, dw, dx, n);
}

static void relu_backward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                          const float *x, const float *y, float *tape, const float *dy,
                          float *const *dw, float *dx, size_t n)
{
    backward(true, plan, pass, w, x, y, tape, dy, dw, dx, n);
}

static const ps_layer with_relu = {
    .kind = "batch_norm",
    .summary = "batch_norm, what is added to it, and relu",
    .params = batch_norm_params,
    .slope_in_place = true,
    .plan = batch_norm_plan,
    .forward = relu_forward,
    .backward = relu_backward,
};

const ps_layer ps_layer_batch_norm = {
    .kind = "batch_norm",
    .summary = "y = (x - mean) / sqrt(variance + epsilon) * weight + bias for each channel; the "
               "batch's mean and variance in training, running ones else",
    .params = batch_norm_params,
    .slope_in_place = true,
    .with_relu = &with_relu,
    .plan = batch_norm_plan,
    .forward = batch_norm_forward,
    .backward = batch_norm_backward,
};
