/* SPDX-License-Identifier: Apache-2.0 */
/* bench_engine.c - training steps of a network, timed on request; the half of
 * tests/bench/engine/engine.py that is ours.
 *
 *     bench_engine NAME BATCH STEPS
 *     bench_engine sgemm SIDE PRODUCTS
 *     bench_engine core|kernels
 *
 * NAME is mlp (784-128-128-10, tanh) or one of common/nn/network.h. Each line on
 * standard input runs so many steps, forward, backward and Adam, or over ids AdaGrad on the
 * rows that were touched, on one thread, and prints the processor's milliseconds a step: others may
 * use the machine too. `sgemm` has square matrices multiplied in place of steps: what the machine
 * can do at most. `core` prints whose kernels OpenBLAS is told to use, `kernels` all that run, so
 * that the peer can be held to the same.
 */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/blas.h"
#include "common/nn/network.h"
#include "common/optim/optim.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MLP_LAYERS = 5 };

/* Samples of each network: numbers, then ids. */
typedef struct facts {
    const char *name;
    ps_shape in;
    uint32_t ids, vocabulary, classes;
} facts;

static const facts sets[] = {
    {"mlp", {3, {1, 28, 28}}, 0, 0, 10},      {"cnn", {3, {1, 28, 28}}, 0, 0, 10},
    {"alexnet", {3, {3, 32, 32}}, 0, 0, 10},  {"alexnet227", {3, {3, 227, 227}}, 0, 0, 10},
    {"resnet", {3, {3, 32, 32}}, 0, 0, 10},   {"resnet14", {3, {3, 32, 32}}, 0, 0, 10},
    {"resnet18", {3, {3, 32, 32}}, 0, 0, 10}, {"resnet20", {3, {3, 32, 32}}, 0, 0, 10},
    {"ngram", {1, {4}}, 4, 2074, 2074},       {"skipgram", {1, {7}}, 7, 2074, 6},
    {"wide_deep", {1, {39}}, 26, 1000001, 2},
};

typedef struct world {
    ps_model *model;
    const ps_optim *optim;
    ps_params params;
    size_t batch, count;
    float *w, *g, *state, *x, *packed; /* packed: rows of a sparse gradient */
    float *classes;
    uint64_t t;
} world;

static size_t mlp_specs(ps_layer_spec *specs)
{
    static const char *const kinds[MLP_LAYERS] = {"dense", "tanh", "dense", "tanh", "dense"};

    for (size_t i = 0; i < MLP_LAYERS; i++) {
        specs[i].layer = ps_layer_find(kinds[i]);
        specs[i].params = ps_params_default(specs[i].layer->params);
        snprintf(specs[i].name, sizeof specs[i].name, "%s%zu", kinds[i], i);
    }
    specs[MLP_LAYERS - 1].params.v[0] = 10;
    return MLP_LAYERS;
}

static const facts *find_facts(const char *name)
{
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (strcmp(sets[i].name, name) == 0) {
            return &sets[i];
        }
    }
    fprintf(stderr, "bench_engine: no %s\n", name);
    exit(1);
}

static ps_status make_model(world *at, const facts *of)
{
    const ps_network *network = ps_network_find(of->name);
    ps_layer_spec *specs = ps_xcalloc(PS_MODEL_LAYERS_MAX, sizeof *specs);
    const char *loss =
        network != NULL && network->loss != NULL ? network->loss : "softmax_cross_entropy";
    ps_network_facts given = {.features = (uint32_t)ps_shape_size(&of->in),
                              .ids = of->ids,
                              .vocabulary = of->vocabulary,
                              .classes = of->classes,
                              .outputs = of->classes};
    ps_params params = ps_params_default(network == NULL ? NULL : network->params);
    ps_status st = ps_ok();
    size_t count = 0;

    if (network == NULL) {
        count = mlp_specs(specs);
    } else {
        st = ps_network_specs(network, &given, &params, specs, &count);
    }
    if (ps_is_ok(&st)) {
        st = ps_model_create(specs, count, of->in, ps_loss_find(loss), at->batch, &at->model);
    }
    free(specs);
    return st;
}

static void draw_samples(world *at, const facts *of)
{
    size_t size = ps_shape_size(&of->in), numbers = size - of->ids;

    at->x = ps_xaligned_alloc(at->batch * size * sizeof(float));
    at->classes = ps_xcalloc(at->batch, sizeof *at->classes);
    for (size_t i = 0; i < at->batch * size; i++) {
        at->x[i] = i % size < numbers ? (float)(ps_draw_unit(1, i) - 0.5)
                                      : (float)ps_draw_below(1, i, of->vocabulary);
    }
    for (size_t i = 0; i < at->batch; i++) {
        at->classes[i] = (float)(i % of->classes);
    }
}

