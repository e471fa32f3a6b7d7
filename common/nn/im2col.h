/* SPDX-License-Identifier: Apache-2.0 */
/* im2col.h - the windows of an image as columns of a matrix, and back. For common/nn alone. */
#ifndef PS_COMMON_NN_IM2COL_H
#define PS_COMMON_NN_IM2COL_H

#include <stddef.h>

/* A square window that moves over an image of C channels. */
typedef struct ps_window {
    size_t channels, rows, columns; /* of the image */
    size_t kernel, stride, padding;
    size_t out_rows, out_columns; /* places of the window */
} ps_window;

/* col (C K K, out_rows out_columns), its rows `ld` floats apart: row (c, i, j)
 * holds value (c, i, j) of the window at each place, 0 outside the image. */
void ps_im2col(const ps_window *at, const float *image, float *col, size_t ld);

/* image (C, H, W) = the sum, for each of its values, of where it stands in col. */
void ps_col2im(const ps_window *at, const float *col, size_t ld, float *image);

#endif
