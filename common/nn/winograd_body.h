/* SPDX-License-Identifier: Apache-2.0 */
/* winograd_body.h - from images to tiles and back, for one width of vectors.
 *
 * LANES tiles at once: those of one row, or, where rows have a half or a quarter as many, those
 * of 2 or 4 rows. For winograd_avx2.c and winograd_avx512.c, which define
 *
 *     ON                       the attribute of the target
 *     vec, LANES               a vector of floats, how many it has
 *     SET1(x), ADD(a, b), SUB(a, b), LOAD(p), STORE(p, v)
 *     STORE_SOME(p, v, n)      the first n values of v, at most LANES
 *     LOAD_TWO(p, q)           half a vector from p, the other from q
 *     UPPER(v)                 the upper half of v, as the lower
 *     EVENS(a, b), ODDS(a, b)  of the values of a and b together every other one
 *     ZIP_LOW(a, b), ZIP_HIGH(a, b)  a and b in turn: the lower halves, the upper
 */
#define ON_INLINE ON static inline __attribute__((always_inline))

enum { SIDE = 4 };

/* Letters as in winograd_tiles.h: d is the 4 x 4 window of a tile, B and A are the matrices of
 * Lavin and Gray. The transforms of d and of gradients transform rows first, then columns. */

/* Returns half `h`, 0 or 1, of the 2 * LANES values that LANES tiles have next to each other in a
 * row of the image, two a tile. If a row has only `tiles` of them, the others are in the rows that
 * follow `next` values apart. */
ON_INLINE vec half(const float *row, size_t next, unsigned tiles, unsigned h)
{
    if (tiles == LANES) {
        return LOAD(row + (size_t)h * LANES);
    }
    if (2 * tiles == LANES) {
        return LOAD(row + h * next);
    }
    return LOAD_TWO(row + (size_t)2 * h * next, row + ((size_t)2 * h + 1) * next);
}

/* Computes B^T d for the vectors d[0..3]; by symmetry also d B for the columns of a row. */
ON_INLINE void window(const vec d[SIDE], vec out[SIDE])
{
    out[0] = SUB(d[0], d[2]);
    out[1] = ADD(d[1], d[2]);
    out[2] = SUB(d[2], d[1]);
    out[3] = SUB(d[1], d[3]);
}

ON_INLINE void store(const vec v[SIDE], float *to, size_t apart)
{
    for (unsigned i = 0; i < SIDE; i++) {
        STORE(to + i * apart, v[i]);
    }
}

/* Computes one row of d B for LANES windows: `row` is that row of the image, `turned` the four
 * columns. */
ON_INLINE void input_row(const float *row, size_t next, unsigned tiles, vec turned[SIDE])
{
    vec a = half(row, next, tiles, 0), b = half(row, next, tiles, 1);
    vec c = half(row + 2, next, tiles, 0), d = half(row + 2, next, tiles, 1);
    vec values[SIDE] = {EVENS(a, b), ODDS(a, b), EVENS(c, d), ODDS(c, d)};

    window(values, turned);
}

/* Computes B^T d B of LANES windows into the planes `to`, `apart` floats each. rows[i][j] is row i,
 * column j of d B. Rows 0 and 1 are the caller's; on return they are those of the windows below. */
ON_INLINE void input(const float *image, size_t pitch, unsigned tiles, vec rows[SIDE][SIDE],
                     float *to, size_t apart)
{
    input_row(image + 2 * pitch, 2 * pitch, tiles, rows[2]);
    input_row(image + 3 * pitch, 2 * pitch, tiles, rows[3]);
    for (unsigned j = 0; j < SIDE; j++) {
        vec column[SIDE] = {rows[0][j], rows[1][j], rows[2][j], rows[3][j]}, down[SIDE];

        window(column, down);
        store(down, to + j * apart, SIDE * apart);
        rows[0][j] = rows[2][j];
        rows[1][j] = rows[3][j];
    }
}

ON_INLINE void slope(const float *image, size_t pitch, unsigned tiles, float *to, size_t apart)
{
    const vec zero = SET1(0.0f);
    vec across[SIDE][2];

    for (unsigned i = 0; i < 2; i++) {
        const float *row = image + i * pitch;
        vec a = half(row, 2 * pitch, tiles, 0), b = half(row, 2 * pitch, tiles, 1);
        vec even = EVENS(a, b), odd = ODDS(a, b);

        across[0][i] = even;
        across[1][i] = ADD(even, odd);
        across[2][i] = SUB(even, odd);
        across[3][i] = SUB(zero, odd);
    }
    for (unsigned j = 0; j < SIDE; j++) {
        vec down[SIDE] = {across[j][0], ADD(across[j][0], across[j][1]),
                          SUB(across[j][0], across[j][1]), SUB(zero, across[j][1])};

        store(down, to + j * apart, SIDE * apart);
    }
}

ON_INLINE void put(vec v, float *to, size_t columns)
{
    if (columns >= LANES) {
        STORE(to, v);
    } else {
        STORE_SOME(to, v, columns);
    }
}

