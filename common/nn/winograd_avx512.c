/* SPDX-License-Identifier: Apache-2.0 */
/* winograd_avx512.c - tiles with AVX-512: 16 at once, those of one row, or, where rows have 8
 * or 4, those of 2 or 4 rows.
 */
#include "common/nn/winograd_tiles.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdbool.h>

#define ON __attribute__((target("avx512f")))
#define ON_INLINE ON static inline __attribute__((always_inline))

enum { LANES = 16, SIDE = 4 };

/* Half `h` of 32 values: those of 16 tiles of one row, or of rows `next` values apart. */
ON_INLINE __m512 half(const float *row, size_t next, unsigned tiles, unsigned h)
{
    __m512d low;

    if (tiles == 16) {
        return _mm512_loadu_ps(row + (size_t)h * LANES);
    }
    if (tiles == 8) {
        return _mm512_loadu_ps(row + h * next);
    }
    low = _mm512_castpd256_pd512(_mm256_castps_pd(_mm256_loadu_ps(row + (size_t)2 * h * next)));
    return _mm512_castpd_ps(_mm512_insertf64x4(
        low, _mm256_castps_pd(_mm256_loadu_ps(row + ((size_t)2 * h + 1) * next)), 1));
}

/* Of the 32 values every other one, from the first or the second on. */
ON_INLINE __m512 every_other(__m512 a, __m512 b, unsigned first)
{
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);

    return _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32((int)first)), b);
}

/* B^T d, of four vectors. */
ON_INLINE void window(const __m512 d[SIDE], __m512 out[SIDE])
{
    out[0] = _mm512_sub_ps(d[0], d[2]);
    out[1] = _mm512_add_ps(d[1], d[2]);
    out[2] = _mm512_sub_ps(d[2], d[1]);
    out[3] = _mm512_sub_ps(d[1], d[3]);
}

ON_INLINE void store(const __m512 v[SIDE], float *to, size_t apart)
{
    for (unsigned i = 0; i < SIDE; i++) {
        _mm512_storeu_ps(to + i * apart, v[i]);
    }
}

/* d B of a row of 16 windows. */
ON_INLINE void input_row(const float *row, size_t next, unsigned tiles, __m512 turned[SIDE])
{
    __m512 a = half(row, next, tiles, 0), b = half(row, next, tiles, 1);
    __m512 c = half(row + 2, next, tiles, 0), d = half(row + 2, next, tiles, 1);
    __m512 values[SIDE] = {every_other(a, b, 0), every_other(a, b, 1), every_other(c, d, 0),
                           every_other(c, d, 1)};

    window(values, turned);
}

/* rows (row, column of d B): the first two are there, those of the windows below are left. */
ON_INLINE void input(const float *image, size_t pitch, unsigned tiles, __m512 rows[SIDE][SIDE],
                     float *to, size_t apart)
{
    input_row(image + 2 * pitch, 2 * pitch, tiles, rows[2]);
    input_row(image + 3 * pitch, 2 * pitch, tiles, rows[3]);
    for (unsigned j = 0; j < SIDE; j++) {
        __m512 column[SIDE] = {rows[0][j], rows[1][j], rows[2][j], rows[3][j]}, down[SIDE];

        window(column, down);
        store(down, to + j * apart, SIDE * apart);
        rows[0][j] = rows[2][j];
        rows[1][j] = rows[3][j];
    }
}

ON_INLINE void slope(const float *image, size_t pitch, unsigned tiles, float *to, size_t apart)
{
    const __m512 zero = _mm512_setzero_ps();
    __m512 across[SIDE][2];

    for (unsigned i = 0; i < 2; i++) {
        const float *row = image + i * pitch;
        __m512 a = half(row, 2 * pitch, tiles, 0), b = half(row, 2 * pitch, tiles, 1);
        __m512 even = every_other(a, b, 0), odd = every_other(a, b, 1);

        across[0][i] = even;
        across[1][i] = _mm512_add_ps(even, odd);
        across[2][i] = _mm512_sub_ps(even, odd);
        across[3][i] = _mm512_sub_ps(zero, odd);
    }
    for (unsigned j = 0; j < SIDE; j++) {
        __m512 down[SIDE] = {across[j][0], _mm512_add_ps(across[j][0], across[j][1]),
                             _mm512_sub_ps(across[j][0], across[j][1]),
                             _mm512_sub_ps(zero, across[j][1])};

        store(down, to + j * apart, SIDE * apart);
    }
}

ON_INLINE void put(__m512 v, float *to, size_t columns)
{
    unsigned lanes = columns >= LANES ? 0xffffU : (1U << columns) - 1U;

    _mm512_mask_storeu_ps(to, (__mmask16)lanes, v);
}

