/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_avx512.c - the products for x86-64 with AVX-512: 32 registers of 16 floats. */
#include "common/nn/gemm.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define ON __attribute__((target("avx512f")))

typedef __m512 vec;
typedef __mmask16 mask;

enum { LANES = 16, ROWS = 6, VECTORS = 4, DOT_ROWS = 4, DOT_COLUMNS = 6 };

#define ZERO() _mm512_setzero_ps()
#define SET1(x) _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUM(v) _mm512_reduce_add_ps(v)
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define MASK(count) ((mask)((1U << (count)) - 1U))
#define LOAD_MASKED(p, m) _mm512_maskz_loadu_ps(m, p)
#define STORE_MASKED(p, m, v) _mm512_mask_storeu_ps(p, m, v)

#include "common/nn/gemm_body.h"

const ps_gemm ps_gemm_avx512 = {.name = "avx512",
                                .by_rows = by_rows,
                                .by_columns = by_columns,
                                .by_windows = by_windows,
                                .onto_windows = onto_windows};

#endif
