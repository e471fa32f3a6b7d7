/* SPDX-License-Identifier: Apache-2.0 */
/* winograd_tiles.h - from images to tiles and back, once a kind of processor. For winograd.c
 * and its test.
 *
 * A tile is 2 x 2 values of what a convolution gives. Tiles of a band of rows are numbered row
 * by row, `across` to a row. Each is told by 16 numbers, number s of tile t at [s * apart + t].
 * What is written behind the last tile of a band, up to 15 values in each of the 16 planes, is
 * of no meaning. B, A as in Lavin and Gray 2016 (arXiv 1509.09308), section 4.1.
 */
#ifndef PS_COMMON_NN_WINOGRAD_TILES_H
#define PS_COMMON_NN_WINOGRAD_TILES_H

#include "common/base/cpu.h"

#include <stddef.h>

enum {
    PS_TILE_NUMBERS = 16,
    /* What a padded image must have behind the rows and columns of its tiles, readable. */
    PS_TILE_SPARE_ROWS = 6,
    PS_TILE_SPARE_VALUES = 40
};

typedef struct ps_tile_band {
    size_t down, across; /* tiles */
    size_t pitch;        /* values from a row of the padded image to the next */
} ps_tile_band;

typedef struct ps_winograd_tiles {
    /* B^T d B of each tile's window d, the 4 x 4 values from row 2 r, column 2 c of `image` on. */
    void (*from_input)(const ps_tile_band *band, const float *image, float *to, size_t apart);
    /* A d A^T of each tile's own 2 x 2 values d. */
    void (*from_slope)(const ps_tile_band *band, const float *image, float *to, size_t apart);
    /* A^T m A + bias of each tile's numbers m, in the places of y (rows, columns) there are. */
    void (*to_output)(const ps_tile_band *band, const float *from, size_t apart, float bias,
                      float *y, size_t rows, size_t columns);
} ps_winograd_tiles;

/* Returns the table that a processor of this level runs, or NULL: there is none. */
const ps_winograd_tiles *ps_winograd_tiles_of(ps_cpu level);

#if defined(__x86_64__)
extern const ps_winograd_tiles ps_winograd_tiles_avx2, ps_winograd_tiles_avx512;
#endif

#endif
