/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - see model.h. The block of memory is described in model_impl.h. Letters as in layer.h.
 */
#include "common/nn/model_impl.h"

#include "common/base/clones.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/nn/blas.h"
#include "common/trace/trace.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static ps_status add_rows(ps_model *model)
{
    model->rows = ps_xcalloc(model->var_count + 1, sizeof(ps_rowset *));
    for (size_t v = 0; v < model->var_count; v++) {
        const ps_variable *var = &model->vars[v];

        if (!var->is_sparse) {
            continue;
        }
        model->rows[v] = ps_rowset_create(var->shape.dim[0]);
        if (model->rows[v] == NULL) {
            return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for the rows of %s", var->name);
        }
    }
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
    if (batch == 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "a batch of no samples");
    }
    ps_nn_init_process();
    model = ps_xcalloc(1, sizeof *model);
    model->layers = ps_xcalloc(count, sizeof *model->layers);
    model->layer_count = count;
    model->vars = ps_xcalloc(count * PS_LAYER_VARS_MAX, sizeof *model->vars);
    model->loss = loss;
    model->batch = batch;
    st = ps_model_plan(model, layers, in);
    if (!ps_is_ok(&st)) {
        goto out;
    }
    model->block = ps_aligned_alloc(model->block_floats * sizeof *model->block);
    if (model->block == NULL) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for activations: %zu bytes",
                     model->block_floats * sizeof *model->block);
        goto out;
    }
    st = add_rows(model);
    if (ps_is_ok(&st)) {
        *out = model;
        model = NULL;
    }
out:
    ps_model_destroy(model);
    return st;
}

ps_status ps_model_of_variables(const ps_variable *vars, size_t count, ps_model **out)
{
    ps_model *model = ps_xcalloc(1, sizeof *model);

    model->vars = ps_xcalloc(count + 1, sizeof *model->vars);
    model->var_count = count;
    model->rows = ps_xcalloc(count + 1, sizeof(ps_rowset *));
    for (size_t v = 0; v < count; v++) {
        model->vars[v] = vars[v];
        model->vars[v].size = ps_shape_size(&vars[v].shape);
        model->vars[v].at = model->param_count;
        if (model->vars[v].size > PS_TENSOR_MAX - model->param_count) {
            ps_model_destroy(model);
            return ps_fail(PS_INVALID_ARGUMENT,
                           "the variables up to %s have more than %d values in all", vars[v].name,
                           PS_TENSOR_MAX);
        }
        model->param_count += model->vars[v].size;
    }
    *out = model;
    return ps_ok();
}

