/* SPDX-License-Identifier: Apache-2.0 */
/* im2col.h - the windows of images as columns of a matrix, and back. For common/nn alone.
 *
 * S images are taken at once, value by value: (C, H, W, S). So also the places
 * of small images are long runs of memory; S is 1 for a large one as it lies.
 */
#ifndef PS_COMMON_NN_IM2COL_H
#define PS_COMMON_NN_IM2COL_H

#include <stddef.h>

/* A square window that moves over images of C channels. */
typedef struct ps_window {
    size_t channels, rows, columns; /* of an image */
    size_t kernel, stride, padding;
    size_t out_rows, out_columns; /* places of the window */
} ps_window;

/* col (C K K, out_rows out_columns, S): row (c, i, j) holds value (c, i, j) of the window
 * at each place, 0 outside the image. */
void ps_im2col(const ps_window *at, const float *images, size_t s, float *col);

/* images (C, H, W, S) = the sum, for each value, of where it stands in col. */
void ps_col2im(const ps_window *at, const float *col, size_t s, float *images);

/* out (columns, rows) = in (rows, columns) the other way round. */
void ps_transpose(const float *in, size_t rows, size_t columns, float *out);

/* The same of parts of larger matrices, whose rows are in_row and out_row values apart;
 * ps_turn_onto adds to what is in out. */
void ps_turn(const float *in, size_t in_row, size_t rows, size_t columns, float *out,
             size_t out_row);
void ps_turn_onto(const float *in, size_t in_row, size_t rows, size_t columns, float *out,
                  size_t out_row);

#endif
