/* SPDX-License-Identifier: Apache-2.0 */
/* check_foreign.c - models that users' programs compute: variables in place of layers. */
#include "common/base/plain_name.h"
#include "common/base/shorten.h"
#include "common/base/train_columns.h"
#include "common/base/xalloc.h"
#include "common/job/plan_impl.h"
#include "common/job/spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIABLES_MAX = 4096 };
static const double first_max = 1000; /* largest magnitude of initial values */

bool ps_plan_is_foreign(const ps_plan *plan)
{
    return plan->spec->model->n_foreign > 0;
}

bool ps_plan_is_program(const ps_plan *plan, uint32_t rank)
{
    return rank >= plan->spec->workers - plan->spec->programs;
}

size_t ps_plan_program_bytes(const ps_plan *plan)
{
    return (size_t)plan->spec->program_state_mib << 20;
}

void ps_name_foreign_data(Psgd__V1__JobSpec *spec)
{
    if (spec->model == NULL || spec->model->n_foreign == 0) {
        return;
    }
    if (spec->data == NULL) {
        spec->data = ps_xmalloc(sizeof *spec->data);
        psgd__v1__data_spec__init(spec->data);
    }
    if (spec->data->name[0] == '\0') {
        ps_spec_set(&spec->data->name, PS_DATA_FOREIGN);
    }
}

