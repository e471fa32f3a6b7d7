/* SPDX-License-Identifier: Apache-2.0 */
/* glyph_shapes.h - the strokes of the ten digits in a unit square, x to the right, y down. Each
 * digit has a few styles. */
#ifndef PS_COMMON_DATA_GLYPH_SHAPES_H
#define PS_COMMON_DATA_GLYPH_SHAPES_H

#include <stddef.h>

enum { PS_GLYPH_DIGITS = 10, PS_GLYPH_STYLES = 3, PS_GLYPH_SEGMENTS_MAX = 48 };

/* A straight part of a stroke. */
typedef struct ps_glyph_segment {
    float x0, y0, x1, y1;
} ps_glyph_segment;

typedef struct ps_glyph_shape {
    size_t count;
    ps_glyph_segment segments[PS_GLYPH_SEGMENTS_MAX];
} ps_glyph_shape;

/* Writes the segments of a digit (0 to 9) in a style (0 to 2). Curves become short segments.
 * The bits are the same on every host. */
void ps_glyph_shape_make(size_t digit, size_t style, ps_glyph_shape *out);

/* Computes sine and cosine of |angle| <= 2 pi to 1e-6 by sums and products only: libm's results
 * may differ in the last bit between hosts. */
void ps_glyph_sincos(double angle, double *sine, double *cosine);

#endif
