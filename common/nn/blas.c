/* SPDX-License-Identifier: Apache-2.0 */
/* blas.c - see blas.h. The only file that sees <cblas.h>. */
#include "common/nn/blas.h"

#include "common/nn/gemm.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* OpenBLAS built for many processors chooses its kernels with these when it is
 * loaded; builds for one processor lack them. */
extern void gotoblas_dynamic_init(void) __attribute__((weak));
extern void gotoblas_dynamic_quit(void) __attribute__((weak));

/* The widest vectors of this processor, in OpenBLAS's names; NULL: older ones. */
static const char *best_kernels(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        return "SkylakeX";
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return "Haswell";
    }
#endif
    return NULL;
}

/* A processor that is younger than the library is taken for a Prescott of 2004:
 * Debian 12's 0.3.21 does so with Emerald Rapids, and is four times slower
 * there than it can be. Choosing again takes what OPENBLAS_CORETYPE says. */
static void choose_kernels(void)
{
    static const char variable[] = "OPENBLAS_CORETYPE";
    const char *best = best_kernels();

    if (best == NULL || strcmp(openblas_get_corename(), "Prescott") != 0 ||
        getenv(variable) != NULL || gotoblas_dynamic_init == NULL ||
        gotoblas_dynamic_quit == NULL || setenv(variable, best, 1) != 0) {
        return;
    }
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    unsetenv(variable);
}

static void init_process(void)
{
    choose_kernels();
    openblas_set_num_threads(1);
}

void ps_nn_init_process(void)
{
    /* What it guards is the process's too: variables of OpenBLAS without a lock. */
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, init_process);
}

const char *ps_nn_kernels(void)
{
    return openblas_get_corename();
}

/* How to do without packing, or NULL: too large, or no vectors for it. Not under
 * a sanitizer, which would look at each access. */
static const ps_gemm *unpacked(size_t m, size_t n, size_t k)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)m;
    (void)n;
    (void)k;
    return NULL;
#else
    return ps_gemm_fits(m, n, k) ? ps_gemm_at(0) : NULL;
#endif
}

static blasint dim(size_t n)
{
    assert(n <= INT_MAX);
    return (blasint)n;
}

/* A leading dimension must be positive also where the matrix is empty. */
static blasint lead(size_t n)
{
    return n == 0 ? 1 : dim(n);
}

void ps_gemm_nt(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c)
{
    enum { LEAST_DOT = 256 }; /* below, adding up the lanes costs more than packing */
    const ps_gemm *g = k >= LEAST_DOT ? unpacked(m, n, k) : NULL;

    if (g != NULL) {
        g->by_columns(m, n, k, a, b, keep != 0.0f, c);
        return;
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, dim(m), dim(n), dim(k), 1.0f, a, lead(k),
                b, lead(k), keep, c, lead(n));
}

void ps_gemm_nn(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c)
{
    const ps_gemm *g = unpacked(m, n, k);

    if (g != NULL) {
        g->by_rows(m, n, k, a, k, 1, b, keep != 0.0f, c);
        return;
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, dim(m), dim(n), dim(k), 1.0f, a, lead(k),
                b, lead(n), keep, c, lead(n));
}

void ps_gemm_tn(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c)
{
    const ps_gemm *g = unpacked(m, n, k);

    if (g != NULL) {
        g->by_rows(m, n, k, a, 1, m, b, keep != 0.0f, c);
        return;
    }
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, dim(m), dim(n), dim(k), 1.0f, a, lead(m),
                b, lead(n), keep, c, lead(n));
}
