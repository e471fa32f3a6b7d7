/* SPDX-License-Identifier: Apache-2.0 */
/* check_model.c - the network of a job, from a preset or a list of layers. */
#include "common/base/nearest.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/job/plan_impl.h"
#include "common/job/spec.h"
#include "common/nn/network.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTHS_MAX = 64,
    WIDTH_MAX = 65536,
    VALUES_MAX = 1 << 28, /* most parameters: an array of float32 on each worker, 1 GiB */
    NAME_MAX_BYTES = 63
};
/* the name of the model's input, in the list of inputs of a layer */
static const char input_name[] = "input";
/* most bytes of the activations of one block: 4 GiB */
static const double activations_max = 4294967296.0;

/* Activations that the network mlp may have: layers without numbers of their own. */
static const char *const activations[] = {"tanh", "relu", "sigmoid"};

static bool is_activation(const char *name)
{
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
        if (strcmp(name, activations[i]) == 0) {
            return true;
        }
    }
    return false;
}

static ps_layer_spec *add_layer(ps_plan *plan, const ps_layer *layer)
{
    ps_layer_spec *spec = &plan->layers[plan->layer_count];

    assert(layer != NULL);
    spec->layer = layer;
    spec->params = ps_params_default(layer->params);
    snprintf(spec->name, sizeof spec->name, "%s%zu", layer->kind, plan->layer_count);
    plan->layer_count++;
    return spec;
}

/* Returns the number of outputs of a preset's network: the classes of the data set, or the values
 * of a target if it has no classes. */
static uint32_t outputs_of(const ps_data_facts *facts)
{
    return facts->classes > 0 ? facts->classes : facts->target_width;
}

static void add_dense(ps_plan *plan, uint32_t units)
{
    const ps_layer *dense = ps_layer_find("dense");
    ps_layer_spec *spec = add_layer(plan, dense);

    spec->params.v[ps_param_find(dense->params, "units")] = units;
}

static bool check_mlp(ps_check *check, ps_plan *plan, const ps_data_facts *facts)
{
    Psgd__V1__ModelSpec *model = plan->spec->model;
    size_t before = check->count;

    if (model->n_widths == 0) {
        model->widths = ps_xcalloc(2, sizeof *model->widths);
        model->widths[0] = model->widths[1] = 128;
        model->n_widths = 2;
    }
    if (model->activation[0] == '\0') {
        ps_spec_set(&model->activation, "tanh");
    }
    if (!is_activation(model->activation)) {
        const char *meant =
            ps_nearest(model->activation, activations, sizeof activations / sizeof activations[0]);

        ps_check_bad(check, "spec.model.activation",
                     "is \"%s\"%s%s%s; allowed: tanh, relu, sigmoid",
                     PS_SHORT(model->activation, 64), meant != NULL ? "; did you mean \"" : "",
                     meant != NULL ? meant : "", meant != NULL ? "\"?" : "");
    }
    if (model->n_widths > WIDTHS_MAX) {
        ps_check_bad(check, "spec.model.widths", "has %zu layers; at most %d are allowed",
                     model->n_widths, WIDTHS_MAX);
    }
    for (size_t i = 0; i < model->n_widths && i < WIDTHS_MAX; i++) {
        if (model->widths[i] < 1 || model->widths[i] > WIDTH_MAX) {
            char field[PS_FIELD_MAX];

            snprintf(field, sizeof field, "spec.model.widths[%zu]", i);
            ps_check_bad(check, field, "is %u; 1 to %d are allowed", model->widths[i], WIDTH_MAX);
        }
    }
    if (check->count > before || facts == NULL) {
        return false;
    }
    plan->layers = ps_xcalloc(2 * model->n_widths + 1, sizeof *plan->layers);
    for (size_t i = 0; i < model->n_widths; i++) {
        add_dense(plan, model->widths[i]);
        (void)add_layer(plan, ps_layer_find(model->activation));
    }
    add_dense(plan, outputs_of(facts));
    return true;
}