void ps_check_foreign_data(ps_check *check, const ps_plan *plan)
{
    const Psgd__V1__DataSpec *data = plan->spec->data;
    bool is_theirs = strcmp(data->name, PS_DATA_FOREIGN) == 0;

    if (ps_plan_is_foreign(plan) && !is_theirs) {
        ps_check_bad(check, "spec.data.name",
                     "is \"%s\"; with model.foreign only \"" PS_DATA_FOREIGN
                     "\" is allowed: the programs that compute the model have the data",
                     PS_SHORT(data->name, 64));
    } else if (!ps_plan_is_foreign(plan) && is_theirs) {
        ps_check_bad(check, "spec.data.name",
                     "is \"" PS_DATA_FOREIGN "\", which is only allowed with model.foreign");
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Reports an error if two variables have the same name. Reports only one such name. */
static void check_names(ps_check *check, const Psgd__V1__ModelSpec *model)
{
    const char **names = ps_xcalloc(model->n_foreign, sizeof *names);

    for (size_t i = 0; i < model->n_foreign; i++) {
        names[i] = model->foreign[i]->name;
    }
    qsort(names, model->n_foreign, sizeof *names, by_name);
    for (size_t i = 0; i + 1 < model->n_foreign; i++) {
        if (strcmp(names[i], names[i + 1]) == 0) {
            ps_check_bad(check, "spec.model.foreign", "has two variables with the name \"%s\"",
                         PS_SHORT(names[i], 80));
            break;
        }
    }
    free(names);
}

/* Checks the bounds of a variable's initial values, and that at most one way to make them is given.
 */
static void check_first(ps_check *check, const Psgd__V1__ForeignVariable *var, size_t i)
{
    const struct {
        const char *name;
        double value, least;
    } ways[] = {{"uniform", var->uniform, 0},
                {"normal", var->normal, 0},
                {"constant", var->constant, -first_max}};
    char field[PS_FIELD_MAX];
    unsigned given = 0;

    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        if (!(ways[k].value >= ways[k].least && ways[k].value <= first_max)) {
            snprintf(field, sizeof field, "spec.model.foreign[%zu].%s", i, ways[k].name);
            ps_check_bad(check, field, "is %.15g; %.15g to %.15g are allowed", ways[k].value,
                         ways[k].least, first_max);
        }
        given += ways[k].value < 0 || ways[k].value > 0;
    }
    if (given > 1) {
        snprintf(field, sizeof field, "spec.model.foreign[%zu]", i);
        ps_check_bad(check, field, "has more than one of uniform, normal and constant");
    }
}

static void check_variable(ps_check *check, const Psgd__V1__ForeignVariable *var, size_t i)
{
    char field[PS_FIELD_MAX];

    snprintf(field, sizeof field, "spec.model.foreign[%zu].name", i);
    if (!ps_plain_name_is_valid(var->name, PS_VAR_NAME_MAX - 1)) {
        ps_check_bad(check, field, "is \"%s\"; 1 to %d of A-Z a-z 0-9 . _ - are allowed",
                     PS_SHORT(var->name, 100), PS_VAR_NAME_MAX - 1);
    }
    snprintf(field, sizeof field, "spec.model.foreign[%zu].shape", i);
    if (var->n_shape < 1 || var->n_shape > PS_SHAPE_MAX) {
        ps_check_bad(check, field, "has %zu dimensions; 1 to %d are allowed", var->n_shape,
                     PS_SHAPE_MAX);
        return;
    }
    for (size_t d = 0; d < var->n_shape; d++) {
        if (var->shape[d] < 1 || var->shape[d] > PS_TENSOR_MAX) {
            ps_check_bad(check, field, "has a dimension of %" PRIu32 "; 1 to %d are allowed",
                         var->shape[d], PS_TENSOR_MAX);
            return;
        }
    }
    check_first(check, var, i);
}

bool ps_check_foreign_variables(ps_check *check, ps_plan *plan)
{
    const Psgd__V1__ModelSpec *model = plan->spec->model;
    size_t before = check->count;

    if (model->preset[0] != '\0' || model->n_widths > 0 || model->activation[0] != '\0' ||
        model->n_params > 0 || model->n_layers > 0 || model->loss[0] != '\0' ||
        (model->table != NULL && model->table->name[0] != '\0' &&
         strcmp(model->table->name, "none") != 0)) {
        ps_check_bad(check, "spec.model.foreign",
                     "is given together with preset, widths, activation, params, layers, loss or "
                     "table; one of them is allowed");
    }
    if (model->n_foreign > VARIABLES_MAX) {
        ps_check_bad(check, "spec.model.foreign", "has %zu entries; at most %d are allowed",
                     model->n_foreign, VARIABLES_MAX);
        return false;
    }
    for (size_t i = 0; i < model->n_foreign; i++) {
        check_variable(check, model->foreign[i], i);
    }
    check_names(check, model);
    plan->loss = ps_loss_find("mse");
    return check->count == before;
}

static ps_init first_of(const Psgd__V1__ForeignVariable *var)
{
    if (var->uniform > 0) {
        return (ps_init){.kind = PS_INIT_UNIFORM, .scale = (float)var->uniform};
    }
    if (var->normal > 0) {
        return (ps_init){.kind = PS_INIT_NORMAL, .scale = (float)var->normal};
    }
    return (ps_init){.kind = PS_INIT_CONSTANT, .scale = (float)var->constant};
}

ps_status ps_plan_foreign_model(const ps_plan *plan, ps_model **out)
{
    const Psgd__V1__ModelSpec *model = plan->spec->model;
    ps_variable *vars = ps_xcalloc(model->n_foreign, sizeof *vars);
    ps_status st;

    for (size_t i = 0; i < model->n_foreign; i++) {
        const Psgd__V1__ForeignVariable *from = model->foreign[i];

        snprintf(vars[i].name, sizeof vars[i].name, "%s", from->name);
        vars[i].shape.rank = (uint32_t)from->n_shape;
        for (size_t d = 0; d < from->n_shape; d++) {
            vars[i].shape.dim[d] = from->shape[d];
        }
        vars[i].init = first_of(from);
    }
    st = ps_model_of_variables(vars, model->n_foreign, out);
    free(vars);
    return st;
}

void ps_check_programs(ps_check *check, ps_plan *plan)
{
    Psgd__V1__JobSpec *spec = plan->spec;
    uint32_t most = ps_plan_is_foreign(plan) ? spec->workers : spec->workers - 1;

    if (ps_plan_is_foreign(plan) && spec->programs == 0) {
        spec->programs = spec->workers;
    }
    if (spec->programs > most || (ps_plan_is_foreign(plan) && spec->programs < most)) {
        ps_check_bad(check, "spec.programs", "is %" PRIu32 "; %s%" PRIu32 "%s", spec->programs,
                     ps_plan_is_foreign(plan) ? "with model.foreign only " : "0 to ", most,
                     ps_plan_is_foreign(plan) ? " (workers) is allowed"
                                              : " (workers - 1) are allowed");
        spec->programs = most;
    }
    if (spec->program_state_mib > PS_PROGRAM_STATE_MIB_MAX) {
        ps_check_bad(check, "spec.program_state_mib", "is %" PRIu32 "; 0 to %d are allowed",
                     spec->program_state_mib, PS_PROGRAM_STATE_MIB_MAX);
        spec->program_state_mib = 0;
    }
}

static void check_program_metric(ps_check *check, const Psgd__V1__JobSpec *spec, size_t i)
{
    const char *name = spec->program_metrics[i];
    char field[PS_FIELD_MAX];
    size_t before = 0;

    snprintf(field, sizeof field, "spec.program_metrics[%zu]", i);
    if (!ps_plain_name_is_valid(name, PS_PROGRAM_METRIC_MAX) || name[0] == '.') {
        ps_check_bad(check, field,
                     "is \"%s\"; 1 to %d of A-Z a-z 0-9 . _ - are allowed, the first not .",
                     PS_SHORT(name, 100), PS_PROGRAM_METRIC_MAX);
        return;
    }
    if (ps_train_columns_have(name) && strcmp(name, "accuracy") != 0) {
        ps_check_bad(
            check, field,
            "is \"%s\", a column of the TR- report that psgd fills; a name of your own, or "
            "\"accuracy\", is allowed",
            name);
    }
    while (before < i && strcmp(spec->program_metrics[before], name) != 0) {
        before++;
    }
    if (before < i) {
        ps_check_bad(check, field, "is \"%s\"; spec.program_metrics[%zu] is it already", name,
                     before);
    }
}

/* Checks the names of what programs report. */
static void check_program_metrics(ps_check *check, const ps_plan *plan)
{
    static const char field[] = "spec.program_metrics";
    const Psgd__V1__JobSpec *spec = plan->spec;
    size_t most = PS_METRICS_MAX - plan->metric_count;

    if (spec->programs == 0 && spec->n_program_metrics > 0) {
        ps_check_bad(
            check, field,
            "is given, and no worker is a program that reports; set spec.programs, or leave "
            "it out");
        return;
    }
    if (spec->n_program_metrics > most) {
        char beside[48] = "";

        if (plan->metric_count > 0) {
            snprintf(beside, sizeof beside, " beside the job's %zu metric%s", plan->metric_count,
                     plan->metric_count == 1 ? "" : "s");
        }
        ps_check_bad(check, field, "has %zu entries; at most %zu are allowed%s",
                     spec->n_program_metrics, most, beside);
        return;
    }
    for (size_t i = 0; i < spec->n_program_metrics; i++) {
        check_program_metric(check, spec, i);
    }
}

/* Checks a job in which programs compute beside psgd's own workers: reports settings that such a
 * job cannot have. */
static void check_beside_programs(ps_check *check, const ps_plan *plan)
{
    static const char field[] = "spec.programs";
    const Psgd__V1__JobSpec *spec = plan->spec;

    if (spec->worker_processes < 2) {
        ps_check_bad(check, "spec.worker_processes",
                     "is %" PRIu32 "; with programs at least 2 are needed, as a program carries no "
                     "rank of psgd's own workers",
                     spec->worker_processes);
    }
    if (spec->n_nodes > 0 || spec->workers_min > 0 || spec->workers_max > 0) {
        ps_check_bad(check, field,
                     "is %" PRIu32 "; a job with nodes, workers_min or workers_max has no programs",
                     spec->programs);
    }
    for (uint32_t v = 0; v < plan->layout.variable_count && check->count == 0; v++) {
        const ps_variable *var = &plan->layout.variables[v];

        if (var->is_sparse || var->is_state) {
            ps_check_bad(check, field,
                         "is %" PRIu32 ", and the model has %s %s, of which a program cannot give "
                         "a gradient",
                         spec->programs, var->is_sparse ? "the sparse variable" : "the state",
                         var->name);
        }
    }
}

void ps_check_foreign(ps_check *check, const ps_plan *plan)
{
    const char *only = ps_plan_is_foreign(plan) ? "with model.foreign" : "with programs";
    const Psgd__V1__JobSpec *spec = plan->spec;

    check_program_metrics(check, plan);
    if (spec->programs == 0) {
        if (spec->program_state_mib > 0) {
            ps_check_bad(check, "spec.program_state_mib",
                         "is %" PRIu32 ", and no worker is a program that keeps state; set "
                         "spec.programs, or 0 here",
                         spec->program_state_mib);
        }
        return;
    }
    if (plan->mesh != NULL) {
        ps_check_bad(check, "spec.exchange", "is \"%s\"; %s workers exchange through servers",
                     plan->mesh->name, only);
    }
    if (plan->assign != NULL && strcmp(plan->assign->name, "iid") != 0) {
        ps_check_bad(check, "spec.assignment.name", "is \"%s\"; %s only iid is allowed",
                     plan->assign->name, only);
    }
    if (!ps_plan_is_foreign(plan)) {
        check_beside_programs(check, plan);
        return;
    }
    if (plan->feed_conf.transform_count > 0) {
        ps_check_bad(check, "spec.data.transforms", "has %" PRIu32 " entries; %s none is allowed",
                     plan->feed_conf.transform_count, only);
    }
    if (spec->eval_every_steps > 0) {
        ps_check_bad(check, "spec.eval_every_steps",
                     "is %u; %s the programs that compute the model evaluate it",
                     spec->eval_every_steps, only);
    }
    if (spec->split_evaluation) {
        ps_check_bad(check, "spec.split_evaluation", "is true; %s it is not allowed", only);
    }
    if (spec->stop_at != NULL) {
        ps_check_bad(check, "spec.stop_at", "is given; %s nothing is evaluated", only);
    }
    if (spec->checkpoint != NULL && spec->checkpoint->best_by[0] != '\0') {
        ps_check_bad(check, "spec.checkpoint.best_by", "is \"%s\"; %s nothing is evaluated",
                     PS_SHORT(spec->checkpoint->best_by, 64), only);
    }
}
