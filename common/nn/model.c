/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - see model.h.
 *
 * One block holds all activations: the output and the tape of each layer, then
 * two tensors as wide as the widest output, between which gradients go to and
 * fro on the way back. A view has no output of its own. Letters as in layer.h.
 */
#include "common/nn/model.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/blas.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN_FLOATS = PS_ALIGN_BYTES / sizeof(float) };

typedef struct placed {
    const ps_layer *layer;
    ps_layer_plan plan;
    uint32_t first_variable;
    size_t y_at, tape_at; /* floats, in the block of activations */
    const float *y;       /* output of the last forward; a view's is its input */
} placed;

struct ps_model {
    placed *layers;
    size_t layer_count;
    size_t first_trained; /* first layer with variables; gradients need go no further */
    ps_variable *vars;
    size_t var_count;
    size_t param_count;
    const ps_loss *loss;
    size_t batch;
    uint64_t draws;     /* key of the passes to come */
    size_t spare_at[2]; /* two gradients, in the block */
    float *block;
    size_t block_floats;
};

/* Takes `floats` of the block being planned. */
static size_t reserve(ps_model *model, size_t floats)
{
    size_t at = model->block_floats;

    model->block_floats += (floats + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    return at;
}

static ps_status add_variables(ps_model *model, uint32_t index, const char *layer_name)
{
    placed *at = &model->layers[index];

    at->first_variable = (uint32_t)model->var_count;
    for (unsigned v = 0; v < at->plan.var_count; v++) {
        const ps_layer_var *asked = &at->plan.vars[v];
        ps_variable *var = &model->vars[model->var_count++];
        int length = snprintf(var->name, sizeof var->name, "%s.%s", layer_name, asked->name);

        assert(length > 0 && (size_t)length < sizeof var->name);
        var->shape = asked->shape;
        var->at = model->param_count;
        var->size = ps_shape_size(&asked->shape);
        var->layer = index;
        var->init = asked->init;
        var->is_state = asked->is_state;
        model->param_count += var->size;
    }
    if (model->param_count > PS_TENSOR_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "%zu parameters up to here, %d are allowed",
                       model->param_count, PS_TENSOR_MAX);
    }
    return ps_ok();
}

static ps_status check_tensor(const ps_shape *shape, size_t batch, const char *what)
{
    size_t size = ps_shape_size(shape), values;

    if (shape->rank == 0 || size == 0 || __builtin_mul_overflow(size, batch, &values) ||
        values > PS_TENSOR_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: %zu samples of %zu values, 1 to %d in all", what,
                       batch, size, PS_TENSOR_MAX);
    }
    return ps_ok();
}

static ps_status add_layer(ps_model *model, uint32_t index, const ps_layer_spec *spec, ps_shape in)
{
    placed *at = &model->layers[index];
    ps_status st;

    at->layer = spec->layer;
    at->plan = (ps_layer_plan){.in = in, .batch = model->batch, .params = spec->params};
    st = spec->layer->plan(&at->plan);
    if (ps_is_ok(&st)) {
        st = check_tensor(&at->plan.out, model->batch, "output");
    }
    if (ps_is_ok(&st)) {
        assert(at->plan.tape_floats <= PS_TENSOR_MAX);
        st = add_variables(model, index, spec->name);
    }
    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "layer %u (%.*s)", index, (int)sizeof spec->name, spec->name);
    }
    if (spec->layer->forward == NULL) {
        assert(spec->layer->backward == NULL && ps_shape_size(&at->plan.out) == ps_shape_size(&in));
        return ps_ok();
    }
    at->y_at = reserve(model, model->batch * ps_shape_size(&at->plan.out));
    at->tape_at = reserve(model, at->plan.tape_floats);
    return ps_ok();
}