static void world_init(world *at, const char *name, size_t batch)
{
    const facts *of = find_facts(name);
    ps_status st;

    at->batch = batch;
    st = make_model(at, of);
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "bench_engine: %s: %s\n", name, st.text);
        exit(1);
    }
    at->optim = ps_optim_find(of->ids > 0 ? "adagrad" : "adam");
    at->params = ps_params_default(at->optim->params);
    at->count = ps_model_param_count(at->model);
    at->w = ps_xaligned_alloc(at->count * sizeof(float));
    at->g = ps_xcalloc(at->count, sizeof(float));
    at->packed = ps_xcalloc(at->count, sizeof(float));
    at->state = ps_xcalloc(at->count * at->optim->slots, sizeof(float));
    ps_model_keep_rows(at->model, true);
    draw_samples(at, of);
    ps_model_init(at->model, 1, at->w);
}

static void world_fini(world *at)
{
    free(at->classes);
    free(at->x);
    free(at->state);
    free(at->packed);
    free(at->g);
    free(at->w);
    ps_model_destroy(at->model);
}

/* A step of the touched rows, packed. */
static void step_rows(world *at, const ps_variable *var, const uint32_t *row, size_t count)
{
    size_t width = var->shape.dim[1];
    ps_rows rows = {.id = row, .count = count, .width = width};

    for (size_t i = 0; i < count; i++) {
        memcpy(at->packed + i * width, at->g + var->at + row[i] * width, width * sizeof(float));
    }
    at->optim->step_rows(&at->params, at->t, &rows, at->packed,
                         at->state + var->at * at->optim->slots, at->w + var->at, var->size);
}

static void step(world *at)
{
    ps_score score = {0};

    at->t++;
    ps_model_set_draws(at->model, at->t);
    ps_model_train(at->model, at->w, at->x, ps_targets_classes(at->classes), at->batch,
                   1.0f / (float)at->batch, false, at->g, NULL, &score);
    for (size_t v = 0; v < ps_model_variable_count(at->model); v++) {
        const ps_variable *var = ps_model_variable(at->model, v);
        size_t count;
        const uint32_t *row = ps_model_rows(at->model, v, &count);

        if (row != NULL) {
            step_rows(at, var, row, count);
        } else {
            at->optim->step(&at->params, at->t, at->g + var->at, at->w + var->at,
                            at->state + var->at * at->optim->slots, at->w + var->at, var->size);
        }
    }
}

static double processor_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Runs `calls` of fn for each line, and tells what one took. */
static void answer_lines(void *at, void (*fn)(void *at), long calls)
{
    char line[16];

    while (fgets(line, sizeof line, stdin) != NULL) {
        double start = processor_ms();

        for (long i = 0; i < calls; i++) {
            fn(at);
        }
        printf("%.4f\n", (processor_ms() - start) / (double)calls);
        fflush(stdout);
    }
}

static void step_once(void *at)
{
    step(at);
}

typedef struct square {
    size_t side;
    float *a, *b, *c; /* (side, side) */
} square;

static void multiply(void *at)
{
    const square *s = at;

    ps_gemm_nn(NULL, s->side, s->side, s->side, s->a, s->b, 0.0f, s->c);
}

static void time_products(size_t side, long products)
{
    square s = {.side = side};

    ps_nn_init_process();
    s.a = ps_xcalloc(side * side, sizeof *s.a);
    s.b = ps_xcalloc(side * side, sizeof *s.b);
    s.c = ps_xcalloc(side * side, sizeof *s.c);
    for (size_t i = 0; i < side * side; i++) {
        s.a[i] = (float)ps_draw_unit(1, i);
        s.b[i] = (float)ps_draw_unit(2, i);
    }
    answer_lines(&s, multiply, products);
    free(s.a);
    free(s.b);
    free(s.c);
}

static void time_steps(const char *name, size_t batch, long steps)
{
    world at = {0};

    world_init(&at, name, batch);
    fprintf(stderr, "%s: %zu parameters, %.1f MiB of activations\n", name, at.count,
            (double)ps_model_memory(at.model) / 1048576.0);
    answer_lines(&at, step_once, steps);
    world_fini(&at);
}

int main(int argc, char **argv)
{
    enum { MOST = 4096 }; /* samples at once, rows of a square */
    long batch = argc == 4 ? strtol(argv[2], NULL, 10) : 0;
    long steps = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
    char text[PS_NN_KERNELS_BYTES];

    if (argc == 2 && strcmp(argv[1], "core") == 0) {
        ps_nn_init_process();
        puts(openblas_get_corename());
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "kernels") == 0) {
        puts(ps_nn_kernels(text));
        return 0;
    }
    if (batch <= 0 || batch > MOST || steps <= 0) {
        fprintf(stderr,
                "usage: bench_engine NAME BATCH STEPS, bench_engine sgemm SIDE PRODUCTS, or "
                "bench_engine core|kernels\n");
        return 2;
    }
    if (strcmp(argv[1], "sgemm") == 0) {
        time_products((size_t)batch, steps);
    } else {
        time_steps(argv[1], (size_t)batch, steps);
    }
    return 0;
}
