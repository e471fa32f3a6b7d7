/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_body.h - products of matrices that fit in the cache, for one width of vectors.
 *
 * No operand is packed. A tile of c stays in registers during the loop over k, so each loaded
 * vector is used in several multiply-adds. Letters as in gemm.h. gemm_avx2.c and gemm_avx512.c
 * include this file after they have defined
 *
 *     ON                        the attribute of the target
 *     vec, mask, LANES          a vector of floats, which of its lanes count, how many it has
 *     ZERO(), SET1(x), FMA(a, b, c), ADD(a, b), SUM(v)
 *     LOAD_TWO(p, q)            half a vector from p, the other from q
 *     LOAD(p), STORE(p, v), MASK(count), LOAD_MASKED(p, m), STORE_MASKED(p, m, v)
 *     ROWS, VECTORS             the tile of products by rows: ROWS x VECTORS * LANES
 *     DOT_ROWS, DOT_COLUMNS     the tile of products by columns
 *     TERM_ROWS, TERM_VECTORS   the tile of products by terms
 *     PUT_SUMS(v, keep, c, n)   (optional) c = c * keep + the sums of such a tile's vectors
 */

/* Computes c (rows, vectors * LANES) = c * keep + a b. Element (i, p) of a is a[i * ai + p * ap];
 * row p of b begins at b + at[p], or at b + p * n if `at` is NULL; rows of c are n values apart. Of
 * the last vector only the lanes in `last` are read and written. */
ON static inline __attribute__((always_inline)) void
tile(unsigned rows, unsigned vectors, mask last, bool is_whole, size_t n, size_t k, const float *a,
     size_t ai, size_t ap, const float *b, const uint32_t *at, bool keep, float *c)
{
    vec sum[ROWS][VECTORS];

    for (unsigned i = 0; i < rows; i++) {
        for (unsigned j = 0; j < vectors; j++) {
            sum[i][j] = ZERO();
        }
    }
    for (size_t p = 0; p < k; p++) {
        vec row[VECTORS];

        for (unsigned j = 0; j < vectors; j++) {
            const float *from = b + (at == NULL ? p * n : at[p]) + j * LANES;

            row[j] = is_whole || j + 1 < vectors ? LOAD(from) : LOAD_MASKED(from, last);
        }
        for (unsigned i = 0; i < rows; i++) {
            vec x = SET1(a[i * ai + p * ap]);

            for (unsigned j = 0; j < vectors; j++) {
                sum[i][j] = FMA(x, row[j], sum[i][j]);
            }
        }
    }
    for (unsigned i = 0; i < rows; i++) {
        for (unsigned j = 0; j < vectors; j++) {
            float *to = c + i * n + j * LANES;

            if (is_whole || j + 1 < vectors) {
                STORE(to, keep ? ADD(LOAD(to), sum[i][j]) : sum[i][j]);
            } else {
                STORE_MASKED(to, last, keep ? ADD(LOAD_MASKED(to, last), sum[i][j]) : sum[i][j]);
            }
        }
    }
}

/* Computes all rows of c, `vectors` vectors wide from its first column on. */
ON static inline __attribute__((always_inline)) void
stripe(unsigned vectors, mask last, bool is_whole, size_t m, size_t n, size_t k, const float *a,
       size_t ai, size_t ap, const float *b, const uint32_t *at, bool keep, float *c)
{
    size_t i = 0;

    for (; i + ROWS <= m; i += ROWS) {
        tile(ROWS, vectors, last, is_whole, n, k, a + i * ai, ai, ap, b, at, keep, c + i * n);
    }
    for (; i + 4 <= m; i += 4) {
        tile(4, vectors, last, is_whole, n, k, a + i * ai, ai, ap, b, at, keep, c + i * n);
    }
    for (; i + 2 <= m; i += 2) {
        tile(2, vectors, last, is_whole, n, k, a + i * ai, ai, ap, b, at, keep, c + i * n);
    }
    if (i < m) {
        tile(1, vectors, last, is_whole, n, k, a + i * ai, ai, ap, b, at, keep, c + i * n);
    }
}