/* Values of row `i` of each tile; y at the first tile's, with `rows` and `columns` left. */
ON_INLINE void put_row(__m512 a, __m512 b, unsigned tiles, size_t i, float *y, size_t pitch,
                       size_t rows, size_t columns)
{
    const __m512 v[2] = {a, b};

    y += i * pitch;
    if (tiles == 16) {
        if (i < rows) {
            put(a, y, columns);
            put(b, y + LANES, columns > LANES ? columns - LANES : 0);
        }
        return;
    }
    for (unsigned h = 0; h < 2; h++) {
        if (tiles == 8) {
            if (2 * h + i < rows) {
                put(v[h], y + 2 * h * pitch, columns);
            }
            continue;
        }
        if (4 * h + i < rows) {
            put(v[h], y + 4 * h * pitch, columns);
        }
        if (4 * h + 2 + i < rows) {
            __m256d high = _mm512_extractf64x4_pd(_mm512_castps_pd(v[h]), 1);

            put(_mm512_castpd_ps(_mm512_castpd256_pd512(high)), y + (4 * h + 2) * pitch, columns);
        }
    }
}

ON_INLINE void output(const float *from, size_t apart, __m512 bias, unsigned tiles, float *y,
                      size_t pitch, size_t rows, size_t columns)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    __m512 down[2][SIDE];

    for (unsigned j = 0; j < SIDE; j++) {
        __m512 m[SIDE];

        for (unsigned i = 0; i < SIDE; i++) {
            m[i] = _mm512_loadu_ps(from + (i * SIDE + j) * apart);
        }
        down[0][j] = _mm512_add_ps(_mm512_add_ps(m[0], m[1]), m[2]);
        down[1][j] = _mm512_sub_ps(_mm512_sub_ps(m[1], m[2]), m[3]);
    }
    for (unsigned i = 0; i < 2; i++) {
        const __m512 *t = down[i];
        __m512 even = _mm512_add_ps(_mm512_add_ps(t[0], t[1]), _mm512_add_ps(t[2], bias));
        __m512 odd = _mm512_add_ps(_mm512_sub_ps(t[1], t[2]), _mm512_sub_ps(bias, t[3]));

        put_row(_mm512_permutex2var_ps(even, low, odd), _mm512_permutex2var_ps(even, high, odd),
                tiles, i, y, pitch, rows, columns);
    }
}

ON_INLINE void input_tiles(const ps_tile_band *band, const float *image, unsigned tiles, float *to,
                           size_t apart)
{
    bool goes_on = tiles == LANES && band->across <= LANES; /* from windows to those below */
    __m512 rows[SIDE][SIDE];

    input_row(image, 2 * band->pitch, tiles, rows[0]);
    input_row(image + band->pitch, 2 * band->pitch, tiles, rows[1]);
    for (size_t r = 0; r < band->down; r += LANES / tiles) {
        for (size_t c = 0; c < band->across; c += tiles) {
            const float *at = image + 2 * r * band->pitch + 2 * c;

            if (!goes_on && r + c > 0) {
                input_row(at, 2 * band->pitch, tiles, rows[0]);
                input_row(at + band->pitch, 2 * band->pitch, tiles, rows[1]);
            }
            input(at, band->pitch, tiles, rows, to + r * band->across + c, apart);
        }
    }
}

ON_INLINE void slope_tiles(const ps_tile_band *band, const float *image, unsigned tiles, float *to,
                           size_t apart)
{
    for (size_t r = 0; r < band->down; r += LANES / tiles) {
        for (size_t c = 0; c < band->across; c += tiles) {
            slope(image + 2 * r * band->pitch + 2 * c, band->pitch, tiles,
                  to + r * band->across + c, apart);
        }
    }
}

ON static void from_input(const ps_tile_band *band, const float *image, float *to, size_t apart)
{
    if (band->across == 4) {
        input_tiles(band, image, 4, to, apart);
    } else if (band->across == 8) {
        input_tiles(band, image, 8, to, apart);
    } else {
        input_tiles(band, image, 16, to, apart);
    }
}

ON static void from_slope(const ps_tile_band *band, const float *image, float *to, size_t apart)
{
    if (band->across == 4) {
        slope_tiles(band, image, 4, to, apart);
    } else if (band->across == 8) {
        slope_tiles(band, image, 8, to, apart);
    } else {
        slope_tiles(band, image, 16, to, apart);
    }
}

ON_INLINE void to_image(const ps_tile_band *band, const float *from, size_t apart, float bias,
                        unsigned tiles, float *y, size_t rows, size_t columns)
{
    for (size_t r = 0; r < band->down; r += LANES / tiles) {
        for (size_t c = 0; c < band->across; c += tiles) {
            output(from + r * band->across + c, apart, _mm512_set1_ps(bias), tiles,
                   y + 2 * r * columns + 2 * c, columns, rows - 2 * r, columns - 2 * c);
        }
    }
}

ON static void to_output(const ps_tile_band *band, const float *from, size_t apart, float bias,
                         float *y, size_t rows, size_t columns)
{
    if (band->across == 4) {
        to_image(band, from, apart, bias, 4, y, rows, columns);
    } else if (band->across == 8) {
        to_image(band, from, apart, bias, 8, y, rows, columns);
    } else {
        to_image(band, from, apart, bias, 16, y, rows, columns);
    }
}

const ps_winograd_tiles ps_winograd_tiles_avx512 = {
    .from_input = from_input, .from_slope = from_slope, .to_output = to_output};

#endif
