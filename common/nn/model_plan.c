/* SPDX-License-Identifier: Apache-2.0 */
/* model_plan.c - computes shapes, variables and the places of tensors in one block from a list of
 * layers. */
#include "common/nn/model_impl.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN_FLOATS = PS_ALIGN_BYTES / sizeof(float) };

size_t ps_model_reserve(ps_model *model, size_t floats)
{
    size_t at = model->block_floats;

    model->block_floats += (floats + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    return at;
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

static ps_status add_variables(ps_model *model, uint32_t index)
{
    ps_placed *at = &model->layers[index];

    at->first_variable = (uint32_t)model->var_count;
    for (unsigned v = 0; v < at->plan.var_count; v++) {
        const ps_layer_var *asked = &at->plan.vars[v];
        ps_variable *var = &model->vars[model->var_count++];
        int length = snprintf(var->name, sizeof var->name, "%s.%s", at->name, asked->name);

        assert(length > 0 && (size_t)length < sizeof var->name);
        var->shape = asked->shape;
        var->at = model->param_count;
        var->size = ps_shape_size(&asked->shape);
        var->layer = index;
        var->init = asked->init;
        var->is_state = asked->is_state;
        var->is_sparse = asked->is_sparse;
        assert(!var->is_sparse || (v == 0 && var->shape.rank == 2 && at->layer->touch != NULL));
        model->param_count += var->size;
    }
    if (model->param_count > PS_TENSOR_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "%zu parameters up to here, %d are allowed",
                       model->param_count, PS_TENSOR_MAX);
    }
    return ps_ok();
}

/* Fills in the inputs of a layer and their shapes. Fails if there are too many, or one is not
 * before the layer. */
static ps_status find_inputs(ps_model *model, uint32_t index, const ps_layer_spec *spec,
                             const ps_shape *in)
{
    ps_placed *at = &model->layers[index];
    uint32_t most = spec->layer->inputs_max > 0 ? spec->layer->inputs_max : 1;

    at->input_count = spec->input_count > 0 ? spec->input_count : 1;
    if (at->input_count > most || at->input_count > PS_LAYER_INPUTS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s takes at most %u inputs, not %u", spec->layer->kind,
                       most, at->input_count);
    }
    for (uint32_t k = 0; k < at->input_count; k++) {
        uint32_t from = spec->input_count > 0 ? spec->inputs[k] : index;

        if (from > index) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "input %u is layer %u, which is not before it in the list", k, from - 1);
        }
        at->reads[k] = from;
        at->plan.ins[k] = from == 0 ? *in : model->layers[from - 1].plan.out;
        at->inputs[k].from = from == 0 ? PS_MODEL_INPUT : model->layers[from - 1].root;
        if (from > 0) {
            model->layers[from - 1].is_read = true;
        }
        at->has_slope = at->has_slope || (at->inputs[k].from != PS_MODEL_INPUT &&
                                          model->layers[at->inputs[k].from].has_slope);
    }
    at->plan.input_count = at->input_count;
    at->plan.in = at->plan.ins[0];
    return ps_ok();
}

/* Returns the layer that reads the output of layer `index`; NULL if none or several inputs of
 * layers do. */
static const ps_layer_spec *only_reader(const ps_layer_spec *specs, size_t count, uint32_t index)
{
    const ps_layer_spec *found = NULL;

    for (size_t i = index + 1; i < count; i++) {
        uint32_t inputs = specs[i].input_count;

        if (inputs == 0 && i == index + 1) {
            found = &specs[i];
        }
        for (uint32_t k = 0; k < inputs && k < PS_LAYER_INPUTS_MAX; k++) {
            if (specs[i].inputs[k] != index + 1) {
                continue;
            }
            if (found != NULL) {
                return NULL;
            }
            found = &specs[i];
        }
    }
    return found;
}

/* Returns the input of an addition of two outputs that is not layer `index`, numbered as in
 * ps_layer_spec. Returns UINT32_MAX if this input is computed after layer `index`, or if the
 * addition has other than two inputs. */
static uint32_t other_input(const ps_layer_spec *sum, uint32_t index)
{
    uint32_t other;

    if (sum->input_count != 2) {
        return UINT32_MAX;
    }
    other = sum->inputs[0] == index + 1 ? sum->inputs[1] : sum->inputs[0];
    return other <= index ? other : UINT32_MAX;
}

/* Merges a following relu, and an addition between the two, into a layer, if the layer has
 * with_relu and no other layer reads the outputs in between. The addition must have two inputs, the
 * other of which is computed before the layer. */