ON static inline __attribute__((always_inline)) void stripes(size_t m, size_t n, size_t k,
                                                             const float *a, size_t ai, size_t ap,
                                                             const float *b, const uint32_t *at,
                                                             bool keep, float *c)
{
    size_t j = 0;

    for (; j + VECTORS * LANES <= n; j += VECTORS * LANES) {
        stripe(VECTORS, MASK(0), true, m, n, k, a, ai, ap, b + j, at, keep, c + j);
    }
    for (; j + LANES <= n; j += LANES) {
        stripe(1, MASK(0), true, m, n, k, a, ai, ap, b + j, at, keep, c + j);
    }
    if (j < n) {
        stripe(1, MASK(n - j), false, m, n, k, a, ai, ap, b + j, at, keep, c + j);
    }
}

/* Computes c (m, n) = c * keep + a b, with b (k, n). */
ON static void over_rows(size_t m, size_t n, size_t k, const float *a, size_t ai, size_t ap,
                         const float *b, bool keep, float *c)
{
    stripes(m, n, k, a, ai, ap, b, NULL, keep, c);
}

ON static void by_windows(size_t m, size_t n, size_t k, const float *a, const float *b,
                          const uint32_t *at, float *c)
{
    stripes(m, n, k, a, k, 1, b, at, false, c);
}

/* Computes c (rows, columns) = c * keep + a b^T, where rows of a and b have k values. Rows of a are
 * ai values apart; row j of b begins at b + at[j], or at b + j * k if `at` is NULL. */
ON static inline __attribute__((always_inline)) void dots(unsigned rows, unsigned columns, size_t n,
                                                          size_t k, const float *a, size_t ai,
                                                          const float *b, const uint32_t *at,
                                                          bool keep, float *c)
{
    vec sum[DOT_ROWS][DOT_COLUMNS], x[DOT_ROWS];
    size_t p = 0;

    for (unsigned i = 0; i < rows; i++) {
        for (unsigned j = 0; j < columns; j++) {
            sum[i][j] = ZERO();
        }
    }
    for (; p + LANES <= k; p += LANES) {
        for (unsigned i = 0; i < rows; i++) {
            x[i] = LOAD(a + i * ai + p);
        }
        for (unsigned j = 0; j < columns; j++) {
            vec y = LOAD(b + (at == NULL ? j * k : at[j]) + p);

            for (unsigned i = 0; i < rows; i++) {
                sum[i][j] = FMA(x[i], y, sum[i][j]);
            }
        }
    }
    if (p < k) {
        mask rest = MASK(k - p);

        for (unsigned i = 0; i < rows; i++) {
            x[i] = LOAD_MASKED(a + i * ai + p, rest);
        }
        for (unsigned j = 0; j < columns; j++) {
            vec y = LOAD_MASKED(b + (at == NULL ? j * k : at[j]) + p, rest);

            for (unsigned i = 0; i < rows; i++) {
                sum[i][j] = FMA(x[i], y, sum[i][j]);
            }
        }
    }
#ifdef PUT_SUMS
    if (rows == DOT_ROWS && columns == DOT_COLUMNS) {
        PUT_SUMS(sum, keep, c, n);
        return;
    }
#endif
    for (unsigned i = 0; i < rows; i++) {
        for (unsigned j = 0; j < columns; j++) {
            float *to = c + i * n + j;

            *to = (keep ? *to : 0.0f) + SUM(sum[i][j]);
        }
    }
}

ON static inline __attribute__((always_inline)) void strand(unsigned columns, size_t m, size_t n,
                                                            size_t k, const float *a, size_t ai,
                                                            const float *b, const uint32_t *at,
                                                            bool keep, float *c)
{
    size_t i = 0;

    for (; i + DOT_ROWS <= m; i += DOT_ROWS) {
        dots(DOT_ROWS, columns, n, k, a + i * ai, ai, b, at, keep, c + i * n);
    }
    for (; i < m; i++) {
        dots(1, columns, n, k, a + i * ai, ai, b, at, keep, c + i * n);
    }
}