static ps_status plan_layers(ps_model *model, const ps_layer_spec *specs, ps_shape in)
{
    ps_shape shape = in;
    size_t widest = 0;

    for (uint32_t i = 0; i < model->layer_count; i++) {
        ps_status st = add_layer(model, i, &specs[i], shape);

        if (!ps_is_ok(&st)) {
            return st;
        }
        shape = model->layers[i].plan.out;
        if (ps_shape_size(&shape) > widest) {
            widest = ps_shape_size(&shape);
        }
    }
    while (model->first_trained < model->layer_count &&
           model->layers[model->first_trained].plan.var_count == 0) {
        model->first_trained++;
    }
    model->spare_at[0] = reserve(model, model->batch * widest);
    model->spare_at[1] = reserve(model, model->batch * widest);
    return ps_ok();
}

ps_status ps_model_create(const ps_layer_spec *layers, size_t count, ps_shape in,
                          const ps_loss *loss, size_t batch, ps_model **out)
{
    ps_model *model = NULL;
    ps_status st;

    if (count == 0 || count > PS_MODEL_LAYERS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "%zu layers, 1 to %d are allowed", count,
                       PS_MODEL_LAYERS_MAX);
    }
    st = check_tensor(&in, batch, "input");
    if (!ps_is_ok(&st) || batch == 0) {
        return ps_is_ok(&st) ? ps_fail(PS_INVALID_ARGUMENT, "a batch of no samples") : st;
    }
    ps_nn_init_process();
    model = ps_xcalloc(1, sizeof *model);
    model->layers = ps_xcalloc(count, sizeof *model->layers);
    model->layer_count = count;
    model->vars = ps_xcalloc(count * PS_LAYER_VARS_MAX, sizeof *model->vars);
    model->loss = loss;
    model->batch = batch;
    st = plan_layers(model, layers, in);
    if (!ps_is_ok(&st)) {
        goto out;
    }
    model->block = ps_aligned_alloc(model->block_floats * sizeof *model->block);
    if (model->block == NULL) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for activations: %zu bytes",
                     model->block_floats * sizeof *model->block);
        goto out;
    }
    *out = model;
    model = NULL;
out:
    ps_model_destroy(model);
    return st;
}

void ps_model_destroy(ps_model *model)
{
    if (model == NULL) {
        return;
    }
    free(model->block);
    free(model->vars);
    free(model->layers);
    free(model);
}

size_t ps_model_param_count(const ps_model *model)
{
    return model->param_count;
}

size_t ps_model_variable_count(const ps_model *model)
{
    return model->var_count;
}

const ps_variable *ps_model_variable(const ps_model *model, size_t index)
{
    assert(index < model->var_count);
    return &model->vars[index];
}

size_t ps_model_output_width(const ps_model *model)
{
    return ps_shape_size(&model->layers[model->layer_count - 1].plan.out);
}

size_t ps_model_batch(const ps_model *model)
{
    return model->batch;
}

size_t ps_model_memory(const ps_model *model)
{
    return sizeof *model + model->layer_count * sizeof *model->layers +
           model->layer_count * PS_LAYER_VARS_MAX * sizeof *model->vars +
           model->block_floats * sizeof *model->block;
}

void ps_model_init(const ps_model *model, uint64_t seed, float *block)
{
    for (size_t v = 0; v < model->var_count; v++) {
        const ps_variable *var = &model->vars[v];

        ps_init_fill(&var->init, seed, v, block + var->at, var->size);
    }
}

void ps_model_set_draws(ps_model *model, uint64_t key)
{
    model->draws = key;
}

static ps_pass pass_of(const ps_model *model, size_t index, bool is_training, float scale)
{
    return (ps_pass){
        .is_training = is_training, .key = ps_draw_u64(model->draws, index), .scale = scale};
}

/* Where the variables of a layer are in a block of parameters. */
static void locate(const ps_model *model, const placed *at, const float *block, const float **w)
{
    for (unsigned v = 0; v < at->plan.var_count; v++) {
        w[v] = block + model->vars[at->first_variable + v].at;
    }
}

