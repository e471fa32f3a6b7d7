/* SPDX-License-Identifier: Apache-2.0 */
/* conv_strips.h - convolutions without im2col, at any stride. For conv2d.c alone.
 *
 * A padded image is stored as one strip: its rows one after the other, `pitch` values each. The
 * weight (i, j) of a window is multiplied, at all places at once, by the strip from value
 * i * pitch + j on. So a convolution is a product of matrices in which the rows of the second one
 * overlap (gemm.h) and need no copies. At stride s an image is stored as s * s strips, each with
 * every s-th value of every s-th row; weight (i, j) is multiplied by strip (i mod s, j mod s).
 *
 * If rows of the output are whole vectors, or pairs of rows are (images of 32 x 32, 16 x 16, ...),
 * only the products of the places are computed. Otherwise values between the rows, which belong to
 * no place, are computed too: for images 26 wide and a window of 3, one value in 14, which costs
 * less than copies would.
 *
 * Why it is here (bench_kernels, Zen 4, 32 samples, forward and both gradients, best of 7 to 9
 * rounds on a busy machine): im2col and OpenBLAS take 1.1 to 2.5 times as long, with AVX2 1.0 to
 * 2.1. oneDNN takes 0.6 to 0.9 of our time, with AVX2 0.7 to 1.1, and another 0.02 to 0.6 of it to
 * bring images into its layout.
 */
#ifndef PS_COMMON_NN_CONV_STRIPS_H
#define PS_COMMON_NN_CONV_STRIPS_H

#include "common/nn/gemm.h"
#include "common/nn/im2col.h"
#include "common/nn/team.h"

typedef struct ps_conv_strips {
    const ps_gemm *gemm;
    ps_window window;
    size_t filters;
    /* values by which a window reaches, in a strip, beyond its first row or column */
    size_t margin;
    size_t pitch;  /* values from a row of a strip to the next */
    size_t strip;  /* values of a strip */
    size_t places; /* values of a strip from the first place to the last, with those between rows */
    size_t group;  /* samples whose strips are stored side by side, for sums over them */
    size_t reach;  /* values from the strips of a channel of x to those of the next channel */
    size_t slopes; /* values from the strips of a filter of dy to those of the next filter */
} ps_conv_strips;

/* Returns whether this processor has the kernels and they are faster than im2col for the window and
 * `batch` samples. If so, fills *out for the functions below. */
bool ps_conv_strips_fits(const ps_window *window, size_t filters, size_t batch,
                         ps_conv_strips *out);

/* Returns how many floats of `scratch` the functions below need. Each other thread of a team needs
 * as many in its own scratch (ps_team_scratch). */
size_t ps_conv_strips_scratch(const ps_conv_strips *at);

/* Computes y, as a layer's forward. The bits do not depend on the team. Shapes here and below: x
 * and dx (n, channels, rows, columns), y and dy (n, filters, out_rows, out_columns), w and dw
 * (filters, channels, kernel, kernel), bias (filters) or NULL. */
void ps_conv_strips_forward(const ps_conv_strips *at, ps_team *team, const float *w,
                            const float *bias, const float *x, float *y, float *scratch, size_t n);
/* Adds the gradient by the weights to dw. Writes the gradient by x to dx unless dx is NULL. */
void ps_conv_strips_backward(const ps_conv_strips *at, ps_team *team, const float *w,
                             const float *x, const float *dy, float *dw, float *dx, float *scratch,
                             size_t n);

#endif
