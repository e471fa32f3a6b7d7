/* SPDX-License-Identifier: Apache-2.0 */
/* bench_kernels.c - our own kernels beside OpenBLAS's and oneDNN's, at the shapes of our networks.
 *
 *     bench_kernels [products|convolutions [ROUNDS]]
 *
 * One thread each, round by round; times are the processor's, so what else runs on the machine
 * disturbs less. Printed are the best of the rounds in microseconds and how many times as long the
 * others take as the way that psgd goes, which has a star. PSGD_CPU and OPENBLAS_CORETYPE choose
 * as everywhere; oneDNN is held to the same level. Batches as in engine.py.
 *
 * products: c = a b, a b^T, a^T b of row-major matrices. convolutions: y, dw and dx, from and to
 * (n, channels, rows, columns). oneDNN computes in a layout of its own; what it takes to turn x and
 * dy into that, y and dx back, stands beside.
 */
#include "common/base/xalloc.h"
#include "common/nn/blas.h"
#include "common/nn/conv_small.h"
#include "common/nn/conv_strips.h"
#include "common/nn/gemm.h"
#include "common/nn/winograd.h"
#include "tests/bench/engine/onednn.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 15, ROUNDS_MOST = 1000, WAYS = 6, BATCH = 32 };

typedef struct way {
    const char *name;
    void (*run)(void *arg);
    bool is_ours; /* the way that psgd goes */
    double us;    /* best of the rounds; 0: not this way */
} way;

static double processor_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static double time_of(const way *w, void *arg, long calls)
{
    double start = processor_us();

    for (long i = 0; i < calls; i++) {
        w->run(arg);
    }
    return (processor_us() - start) / (double)calls;
}

/* Round by round, in each so many calls of a way that it takes a millisecond. */
static void measure(way ways[WAYS], void *arg, long rounds)
{
    long calls[WAYS];

    for (size_t i = 0; i < WAYS; i++) {
        if (ways[i].run != NULL) {
            (void)time_of(&ways[i], arg, 1);
            calls[i] = 1 + (long)(1000.0 / (time_of(&ways[i], arg, 2) + 0.1));
        }
    }
    for (long r = 0; r < rounds; r++) {
        for (size_t i = 0; i < WAYS; i++) {
            double us = ways[i].run == NULL ? 0 : time_of(&ways[i], arg, calls[i]);

            ways[i].us = r == 0 || us < ways[i].us ? us : ways[i].us;
        }
    }
}

static void print_ways(const way ways[WAYS])
{
    double ours = 0;

    for (size_t i = 0; i < WAYS; i++) {
        ours = ways[i].is_ours ? ways[i].us : ours;
    }
    for (size_t i = 0; i < WAYS; i++) {
        if (ways[i].name != NULL && ways[i].run == NULL) {
            printf(" %20s", "-");
        } else if (ways[i].name != NULL) {
            printf(" %12.1f %6.2f%c", ways[i].us, ways[i].us / ours, ways[i].is_ours ? '*' : ' ');
        }
    }
    putchar('\n');
    fflush(stdout);
}

static float *fill(size_t n)
{
    float *x = ps_xaligned_alloc((n + 64) * sizeof *x);

    for (size_t i = 0; i < n + 64; i++) {
        x[i] = (float)(i % 13) / 13.0f - 0.5f;
    }
    return x;
}

/* --- products ------------------------------------------------------------------- */

typedef struct product {
    const char *network, *kind; /* "nt": c = a b^T */
    size_t m, n, k;
    float *a, *b, *c;
} product;

