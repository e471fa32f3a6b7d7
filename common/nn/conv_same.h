/* SPDX-License-Identifier: Apache-2.0 */
/* conv_same.h - convolutions whose output is as large as their input, without im2col.
 * For conv2d.c alone.
 *
 * With zeros around it an image is one strip of values, and what the window's value (i, j)
 * is multiplied with, at all places at once, is the strip from value i * pitch + j on: a
 * product of matrices whose second one's rows overlap (gemm.h) and are never copied.
 * Between rows it computes some values that are no places: for images 8 wide and a window
 * of 3 a fourth more, which is less than copies cost.
 */
#ifndef PS_COMMON_NN_CONV_SAME_H
#define PS_COMMON_NN_CONV_SAME_H

#include "common/nn/gemm.h"
#include "common/nn/im2col.h"

typedef struct ps_conv_same {
    const ps_gemm *gemm;
    size_t channels, filters, rows, columns, kernel;
    size_t pitch;  /* columns with the zeros on both sides */
    size_t strip;  /* values of an image with all its zeros */
    size_t places; /* from the first place to the last, in a strip */
    size_t group;  /* samples whose strips lie side by side, for sums over them */
    size_t reach;  /* values from the strips of one channel to those of the next */
} ps_conv_same;

/* Whether a window is of this kind on this processor, and this the faster way. */
bool ps_conv_same_fits(const ps_window *window, size_t filters, size_t batch, ps_conv_same *out);

size_t ps_conv_same_scratch(const ps_conv_same *at); /* floats */

/* As the layer's: x (n, channels, rows, columns), y and dy (n, filters, rows, columns), w
 * (filters, channels, kernel, kernel); bias and its gradient (filters), or NULL. */
void ps_conv_same_forward(const ps_conv_same *at, const float *w, const float *bias, const float *x,
                          float *y, float *scratch, size_t n);
void ps_conv_same_backward(const ps_conv_same *at, const float *w, const float *x, const float *dy,
                           float *dw, float *dbias, float *dx, float *scratch, size_t n);

#endif
