/* SPDX-License-Identifier: Apache-2.0 */
/* im2col.h - converts the windows of images to columns of a matrix, and back. For common/nn only.
 *
 * S images are interleaved value by value: (C, H, W, S). So even small images give long runs of
 * memory. Large images are taken one at a time, S = 1.
 */
#ifndef PS_COMMON_NN_IM2COL_H
#define PS_COMMON_NN_IM2COL_H

#include <stddef.h>

/* A square window that moves over images of C channels. */
typedef struct ps_window {
    size_t channels, rows, columns; /* sizes of an image */
    size_t kernel, stride, padding;
    size_t out_rows, out_columns; /* positions of the window */
} ps_window;

/* Writes col (C K K, out_rows out_columns, S): row (c, i, j) has value (c, i, j) of the window at
 * each position, 0 outside the image. */
void ps_im2col(const ps_window *at, const float *images, size_t s, float *col);

/* Writes images (C, H, W, S): each value is the sum of all its copies in col. */
void ps_col2im(const ps_window *at, const float *col, size_t s, float *images);

/* Writes out (columns, rows), the transpose of in (rows, columns). */
void ps_transpose(const float *in, size_t rows, size_t columns, float *out);

/* Transposes a part of a larger matrix into a part of another one. The rows of the two matrices are
 * in_row and out_row values apart. */
void ps_turn(const float *in, size_t in_row, size_t rows, size_t columns, float *out,
             size_t out_row);

/* Transposes as ps_turn does, but adds to `out` instead of overwriting it. */
void ps_turn_onto(const float *in, size_t in_row, size_t rows, size_t columns, float *out,
                  size_t out_row);

#endif