static const product products[] = {
    {"mlp", "nt", 64, 128, 784, NULL, NULL, NULL},
    {"mlp", "nt", 64, 128, 128, NULL, NULL, NULL},
    {"mlp", "nn", 64, 128, 128, NULL, NULL, NULL},
    {"mlp", "tn", 128, 128, 64, NULL, NULL, NULL},
    {"mlp", "tn", 128, 784, 64, NULL, NULL, NULL},
    {"mlp", "nt", 64, 10, 128, NULL, NULL, NULL},
    {"mlp", "nn", 64, 128, 10, NULL, NULL, NULL},
    {"mlp", "tn", 10, 128, 64, NULL, NULL, NULL},
    {"cnn", "nt", 32, 128, 9216, NULL, NULL, NULL},
    {"cnn", "nn", 32, 9216, 128, NULL, NULL, NULL},
    {"cnn", "tn", 128, 9216, 32, NULL, NULL, NULL},
    {"cnn, 64", "nt", 64, 128, 9216, NULL, NULL, NULL},
    {"cnn, 64", "nn", 64, 9216, 128, NULL, NULL, NULL},
    {"cnn, 64", "tn", 128, 9216, 64, NULL, NULL, NULL},
    {"alexnet", "nt", 32, 10, 256, NULL, NULL, NULL},
    {"alexnet227", "nt", 32, 4096, 4096, NULL, NULL, NULL},
    {"alexnet227", "nn", 32, 4096, 4096, NULL, NULL, NULL},
    {"alexnet227", "tn", 4096, 4096, 32, NULL, NULL, NULL},
    {"resnet18", "nn", 256, 1024, 1152, NULL, NULL, NULL},
    {"resnet18", "nt", 256, 1152, 1024, NULL, NULL, NULL},
    {"resnet18", "tn", 1152, 1024, 256, NULL, NULL, NULL},
    {"resnet18", "nn", 512, 512, 4608, NULL, NULL, NULL},
    {"ngram", "nt", 32, 256, 128, NULL, NULL, NULL},
    {"ngram", "nn", 32, 128, 256, NULL, NULL, NULL},
    {"ngram", "tn", 256, 128, 32, NULL, NULL, NULL},
    {"ngram", "nt", 32, 2074, 256, NULL, NULL, NULL},
    {"ngram", "nn", 32, 256, 2074, NULL, NULL, NULL},
    {"ngram", "tn", 2074, 256, 32, NULL, NULL, NULL},
    {"wide_deep", "nt", 32, 400, 273, NULL, NULL, NULL},
    {"wide_deep", "nn", 32, 273, 400, NULL, NULL, NULL},
    {"wide_deep", "tn", 400, 273, 32, NULL, NULL, NULL},
    {"wide_deep", "nt", 32, 400, 400, NULL, NULL, NULL},
    {"wide_deep", "nn", 32, 400, 400, NULL, NULL, NULL},
    {"wide_deep", "tn", 400, 400, 32, NULL, NULL, NULL},
};

static bool is_turned(const product *p, int operand)
{
    return p->kind[operand] == 't';
}

static void by_psgd(void *arg)
{
    const product *p = arg;

    (is_turned(p, 0)   ? ps_gemm_tn
     : is_turned(p, 1) ? ps_gemm_nt
                       : ps_gemm_nn)(NULL, p->m, p->n, p->k, p->a, p->b, 0.0f, p->c);
}

static void by_own(void *arg)
{
    const product *p = arg;
    const ps_gemm *g = ps_gemm_of(ps_cpu_level());

    if (is_turned(p, 1)) {
        g->by_columns(p->m, p->n, p->k, p->a, p->b, false, p->c);
    } else {
        g->over_rows(p->m, p->n, p->k, p->a, is_turned(p, 0) ? 1 : p->k, is_turned(p, 0) ? p->m : 1,
                     p->b, false, p->c);
    }
}

static void by_openblas(void *arg)
{
    const product *p = arg;

    cblas_sgemm(CblasRowMajor, is_turned(p, 0) ? CblasTrans : CblasNoTrans,
                is_turned(p, 1) ? CblasTrans : CblasNoTrans, (blasint)p->m, (blasint)p->n,
                (blasint)p->k, 1.0f, p->a, (blasint)(is_turned(p, 0) ? p->m : p->k), p->b,
                (blasint)(is_turned(p, 1) ? p->k : p->n), 0.0f, p->c, (blasint)p->n);
}

static void by_onednn(void *arg)
{
    const product *p = arg;

    onednn_product(is_turned(p, 0), is_turned(p, 1), p->m, p->n, p->k, p->a, p->b, p->c);
}

static void bench_products(bool has_onednn, long rounds)
{
    bool has_own = ps_gemm_of(ps_cpu_level()) != NULL;

    printf("%-10s %2s %5s %5s %5s %20s %20s %20s %20s\n", "products", "", "m", "n", "k", "psgd",
           "own kernel", "OpenBLAS", "oneDNN");
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        product p = products[i];
        way ways[WAYS] = {{"psgd", by_psgd, true, 0},
                          {"own", has_own ? by_own : NULL, false, 0},
                          {"OpenBLAS", by_openblas, false, 0},
                          {"oneDNN", has_onednn ? by_onednn : NULL, false, 0}};

        p.a = fill(p.m * p.k);
        p.b = fill(p.k * p.n);
        p.c = fill(p.m * p.n);
        measure(ways, &p, rounds);
        printf("%-10s %2s %5zu %5zu %5zu", p.network, p.kind, p.m, p.n, p.k);
        print_ways(ways);
        free(p.a);
        free(p.b);
        free(p.c);
    }
}

/* --- convolutions --------------------------------------------------------------- */

typedef struct shape {
    const char *network;
    size_t channels, side, filters, kernel, stride, padding;
    bool is_first; /* its input needs no gradient */
} shape;