void ps_model_destroy(ps_model *model)
{
    if (model == NULL) {
        return;
    }
    for (size_t v = 0; model->rows != NULL && v < model->var_count; v++) {
        ps_rowset_destroy(model->rows[v]);
    }
    ps_team_destroy(model->team);
    free(model->rows);
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

size_t ps_model_layer_count(const ps_model *model)
{
    return model->layer_count;
}

ps_model_layer ps_model_layer_at(const ps_model *model, size_t index)
{
    const ps_placed *at = &model->layers[index];

    assert(index < model->layer_count);
    return (ps_model_layer){.layer = at->layer,
                            .plan = &at->plan,
                            .name = at->name,
                            .variables = model->vars + at->first_variable,
                            .inputs = at->reads};
}

size_t ps_model_output_width(const ps_model *model)
{
    return model->layer_count == 0 ? 1
                                   : ps_shape_size(&model->layers[model->layer_count - 1].plan.out);
}

size_t ps_model_activations(const ps_model *model)
{
    return model->block_floats * sizeof *model->block;
}

size_t ps_model_memory(const ps_model *model)
{
    size_t bytes = sizeof *model + model->layer_count * sizeof *model->layers +
                   model->layer_count * PS_LAYER_VARS_MAX * sizeof *model->vars +
                   ps_model_activations(model) + ps_team_memory(model->team);

    for (size_t v = 0; v < model->var_count; v++) {
        bytes += model->vars[v].is_sparse ? ps_rowset_bytes(model->vars[v].shape.dim[0]) : 0;
    }
    return bytes;
}

void ps_model_init(const ps_model *model, uint64_t seed, float *block)
{
    for (size_t v = 0; v < model->var_count; v++) {
        const ps_variable *var = &model->vars[v];

        ps_init_fill(&var->init, seed, v, block + var->at, var->size);
    }
}

void ps_model_set_threads(ps_model *model, uint32_t threads)
{
    size_t floats = 0;

    assert(model->team == NULL);
    for (size_t i = 0; i < model->layer_count; i++) {
        const ps_layer_plan *plan = &model->layers[i].plan;

        floats = plan->tape_is_scratch && plan->tape_floats > floats ? plan->tape_floats : floats;
    }
    model->team = threads > 1 ? ps_team_create(threads, floats) : NULL;
}

void ps_model_set_draws(ps_model *model, uint64_t key)
{
    model->draws = key;
}

void ps_model_set_ascent(ps_model *model, bool is_ascent)
{
    model->is_ascent = is_ascent;
}

static ps_pass pass_of(const ps_model *model, size_t index, bool is_training, float scale)
{
    return (ps_pass){.is_training = is_training,
                     .key = ps_draw_u64(model->draws, index),
                     .scale = scale,
                     .team = model->team};
}

/* Writes to w where each variable of a layer begins in `block`, which has all variables. */
static void locate(const ps_model *model, const ps_placed *at, const float *block, const float **w)
{
    for (unsigned v = 0; v < at->plan.var_count; v++) {
        w[v] = block + model->vars[at->first_variable + v].at;
    }
}

static void inputs_of(const ps_model *model, const ps_placed *at, const float *x, const float **in)
{
    for (uint32_t k = 0; k < at->input_count; k++) {
        in[k] = ps_model_output_of(model, at->inputs[k].from, x);
    }
}

/* Computes the forward pass of n samples. Returns the output of the last layer. */
static const float *forward(ps_model *model, const float *weights, const float *x, size_t n,
                            bool is_training, const ps_model_hooks *hooks)
{
    assert(n <= model->batch);
    for (size_t i = 0; i < model->layer_count; i++) {
        ps_placed *at = &model->layers[i];
        ps_layer_call call = {.pass = pass_of(model, i, is_training, 0.0f),
                              .y = model->block + at->y_at,
                              .tape = model->block + at->tape_at,
                              .n = n};
        int64_t began_ns;

        if (at->root != i) {
            continue;
        }
        if (hooks != NULL && hooks->need != NULL && at->plan.var_count > 0) {
            hooks->need(hooks->arg, at->first_variable, at->plan.var_count);
        }
        inputs_of(model, at, x, call.x);
        locate(model, at, weights, call.w);
        if (at->input_count > at->plan.input_count) {
            call.pass.added = call.x[at->plan.input_count];
        }
        began_ns = ps_trace_begin();
        ps_model_call_forward(at, &call);
        ps_trace_end(PS_TRACE_FORWARD, began_ns, (uint32_t)i, at->layer->kind);
    }
    return ps_model_output_of(model, model->layers[model->layer_count - 1].root, x);
}

/* Clears the rows of a sparse variable's gradient that the last pass touched. */
static void clear_rows(const ps_model *model, size_t variable, float *grad)
{
    const ps_variable *var = &model->vars[variable];
    size_t count, width = var->shape.dim[1];
    const uint32_t *row = ps_rowset_list(model->rows[variable], &count);

    for (size_t i = 0; i < count; i++) {
        memset(grad + var->at + row[i] * width, 0, width * sizeof *grad);
    }
}

static void clear_range(void *values, size_t from, size_t to)
{
    memset((float *)values + from, 0, (to - from) * sizeof(float));
}

static void clear(ps_team *team, float *values, size_t n)
{
    ps_team_ranges(ps_team_for(team, n, PS_TEAM_VALUES), n, PS_TEAM_LINE, clear_range, values);
}

/* Clears the gradients of a layer's variables, before the layer adds to them, and the lists of rows
 * that the last pass touched. With keeps_rows, only these rows of a sparse variable are cleared:
 * the others are zero already. */
static void clear_gradient(const ps_model *model, const ps_placed *at, float *grad)
{
    for (size_t v = at->first_variable; v < at->first_variable + at->plan.var_count; v++) {
        const ps_variable *var = &model->vars[v];

        if (var->is_sparse && model->keeps_rows) {
            clear_rows(model, v, grad);
        } else {
            clear(model->team, grad + var->at, var->size);
        }
        if (var->is_sparse) {
            ps_rowset_clear(model->rows[v]);
        }
    }
}

const uint32_t *ps_model_rows(ps_model *model, size_t variable, size_t *count)
{
    assert(variable < model->var_count);
    *count = 0;
    return model->rows[variable] == NULL ? NULL : ps_rowset_list(model->rows[variable], count);
}

void ps_model_keep_rows(ps_model *model, bool is_kept)
{
    model->keeps_rows = is_kept;
}

/* Adds a (n) to sum (n). */
PS_CLONES(add_to, (a, sum, n), const float *restrict a, float *restrict sum, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum[i] += a[i];
    }
}

