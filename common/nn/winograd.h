/* SPDX-License-Identifier: Apache-2.0 */
/* winograd.h - convolutions with a window of 3 x 3 and stride 1 in fewer multiplications
 * (Winograd 1980; Lavin and Gray 2016, arXiv 1509.09308: F(2 x 2, 3 x 3)). For conv2d.c alone.
 *
 * The output is cut into tiles of 2 x 2 values. A tile takes 16 multiplications for each channel
 * and filter instead of 36: its 4 x 4 input values and the 3 x 3 weights are each transformed into
 * 16 numbers. For each of the 16 there is one product of matrices, (filters, channels) by
 * (channels, tiles). The gradient by x is such a convolution too; the gradient by the weights sums
 * the products over all tiles.
 *
 * Why it is here (bench_kernels, 32 samples, forward and both gradients, best of 5 rounds, at the
 * shapes of cnn, resnet and resnet18; how many times as long the others take):
 *
 *                                       im2col and OpenBLAS   oneDNN in its own layout
 *     AVX-512, all but the next line    1.7 to 4.4            1.1 to 1.5
 *     AVX-512, 256 -> 256 at 8 x 8      1.1                   0.7
 *     Zen 4, AVX-512                    1.5 to 3.7            1.1 to 1.8
 *     Zen 4, AVX2                       1.5 to 2.4            1.1 to 1.7
 */
#ifndef PS_COMMON_NN_WINOGRAD_H
#define PS_COMMON_NN_WINOGRAD_H

#include "common/nn/gemm.h"
#include "common/nn/im2col.h"
#include "common/nn/team.h"
#include "common/nn/winograd_tiles.h"

/* One convolution, cut into tiles of its output and into blocks of tiles that fit in a cache. */
typedef struct ps_winograd_way {
    size_t channels, rows, columns, padding; /* sizes of the input */
    size_t filters, out_rows, out_columns;   /* sizes of the output */
    size_t down, across;                     /* tiles in a column and in a row of an output */
    size_t images;                           /* whole images in a block; 1 if not even one fits */
    size_t band;                             /* rows of tiles of an image in a block */
    size_t tiles;                            /* the most tiles in a block */
    size_t pitch;                            /* values from a row of a padded band to the next */
    size_t plane; /* values of a padded band, with what is read behind it */
} ps_winograd_way;

typedef struct ps_winograd {
    const ps_gemm *gemm;
    const ps_winograd_tiles *tiles;
    ps_winograd_way forward, back; /* from x to y, from dy to dx */
} ps_winograd;

/* Returns whether the window is 3 x 3 with stride 1, this processor has the kernels, and the
 * numbers of channels, filters and columns are such that they are faster than im2col. If so, fills
 * *out for the functions below. */
bool ps_winograd_fits(const ps_window *window, size_t filters, ps_winograd *out);

/* Returns how many floats of `scratch` the functions below need. Each other thread of a team needs
 * as many in its own scratch (ps_team_scratch). */
size_t ps_winograd_scratch(const ps_winograd *at);

/* Computes y, as a layer's forward. The bits do not depend on the team. Shapes here and below: x
 * and dx (n, channels, rows, columns), y and dy (n, filters, out_rows, out_columns), w and dw
 * (filters, channels, 3, 3), bias (filters) or NULL. */
void ps_winograd_forward(const ps_winograd *at, ps_team *team, const float *w, const float *bias,
                         const float *x, float *y, float *scratch, size_t n);
/* Adds the gradient by the weights to dw. Writes the gradient by x to dx unless dx is NULL. */
void ps_winograd_backward(const ps_winograd *at, ps_team *team, const float *w, const float *x,
                          const float *dy, float *dw, float *dx, float *scratch, size_t n);

#endif
