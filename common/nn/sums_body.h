/* SPDX-License-Identifier: Apache-2.0 */
/* sums_body.h - the lanes of sums, for one width of vectors. No include guard: sums.c includes
 * this header once for each level of processor and defines before each time
 *
 *     ON          the attribute of the target, or nothing
 *     PART        values of a vector, a divisor of LANES
 *     NAME(x)     x with the level's name
 *
 * Lanes are written as vectors of exactly the processor's width. From arrays of floats or from
 * wider vectors the compiler makes code that keeps the sums in memory, where each addition waits
 * for a store: it takes 6 (baseline) to 16 times (AVX2) as long.
 */
enum { NAME(parts) = LANES / PART };

typedef float NAME(part) __attribute__((vector_size(PART * sizeof(float))));

ON static void NAME(sum_lanes)(const float *restrict x, size_t n, float *restrict lane)
{
    NAME(part) sum[NAME(parts)] = {{0}}, v;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < NAME(parts); k++) {
            memcpy(&v, x + i + k * PART, sizeof v);
            sum[k] += v;
        }
    }
    memcpy(lane, sum, sizeof sum);
    for (size_t l = 0; i < n; i++, l++) {
        lane[l] += x[i];
    }
}

ON static void NAME(square_lanes)(const float *restrict x, float mean, size_t n,
                                  float *restrict lane)
{
    NAME(part) sum[NAME(parts)] = {{0}}, v;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < NAME(parts); k++) {
            memcpy(&v, x + i + k * PART, sizeof v);
            v -= mean;
            sum[k] += v * v;
        }
    }
    memcpy(lane, sum, sizeof sum);
    for (size_t l = 0; i < n; i++, l++) {
        lane[l] += (x[i] - mean) * (x[i] - mean);
    }
}

ON static void NAME(pair_lanes)(const float *restrict dy, const float *restrict x, float mean,
                                size_t n, float *restrict a, float *restrict b)
{
    NAME(part) sum[NAME(parts)] = {{0}}, product[NAME(parts)] = {{0}}, slope, v;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < NAME(parts); k++) {
            memcpy(&slope, dy + i + k * PART, sizeof slope);
            memcpy(&v, x + i + k * PART, sizeof v);
            sum[k] += slope;
            product[k] += slope * (v - mean);
        }
    }
    memcpy(a, sum, sizeof sum);
    memcpy(b, product, sizeof product);
    for (size_t l = 0; i < n; i++, l++) {
        a[l] += dy[i];
        b[l] += dy[i] * (x[i] - mean);
    }
}

ON static void NAME(product_lanes)(const float *restrict a, const float *restrict b, size_t n,
                                   float *restrict lane)
{
    NAME(part) sum[NAME(parts)] = {{0}}, v, w;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < NAME(parts); k++) {
            memcpy(&v, a + i + k * PART, sizeof v);
            memcpy(&w, b + i + k * PART, sizeof w);
            sum[k] += v * w;
        }
    }
    memcpy(lane, sum, sizeof sum);
    for (size_t l = 0; i < n; i++, l++) {
        lane[l] += a[i] * b[i];
    }
}

static const kernels NAME(kernels) = {.sum = NAME(sum_lanes),
                                      .square = NAME(square_lanes),
                                      .pair = NAME(pair_lanes),
                                      .product = NAME(product_lanes)};

#undef ON
#undef PART
#undef NAME
