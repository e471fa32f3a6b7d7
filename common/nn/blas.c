/* SPDX-License-Identifier: Apache-2.0 */
/* blas.c - see blas.h. The only file that includes <cblas.h>. */
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

/* An OpenBLAS that is built for many processors chooses its kernels by these functions when it is
 * loaded. One built for a single processor lacks them. */
extern void gotoblas_dynamic_init(void) __attribute__((weak));
extern void gotoblas_dynamic_quit(void) __attribute__((weak));

static const char variable[] = "OPENBLAS_CORETYPE";

/* OpenBLAS's names of its kernels for each level. The first name of a level is the one that is
 * requested. Kernels that are not listed count as those of PS_CPU_BASELINE.
 *
 * `cuts`: a stripe of a product has the bits of the whole (tests/unit/test_team.c). Not with the
 * kernels for AVX2: how they sum a value depends on its place and on the product's size. */
static const struct core {
    ps_cpu level;
    const char *name;
    bool cuts;
} cores[] = {
    {PS_CPU_AVX512, "SkylakeX", true},
    {PS_CPU_AVX512, "Cooperlake", true},
    {PS_CPU_AVX512, "SapphireRapids", true},
    {PS_CPU_AVX2, "Haswell", false},
    {PS_CPU_AVX2, "Zen", false},
    {PS_CPU_AVX2, "Excavator", false},
    {PS_CPU_BASELINE, "Prescott", true},
};

enum { CORES = sizeof cores / sizeof cores[0] };

/* Returns the kernels with this name, or NULL. */
static const struct core *find_core(const char *name)
{
    for (size_t i = 0; i < CORES; i++) {
        if (strcmp(cores[i].name, name) == 0) {
            return &cores[i];
        }
    }
    return NULL;
}

static ps_cpu level_of(const char *name)
{
    const struct core *core = find_core(name);

    return core != NULL ? core->level : PS_CPU_BASELINE;
}

/* Returns whether a stripe of a product by OpenBLAS has the bits of the whole. */
static bool cuts(void)
{
    const struct core *core = find_core(openblas_get_corename());

    return core != NULL && core->cuts;
}

static const char *core_of(ps_cpu level)
{
    size_t i = 0;

    while (cores[i].level != level) {
        i++;
    }
    return cores[i].name;
}

/* Makes OpenBLAS choose its kernels again, by OPENBLAS_CORETYPE, unless they are of ps_cpu_level()
 * already or the variable is set. By itself it goes by the processor's model:
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

/* Returns the products without packing for this level; NULL: there are none. A build with a
 * sanitizer has none, because the sanitizer would check each access. */
static const ps_gemm *own(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return NULL;
#else
    return ps_gemm_of(ps_cpu_level());
#endif
}

/* Returns whether a product has so few rows, or a^T b so few terms, that packing the large operand
 * would cost as much as multiplying. `few` is the number of these rows or terms; `kept` is the
 * number of values that are read again and again. Returns false if these do not fit the cache. */
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

/* A product, or a stripe of one. Rows of a, b and c are a_row, b_row and c_row values apart. */
typedef struct product {
    size_t m, n, k;
    const float *a, *b;
    float keep, *c;
    bool turns_a, turns_b; /* a is given as (k, m), b as (n, k) */
    bool is_own; /* computed by our own kernels, which need rows of b and c without gaps */
    size_t a_row, b_row, c_row;
} product;

static void multiply(const product *p)
{
    const ps_gemm *g = own();

    if (!p->is_own) {
        cblas_sgemm(CblasRowMajor, p->turns_a ? CblasTrans : CblasNoTrans,
                    p->turns_b ? CblasTrans : CblasNoTrans, dim(p->m), dim(p->n), dim(p->k), 1.0f,
                    p->a, lead(p->a_row), p->b, lead(p->b_row), p->keep, p->c, lead(p->c_row));
    } else if (p->turns_b) {
        g->by_columns(p->m, p->n, p->k, p->a, p->b, p->keep != 0.0f, p->c);
    } else {
        g->over_rows(p->m, p->n, p->k, p->a, p->turns_a ? 1 : p->a_row, p->turns_a ? p->a_row : 1,
                     p->b, p->keep != 0.0f, p->c);
    }
}

