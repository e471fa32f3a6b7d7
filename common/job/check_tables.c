/* SPDX-License-Identifier: Apache-2.0 */
/* check_tables.c - checks embeddings whose tables live on servers, and that the job has nothing
 * that such tables exclude. Fixed vocabularies are such tables too.
 *
 * With a table that grows, a worker's embedding has room for as many rows as a batch can have
 * different ids. The rows of a batch are copied there, and each id of the batch is replaced by the
 * place of its row. With a fixed vocabulary a worker has all rows. */
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/codec/feedback.h"
#include "common/job/plan_impl.h"
#include "common/job/table_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Who reads ids ---- */

static bool is_kind(const ps_layer_spec *layer, const char *kind)
{
    return strcmp(layer->layer->kind, kind) == 0;
}

static double number_of(const ps_layer_spec *layer, const char *name)
{
    return layer->params.v[ps_param_find(layer->layer->params, name)];
}

/* What the output of a layer holds. */
typedef enum holds { NUMBERS, IDS, BOTH } holds;

static holds holds_of_slice(const ps_layer_spec *layer, const ps_data_facts *facts)
{
    double first = number_of(layer, "first"), count = number_of(layer, "count");
    double numbers = facts->features - facts->ids;
    double end = count == 0 ? facts->features : first + count;

    return end <= numbers ? NUMBERS : first >= numbers ? IDS : BOTH;
}

/* Returns what all inputs of layer i hold together. outputs[k] is what the output of layer k holds.
 * Numbers of inputs: 0 is the model's input, k + 1 the output of layer k. */
static holds holds_of_inputs(const ps_plan *plan, size_t i, const holds *outputs,
                             const ps_data_facts *facts)
{
    const ps_layer_spec *layer = &plan->layers[i];
    bool has_ids = false, has_numbers = false;
    uint32_t count = layer->input_count > 0 ? layer->input_count : 1;

    for (uint32_t k = 0; k < count; k++) {
        uint32_t from = layer->input_count > 0 ? layer->inputs[k] : (uint32_t)i;
        holds of = from > 0                        ? outputs[from - 1]
                   : facts->ids == facts->features ? IDS
                   : facts->ids == 0               ? NUMBERS
                                                   : BOTH;

        has_ids = has_ids || of != NUMBERS;
        has_numbers = has_numbers || of != IDS;
    }
    return has_ids && has_numbers ? BOTH : has_ids ? IDS : NUMBERS;
}

/* Checks that embeddings read ids alone, and that other layers read none, because batch_rows.h
 * replaces ids by places. A slice of the model's input may read both. */
static bool reads_ids_well(ps_check *check, const ps_plan *plan, const ps_data_facts *facts)
{
    holds *outputs = ps_xcalloc(plan->layer_count, sizeof *outputs);
    bool is_good = true;

    for (size_t i = 0; i < plan->layer_count && is_good; i++) {
        const ps_layer_spec *layer = &plan->layers[i];
        holds in = holds_of_inputs(plan, i, outputs, facts);
        bool of_input = layer->input_count > 0 ? layer->inputs[0] == 0 : i == 0;

        if (is_kind(layer, "slice") && of_input) {
            outputs[i] = holds_of_slice(layer, facts);
        } else if (is_kind(layer, "embedding") ? in != IDS : in != NUMBERS) {
            ps_check_bad(check, "spec.model.table.name",
                         "is \"sparse\"; layer %s reads %s, and ids must go to embeddings alone, "
                         "by slices of the input or as all of it",
                         layer->name, in == NUMBERS ? "numbers" : "ids");
            is_good = false;
        }
    }
    free(outputs);
    return is_good;
}

