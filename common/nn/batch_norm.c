/* SPDX-License-Identifier: Apache-2.0 */
/* batch_norm.c - every channel with mean 0 and variance 1 over the batch, then scaled and
 * moved (Ioffe and Szegedy 2015).
 *
 * A channel's M values are those of all samples; of a flat input every value is
 * a channel. Training takes mean and variance of the batch and moves the
 * running ones towards them, the variance as M / (M - 1) of the batch's, as
 * PyTorch does; otherwise the running ones are taken. They are state (layer.h):
 * backward adds momentum * (running - batch) in place of a gradient.
 */
#include "common/base/clones.h"
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

PS_CLONES static void normalise(const float *restrict x, float mean, float scale, float shift,
                                float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = (x[i] - mean) * scale + shift;
    }
}

/* dx = a dy - b - c (x - mean). */
PS_CLONES static void slopes(const float *restrict x, const float *restrict dy, float mean, float a,
                             float b, float c, float *restrict dx, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        dx[i] = a * dy[i] - b - c * (x[i] - mean);
    }
}

/* A channel's pieces lie far apart, and each ends before the processor has seen that it is
 * read in order: the next one is asked for while one is summed up. */
static void prefetch(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __builtin_prefetch(x + i);
    }
}

/* Mean and variance of one channel: n pieces of `plane` values, `size` apart. */
static void measure(const float *x, size_t n, size_t plane, size_t size, float *mean,
                    float *variance)
{
    double sum = 0.0, squares = 0.0, count = (double)n * (double)plane;

    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n) {
            prefetch(x + (i + 1) * size, plane);
        }
        sum += (double)ps_sum_f32(x + i * size, plane);
    }
    *mean = (float)(sum / count);
    for (size_t i = 0; i < n; i++) {
        squares += (double)ps_sum_squares_f32(x + i * size, *mean, plane);
    }
    *variance = (float)(squares / count);
}

static void batch_norm_forward(const ps_layer_plan *plan, const ps_pass *pass,
                               const float *const *w, const float *x, float *y, float *tape,
                               size_t n)
{
    size_t size = ps_shape_size(&plan->in), channels = plan->in.dim[0], plane = size / channels;
    float *batch_mean = tape, *batch_variance = tape + channels;
    double epsilon = plan->params.v[EPSILON];

    for (size_t c = 0; n > 0 && c < channels; c++) {
        float mean = w[MEAN][c], variance = w[VARIANCE][c], scale;

        if (pass->is_training) {
            measure(x + c * plane, n, plane, size, &mean, &variance);
            batch_mean[c] = mean;
            batch_variance[c] = variance;
        }
        /* A running variance that was sent rounded may be below zero. */
        scale = (float)((double)w[GAMMA][c] / sqrt(fmax((double)variance, 0.0) + epsilon));
        for (size_t i = 0; i < n; i++) {
            size_t at = i * size + c * plane;

            normalise(x + at, mean, scale, w[BETA][c], y + at, plane);
        }
    }
}

static void batch_norm_backward(const ps_layer_plan *plan, const ps_pass *pass,
                                const float *const *w, const float *x, const float *y, float *tape,
                                const float *dy, float *const *dw, float *dx, size_t n)
{
    size_t size = ps_shape_size(&plan->in), channels = plan->in.dim[0], plane = size / channels;
    double count = (double)n * (double)plane;
    double unbias = count > 1.0 ? count / (count - 1.0) : 1.0;
    double move = plan->params.v[MOMENTUM] * (double)pass->scale * (double)n;

    (void)y;
    for (size_t c = 0; n > 0 && c < channels; c++) {
        float mean = tape[c], variance = tape[channels + c];
        double inverse = 1.0 / sqrt((double)variance + plan->params.v[EPSILON]);
        double of_dy = 0.0, of_product = 0.0, a = (double)w[GAMMA][c] * inverse;

        for (size_t i = 0; i < n; i++) {
            size_t at = i * size + c * plane;
            float part, product;

            if (i + 1 < n) {
                prefetch(dy + at + size, plane);
                prefetch(x + at + size, plane);
            }
            ps_sum_pair_f32(dy + at, x + at, mean, plane, &part, &product);
            of_dy += (double)part;
            of_product += (double)product;
        }
        dw[GAMMA][c] += (float)(of_product * inverse);
        dw[BETA][c] += (float)of_dy;
        dw[MEAN][c] += (float)(move * ((double)w[MEAN][c] - (double)mean));
        dw[VARIANCE][c] += (float)(move * ((double)w[VARIANCE][c] - unbias * (double)variance));
        for (size_t i = 0; dx != NULL && i < n; i++) {
            size_t at = i * size + c * plane;

            slopes(x + at, dy + at, mean, (float)a, (float)(a * of_dy / count),
                   (float)(a * of_product * inverse * inverse / count), dx + at, plane);
        }
    }
}

const ps_layer ps_layer_batch_norm = {
    .kind = "batch_norm",
    .summary = "y = (x - mean) / sqrt(variance + epsilon) * weight + bias for each channel; the "
               "batch's mean and variance in training, running ones else",
    .params = batch_norm_params,
    .plan = batch_norm_plan,
    .forward = batch_norm_forward,
    .backward = batch_norm_backward,
};
