/* SPDX-License-Identifier: Apache-2.0 */
/* winograd_tiles.h - the transforms of winograd.h between images and tiles, a table for each level
 * of processor. For winograd.c and its test.
 *
 * A tile is 2 x 2 values of a convolution's output. The tiles of a band (some rows of tiles) are
 * numbered row by row, `across` in a row. A transformed tile is 16 numbers in 16 planes: number s
 * of tile t is at [s * apart + t]. Behind the last tile of a band, each plane gets up to 15 values
 * without meaning. B and A are the matrices of Lavin and Gray 2016 (arXiv 1509.09308), section 4.1.
 */
#ifndef PS_COMMON_NN_WINOGRAD_TILES_H
#define PS_COMMON_NN_WINOGRAD_TILES_H

#include "common/base/cpu.h"

#include <stddef.h>

enum {
    PS_TILE_NUMBERS = 16,
    /* Rows below the tiles of a padded image, and values behind its last row, that are read and so
     * must be in its memory. */
    PS_TILE_SPARE_ROWS = 6,
    PS_TILE_SPARE_VALUES = 40
};

typedef struct ps_tile_band {
    size_t down, across; /* tiles */
    size_t pitch;        /* values from a row of the padded image to the next */
} ps_tile_band;

typedef struct ps_winograd_tiles {
    /* Computes B^T d B for each tile: d is its window, the 4 x 4 values of `image` from row 2 r and
     * column 2 c on, for the tile in row r and column c. */
    void (*from_input)(const ps_tile_band *band, const float *image, float *to, size_t apart);
    /* Computes A d A^T for each tile: d are its 2 x 2 values of `image`, a gradient. */
    void (*from_slope)(const ps_tile_band *band, const float *image, float *to, size_t apart);
    /* Computes A^T m A + bias for each tile: m are its 16 numbers. Writes those of the 2 x 2 values
     * that lie within y (rows, columns). */
    void (*to_output)(const ps_tile_band *band, const float *from, size_t apart, float bias,
                      float *y, size_t rows, size_t columns);
} ps_winograd_tiles;

/* Returns the table for processors of this level, or NULL if there is none. */
const ps_winograd_tiles *ps_winograd_tiles_of(ps_cpu level);

#if defined(__x86_64__)
extern const ps_winograd_tiles ps_winograd_tiles_avx2, ps_winograd_tiles_avx512;
#endif

#endif