/* Checks a network by name (common/nn/network.h) and fills plan->layers. */
static bool check_network(ps_check *check, ps_plan *plan, const ps_network *network,
                          const ps_data_facts *facts)
{
    Psgd__V1__ModelSpec *model = plan->spec->model;
    ps_params params;
    ps_status st;

    if (model->n_widths > 0 || model->activation[0] != '\0') {
        ps_check_bad(check, model->n_widths > 0 ? "spec.model.widths" : "spec.model.activation",
                     "is given together with preset %s; only mlp takes it", network->name);
        return false;
    }
    if (!ps_check_numbers(check, "spec.model", network->params, &model->base, &params) ||
        facts == NULL) {
        return false;
    }
    if (model->loss[0] == '\0' && network->loss != NULL) {
        ps_spec_set(&model->loss, network->loss);
    }
    plan->layers = ps_xcalloc(PS_MODEL_LAYERS_MAX, sizeof *plan->layers);
    st = ps_network_specs(network,
                          &(ps_network_facts){.features = facts->features,
                                              .ids = facts->ids,
                                              .vocabulary = facts->vocabulary,
                                              .classes = facts->classes,
                                              .outputs = outputs_of(facts)},
                          &params, plan->layers, &plan->layer_count);
    if (!ps_is_ok(&st)) {
        ps_check_bad(check, "spec.model.preset", "does not fit the data set %s: %s",
                     plan->data->name, st.text);
        return false;
    }
    return true;
}

static bool check_preset(ps_check *check, ps_plan *plan, const ps_data_facts *facts)
{
    Psgd__V1__ModelSpec *model = plan->spec->model;
    const ps_network *network;

    if (!ps_check_plugin(check, "spec.model.preset", &ps_kind_network, &model->preset, "mlp")) {
        return false;
    }
    network = ps_network_find(model->preset);
    if (network != NULL) {
        return check_network(check, plan, network, facts);
    }
    if (model->n_params > 0) {
        ps_check_bad(check, "spec.model.params",
                     "is given together with preset mlp, which has none");
        return false;
    }
    return check_mlp(check, plan, facts);
}

static bool is_layer_name(const char *name)
{
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");

    return n > 0 && n <= NAME_MAX_BYTES && name[n] == '\0';
}

/* Finds `name` among the first `count` layers and the model's input. *number is 0 for the input,
 * else 1 + the layer's index. Returns false if no such name is there. */
static bool find_input(const ps_plan *plan, size_t count, const char *name, uint32_t *number)
{
    size_t i = 0;

    while (i < count && strcmp(plan->layers[i].name, name) != 0) {
        i++;
    }
    *number = strcmp(name, input_name) == 0 ? 0 : (uint32_t)i + 1;
    return i < count || *number == 0;
}

/* Checks the names of a layer's inputs, and writes their numbers, as of find_input, to *out. */
static void check_inputs(ps_check *check, const ps_plan *plan, const char *field,
                         const Psgd__V1__LayerSpec *spec, ps_layer_spec *out)
{
    size_t most = out->layer->inputs_max > 0 ? out->layer->inputs_max : 1;
    char path[PS_FIELD_MAX + 32];

    if (spec->n_inputs > most) {
        snprintf(path, sizeof path, "%s.inputs", field);
        ps_check_bad(check, path, "has %zu names; %s reads at most %zu", spec->n_inputs,
                     out->layer->kind, most);
        return;
    }
    out->input_count = (uint32_t)spec->n_inputs;
    for (size_t k = 0; k < spec->n_inputs; k++) {
        if (!find_input(plan, (size_t)(out - plan->layers), spec->inputs[k], &out->inputs[k])) {
            snprintf(path, sizeof path, "%s.inputs[%zu]", field, k);
            ps_check_bad(check, path,
                         "is \"%s\"; names of layers before it and \"input\" are allowed",
                         PS_SHORT(spec->inputs[k], 64));
        }
    }
}

static void check_layer(ps_check *check, ps_plan *plan, size_t i)
{
    Psgd__V1__LayerSpec *spec = plan->spec->model->layers[i];
    char field[PS_FIELD_MAX], path[PS_FIELD_MAX + 8];
    const ps_layer *layer;
    ps_layer_spec *out;

    snprintf(field, sizeof field, "spec.model.layers[%zu]", i);
    snprintf(path, sizeof path, "%s.kind", field);
    if (!ps_check_plugin(check, path, &ps_kind_layer, &spec->kind, "")) {
        return;
    }
    layer = ps_layer_find(spec->kind);
    out = add_layer(plan, layer);
    (void)ps_check_numbers(check, field, layer->params, &spec->base, &out->params);
    snprintf(path, sizeof path, "%s.name", field);
    if (spec->name[0] == '\0') {
        snprintf(out->name, sizeof out->name, "%s%zu", layer->kind, i);
        ps_spec_set(&spec->name, out->name);
    } else if (!is_layer_name(spec->name)) {
        ps_check_bad(check, path, "is \"%s\"; 1 to %d of A-Z a-z 0-9 _ - are allowed",
                     PS_SHORT(spec->name, 80), NAME_MAX_BYTES);
        return;
    }
    snprintf(out->name, sizeof out->name, "%s", spec->name);
    if (strcmp(out->name, input_name) == 0) {
        ps_check_bad(check, path, "is \"input\", which is what the model's input is called");
    }
    check_inputs(check, plan, field, spec, out);
    for (size_t k = 0; k + 1 < plan->layer_count; k++) {
        if (strcmp(plan->layers[k].name, out->name) == 0) {
            ps_check_bad(check, path, "is \"%s\"; another layer has that name", out->name);
        }
    }
}