/* Stripes begin at multiples of ALIGN rows or columns, of OWN_ALIGN rows for our own kernels, so
 * that the kernels' tiles lie as in the whole product. A stripe of OpenBLAS has at least STRIPE
 * multiplications: below, it could choose its kernels for small matrices, which sum in another
 * order. One of our own has at least OWN_STRIPE: below, sharing costs more than it gains. */
enum { ALIGN = 64, OWN_ALIGN = 8, STRIPE = 1 << 21, OWN_STRIPE = PS_TEAM_PRODUCTS / 2 };

_Static_assert((int)OWN_ALIGN % (int)PS_GEMM_CUT == 0, "stripes of our own kernels keep the bits");

/* A product that is cut into stripes. */
typedef struct striped {
    product whole;
    bool over_rows; /* stripes are rows of c; false: columns */
    size_t align;
    uint32_t parts;
} striped;

static void multiply_stripe(void *arg, uint32_t part, uint32_t thread)
{
    const striped *s = arg;
    product p = s->whole;
    size_t size = s->over_rows ? p.m : p.n, from = ps_part_at(size, s->align, s->parts, part);
    size_t count = ps_part_at(size, s->align, s->parts, part + 1) - from;

    (void)thread;
    if (s->over_rows) {
        p.m = count;
        p.a += p.turns_a ? from : from * p.a_row;
        p.c += from * p.c_row;
    } else {
        p.n = count;
        p.b += p.turns_b ? from * p.b_row : from;
        p.c += from;
    }
    multiply(&p);
}

/* Computes a product on as many threads of the team as make it faster; on one thread if a stripe
 * would have other bits than the whole. */
static void share(ps_team *team, const product *p)
{
    striped s = {.whole = *p,
                 .over_rows = p->is_own || p->m >= p->n,
                 .align = p->is_own ? OWN_ALIGN : ALIGN};
    size_t size = s.over_rows ? p->m : p->n, parts = ps_team_threads(team);
    double most = (double)p->m * (double)p->n * (double)p->k / (p->is_own ? OWN_STRIPE : STRIPE);

    parts = (double)parts < most ? parts : (size_t)most;
    parts = parts < size / s.align ? parts : size / s.align;
    if (parts < 2 || !(p->is_own || cuts())) {
        multiply(p);
        return;
    }
    s.parts = (uint32_t)parts;
    ps_team_run(team, s.parts, multiply_stripe, &s);
}

/* Returns the product a b, whose rows have no gaps. */
static product product_of(size_t m, size_t n, size_t k, const float *a, const float *b, float keep,
                          float *c)
{
    return (product){.m = m,
                     .n = n,
                     .k = k,
                     .a = a,
                     .b = b,
                     .keep = keep,
                     .c = c,
                     .a_row = k,
                     .b_row = n,
                     .c_row = n};
}

void ps_gemm_nt(ps_team *team, size_t m, size_t n, size_t k, const float *a, const float *b,
                float keep, float *c)
{
    const ps_gemm *g = own();
    product p = product_of(m, n, k, a, b, keep, c);

    p.turns_b = true;
    p.b_row = k;
    /* With fewer than g->dots terms, adding up the lanes at the end costs more than packing. */
    p.is_own = g != NULL && k >= g->dots && (ps_gemm_fits(m, n, k) || is_thin(g, m, m * k));
    share(team, &p);
}

void ps_gemm_nn(ps_team *team, size_t m, size_t n, size_t k, const float *a, const float *b,
                float keep, float *c)
{
    const ps_gemm *g = own();
    product p = product_of(m, n, k, a, b, keep, c);

    /* What has to stay in the cache: a stripe of b as wide as the kernel's tile, and as much again
     * of the other operands. */
    p.is_own = g != NULL && (ps_gemm_fits(m, n, k) || is_thin(g, m, 2 * g->thin * k));
    share(team, &p);
}

void ps_gemm_tn(ps_team *team, size_t m, size_t n, size_t k, const float *a, const float *b,
                float keep, float *c)
{
    const ps_gemm *g = own();
    product p = product_of(m, n, k, a, b, keep, c);

    p.turns_a = true;
    p.a_row = m;
    p.is_own = g != NULL && (ps_gemm_fits(m, n, k) || is_thin(g, k, k * m));
    share(team, &p);
}