static const shape shapes[] = {
    {"cnn", 1, 28, 32, 3, 1, 0, true},          {"cnn", 32, 26, 64, 3, 1, 0, false},
    {"alexnet", 3, 32, 64, 11, 4, 5, true},     {"alexnet", 64, 4, 192, 5, 1, 2, false},
    {"alexnet", 192, 2, 384, 3, 1, 1, false},   {"alexnet", 384, 2, 256, 3, 1, 1, false},
    {"alexnet", 256, 2, 256, 3, 1, 1, false},   {"resnet", 3, 32, 16, 3, 1, 1, true},
    {"resnet", 16, 32, 16, 3, 1, 1, false},     {"resnet", 16, 32, 32, 3, 2, 1, false},
    {"resnet", 32, 16, 32, 3, 1, 1, false},     {"resnet", 32, 16, 64, 3, 2, 1, false},
    {"resnet", 64, 8, 64, 3, 1, 1, false},      {"resnet18", 3, 32, 64, 3, 1, 1, true},
    {"resnet18", 64, 32, 64, 3, 1, 1, false},   {"resnet18", 64, 32, 128, 3, 2, 1, false},
    {"resnet18", 64, 32, 128, 1, 2, 0, false},  {"resnet18", 128, 16, 128, 3, 1, 1, false},
    {"resnet18", 128, 16, 256, 3, 2, 1, false}, {"resnet18", 256, 8, 256, 3, 1, 1, false},
    {"resnet18", 256, 8, 512, 3, 2, 1, false},  {"resnet18", 512, 4, 512, 3, 1, 1, false},
};

typedef struct conv {
    ps_window window;
    size_t filters, in, out, places, depth, group;
    float *w, *bias, *x, *y, *dw, *dx, *scratch;
    ps_winograd winograd;
    ps_conv_small small;
    ps_conv_strips strips;
    onednn_conv *onednn;
} conv;

static void by_small(void *arg)
{
    conv *c = arg;

    ps_conv_small_forward(&c->small, NULL, c->w, c->bias, c->x, c->y, c->scratch, BATCH);
    ps_conv_small_backward(&c->small, NULL, c->w, c->x, c->y, c->dw, NULL, c->dx, c->scratch,
                           BATCH);
}

static void by_strips(void *arg)
{
    conv *c = arg;

    ps_conv_strips_forward(&c->strips, NULL, c->w, c->bias, c->x, c->y, c->scratch, BATCH);
    ps_conv_strips_backward(&c->strips, NULL, c->w, c->x, c->y, c->dw, c->dx, c->scratch, BATCH);
}

static void by_winograd(void *arg)
{
    conv *c = arg;

    ps_winograd_forward(&c->winograd, NULL, c->w, c->bias, c->x, c->y, c->scratch, BATCH);
    ps_winograd_backward(&c->winograd, NULL, c->w, c->x, c->y, c->dw, c->dx, c->scratch, BATCH);
}

static void multiply(bool a_turned, bool b_turned, size_t m, size_t n, size_t k, const float *a,
                     const float *b, float *c, float keep)
{
    cblas_sgemm(CblasRowMajor, a_turned ? CblasTrans : CblasNoTrans,
                b_turned ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1.0f, a,
                (blasint)(a_turned ? m : k), b, (blasint)(b_turned ? k : n), keep, c, (blasint)n);
}

/* As conv2d.c without kernels of our own: samples innermost where there are few places. */
static void by_im2col(void *arg)
{
    conv *c = arg;
    float *col = c->scratch, *rows = col + c->depth * c->places * c->group;
    float *turned = rows + c->out * c->group;
    size_t columns = c->places * c->group;

    for (size_t i = 0; i < BATCH; i += c->group) {
        const float *x = c->x + i * c->in;

        if (c->group > 1) {
            ps_transpose(x, c->group, c->in, turned);
        }
        ps_im2col(&c->window, c->group > 1 ? turned : x, c->group, col);
        multiply(false, false, c->filters, columns, c->depth, c->w, col, rows, 0.0f);
        ps_transpose(rows, c->out, c->group, c->y + i * c->out);
    }
    for (size_t i = 0; i < BATCH; i += c->group) {
        const float *x = c->x + i * c->in;

        ps_transpose(c->y + i * c->out, c->group, c->out, rows);
        if (c->group > 1) {
            ps_transpose(x, c->group, c->in, turned);
        }
        ps_im2col(&c->window, c->group > 1 ? turned : x, c->group, col);
        multiply(false, true, c->filters, c->depth, columns, rows, col, c->dw, 1.0f);
        if (c->dx != NULL) {
            multiply(true, false, c->depth, columns, c->filters, c->w, rows, col, 0.0f);
            ps_col2im(&c->window, col, c->group, turned);
            ps_transpose(turned, c->in, c->group, c->dx + i * c->in);
        }
    }
}

