/* SPDX-License-Identifier: Apache-2.0 */
/* blas.c - see blas.h. The only file that sees <cblas.h>. */
#include "common/nn/blas.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <pthread.h>

static void one_thread(void)
{
    openblas_set_num_threads(1);
}

void ps_nn_init_process(void)
{
    /* OpenBLAS keeps the number in a variable of the process, not guarded. */
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, one_thread);
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
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, dim(m), dim(n), dim(k), 1.0f, a, lead(k),
                b, lead(k), keep, c, lead(n));
}

void ps_gemm_nn(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, dim(m), dim(n), dim(k), 1.0f, a, lead(k),
                b, lead(n), keep, c, lead(n));
}

void ps_gemm_tn(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c)
{
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, dim(m), dim(n), dim(k), 1.0f, a, lead(m),
                b, lead(n), keep, c, lead(n));
}
