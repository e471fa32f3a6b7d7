/* SPDX-License-Identifier: Apache-2.0 */
/* conv_small.h - convolutions of images so small that much of a window is padding. For conv2d.c
 * alone.
 *
 * A window of 3 x 3 on an image of 2 x 2 with padding 1 covers only 4 values of the image at each
 * place; the other 5 are zeros. Of a window of 5 x 5 on 4 x 4 with padding 2, about half are zeros.
 * im2col multiplies by these zeros too. This code computes only the products with values of the
 * image, place by place, for many samples at once. It does not copy the weights.
 *
 * A convolution is computed here if all of these hold:
 *
 *     - a channel has at most 64 values, in the input and in the output, and there are at most
 *       4,194,304 weights;
 *     - at most 3/4 of im2col's products are with values of the image;
 *     - 16 samples or more come at once, which fill a vector.
 *
 * Why it is here (bench_kernels, Zen 4, 32 samples, forward and both gradients, best of 5 rounds
 * on a busy machine): at the shapes of alexnet that fit, and 512 -> 512 at 4 x 4 of resnet18,
 * im2col and OpenBLAS take 1.4 to 2.3 times as long, oneDNN in its own layout 1.1 to 2.2; by
 * AVX2 1.3 to 2.0 and 1.6 to 2.8.
 */
#ifndef PS_COMMON_NN_CONV_SMALL_H
#define PS_COMMON_NN_CONV_SMALL_H

#include "common/nn/gemm.h"
#include "common/nn/im2col.h"
#include "common/nn/team.h"

typedef struct ps_conv_small {
    const ps_gemm *gemm;
    ps_window window;
    size_t filters;
    size_t group; /* the most samples in one product */
    size_t pairs; /* number of pairs of a place and a value of its window that is in the image */
} ps_conv_small;

/* Returns whether a convolution of `batch` samples meets the conditions above on this processor. If
 * so, fills *out for the functions below. */
bool ps_conv_small_fits(const ps_window *window, size_t filters, size_t batch, ps_conv_small *out);

/* Returns how many floats of `scratch` the functions below need. Each other thread of a team needs
 * as many in its own scratch (ps_team_scratch). */
size_t ps_conv_small_scratch(const ps_conv_small *at);

/* Computes y, as a layer's forward. The bits do not depend on the team. n is at most the batch of
 * ps_conv_small_fits. Shapes here and below: x and dx (n, channels, rows, columns), y and dy (n,
 * filters, out_rows, out_columns), w and dw (filters, channels, kernel, kernel), bias and dbias
 * (filters); bias, dbias and dx may be NULL.
 */
void ps_conv_small_forward(const ps_conv_small *at, ps_team *team, const float *w,
                           const float *bias, const float *x, float *y, float *scratch, size_t n);
/* Adds the gradients by weights and bias to dw and dbias. Writes the gradient by x to dx. */
void ps_conv_small_backward(const ps_conv_small *at, ps_team *team, const float *w, const float *x,
                            const float *dy, float *dw, float *dbias, float *dx, float *scratch,
                            size_t n);

#endif
