/* SPDX-License-Identifier: Apache-2.0 */
/* conv_strips.h - convolutions without im2col, at any stride. For conv2d.c alone.
 *
 * With zeros around it an image is one strip of values, and what the window's value (i, j)
 * is multiplied with, at all places at once, is the strip from value i * pitch + j on: a
 * product of matrices whose second one's rows overlap (gemm.h) and are never copied.
 * At stride s an image is s * s strips, each of every s-th value both ways, and (i, j) goes
 * with strip (i mod s, j mod s).
 *
 * If rows of the output are whole vectors, or pairs of rows are, as those of images of 32 x 32 and
 * of halves of it, the products are those of the places alone. Else they include values between the
 * rows that are no places: for images 26 wide and a window of 3, one in 14, which is less than
 * copies cost.
 *
 * Why it is here (bench_kernels, Zen 4, 32 samples, forward and both gradients, best of 7 to 9
 * rounds on a busy machine): im2col and OpenBLAS take 1.1 to 2.5 times as long, by AVX2 1.0 to 2.1.
 * oneDNN takes 0.6 to 0.9 of ours, by AVX2 0.7 to 1.1, and 0.02 to 0.6 on top to turn images into
 * its layout.
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
