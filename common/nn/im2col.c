/* SPDX-License-Identifier: Apache-2.0 */
/* im2col.c - see im2col.h. */
#include "common/nn/im2col.h"

#include "common/base/clones.h"

#include <string.h>

/* Places [from, to) of the window for which its value `offset` from the edge is
 * within `size` values; the others are in the padding. */
typedef struct span {
    size_t from, to;
} span;

static span span_of(size_t offset, size_t size, size_t stride, size_t padding, size_t places)
{
    span out = {0, 0};

    if (padding > offset) {
        out.from = (padding - offset + stride - 1) / stride;
    }
    if (size + padding > offset) {
        out.to = (size + padding - offset - 1) / stride + 1;
    }
    out.to = out.to > places ? places : out.to;
    out.from = out.from > out.to ? out.to : out.from;
    return out;
}

/* One row of col from one plane of the image. */
PS_CLONES static void gather_row(const ps_window *at, const float *restrict plane, span down,
                                 span across, size_t i, size_t j, float *restrict col)
{
    size_t width = at->out_columns, stride = at->stride;

    memset(col, 0, down.from * width * sizeof *col);
    for (size_t r = down.from; r < down.to; r++) {
        const float *from = plane + (r * stride + i - at->padding) * at->columns +
                            across.from * stride + j - at->padding;
        float *to = col + r * width;
        size_t n = across.to - across.from;

        for (size_t c = 0; c < across.from; c++) {
            to[c] = 0.0f;
        }
        if (stride == 1) {
            for (size_t c = 0; c < n; c++) {
                to[across.from + c] = from[c];
            }
        } else {
            for (size_t c = 0; c < n; c++) {
                to[across.from + c] = from[c * stride];
            }
        }
        for (size_t c = across.to; c < width; c++) {
            to[c] = 0.0f;
        }
    }
    memset(col + down.to * width, 0, (at->out_rows - down.to) * width * sizeof *col);
}

/* Adds one row of col to one plane of the image. */
PS_CLONES static void scatter_row(const ps_window *at, const float *restrict col, span down,
                                  span across, size_t i, size_t j, float *restrict plane)
{
    size_t stride = at->stride, n = across.to - across.from;

    for (size_t r = down.from; r < down.to; r++) {
        float *to = plane + (r * stride + i - at->padding) * at->columns + across.from * stride +
                    j - at->padding;
        const float *from = col + r * at->out_columns + across.from;

        if (stride == 1) {
            for (size_t c = 0; c < n; c++) {
                to[c] += from[c];
            }
        } else {
            for (size_t c = 0; c < n; c++) {
                to[c * stride] += from[c];
            }
        }
    }
}

void ps_im2col(const ps_window *at, const float *image, float *col, size_t ld)
{
    for (size_t c = 0; c < at->channels; c++, image += at->rows * at->columns) {
        for (size_t i = 0; i < at->kernel; i++) {
            span down = span_of(i, at->rows, at->stride, at->padding, at->out_rows);

            for (size_t j = 0; j < at->kernel; j++, col += ld) {
                span across = span_of(j, at->columns, at->stride, at->padding, at->out_columns);

                if (across.from == across.to || down.from == down.to) {
                    memset(col, 0, at->out_rows * at->out_columns * sizeof *col);
                } else {
                    gather_row(at, image, down, across, i, j, col);
                }
            }
        }
    }
}

void ps_col2im(const ps_window *at, const float *col, size_t ld, float *image)
{
    size_t plane = at->rows * at->columns;

    memset(image, 0, at->channels * plane * sizeof *image);
    for (size_t c = 0; c < at->channels; c++, image += plane) {
        for (size_t i = 0; i < at->kernel; i++) {
            span down = span_of(i, at->rows, at->stride, at->padding, at->out_rows);

            for (size_t j = 0; j < at->kernel; j++, col += ld) {
                span across = span_of(j, at->columns, at->stride, at->padding, at->out_columns);

                if (across.from < across.to && down.from < down.to) {
                    scatter_row(at, col, down, across, i, j, image);
                }
            }
        }
    }
}