bool ps_check_table(ps_check *check, ps_plan *plan, const ps_data_facts *facts)
{
    Psgd__V1__ModelSpec *model = plan->spec->model;
    uint32_t batch =
        plan->spec->block_size > PS_EVALUATION_BATCH ? plan->spec->block_size : PS_EVALUATION_BATCH;
    bool has_any = false;

    if (!ps_check_choice(check, "spec.model.table", &ps_kind_table, model->table, "none",
                         &plan->table_params)) {
        return false;
    }
    if (strcmp(model->table->name, "sparse") != 0 || facts == NULL) {
        return true;
    }
    if (!reads_ids_well(check, plan, facts)) {
        return false;
    }
    plan->table_keys = batch * facts->ids;
    plan->table_rows = ps_xcalloc(plan->layer_count, sizeof *plan->table_rows);
    for (size_t i = 0; i < plan->layer_count; i++) {
        ps_layer_spec *layer = &plan->layers[i];

        if (is_kind(layer, "embedding")) {
            double *rows = &layer->params.v[ps_param_find(layer->layer->params, "rows")];

            plan->table_rows[i] = (uint32_t)*rows;
            *rows = plan->table_keys;
            has_any = true;
        }
    }
    if (!has_any) {
        ps_check_bad(check, "spec.model.table.name",
                     "is \"sparse\"; this model has no embedding, none is allowed");
    }
    return has_any;
}

/* Returns the bound of uniform initial values of a table's rows that gives them the standard
 * deviation of the layer's initial values. */
static float bound_of(const ps_init *init)
{
    return init->kind == PS_INIT_NORMAL ? init->scale * sqrtf(3.0f) : fabsf(init->scale);
}

void ps_check_tables_laid(ps_plan *plan)
{
    if (plan->table_rows == NULL) {
        return;
    }
    plan->tables = ps_xcalloc(plan->layout.variable_count, sizeof *plan->tables);
    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        const ps_variable *var = &plan->layout.variables[v];

        if (var->is_sparse) {
            plan->tables[plan->table_count++] =
                (ps_plan_table){.variable = v,
                                .rows = plan->table_rows[var->layer],
                                .width = var->shape.dim[1],
                                .init_bound = bound_of(&var->init)};
        }
    }
}

bool ps_check_table_fixed(ps_plan *plan, uint32_t variable)
{
    const ps_variable *var = &plan->layout.variables[variable];

    if (plan->table_rows != NULL) {
        return false;
    }
    plan->tables = ps_xrealloc(plan->tables, (plan->table_count + 1) * sizeof *plan->tables);
    plan->table_of[variable] = plan->table_count;
    plan->tables[plan->table_count++] =
        (ps_plan_table){.variable = variable,
                        .rows = var->shape.dim[0],
                        .width = var->shape.dim[1],
                        .slice_rows = ps_layout_slice_values(var) / var->shape.dim[1]};
    return true;
}

/* ---- What tables exclude ---- */

enum {
    TABLE_KEYS_LEAST = 8,
    TABLE_WIDTH = 4096 /* most values of a row */
};

static void check_table(ps_check *check, const ps_plan *plan, const ps_plan_table *table)
{
    const ps_variable *var = &plan->layout.variables[table->variable];
    const ps_codec_choice *up = &plan->up[table->variable], *down = &plan->down[table->variable];

    if (var->init.kind == PS_INIT_CONSTANT && var->init.scale != 0.0f) {
        ps_check_bad(check, "spec.model.table.name",
                     "is \"sparse\"; %s begins as %g everywhere: 0 or drawn values are allowed",
                     var->name, (double)var->init.scale);
    }
    if (table->width > TABLE_WIDTH) {
        ps_check_bad(check, "spec.model.table.name", "is \"sparse\"; %s is %u wide, %d is allowed",
                     var->name, table->width, TABLE_WIDTH);
    }
    if (up->codec != NULL && ps_feedback_floats(up->codec, &up->params, 1) > 0) {
        ps_check_bad(check, "spec.codec.up.params",
                     "keep something of %s from one push to the next; of a sparse table nothing "
                     "is kept: another codec for it in codec.variables is allowed",
                     var->name);
    }
    if (down->codec != NULL && ps_feedback_floats(down->codec, &down->params, 1) > 0) {
        ps_check_bad(check, "spec.codec.down.params",
                     "keep something of %s from one answer to the next; of a sparse table "
                     "nothing is kept: another codec for it in codec.variables is allowed",
                     var->name);
    }
}