ON static inline __attribute__((always_inline)) void strands(size_t m, size_t n, size_t k,
                                                             const float *a, size_t ai,
                                                             const float *b, const uint32_t *at,
                                                             bool keep, float *c)
{
    size_t j = 0;

    for (; j + DOT_COLUMNS <= n; j += DOT_COLUMNS) {
        strand(DOT_COLUMNS, m, n, k, a, ai, at == NULL ? b + j * k : b, at == NULL ? NULL : at + j,
               keep, c + j);
    }
    for (; j + 2 <= n; j += 2) {
        strand(2, m, n, k, a, ai, at == NULL ? b + j * k : b, at == NULL ? NULL : at + j, keep,
               c + j);
    }
    if (j < n) {
        strand(1, m, n, k, a, ai, at == NULL ? b + j * k : b, at == NULL ? NULL : at + j, keep,
               c + j);
    }
}

/* Computes c (m, n) = c * keep + a (m, k) b^T, with b (n, k). */
ON static void by_columns(size_t m, size_t n, size_t k, const float *a, const float *b, bool keep,
                          float *c)
{
    strands(m, n, k, a, k, b, NULL, keep, c);
}

ON static void onto_windows(size_t m, size_t n, size_t k, const float *a, size_t ai, const float *b,
                            const uint32_t *at, float *c)
{
    strands(m, n, k, a, ai, b, at, true, c);
}

/* Computes c (rows, vectors * LANES) = c * keep + the sum of terms. Of the last vector only the
 * lanes in `last` are read and written. */
ON static inline __attribute__((always_inline)) void
terms_tile(unsigned rows, unsigned vectors, mask last, bool is_whole, const ps_gemm_sum *of,
           const float *a, const float *b, bool keep, float *c)
{
    vec sum[TERM_ROWS][TERM_VECTORS];
    const ps_gemm_term *term = of->term;
    size_t terms = of->terms, apart = of->a_row;

    for (unsigned i = 0; i < rows; i++) {
        for (unsigned j = 0; j < vectors; j++) {
            sum[i][j] = ZERO();
        }
    }
    for (size_t u = 0; u < of->steps; u++, a += of->a_step, b += of->b_step) {
        for (size_t t = 0; t < terms; t++) {
            const float *x = a + term[t].a, *from = b + term[t].b;
            vec row[TERM_VECTORS];

            for (unsigned j = 0; j < vectors; j++) {
                row[j] = is_whole || j + 1 < vectors ? LOAD(from + j * LANES)
                                                     : LOAD_MASKED(from + j * LANES, last);
            }
            for (unsigned i = 0; i < rows; i++) {
                vec factor = SET1(x[i * apart]);

                for (unsigned j = 0; j < vectors; j++) {
                    sum[i][j] = FMA(factor, row[j], sum[i][j]);
                }
            }
        }
    }
    for (unsigned i = 0; i < rows; i++) {
        for (unsigned j = 0; j < vectors; j++) {
            float *to = c + i * of->c_row + j * LANES;

            if (is_whole || j + 1 < vectors) {
                STORE(to, keep ? ADD(LOAD(to), sum[i][j]) : sum[i][j]);
            } else {
                STORE_MASKED(to, last, keep ? ADD(LOAD_MASKED(to, last), sum[i][j]) : sum[i][j]);
            }
        }
    }
}

ON static inline __attribute__((always_inline)) void
terms_stripe(unsigned vectors, mask last, bool is_whole, const ps_gemm_sum *of, const float *a,
             const float *b, bool keep, float *c)
{
    size_t i = 0, ai = of->a_row, ci = of->c_row;

    for (; i + TERM_ROWS <= of->m; i += TERM_ROWS) {
        terms_tile(TERM_ROWS, vectors, last, is_whole, of, a + i * ai, b, keep, c + i * ci);
    }
    for (; i + 4 <= of->m; i += 4) {
        terms_tile(4, vectors, last, is_whole, of, a + i * ai, b, keep, c + i * ci);
    }
    for (; i < of->m; i++) {
        terms_tile(1, vectors, last, is_whole, of, a + i * ai, b, keep, c + i * ci);
    }
}

