/* SPDX-License-Identifier: Apache-2.0 */
/* winograd.h - convolutions with a window of 3 x 3 and stride 1 in fewer multiplications
 * (Winograd 1980; Lavin and Gray 2016, arXiv 1509.09308: F(2 x 2, 3 x 3)). For conv2d.c alone.
 *
 * Four values that lie in a square take 16 products for each channel and filter, not 36:
 * window and image are both turned into 16 numbers a tile, each of which has a product of
 * matrices of its own. So does the way back to x, and that to the weights, where the same
 * numbers are summed over all tiles.
 *
 * Why it is here (bench_kernels, AVX-512, 32 samples, forward and both gradients, best of 5
 * rounds): im2col and OpenBLAS take 1.7 to 4.4 times as long, oneDNN in its own layout 1.1 to 1.5,
 * at all shapes of cnn, resnet and resnet18 but one, 256 -> 256 at 8 x 8, where they take 1.1 and
 * 0.7. On Zen 4 they take 1.5 to 3.7 and 1.1 to 1.8, by AVX2 1.5 to 2.4 and 1.1 to 1.7, at all.
 */
#ifndef PS_COMMON_NN_WINOGRAD_H
#define PS_COMMON_NN_WINOGRAD_H

#include "common/nn/gemm.h"
#include "common/nn/im2col.h"
#include "common/nn/winograd_tiles.h"

/* One convolution as tiles: those of its outputs. */
typedef struct ps_winograd_way {
    size_t channels, rows, columns, padding; /* of what is read */
    size_t filters, out_rows, out_columns;
    size_t down, across; /* tiles */
    size_t images, band; /* of a block: images whole, or one of them and so many rows of tiles */
    size_t tiles;        /* the most in a block */
    size_t pitch, plane; /* of a padded image: of a row, of all */
} ps_winograd_way;

typedef struct ps_winograd {
    const ps_gemm *gemm;
    const ps_winograd_tiles *tiles;
    ps_winograd_way forward, back; /* from x to y, from dy to dx */
} ps_winograd;

/* Whether a window is of this kind on this processor, and this the faster way. */
bool ps_winograd_fits(const ps_window *window, size_t filters, ps_winograd *out);

size_t ps_winograd_scratch(const ps_winograd *at); /* floats */

/* As the layer's: x (n, channels, rows, columns), y and dy (n, filters, out_rows, out_columns),
 * w (filters, channels, 3, 3), dw likewise; bias (filters), or NULL. */
void ps_winograd_forward(const ps_winograd *at, const float *w, const float *bias, const float *x,
                         float *y, float *scratch, size_t n);
void ps_winograd_backward(const ps_winograd *at, const float *w, const float *x, const float *dy,
                          float *dw, float *dx, float *scratch, size_t n);

#endif