/* Computes sum = a + b, n values. a and b may be the same. */
PS_CLONES(add_both, (a, b, sum, n), const float *a, const float *b, float *restrict sum, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum[i] = a[i] + b[i];
    }
}

/* A sum of two tensors of gradients. */
typedef struct sum {
    const float *a, *b; /* a NULL: b is added to `to` */
    float *to;
} sum;

static void add_range(void *arg, size_t from, size_t to)
{
    const sum *of = arg;

    if (of->a == NULL) {
        add_to(of->b + from, of->to + from, to - from);
    } else {
        add_both(of->a + from, of->b + from, of->to + from, to - from);
    }
}

typedef struct step {
    const float *weights, *x;
    size_t n;
    float scale;
    float *grad;
} step;

/* Calls the layer's backward, which adds the gradients of its variables and writes those of its
 * inputs. Does nothing if the layer passes its output's gradient on to all inputs unchanged. */
static void backward_layer(ps_model *model, size_t index, const step *of)
{
    const ps_placed *at = &model->layers[index];
    ps_layer_call call = {.pass = pass_of(model, index, true, of->scale),
                          .y = model->block + at->y_at,
                          .tape = model->block + at->tape_at,
                          .dy = model->block + at->dy_at,
                          .n = of->n};

    if (at->runs->passes_slope) {
        return;
    }
    inputs_of(model, at, of->x, call.x);
    for (uint32_t k = 0; k < at->input_count; k++) {
        if (at->inputs[k].way != PS_SLOPE_NONE) {
            call.dx[k] =
                at->inputs[k].way == PS_SLOPE_OVER ? call.dy : model->block + at->inputs[k].to;
        }
    }
    if (at->layer->touch != NULL) {
        at->layer->touch(&at->plan, call.x[0], of->n, model->rows[at->first_variable]);
    }
    locate(model, at, of->weights, call.w);
    for (unsigned v = 0; v < at->plan.var_count; v++) {
        call.dw[v] = of->grad + model->vars[at->first_variable + v].at;
    }
    if (at->input_count > at->plan.input_count) {
        call.pass.added = call.x[at->plan.input_count];
        call.pass.dadded = call.dx[at->plan.input_count];
    }
    ps_model_call_backward(at, &call);
}

/* Adds to the gradient of each input the sum that later layers have computed for the same output,
 * if there is one. */
static void merge_slopes(ps_model *model, const ps_placed *at, size_t n)
{
    const float *dy = model->block + at->dy_at;

    for (uint32_t k = 0; k < at->input_count; k++) {
        const ps_placed_input *input = &at->inputs[k];
        size_t values = n * ps_shape_size(&at->plan.ins[k]);
        sum of = {.a = input->way == PS_SLOPE_SUM ? dy : NULL,
                  .b = model->block + input->old,
                  .to = model->block + input->to};

        if (input->way == PS_SLOPE_ADD || input->way == PS_SLOPE_SUM) {
            ps_team_ranges(ps_team_for(model->team, values, PS_TEAM_VALUES), values, PS_TEAM_LINE,
                           add_range, &of);
        }
    }
}

void ps_model_train(ps_model *model, const float *weights, const float *x, ps_targets targets,
                    size_t n, float scale, bool accumulate, float *grad,
                    const ps_model_hooks *hooks, ps_score *score)
{
    const float *y = forward(model, weights, x, n, true, hooks);
    const step of = {.weights = weights, .x = x, .n = n, .scale = scale, .grad = grad};

    if (hooks != NULL && hooks->outputs != NULL) {
        hooks->outputs(hooks->arg, y, n);
    }
    model->loss->eval(y, targets, n, ps_model_output_width(model),
                      model->is_ascent ? -scale : scale, model->block + model->dy_at, score);
    for (size_t i = model->layer_count; i-- > 0;) {
        const ps_placed *at = &model->layers[i];
        int64_t began_ns = ps_trace_begin();

        if (at->root != i || !at->has_slope) {
            continue;
        }
        if (!accumulate) {
            clear_gradient(model, at, grad);
        }
        backward_layer(model, i, &of);
        merge_slopes(model, at, n);
        ps_trace_end(PS_TRACE_BACKWARD, began_ns, (uint32_t)i, at->layer->kind);
        if (hooks != NULL && hooks->ready != NULL && at->plan.var_count > 0) {
            hooks->ready(hooks->arg, at->first_variable, at->plan.var_count);
        }
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