/* Writes row `i`, 0 or 1, of LANES tiles. y is at the first value of the first tile; the image has
 * `rows` and `columns` from there on, and nothing is written beyond. */
ON_INLINE void put_row(vec a, vec b, unsigned tiles, size_t i, float *y, size_t pitch, size_t rows,
                       size_t columns)
{
    const vec v[2] = {a, b};

    y += i * pitch;
    if (tiles == LANES) {
        if (i < rows) {
            put(a, y, columns);
            put(b, y + LANES, columns > LANES ? columns - LANES : 0);
        }
        return;
    }
    for (unsigned h = 0; h < 2; h++) {
        if (2 * tiles == LANES) {
            if (2 * h + i < rows) {
                put(v[h], y + 2 * h * pitch, columns);
            }
            continue;
        }
        if (4 * h + i < rows) {
            put(v[h], y + 4 * h * pitch, columns);
        }
        if (4 * h + 2 + i < rows) {
            put(UPPER(v[h]), y + (4 * h + 2) * pitch, columns);
        }
    }
}

ON_INLINE void output(const float *from, size_t apart, vec bias, unsigned tiles, float *y,
                      size_t pitch, size_t rows, size_t columns)
{
    vec down[2][SIDE];

    for (unsigned j = 0; j < SIDE; j++) {
        vec m[SIDE];

        for (unsigned i = 0; i < SIDE; i++) {
            m[i] = LOAD(from + (i * SIDE + j) * apart);
        }
        down[0][j] = ADD(ADD(m[0], m[1]), m[2]);
        down[1][j] = SUB(SUB(m[1], m[2]), m[3]);
    }
    for (unsigned i = 0; i < 2; i++) {
        const vec *t = down[i];
        vec even = ADD(ADD(t[0], t[1]), ADD(t[2], bias));
        vec odd = ADD(SUB(t[1], t[2]), SUB(bias, t[3]));

        put_row(ZIP_LOW(even, odd), ZIP_HIGH(even, odd), tiles, i, y, pitch, rows, columns);
    }
}

/* Goes from the last columns to the first. A strip at the end of a row writes meaningless numbers
 * over the first tiles of the next row; a later strip writes those tiles. */
ON_INLINE void input_tiles(const ps_tile_band *band, const float *image, unsigned tiles, float *to,
                           size_t apart)
{
    size_t strips = (band->across + tiles - 1) / tiles;

    while (strips-- > 0) {
        const float *strip = image + 2 * strips * tiles;
        vec rows[SIDE][SIDE];

        input_row(strip, 2 * band->pitch, tiles, rows[0]);
        input_row(strip + band->pitch, 2 * band->pitch, tiles, rows[1]);
        for (size_t r = 0; r < band->down; r += LANES / tiles) {
            const float *at = strip + 2 * r * band->pitch;

            if (tiles < LANES && r > 0) { /* the windows below are in other lanes */
                input_row(at, 2 * band->pitch, tiles, rows[0]);
                input_row(at + band->pitch, 2 * band->pitch, tiles, rows[1]);
            }
            input(at, band->pitch, tiles, rows, to + r * band->across + strips * tiles, apart);
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

ON_INLINE void to_image(const ps_tile_band *band, const float *from, size_t apart, float bias,
                        unsigned tiles, float *y, size_t rows, size_t columns)
{
    for (size_t r = 0; r < band->down; r += LANES / tiles) {
        for (size_t c = 0; c < band->across; c += tiles) {
            output(from + r * band->across + c, apart, SET1(bias), tiles,
                   y + 2 * r * columns + 2 * c, columns, rows - 2 * r, columns - 2 * c);
        }
    }
}

/* Returns how many tiles of one row a vector holds. Rows have at least 4 tiles. */
static inline unsigned tiles_of(const ps_tile_band *band)
{
    return band->across == 4 ? 4 : band->across == 8 ? 8 : LANES;
}

ON static void from_input(const ps_tile_band *band, const float *image, float *to, size_t apart)
{
    switch (tiles_of(band)) {
    case 4:
        input_tiles(band, image, 4, to, apart);
        break;
    case 8:
        input_tiles(band, image, 8, to, apart);
        break;
    default:
        input_tiles(band, image, LANES, to, apart);
        break;
    }
}

ON static void from_slope(const ps_tile_band *band, const float *image, float *to, size_t apart)
{
    switch (tiles_of(band)) {
    case 4:
        slope_tiles(band, image, 4, to, apart);
        break;
    case 8:
        slope_tiles(band, image, 8, to, apart);
        break;
    default:
        slope_tiles(band, image, LANES, to, apart);
        break;
    }
}

ON static void to_output(const ps_tile_band *band, const float *from, size_t apart, float bias,
                         float *y, size_t rows, size_t columns)
{
    switch (tiles_of(band)) {
    case 4:
        to_image(band, from, apart, bias, 4, y, rows, columns);
        break;
    case 8:
        to_image(band, from, apart, bias, 8, y, rows, columns);
        break;
    default:
        to_image(band, from, apart, bias, LANES, y, rows, columns);
        break;
    }
}
