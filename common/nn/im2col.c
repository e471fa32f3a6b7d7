/* SPDX-License-Identifier: Apache-2.0 */
/* im2col.c - see im2col.h. */
#include "common/nn/im2col.h"

#include "common/base/clones.h"

#include <stdbool.h>
#include <string.h>

/* The positions [from, to) of the window, in one dimension, whose value at `offset` from the
 * window's edge is within the image's `size` values. At all other positions this value is
 * padding. */
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

/* Value (i, j) of the window, and the positions at which it is within the image. */
typedef struct part {
    size_t i, j;
    span down, across;
} part;

/* Returns the index in a plane of the value that part `of` of the window meets in a row of
 * positions, at the first position where it is within the image. */
static size_t first_of(const ps_window *at, const part *of, size_t row)
{
    return (row * at->stride + of->i - at->padding) * at->columns + of->across.from * at->stride +
           of->j - at->padding;
}

/* Writes the row of col that belongs to a part of the window, from one plane of s images. */
static void gather_row(const ps_window *at, const part *of, const float *plane, size_t s,
                       float *col)
{
    size_t width = at->out_columns * s, n = of->across.to - of->across.from;
    size_t before = of->across.from * s, behind = (at->out_columns - of->across.to) * s;

    memset(col, 0, of->down.from * width * sizeof *col);
    for (size_t r = of->down.from; r < of->down.to; r++) {
        const float *from = plane + first_of(at, of, r) * s;
        float *to = col + r * width;

        memset(to, 0, before * sizeof *to);
        if (at->stride == 1) {
            memcpy(to + before, from, n * s * sizeof *to);
        } else {
            for (size_t c = 0; c < n; c++) {
                memcpy(to + before + c * s, from + c * at->stride * s, s * sizeof *to);
            }
        }
        memset(to + width - behind, 0, behind * sizeof *to);
    }
    memset(col + of->down.to * width, 0, (at->out_rows - of->down.to) * width * sizeof *col);
}

PS_CLONES(add, (from, to, n), const float *restrict from, float *restrict to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
}

/* Adds the row of col that belongs to a part of the window to one plane of s images. */
static void scatter_row(const ps_window *at, const part *of, const float *col, size_t s,
                        float *plane)
{
    size_t n = of->across.to - of->across.from;

    for (size_t r = of->down.from; r < of->down.to; r++) {
        float *to = plane + first_of(at, of, r) * s;
        const float *from = col + (r * at->out_columns + of->across.from) * s;

        if (at->stride == 1) {
            add(from, to, n * s);
        } else {
            for (size_t c = 0; c < n; c++) {
                add(from + c * s, to + c * at->stride * s, s);
            }
        }
    }
}

static part part_of(const ps_window *at, size_t i, size_t j)
{
    return (part){
        .i = i,
        .j = j,
        .down = span_of(i, at->rows, at->stride, at->padding, at->out_rows),
        .across = span_of(j, at->columns, at->stride, at->padding, at->out_columns),
    };
}

static bool is_empty(const part *of)
{
    return of->down.from == of->down.to || of->across.from == of->across.to;
}

void ps_im2col(const ps_window *at, const float *images, size_t s, float *col)
{
    size_t plane = at->rows * at->columns * s, places = at->out_rows * at->out_columns * s;

    for (size_t k = 0; k < at->kernel * at->kernel; k++) {
        part of = part_of(at, k / at->kernel, k % at->kernel);
        float *to = col + k * places;

        for (size_t c = 0; c < at->channels; c++, to += at->kernel * at->kernel * places) {
            if (is_empty(&of)) {
                memset(to, 0, places * sizeof *to);
            } else {
                gather_row(at, &of, images + c * plane, s, to);
            }
        }
    }
}

void ps_col2im(const ps_window *at, const float *col, size_t s, float *images)
{
    size_t plane = at->rows * at->columns * s, places = at->out_rows * at->out_columns * s;

    memset(images, 0, at->channels * plane * sizeof *images);
    for (size_t k = 0; k < at->kernel * at->kernel; k++) {
        part of = part_of(at, k / at->kernel, k % at->kernel);
        const float *from = col + k * places;

        for (size_t c = 0; !is_empty(&of) && c < at->channels;
             c++, from += at->kernel * at->kernel * places) {
            scatter_row(at, &of, from, s, images + c * plane);
        }
    }
}

enum { TILE = 16 };

/* Transposes a tile of TILE x TILE values to `out`, or adds it to `out` if `onto`, through a small
 * copy. Directly, reads or writes would be a row of the matrix apart, often a power of two, and
 * would evict each other from the cache. */
static inline __attribute__((always_inline)) void turn_any_tile(bool onto, const float *restrict in,
                                                                size_t in_row, float *restrict out,
                                                                size_t out_row)
{
    float tile[TILE][TILE];

    for (size_t r = 0; r < TILE; r++) {
        for (size_t c = 0; c < TILE; c++) {
            tile[r][c] = in[r * in_row + c];
        }
    }
    for (size_t c = 0; c < TILE; c++) {
        for (size_t r = 0; r < TILE; r++) {
            out[c * out_row + r] = onto ? out[c * out_row + r] + tile[r][c] : tile[r][c];
        }
    }
}

PS_CLONES(turn_tile, (in, in_row, out, out_row), const float *restrict in, size_t in_row,
          float *restrict out, size_t out_row)
{
    turn_any_tile(false, in, in_row, out, out_row);
}

PS_CLONES(turn_tile_onto, (in, in_row, out, out_row), const float *restrict in, size_t in_row,
          float *restrict out, size_t out_row)
{
    turn_any_tile(true, in, in_row, out, out_row);
}

static void turn_rest(bool onto, const float *in, size_t in_row, size_t rows, size_t columns,
                      float *out, size_t out_row)
{
    for (size_t c = 0; c < columns; c++) {
        for (size_t r = 0; r < rows; r++) {
            float value = in[r * in_row + c];

            out[c * out_row + r] = onto ? out[c * out_row + r] + value : value;
        }
    }
}

static inline void turn(bool onto, const float *in, size_t in_row, size_t rows, size_t columns,
                        float *out, size_t out_row)
{
    for (size_t c = 0; c < columns; c += TILE) {
        for (size_t r = 0; r < rows; r += TILE) {
            size_t down = rows - r, across = columns - c;
            const float *from = in + r * in_row + c;
            float *to = out + c * out_row + r;

            if (down < TILE || across < TILE) {
                turn_rest(onto, from, in_row, down < TILE ? down : TILE,
                          across < TILE ? across : TILE, to, out_row);
            } else if (onto) {
                turn_tile_onto(from, in_row, to, out_row);
            } else {
                turn_tile(from, in_row, to, out_row);
            }
        }
    }
}

void ps_turn(const float *in, size_t in_row, size_t rows, size_t columns, float *out,
             size_t out_row)
{
    turn(false, in, in_row, rows, columns, out, out_row);
}

void ps_turn_onto(const float *in, size_t in_row, size_t rows, size_t columns, float *out,
                  size_t out_row)
{
    turn(true, in, in_row, rows, columns, out, out_row);
}

void ps_transpose(const float *in, size_t rows, size_t columns, float *out)
{
    ps_turn(in, columns, rows, columns, out, rows);
}