static void take_relu(ps_model *model, uint32_t index, const ps_layer_spec *specs)
{
    ps_placed *at = &model->layers[index];
    const ps_layer_spec *next = only_reader(specs, model->layer_count, index), *sum = NULL;
    uint32_t added = UINT32_MAX;

    if (at->layer->with_relu == NULL || next == NULL) {
        return;
    }
    if (next->layer == ps_layer_find("add")) {
        sum = next;
        added = other_input(sum, index);
        next = only_reader(specs, model->layer_count, (uint32_t)(sum - specs));
    }
    if (next == NULL || next->layer != ps_layer_find("relu") ||
        (sum != NULL && added == UINT32_MAX)) {
        return;
    }
    at->runs = at->layer->with_relu;
    model->layers[next - specs].is_done = true;
    if (sum != NULL) {
        ps_placed_input *input = &at->inputs[at->input_count];

        model->layers[sum - specs].is_done = true;
        at->plan.ins[at->input_count++] = at->plan.out;
        input->from = added == 0 ? PS_MODEL_INPUT : model->layers[added - 1].root;
        at->has_slope = at->has_slope ||
                        (input->from != PS_MODEL_INPUT && model->layers[input->from].has_slope);
    }
}

static void place_layer(ps_model *model, uint32_t index, size_t *scratch)
{
    ps_placed *at = &model->layers[index];
    size_t tape = at->plan.tape_floats;

    assert(tape <= PS_TENSOR_MAX);
    at->root = index;
    if (at->is_done) {
        /* take_relu has merged this relu or addition into an earlier layer, which is the latest of
         * its inputs. The output lies where that layer's does. */
        at->root = at->inputs[0].from;
        for (uint32_t k = 1; k < at->input_count; k++) {
            uint32_t from = at->inputs[k].from;

            at->root = from != PS_MODEL_INPUT && (at->root == PS_MODEL_INPUT || from > at->root)
                           ? from
                           : at->root;
        }
        return;
    }
    if (at->layer->forward == NULL && at->layer->forward_many == NULL) {
        assert(at->layer->backward == NULL &&
               ps_shape_size(&at->plan.out) == ps_shape_size(&at->plan.in));
        at->root = at->inputs[0].from;
        return;
    }
    at->has_slope = at->has_slope || at->plan.var_count > 0;
    at->y_at = ps_model_reserve(model, model->batch * ps_shape_size(&at->plan.out));
    if (!at->plan.tape_is_scratch) {
        at->tape_at = ps_model_reserve(model, tape);
    } else if (tape > *scratch) {
        *scratch = tape;
    }
}

static ps_status add_layer(ps_model *model, uint32_t index, const ps_layer_spec *specs,
                           const ps_shape *in, size_t *scratch)
{
    ps_placed *at = &model->layers[index];
    const ps_layer_spec *spec = &specs[index];
    ps_status st;

    at->layer = at->runs = spec->layer;
    snprintf(at->name, sizeof at->name, "%s", spec->name);
    at->plan = (ps_layer_plan){.batch = model->batch, .params = spec->params};
    st = find_inputs(model, index, spec, in);
    if (ps_is_ok(&st)) {
        st = spec->layer->plan(&at->plan);
    }
    if (ps_is_ok(&st)) {
        st = check_tensor(&at->plan.out, model->batch, "output");
    }
    if (ps_is_ok(&st)) {
        st = add_variables(model, index);
    }
    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "layer %u (%.*s)", index, (int)sizeof spec->name, spec->name);
    }
    take_relu(model, index, specs);
    place_layer(model, index, scratch);
    return ps_ok();
}

ps_status ps_model_plan(ps_model *model, const ps_layer_spec *specs, ps_shape in)
{
    size_t scratch = 0;
    ps_status st = check_tensor(&in, model->batch, "input");

    model->in = in;
    for (uint32_t i = 0; ps_is_ok(&st) && i < model->layer_count; i++) {
        st = add_layer(model, i, specs, &in, &scratch);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    for (uint32_t i = 0; i + 1 < model->layer_count; i++) {
        if (!model->layers[i].is_read) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "layer %u (%s): no layer behind it reads its output", i,
                           model->layers[i].name);
        }
    }
    model->scratch_at = ps_model_reserve(model, scratch);
    for (uint32_t i = 0; i < model->layer_count; i++) {
        if (model->layers[i].plan.tape_is_scratch) {
            model->layers[i].tape_at = model->scratch_at;
        }
    }
    ps_model_plan_slopes(model);
    return ps_ok();
}