ON static void by_terms(const ps_gemm_sum *of, const float *a, const float *b, bool keep, float *c)
{
    size_t j = 0, n = of->n;

    for (; j + TERM_VECTORS * LANES <= n; j += TERM_VECTORS * LANES) {
        terms_stripe(TERM_VECTORS, MASK(0), true, of, a, b + j, keep, c + j);
    }
    for (; j + LANES <= n; j += LANES) {
        terms_stripe(1, MASK(0), true, of, a, b + j, keep, c + j);
    }
    if (j < n) {
        terms_stripe(1, MASK(n - j), false, of, a, b + j, keep, c + j);
    }
}

/* Returns a vector of a grid: of one row, or one half from each of two rows. */
ON static inline __attribute__((always_inline)) vec load_grid(const float *from, size_t pitch,
                                                              bool is_half)
{
    return is_half ? LOAD_TWO(from, from + pitch) : LOAD(from);
}

/* Returns the offset of vector v of a grid, in values. */
static inline size_t grid_at(const ps_gemm_grid *grid, bool is_half, size_t v)
{
    size_t in_row = grid->columns / LANES;

    return is_half ? 2 * v * grid->pitch : v / in_row * grid->pitch + v % in_row * LANES;
}

/* Computes c (rows, vectors * LANES) = c * keep + a b, from vector v of the grids on. Rows of c are
 * n values apart. */
ON static inline __attribute__((always_inline)) void
grid_tile(unsigned rows, unsigned vectors, bool is_half, const ps_gemm_grid *grid, size_t v,
          size_t k, const float *a, const float *b, const uint32_t *at, bool keep, float *c,
          size_t n)
{
    vec sum[TERM_ROWS][TERM_VECTORS];
    size_t first[TERM_VECTORS], pitch = grid->pitch;

    for (unsigned j = 0; j < vectors; j++) {
        first[j] = grid_at(grid, is_half, v + j);
        for (unsigned i = 0; i < rows; i++) {
            sum[i][j] = ZERO();
        }
    }
    for (size_t p = 0; p < k; p++) {
        const float *from = b + at[p], *x = a + p;
        vec row[TERM_VECTORS];

        for (unsigned j = 0; j < vectors; j++) {
            row[j] = load_grid(from + first[j], pitch, is_half);
        }
        for (unsigned i = 0; i < rows; i++) {
            vec factor = SET1(x[i * k]);

            for (unsigned j = 0; j < vectors; j++) {
                sum[i][j] = FMA(factor, row[j], sum[i][j]);
            }
        }
    }
    for (unsigned i = 0; i < rows; i++) {
        for (unsigned j = 0; j < vectors; j++) {
            float *to = c + i * n + (v + j) * LANES;

            STORE(to, keep ? ADD(LOAD(to), sum[i][j]) : sum[i][j]);
        }
    }
}

ON static inline __attribute__((always_inline)) void
grid_stripe(unsigned vectors, bool is_half, const ps_gemm_grid *grid, size_t v, size_t m, size_t k,
            const float *a, const float *b, const uint32_t *at, bool keep, float *c)
{
    size_t i = 0, n = grid->rows * grid->columns;

    for (; i + TERM_ROWS <= m; i += TERM_ROWS) {
        grid_tile(TERM_ROWS, vectors, is_half, grid, v, k, a + i * k, b, at, keep, c + i * n, n);
    }
    for (; TERM_ROWS > 8 && i + 8 <= m; i += 8) {
        grid_tile(8 <= TERM_ROWS ? 8 : 4, vectors, is_half, grid, v, k, a + i * k, b, at, keep,
                  c + i * n, n);
    }
    for (; i + 4 <= m; i += 4) {
        grid_tile(4, vectors, is_half, grid, v, k, a + i * k, b, at, keep, c + i * n, n);
    }
    for (; i < m; i++) {
        grid_tile(1, vectors, is_half, grid, v, k, a + i * k, b, at, keep, c + i * n, n);
    }
}

ON static inline __attribute__((always_inline)) void
grid_stripes(bool is_half, const ps_gemm_grid *grid, size_t m, size_t k, const float *a,
             const float *b, const uint32_t *at, bool keep, float *c)
{
    size_t v = 0, count = grid->rows * grid->columns / LANES;

    for (; v + TERM_VECTORS <= count; v += TERM_VECTORS) {
        grid_stripe(TERM_VECTORS, is_half, grid, v, m, k, a, b, at, keep, c);
    }
    for (; v < count; v++) {
        grid_stripe(1, is_half, grid, v, m, k, a, b, at, keep, c);
    }
}

