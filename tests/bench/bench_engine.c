/* SPDX-License-Identifier: Apache-2.0 */
/* bench_engine.c - time of a training step of the tutorial network, without any network.
 *
 * 784-128-128-10, tanh, batch of 64, Adam, on one core: forward and backward,
 * then the optimizer. The share of peak compares the products of a step with
 * what a square product of 1024 reaches in the same run.
 */
#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/blas.h"
#include "common/nn/model.h"
#include "common/optim/optim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 784, HIDDEN = 128, CLASSES = 10, BATCH = 64, STEPS = 500, ROUNDS = 7, SQUARE = 1024 };

typedef struct world {
    ps_model *model;
    const ps_optim *optim;
    ps_params params;
    size_t count; /* parameters */
    float *w, *g, *state, *x;
    float classes[BATCH];
    ps_score score;
} world;

static ps_layer_spec layer(const char *kind, unsigned units, const char *name)
{
    ps_layer_spec spec = {.layer = ps_layer_find(kind)};

    spec.params = ps_params_default(spec.layer->params);
    if (units > 0) {
        spec.params.v[0] = units;
    }
    snprintf(spec.name, sizeof spec.name, "%s", name);
    return spec;
}

static void world_init(world *at)
{
    ps_layer_spec specs[5] = {layer("dense", HIDDEN, "dense0"), layer("tanh", 0, "tanh0"),
                              layer("dense", HIDDEN, "dense1"), layer("tanh", 0, "tanh1"),
                              layer("dense", CLASSES, "dense2")};
    uint64_t key = ps_draw_key(1, PS_DRAW_TEST, 0, 0, 0);
    ps_status st = ps_model_create(specs, 5, (ps_shape){.rank = 1, .dim = {IN}},
                                   ps_loss_find("softmax_cross_entropy"), BATCH, &at->model);

    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s\n", st.text);
        exit(1);
    }
    at->optim = ps_optim_find("adam");
    at->params = ps_params_default(at->optim->params);
    at->count = ps_model_param_count(at->model);
    at->w = ps_xaligned_alloc(at->count * sizeof(float));
    at->g = ps_xaligned_alloc(at->count * sizeof(float));
    at->state = ps_xcalloc(at->count * at->optim->slots, sizeof(float));
    at->x = ps_xaligned_alloc(BATCH * IN * sizeof(float));
    for (size_t i = 0; i < BATCH * IN; i++) {
        double u = ps_draw_unit(key, i); /* four of five pixels are black, as in MNIST */

        at->x[i] = u < 0.8 ? 0.0f : (float)(5.0 * (u - 0.8));
    }
    for (size_t i = 0; i < BATCH; i++) {
        at->classes[i] = (float)(i % CLASSES);
    }
    ps_model_init(at->model, 1, at->w);
}

static void world_fini(world *at)
{
    free(at->x);
    free(at->state);
    free(at->g);
    free(at->w);
    ps_model_destroy(at->model);
}

static void train(world *at, uint64_t t)
{
    (void)t;
    ps_model_train(at->model, at->w, at->x, ps_targets_classes(at->classes), BATCH, 1.0f / BATCH,
                   false, at->g, NULL, &at->score);
}

static void predict(world *at, uint64_t t)
{
    (void)t;
    (void)ps_model_predict(at->model, at->w, at->x, BATCH);
}

static void optimise(world *at, uint64_t t)
{
    at->optim->step(&at->params, t, at->g, at->state, at->w, at->count);
}

static void step(world *at, uint64_t t)
{
    train(at, t);
    optimise(at, t);
}

/* Milliseconds a call: the best of a few rounds, as others use the machine too. */
static double time_of(world *at, void (*fn)(world *at, uint64_t t))
{
    double best = 0;

    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = ps_clock_us();
        double ms;

        for (uint64_t t = 1; t <= STEPS; t++) {
            fn(at, t);
        }
        ms = (double)(ps_clock_us() - start) / 1e3 / STEPS;
        best = round == 0 || ms < best ? ms : best;
    }
    return best;
}

/* GFLOP/s of a square product. */
static double peak(void)
{
    float *a = ps_xcalloc((size_t)SQUARE * SQUARE, sizeof *a);
    float *b = ps_xcalloc((size_t)SQUARE * SQUARE, sizeof *b);
    float *c = ps_xcalloc((size_t)SQUARE * SQUARE, sizeof *c);
    double best = 0;

    for (int round = 0; round < 2 * ROUNDS; round++) {
        int64_t start = ps_clock_us();
        double rate;

        ps_gemm_nn(SQUARE, SQUARE, SQUARE, a, b, 0.0f, c);
        rate = 2.0 * SQUARE * SQUARE * SQUARE / (double)(ps_clock_us() - start) / 1e3;
        best = rate > best ? rate : best;
    }
    free(a);
    free(b);
    free(c);
    return best;
}

int main(void)
{
    /* Products of a step: y and dW of each layer, dx of all but the first. */
    const double ops =
        2.0 * BATCH * (2.0 * IN * HIDDEN + 3.0 * HIDDEN * HIDDEN + 3.0 * HIDDEN * CLASSES);
    world at = {0};
    double square, all, back, forth, adam;

    world_init(&at);
    square = peak();
    forth = time_of(&at, predict);
    back = time_of(&at, train);
    adam = time_of(&at, optimise);
    all = time_of(&at, step);
    printf("kernels             %10s\n", ps_nn_kernels());
    printf("parameters          %10zu\n", at.count);
    printf("forward             %10.3f ms\n", forth);
    printf("forward + backward  %10.3f ms\n", back);
    printf("adam                %10.3f ms\n", adam);
    printf("whole step          %10.3f ms, %.0f samples/s\n", all, BATCH / all * 1e3);
    printf("products            %10.1f GFLOP/s, %.0f %% of %.1f (sgemm of %d)\n", ops / back / 1e6,
           100 * ops / back / 1e6 / square, square, SQUARE);
    world_fini(&at);
    return 0;
}
