/* SPDX-License-Identifier: Apache-2.0 */
/* blas.c - see blas.h. The only file that sees <cblas.h>. */
#include "common/nn/blas.h"

#include "common/nn/gemm.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An OpenBLAS for many processors chooses its kernels with these when it is loaded; a build for one
 * processor lacks them. */
extern void gotoblas_dynamic_init(void) __attribute__((weak));
extern void gotoblas_dynamic_quit(void) __attribute__((weak));

static const char variable[] = "OPENBLAS_CORETYPE";

/* OpenBLAS's names of its kernels for each level; the first of a level is the one to ask for.
 * Kernels without a line belong to lower levels. */
static const struct core {
    ps_cpu level;
    const char *name;
} cores[] = {
    {PS_CPU_AVX512, "SkylakeX"},   {PS_CPU_AVX512, "Cooperlake"}, {PS_CPU_AVX512, "SapphireRapids"},
    {PS_CPU_AVX2, "Haswell"},      {PS_CPU_AVX2, "Zen"},          {PS_CPU_AVX2, "Excavator"},
    {PS_CPU_BASELINE, "Prescott"},
};

enum { CORES = sizeof cores / sizeof cores[0] };

static ps_cpu level_of(const char *name)
{
    for (size_t i = 0; i < CORES; i++) {
        if (strcmp(cores[i].name, name) == 0) {
            return cores[i].level;
        }
    }
    return PS_CPU_BASELINE;
}

static const char *core_of(ps_cpu level)
{
    size_t i = 0;

    while (cores[i].level != level) {
        i++;
    }
    return cores[i].name;
}

/* Makes OpenBLAS choose again, by OPENBLAS_CORETYPE. By itself it goes by the processor's model:
 * 0.3.21 takes newer ones (Emerald Rapids) for a Prescott of 2004, and AMD's with AVX-512 (Zen 4
 * and 5) for a Haswell, whose kernels use half of each vector. */
static void choose_core(void)
{
    ps_cpu level = ps_cpu_level();

    if (level_of(openblas_get_corename()) == level || getenv(variable) != NULL ||
        gotoblas_dynamic_init == NULL || gotoblas_dynamic_quit == NULL ||
        setenv(variable, core_of(level), 1) != 0) {
        return;
    }
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    unsetenv(variable);
}

static void init_process(void)
{
    choose_core();
    openblas_set_num_threads(1);
}

void ps_nn_init_process(void)
{
    /* A process-wide once, because it guards process-wide variables of OpenBLAS. */
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, init_process);
}

const char *ps_nn_core(void)
{
    return openblas_get_corename();
}

char *ps_nn_kernels(char text[PS_NN_KERNELS_BYTES])
{
    ps_cpu level = ps_cpu_level();
    const ps_gemm *own = ps_gemm_of(level);

    ps_nn_init_process();
    snprintf(text, PS_NN_KERNELS_BYTES, "%s%s, OpenBLAS %.32s%s, %s%s", ps_cpu_name(level),
             level < ps_cpu_highest() ? " by PSGD_CPU" : "", openblas_get_corename(),
             getenv(variable) != NULL ? " by OPENBLAS_CORETYPE" : "",
             own != NULL ? "own small products and convolutions " : "none of our own",
             own != NULL ? own->name : "");
    return text;
}

/* The products without packing of this level; NULL: none. Not under a sanitizer, which would look
 * at each access. */
static const ps_gemm *own(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return NULL;
#else
    return ps_gemm_of(ps_cpu_level());
#endif
}

/* Whether a product has so few rows, or for a^T b terms, that to pack the large operand would cost
 * as much as to multiply. `kept` values are read again and again, and must stay in the cache. */
static bool is_thin(const ps_gemm *g, size_t few, size_t kept)
{
    return few <= g->thin && kept <= PS_GEMM_CACHE;
}

static blasint dim(size_t n)
{
    assert(n <= INT_MAX);
    return (blasint)n;
}

/* Returns a leading dimension, which must be positive even if the matrix is empty. */
static blasint lead(size_t n)
{
    return n == 0 ? 1 : dim(n);
}

void ps_gemm_nt(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c)
{
    const ps_gemm *g = own();

    /* With fewer terms, adding up the lanes costs more than packing. */
    if (g != NULL && k >= g->dots && (ps_gemm_fits(m, n, k) || is_thin(g, m, m * k))) {
        g->by_columns(m, n, k, a, b, keep != 0.0f, c);
        return;
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, dim(m), dim(n), dim(k), 1.0f, a, lead(k),
                b, lead(k), keep, c, lead(n));
}

void ps_gemm_nn(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c)
{
    const ps_gemm *g = own();

    /* Kept is a stripe of b, as wide as the kernel's tile, and as much again of what else is read.
     */
    if (g != NULL && (ps_gemm_fits(m, n, k) || is_thin(g, m, 2 * g->thin * k))) {
        g->by_rows(m, n, k, a, k, 1, b, keep != 0.0f, c);
        return;
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, dim(m), dim(n), dim(k), 1.0f, a, lead(k),
                b, lead(n), keep, c, lead(n));
}

void ps_gemm_tn(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c)
{
    const ps_gemm *g = own();

    if (g != NULL && (ps_gemm_fits(m, n, k) || is_thin(g, k, k * m))) {
        g->by_rows(m, n, k, a, 1, m, b, keep != 0.0f, c);
        return;
    }
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, dim(m), dim(n), dim(k), 1.0f, a, lead(m),
                b, lead(n), keep, c, lead(n));
}
