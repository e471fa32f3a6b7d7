/* SPDX-License-Identifier: Apache-2.0 */
/* conv_strips.h - convolutions without im2col, at any stride. For conv2d.c alone.
 *
 * With zeros around it an image is one strip of values, and what the window's value (i, j)
 * is multiplied with, at all places at once, is the strip from value i * pitch + j on: a
 * product of matrices whose second one's rows overlap (gemm.h) and are never copied.
 * At stride s an image is s * s strips, each of every s-th value both ways, and (i, j) goes
 * with strip (i mod s, j mod s). Between rows it computes some values that are no places:
 * for images 8 wide and a window of 3 a fourth more, which is less than copies cost.
 *
 * Why it is here (bench_kernels, AVX-512, 32 samples, forward and both gradients, best of 5
 * rounds): im2col and OpenBLAS take 1.0 to 2.2 times as long, but 0.9 for 32 -> 64 channels at 16 x
 * 16 and stride 2. oneDNN takes 0.4 to 0.6 of ours, and 0.05 to 1.0 on top to turn images into its
 * layout.
 */
#ifndef PS_COMMON_NN_CONV_STRIPS_H
#define PS_COMMON_NN_CONV_STRIPS_H

#include "common/nn/gemm.h"
#include "common/nn/im2col.h"

typedef struct ps_conv_strips {
    const ps_gemm *gemm;
    ps_window window;
    size_t filters;
    size_t margin; /* values of a strip that a window reaches behind its first one */
    size_t pitch;  /* values of a row of a strip */
    size_t strip;  /* values of all its rows */
    size_t places; /* from the first place to the last, in a strip */
    size_t group;  /* samples whose strips lie side by side, for sums over them */
    size_t reach;  /* values from the strips of one channel to those of the next */
    size_t slopes; /* the same for dy's filters, of which each has one strip a sample */
} ps_conv_strips;

/* Whether a window can be taken so on this processor, and this is the faster way. */
bool ps_conv_strips_fits(const ps_window *window, size_t filters, size_t batch,
                         ps_conv_strips *out);

size_t ps_conv_strips_scratch(const ps_conv_strips *at); /* floats */

/* As the layer's: x (n, channels, rows, columns), y and dy (n, filters, out_rows, out_columns), w
 * (filters, channels, kernel, kernel); bias (filters), or NULL. */
void ps_conv_strips_forward(const ps_conv_strips *at, const float *w, const float *bias,
                            const float *x, float *y, float *scratch, size_t n);
void ps_conv_strips_backward(const ps_conv_strips *at, const float *w, const float *x,
                             const float *dy, float *dw, float *dx, float *scratch, size_t n);

#endif
