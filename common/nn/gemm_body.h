/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_body.h - products of matrices that lie in the cache, for one width of vectors.
 *
 * No operand is packed: rows are read as they lie. A tile of c stays in
 * registers while k runs, so that each load serves several multiply-adds.
 * Letters as in gemm.h. For gemm_avx2.c and gemm_avx512.c, which define
 *
 *     ON                        the attribute of the target
 *     vec, mask, LANES          a vector of floats, which of its lanes count, how many it has
 *     ZERO(), SET1(x), FMA(a, b, c), ADD(a, b), SUM(v)
 *     LOAD(p), STORE(p, v), MASK(count), LOAD_MASKED(p, m), STORE_MASKED(p, m, v)
 *     ROWS, VECTORS             the tile of products by rows: ROWS x VECTORS * LANES
 *     DOT_ROWS, DOT_COLUMNS     the tile of products by columns
 */

/* c (rows, vectors * LANES) = c * keep + a b; a(i, p) lies at a[i * ai + p * ap]. The last
 * vector counts only in the lanes of `last`. */
ON static inline __attribute__((always_inline)) void
tile(unsigned rows, unsigned vectors, mask last, bool is_whole, size_t n, size_t k, const float *a,
     size_t ai, size_t ap, const float *b, bool keep, float *c)
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
            const float *at = b + p * n + j * LANES;

            row[j] = is_whole || j + 1 < vectors ? LOAD(at) : LOAD_MASKED(at, last);
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
            float *at = c + i * n + j * LANES;

            if (is_whole || j + 1 < vectors) {
                STORE(at, keep ? ADD(LOAD(at), sum[i][j]) : sum[i][j]);
            } else {
                STORE_MASKED(at, last, keep ? ADD(LOAD_MASKED(at, last), sum[i][j]) : sum[i][j]);
            }
        }
    }
}

/* All rows of c, `vectors` wide from its first column on. */
ON static inline __attribute__((always_inline)) void
stripe(unsigned vectors, mask last, bool is_whole, size_t m, size_t n, size_t k, const float *a,
       size_t ai, size_t ap, const float *b, bool keep, float *c)
{
    size_t i = 0;

    for (; i + ROWS <= m; i += ROWS) {
        tile(ROWS, vectors, last, is_whole, n, k, a + i * ai, ai, ap, b, keep, c + i * n);
    }
    for (; i + 2 <= m; i += 2) {
        tile(2, vectors, last, is_whole, n, k, a + i * ai, ai, ap, b, keep, c + i * n);
    }
    if (i < m) {
        tile(1, vectors, last, is_whole, n, k, a + i * ai, ai, ap, b, keep, c + i * n);
    }
}

/* c (m, n) = c * keep + a b, b (k, n). */
ON static void by_rows(size_t m, size_t n, size_t k, const float *a, size_t ai, size_t ap,
                       const float *b, bool keep, float *c)
{
    size_t j = 0;

    for (; j + VECTORS * LANES <= n; j += VECTORS * LANES) {
        stripe(VECTORS, MASK(0), true, m, n, k, a, ai, ap, b + j, keep, c + j);
    }
    for (; j + LANES <= n; j += LANES) {
        stripe(1, MASK(0), true, m, n, k, a, ai, ap, b + j, keep, c + j);
    }
    if (j < n) {
        stripe(1, MASK(n - j), false, m, n, k, a, ai, ap, b + j, keep, c + j);
    }
}

/* c (rows, columns) = c * keep + a b^T, both with k values in a row. */
ON static inline __attribute__((always_inline)) void dots(unsigned rows, unsigned columns, size_t n,
                                                          size_t k, const float *a, const float *b,
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
            x[i] = LOAD(a + i * k + p);
        }
        for (unsigned j = 0; j < columns; j++) {
            vec y = LOAD(b + j * k + p);

            for (unsigned i = 0; i < rows; i++) {
                sum[i][j] = FMA(x[i], y, sum[i][j]);
            }
        }
    }
    if (p < k) {
        mask rest = MASK(k - p);

        for (unsigned i = 0; i < rows; i++) {
            x[i] = LOAD_MASKED(a + i * k + p, rest);
        }
        for (unsigned j = 0; j < columns; j++) {
            vec y = LOAD_MASKED(b + j * k + p, rest);

            for (unsigned i = 0; i < rows; i++) {
                sum[i][j] = FMA(x[i], y, sum[i][j]);
            }
        }
    }
    for (unsigned i = 0; i < rows; i++) {
        for (unsigned j = 0; j < columns; j++) {
            float *at = c + i * n + j;

            *at = (keep ? *at : 0.0f) + SUM(sum[i][j]);
        }
    }
}

ON static inline __attribute__((always_inline)) void strand(unsigned columns, size_t m, size_t n,
                                                            size_t k, const float *a,
                                                            const float *b, bool keep, float *c)
{
    size_t i = 0;

    for (; i + DOT_ROWS <= m; i += DOT_ROWS) {
        dots(DOT_ROWS, columns, n, k, a + i * k, b, keep, c + i * n);
    }
    for (; i < m; i++) {
        dots(1, columns, n, k, a + i * k, b, keep, c + i * n);
    }
}

/* c (m, n) = c * keep + a (m, k) b (n, k)^T. */
ON static void by_columns(size_t m, size_t n, size_t k, const float *a, const float *b, bool keep,
                          float *c)
{
    size_t j = 0;

    for (; j + DOT_COLUMNS <= n; j += DOT_COLUMNS) {
        strand(DOT_COLUMNS, m, n, k, a, b + j * k, keep, c + j);
    }
    for (; j + 2 <= n; j += 2) {
        strand(2, m, n, k, a, b + j * k, keep, c + j);
    }
    if (j < n) {
        strand(1, m, n, k, a, b + j * k, keep, c + j);
    }
}
