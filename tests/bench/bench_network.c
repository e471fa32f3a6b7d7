/* SPDX-License-Identifier: Apache-2.0 */
/* bench_network.c - training steps of a network, timed on request; the half of
 * tests/bench/networks.py that is ours.
 *
 *     bench_network NAME BATCH STEPS
 *     bench_network kernels
 *
 * NAME is mlp (784-128-128-10, tanh) or one of common/nn/network.h. Each line on
 * standard input runs so many steps, forward, backward and Adam, on one thread,
 * and prints the processor's milliseconds a step: others may use the machine too.
 * `kernels` prints whose kernels OpenBLAS is told to use, so that the peer can be
 * told as well.
 */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/blas.h"
#include "common/nn/network.h"
#include "common/optim/optim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CLASSES = 10, LAYERS_MAX = 32, MLP_LAYERS = 5 };

typedef struct world {
    ps_model *model;
    const ps_optim *optim;
    ps_params params;
    size_t batch, count;
    float *w, *g, *state, *x;
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
    specs[MLP_LAYERS - 1].params.v[0] = CLASSES;
    return MLP_LAYERS;
}

static void world_init(world *at, const char *name, size_t batch)
{
    const ps_network *network = ps_network_find(name);
    ps_shape in = {.rank = 3, .dim = {1, 28, 28}};
    ps_layer_spec specs[LAYERS_MAX] = {{0}};
    size_t count = 0;
    ps_status st;

    if (network != NULL && network->count <= LAYERS_MAX) {
        count = network->count;
        ps_network_specs(network, CLASSES, specs);
    } else if (strcmp(name, "mlp") == 0) {
        count = mlp_specs(specs);
    }
    if (strcmp(name, "alexnet") == 0) {
        in = (ps_shape){.rank = 3, .dim = {3, 32, 32}};
    }
    st =
        ps_model_create(specs, count, in, ps_loss_find("softmax_cross_entropy"), batch, &at->model);
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "bench_network: %s: %s\n", name, st.text);
        exit(1);
    }
    at->optim = ps_optim_find("adam");
    at->params = ps_params_default(at->optim->params);
    at->batch = batch;
    at->count = ps_model_param_count(at->model);
    at->w = ps_xaligned_alloc(at->count * sizeof(float));
    at->g = ps_xaligned_alloc(at->count * sizeof(float));
    at->state = ps_xcalloc(at->count * at->optim->slots, sizeof(float));
    at->x = ps_xaligned_alloc(batch * ps_shape_size(&in) * sizeof(float));
    at->classes = ps_xcalloc(batch, sizeof *at->classes);
    for (size_t i = 0; i < batch * ps_shape_size(&in); i++) {
        at->x[i] = (float)(ps_draw_unit(1, i) - 0.5);
    }
    for (size_t i = 0; i < batch; i++) {
        at->classes[i] = (float)(i % CLASSES);
    }
    ps_model_init(at->model, 1, at->w);
}

static void world_fini(world *at)
{
    free(at->classes);
    free(at->x);
    free(at->state);
    free(at->g);
    free(at->w);
    ps_model_destroy(at->model);
}

static void step(world *at)
{
    ps_score score = {0};

    at->t++;
    ps_model_set_draws(at->model, at->t);
    ps_model_train(at->model, at->w, at->x, ps_targets_classes(at->classes), at->batch,
                   1.0f / (float)at->batch, false, at->g, NULL, &score);
    at->optim->step(&at->params, at->t, at->g, at->state, at->w, at->count);
}

static double processor_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    char line[16];
    long batch = argc == 4 ? strtol(argv[2], NULL, 10) : 0;
    long steps = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
    world at = {0};

    if (argc == 2 && strcmp(argv[1], "kernels") == 0) {
        ps_nn_init_process();
        puts(ps_nn_kernels());
        return 0;
    }
    if (batch <= 0 || steps <= 0) {
        fprintf(stderr, "usage: bench_network NAME BATCH STEPS, or bench_network kernels\n");
        return 2;
    }
    world_init(&at, argv[1], (size_t)batch);
    fprintf(stderr, "%s: %zu parameters, %.1f MiB of activations\n", argv[1], at.count,
            (double)ps_model_memory(at.model) / 1048576.0);
    while (fgets(line, sizeof line, stdin) != NULL) {
        double start = processor_ms();

        for (long i = 0; i < steps; i++) {
            step(&at);
        }
        printf("%.4f\n", (processor_ms() - start) / (double)steps);
        fflush(stdout);
    }
    world_fini(&at);
    return 0;
}