static void check_inits(ps_check *check, const ps_plan *plan)
{
    const Psgd__V1__JobSpec *spec = plan->spec;

    if (spec->n_init_tables > PS_TABLE_INITS) {
        ps_check_bad(check, "spec.init_tables", "has %zu entries; at most %d are allowed",
                     spec->n_init_tables, PS_TABLE_INITS);
    }
    if (plan->table_rows == NULL) {
        if (spec->n_init_tables > 0) {
            ps_check_bad(check, "spec.init_tables",
                         "is \"%s\"; without sparse tables (model.table) none is allowed",
                         PS_SHORT(spec->init_tables[0], 80));
        }
        return;
    }
    for (size_t i = 0; i < spec->n_init_tables && i < PS_TABLE_INITS; i++) {
        ps_check_init(check, "spec.init_tables", spec->init_tables[i], false);
    }
}

/* Returns whether any worker has more than one block of a global batch. */
static bool holds_several(const ps_assignment *a)
{
    for (uint32_t w = 0; w < a->workers; w++) {
        if (a->held_count[w] > 1) {
            return true;
        }
    }
    return false;
}

/* Refuses methods that sparse tables do not support. Contributions must be gradients of blocks or
 * changes of a round's rows, only servers may step the shared rows, and in local steps a worker may
 * have one block. */
static void check_method(ps_check *check, const ps_plan *plan)
{
    if (plan->mesh != NULL) {
        ps_check_bad(check, "spec.exchange.name",
                     "is \"%s\"; sparse tables live on servers: pserver is allowed",
                     plan->mesh->name);
    }
    if (plan->update != NULL && strcmp(plan->update->name, "gradient") != 0 &&
        (plan->update->local == NULL || plan->update->local->contribute_rows == NULL)) {
        ps_check_bad(check, "spec.update.name",
                     "is \"%s\"; with sparse tables gradient, localsgd, post_local, "
                     "parameter_average, delta and geo_sum_lag are allowed",
                     plan->update->name);
    }
    if (plan->update != NULL && plan->update->local != NULL && plan->assignment != NULL &&
        holds_several(plan->assignment)) {
        ps_check_bad(check, "spec.assignment.name",
                     "is \"%s\", with which a worker has several blocks; in local steps with "
                     "sparse tables one is allowed",
                     plan->assign->name);
    }
    if (plan->assignment != NULL && plan->assignment->redundancy > 1) {
        ps_check_bad(check, "spec.assignment.params.redundancy",
                     "is %u; with sparse tables 1 is allowed", plan->assignment->redundancy);
    }
    if (!plan->optim_on_server) {
        ps_check_bad(check, "spec.optimizer.side",
                     "is WORKER; with sparse tables SERVER is allowed");
    }
}

void ps_check_tables(ps_check *check, const ps_plan *plan)
{
    const Psgd__V1__JobSpec *spec = plan->spec;
    const double *numbers = plan->table_params.v;
    char job[PS_CHECKPOINT_JOB_MAX];
    uint64_t step;

    check_inits(check, plan);
    if (ps_plan_table_files(plan) == 0) {
        return; /* the job has no tables that grow, or an error was reported */
    }
    check_method(check, plan);
    if (spec->init_from[0] != '\0' && ps_init_from_job(spec->init_from) == NULL &&
        !ps_init_from_checkpoint(spec->init_from, job, &step) && spec->n_init_tables == 0) {
        ps_check_bad(check, "spec.init_tables",
                     "is empty, and init_from a file, which has no rows of sparse tables: their "
                     "files are needed too");
    }
    if (numbers[PS_TABLE_ADMIT_COUNT] > 1 && numbers[PS_TABLE_ADMIT_PROBABILITY] < 1) {
        ps_check_bad(check, "spec.model.table.params.admit_count",
                     "is %g together with admit_probability; one of them is allowed",
                     numbers[PS_TABLE_ADMIT_COUNT]);
    }
    if (ps_table_keys_of_message(plan) < TABLE_KEYS_LEAST) {
        ps_check_bad(check, "spec.model.table.name",
                     "is \"sparse\"; the rows of an id are too wide together: %d of them in a MiB "
                     "are needed",
                     TABLE_KEYS_LEAST);
    }
    for (uint32_t i = 0; i < plan->table_count; i++) {
        if (plan->tables[i].rows != plan->tables[0].rows) {
            ps_check_bad(check, "spec.model.table.name",
                         "is \"sparse\"; embeddings have %u and %u rows, the same are needed",
                         plan->tables[0].rows, plan->tables[i].rows);
        }
        check_table(check, plan, &plan->tables[i]);
    }
}