static bool check_layers(ps_check *check, ps_plan *plan)
{
    Psgd__V1__ModelSpec *model = plan->spec->model;
    size_t before = check->count;

    if (model->preset[0] != '\0' || model->n_widths > 0 || model->activation[0] != '\0' ||
        model->n_params > 0) {
        ps_check_bad(check, "spec.model.layers",
                     "is given together with preset, params, widths or activation; one of them is "
                     "allowed");
    }
    if (model->n_layers > PS_MODEL_LAYERS_MAX) {
        ps_check_bad(check, "spec.model.layers", "has %zu layers; at most %d are allowed",
                     model->n_layers, PS_MODEL_LAYERS_MAX);
        return false;
    }
    plan->layers = ps_xcalloc(model->n_layers, sizeof *plan->layers);
    for (size_t i = 0; i < model->n_layers; i++) {
        check_layer(check, plan, i);
    }
    return check->count == before;
}

/* Checks that loss and last layer fit the targets of the data set. */
static bool check_targets(ps_check *check, const ps_plan *plan, const ps_data_facts *facts,
                          size_t outputs)
{
    ps_status st = ps_loss_fits(plan->loss, facts->classes, facts->target_width, outputs);

    if (ps_is_ok(&st)) {
        return true;
    }
    ps_check_bad(check,
                 facts->classes == 0 && !plan->loss->takes_values ? "spec.model.loss"
                                                                  : "spec.model.layers",
                 "does not fit the data set %s: %s", plan->data->name, st.text);
    return false;
}

/* Checks shapes, sizes and memory of the model, makes the layout, and checks that there are not
 * more servers than slices. */
static void check_sizes(ps_check *check, ps_plan *plan, const ps_data_facts *facts)
{
    ps_model *model = NULL;
    ps_status st = ps_plan_model(plan, 1, &model);
    double bytes;

    if (!ps_is_ok(&st)) {
        ps_check_bad(check, "spec.model", "%s", st.text);
        return;
    }
    plan->outputs = ps_model_output_width(model);
    bytes = (double)ps_model_activations(model) * plan->spec->block_size;
    if (ps_model_param_count(model) == 0 || ps_model_param_count(model) > VALUES_MAX) {
        ps_check_bad(check, "spec.model", "has %zu parameters; 1 to %d are allowed",
                     ps_model_param_count(model), VALUES_MAX);
    } else if (!check_targets(check, plan, facts, ps_model_output_width(model))) {
        plan->outputs = 0;
    } else if (bytes > activations_max) {
        ps_check_bad(check, "spec.block_size",
                     "is %u; the activations of such a block take %.1f GiB, 4 are allowed",
                     plan->spec->block_size, bytes / 1073741824.0);
    } else {
        ps_layout_init(&plan->layout, model, plan->table_rows != NULL);
        ps_check_tables_laid(plan);
        /* With sparse tables any number of servers has something: the rows are spread over all. */
        if (plan->table_count == 0 && plan->spec->pservers > plan->layout.slice_count) {
            ps_check_bad(check, "spec.pservers", "is %u; this model has slices for at most %u",
                         plan->spec->pservers, plan->layout.slice_count);
        }
    }
    ps_model_destroy(model);
}

bool ps_check_model(ps_check *check, ps_plan *plan, const ps_data_facts *facts)
{
    Psgd__V1__ModelSpec *model = plan->spec->model;
    size_t before = check->count;
    bool is_good;

    if (ps_plan_is_foreign(plan)) {
        is_good = ps_check_foreign_variables(check, plan);
    } else {
        is_good =
            model->n_layers > 0 ? check_layers(check, plan) : check_preset(check, plan, facts);
    }
    if (!ps_plan_is_foreign(plan) &&
        ps_check_plugin(check, "spec.model.loss", &ps_kind_loss, &model->loss,
                        facts != NULL && facts->classes == 0 ? "mse" : "softmax_cross_entropy")) {
        plan->loss = ps_loss_find(model->loss);
    }
    is_good = is_good && ps_check_table(check, plan, facts);
    if (is_good && plan->loss != NULL && facts != NULL && plan->spec->pservers <= PS_PSERVERS_MAX &&
        (plan->spec->pservers > 0 || plan->mesh != NULL)) {
        check_sizes(check, plan, facts);
    }
    return check->count == before;
}