static void by_onednn_conv(void *arg)
{
    conv *c = arg;

    onednn_conv_run(c->onednn, c->dx != NULL);
}

static void by_turning(void *arg)
{
    conv *c = arg;

    onednn_conv_turn(c->onednn, c->dx != NULL);
}

static conv conv_of(const shape *s, bool has_onednn)
{
    enum { PLACES = 512, RUN = 16 }; /* as in conv2d.c */
    size_t side = (s->side + 2 * s->padding - s->kernel) / s->stride + 1;
    conv c = {
        .window = {s->channels, s->side, s->side, s->kernel, s->stride, s->padding, side, side},
        .filters = s->filters,
        .in = s->channels * s->side * s->side,
        .out = s->filters * side * side,
        .places = side * side,
        .depth = s->channels * s->kernel * s->kernel};

    c.group = (PLACES + c.places - 1) / c.places;
    c.group = c.group > 1 && c.group < RUN ? RUN : c.group > BATCH ? BATCH : c.group;
    c.w = fill(c.filters * c.depth);
    c.dw = fill(c.filters * c.depth);
    c.bias = fill(c.filters);
    c.x = fill(BATCH * c.in);
    c.dx = s->is_first ? NULL : fill(BATCH * c.in);
    c.y = fill(BATCH * c.out);
    c.onednn = has_onednn ? onednn_conv_create(&c.window, c.filters, BATCH) : NULL;
    return c;
}

static void conv_fini(conv *c)
{
    free(c->w);
    free(c->dw);
    free(c->bias);
    free(c->x);
    free(c->dx);
    free(c->y);
    free(c->scratch);
    if (c->onednn != NULL) {
        onednn_conv_destroy(c->onednn);
    }
}

static void bench_convolution(const shape *s, bool has_onednn, long rounds)
{
    conv c = conv_of(s, has_onednn);
    bool winograd = ps_winograd_fits(&c.window, c.filters, &c.winograd);
    bool strips = ps_conv_strips_fits(&c.window, c.filters, BATCH, &c.strips);
    bool small = ps_conv_small_fits(&c.window, c.filters, BATCH, &c.small);
    size_t floats = (c.depth * c.places + c.in + c.out) * c.group;
    way ways[WAYS] = {{"im2col", by_im2col, !winograd && !strips && !small, 0},
                      {"small", small ? by_small : NULL, small, 0},
                      {"strips", strips ? by_strips : NULL, strips && !winograd && !small, 0},
                      {"Winograd", winograd ? by_winograd : NULL, winograd && !small, 0},
                      {"oneDNN", has_onednn ? by_onednn_conv : NULL, false, 0},
                      {"turning", has_onednn ? by_turning : NULL, false, 0}};

    if (winograd && ps_winograd_scratch(&c.winograd) > floats) {
        floats = ps_winograd_scratch(&c.winograd);
    }
    if (small && ps_conv_small_scratch(&c.small) > floats) {
        floats = ps_conv_small_scratch(&c.small);
    }
    if (strips && ps_conv_strips_scratch(&c.strips) > floats) {
        floats = ps_conv_strips_scratch(&c.strips);
    }
    c.scratch = fill(floats);
    measure(ways, &c, rounds);
    printf("%-10s %4zu -> %-4zu %2zu^2 k%-2zu s%zu", s->network, s->channels, s->filters, s->side,
           s->kernel, s->stride);
    print_ways(ways);
    conv_fini(&c);
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : ROUNDS;
    bool has_products = strcmp(which, "convolutions") != 0, has_onednn;
    bool has_convolutions = strcmp(which, "products") != 0;
    char text[PS_NN_KERNELS_BYTES];

    if (argc > 3 || rounds <= 0 || rounds > ROUNDS_MOST ||
        (argc > 1 && has_products && has_convolutions)) {
        fprintf(stderr, "usage: bench_kernels [products|convolutions [ROUNDS]]\n");
        return 2;
    }
    printf("%s; best of %ld rounds\n", ps_nn_kernels(text), rounds);
    has_onednn = onednn_init(ps_cpu_level());
    if (has_products) {
        bench_products(has_onednn, rounds);
    }
    if (has_convolutions) {
        printf("%-30s %20s %20s %20s %20s %20s %20s\n", "convolutions, 32 samples",
               "im2col + OpenBLAS", "small images", "strips", "Winograd", "oneDNN", "its turning");
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            bench_convolution(&shapes[i], has_onednn, rounds);
        }
    }
    return 0;
}