ON static void by_grids(size_t m, size_t k, const ps_gemm_grid *grid, const float *a,
                        const float *b, const uint32_t *at, bool keep, float *c)
{
    if (grid->columns < LANES) {
        grid_stripes(true, grid, m, k, a, b, at, keep, c);
    } else {
        grid_stripes(false, grid, m, k, a, b, at, keep, c);
    }
}

/* Adds the sum over the images to c (rows, columns), whose rows are n values apart. */
ON static inline __attribute__((always_inline)) void
grid_dots(unsigned rows, unsigned columns, bool is_half, const ps_gemm_grids *of, const float *a,
          const float *b, const uint32_t *at, float *c, size_t n)
{
    const ps_gemm_grid *grid = &of->grid;
    size_t step = is_half ? 2 * grid->pitch : grid->pitch, width = is_half ? LANES : grid->columns;
    size_t down = is_half ? grid->rows / 2 : grid->rows, pitch = grid->pitch, ai = of->a_row;
    vec sum[DOT_ROWS][DOT_COLUMNS], x[DOT_ROWS];

    for (unsigned i = 0; i < rows; i++) {
        for (unsigned j = 0; j < columns; j++) {
            sum[i][j] = ZERO();
        }
    }
    for (size_t s = 0; s < of->images; s++) {
        const float *left = a + s * of->a_image, *right = b + s * of->b_image;

        for (size_t r = 0; r < down; r++, right += step) {
            for (size_t q = 0; q < width; q += LANES, left += LANES) {
                for (unsigned i = 0; i < rows; i++) {
                    x[i] = LOAD(left + i * ai);
                }
                for (unsigned j = 0; j < columns; j++) {
                    vec y = load_grid(right + at[j] + q, pitch, is_half);

                    for (unsigned i = 0; i < rows; i++) {
                        sum[i][j] = FMA(x[i], y, sum[i][j]);
                    }
                }
            }
        }
    }
#ifdef PUT_SUMS
    if (rows == DOT_ROWS && columns == DOT_COLUMNS) {
        PUT_SUMS(sum, true, c, n);
        return;
    }
#endif
    for (unsigned i = 0; i < rows; i++) {
        for (unsigned j = 0; j < columns; j++) {
            c[i * n + j] += SUM(sum[i][j]);
        }
    }
}

ON static inline __attribute__((always_inline)) void
grid_strand(unsigned columns, bool is_half, size_t m, const ps_gemm_grids *of, const float *a,
            const float *b, const uint32_t *at, float *c, size_t n)
{
    size_t i = 0;

    for (; i + DOT_ROWS <= m; i += DOT_ROWS) {
        grid_dots(DOT_ROWS, columns, is_half, of, a + i * of->a_row, b, at, c + i * n, n);
    }
    for (; i < m; i++) {
        grid_dots(1, columns, is_half, of, a + i * of->a_row, b, at, c + i * n, n);
    }
}

ON static inline __attribute__((always_inline)) void grid_strands(bool is_half, size_t m, size_t n,
                                                                  const ps_gemm_grids *of,
                                                                  const float *a, const float *b,
                                                                  const uint32_t *at, float *c)
{
    size_t j = 0;

    for (; j + DOT_COLUMNS <= n; j += DOT_COLUMNS) {
        grid_strand(DOT_COLUMNS, is_half, m, of, a, b, at + j, c + j, n);
    }
    for (; j < n; j++) {
        grid_strand(1, is_half, m, of, a, b, at + j, c + j, n);
    }
}

ON static void onto_grids(size_t m, size_t n, const ps_gemm_grids *of, const float *a,
                          const float *b, const uint32_t *at, float *c)
{
    if (of->grid.columns < LANES) {
        grid_strands(true, m, n, of, a, b, at, c);
    } else {
        grid_strands(false, m, n, of, a, b, at, c);
    }
}
