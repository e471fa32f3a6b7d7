/* SPDX-License-Identifier: Apache-2.0 */
/* sums.c - see sums.h. Value i goes to lane i % 16. At the end the upper half of the lanes is
 * added to the lower half until one lane is left. */
#include "common/nn/sums.h"

#include "common/base/cpu.h"

#include <string.h>

enum { LANES = 16 };

/* The functions that sum into LANES lanes, for one level of processor. */
typedef struct kernels {
    void (*sum)(const float *restrict x, size_t n, float *restrict lane);
    void (*square)(const float *restrict x, float mean, size_t n, float *restrict lane);
    void (*pair)(const float *restrict dy, const float *restrict x, float mean, size_t n,
                 float *restrict a, float *restrict b);
    void (*product)(const float *restrict a, const float *restrict b, size_t n,
                    float *restrict lane);
} kernels;

#define ON
#define PART 4
#define NAME(x) x##_baseline
#include "common/nn/sums_body.h"

#if defined(__x86_64__)
#define ON __attribute__((target("avx2")))
#define PART 8
#define NAME(x) x##_avx2
#include "common/nn/sums_body.h"

#define ON __attribute__((target("avx512f")))
#define PART 16
#define NAME(x) x##_avx512
#include "common/nn/sums_body.h"
#endif

static const kernels *kernels_here(void)
{
#if defined(__x86_64__)
    ps_cpu level = ps_cpu_level();

    if (level >= PS_CPU_AVX512) {
        return &kernels_avx512;
    }
    if (level >= PS_CPU_AVX2) {
        return &kernels_avx2;
    }
#endif
    return &kernels_baseline;
}

/* Returns the sum of all lanes. */
static float fold(float lane[LANES])
{
    for (size_t half = LANES / 2; half > 0; half /= 2) {
        for (size_t l = 0; l < half; l++) {
            lane[l] += lane[l + half];
        }
    }
    return lane[0];
}

float ps_sum_f32(const float *x, size_t n)
{
    float lane[LANES];

    kernels_here()->sum(x, n, lane);
    return fold(lane);
}

float ps_sum_squares_f32(const float *x, float mean, size_t n)
{
    float lane[LANES];

    kernels_here()->square(x, mean, n, lane);
    return fold(lane);
}

void ps_sum_pair_f32(const float *dy, const float *x, float mean, size_t n, float *of_dy,
                     float *of_product)
{
    float a[LANES], b[LANES];

    kernels_here()->pair(dy, x, mean, n, a, b);
    *of_dy = fold(a);
    *of_product = fold(b);
}

float ps_sum_product_f32(const float *a, const float *b, size_t n)
{
    float lane[LANES];

    kernels_here()->product(a, b, n, lane);
    return fold(lane);
}