/* The output of the last layer. */
static const float *forward(ps_model *model, const float *weights, const float *x, size_t n,
                            bool is_training, const ps_model_hooks *hooks)
{
    assert(n <= model->batch);
    for (size_t i = 0; i < model->layer_count; i++) {
        placed *at = &model->layers[i];
        const float *w[PS_LAYER_VARS_MAX] = {NULL};
        ps_pass pass = pass_of(model, i, is_training, 0.0f);
        float *y = model->block + at->y_at;

        at->y = x;
        if (at->layer->forward == NULL) {
            continue;
        }
        if (hooks != NULL && hooks->need != NULL && at->plan.var_count > 0) {
            hooks->need(hooks->arg, at->first_variable, at->plan.var_count);
        }
        locate(model, at, weights, w);
        at->layer->forward(&at->plan, &pass, w, x, y, model->block + at->tape_at, n);
        at->y = x = y;
    }
    return x;
}

/* Variables of a layer lie side by side. */
static void clear_gradient(const ps_model *model, const placed *at, float *grad)
{
    if (at->plan.var_count > 0) {
        const ps_variable *first = &model->vars[at->first_variable];
        const ps_variable *last = first + at->plan.var_count - 1;

        memset(grad + first->at, 0, (last->at + last->size - first->at) * sizeof *grad);
    }
}

typedef struct step {
    const float *weights, *x;
    size_t n;
    float scale;
    float *grad;
} step;

static void backward_layer(ps_model *model, size_t index, const step *of, const float *dy,
                           float *dx)
{
    const placed *at = &model->layers[index];
    const float *in = index == 0 ? of->x : model->layers[index - 1].y;
    const float *w[PS_LAYER_VARS_MAX] = {NULL};
    float *dw[PS_LAYER_VARS_MAX] = {NULL};
    ps_pass pass = pass_of(model, index, true, of->scale);

    locate(model, at, of->weights, w);
    for (unsigned v = 0; v < at->plan.var_count; v++) {
        dw[v] = of->grad + model->vars[at->first_variable + v].at;
    }
    at->layer->backward(&at->plan, &pass, w, in, at->y, model->block + at->tape_at, dy, dw, dx,
                        of->n);
}

void ps_model_train(ps_model *model, const float *weights, const float *x, ps_targets targets,
                    size_t n, float scale, bool accumulate, float *grad,
                    const ps_model_hooks *hooks, ps_score *score)
{
    const float *y = forward(model, weights, x, n, true, hooks);
    const step of = {.weights = weights, .x = x, .n = n, .scale = scale, .grad = grad};
    float *dy = model->block + model->spare_at[0];
    float *dx = model->block + model->spare_at[1];

    model->loss->eval(y, targets, n, ps_model_output_width(model), scale, dy, score);
    for (size_t i = model->layer_count; i-- > model->first_trained;) {
        const placed *at = &model->layers[i];
        float *held = dy;

        if (at->layer->backward == NULL) {
            continue;
        }
        if (!accumulate) {
            clear_gradient(model, at, grad);
        }
        backward_layer(model, i, &of, dy, i == model->first_trained ? NULL : dx);
        if (hooks != NULL && hooks->ready != NULL && at->plan.var_count > 0) {
            hooks->ready(hooks->arg, at->first_variable, at->plan.var_count);
        }
        dy = dx;
        dx = held;
    }
}

void ps_model_eval(ps_model *model, const float *weights, const float *x, ps_targets targets,
                   size_t n, ps_score *score)
{
    const float *y = forward(model, weights, x, n, false, NULL);

    model->loss->eval(y, targets, n, ps_model_output_width(model), 1.0f, NULL, score);
}

const float *ps_model_predict(ps_model *model, const float *weights, const float *x, size_t n)
{
    return forward(model, weights, x, n, false, NULL);
}
