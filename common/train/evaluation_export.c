/* SPDX-License-Identifier: Apache-2.0 */
/* evaluation_export.c - see evaluation_export.h. */
#include "common/train/evaluation_export.h"

#include "common/artifact/onnx.h"
#include "common/artifact/weights.h"
#include "common/base/xalloc.h"
#include "common/job/describe.h"
#include "common/job/spec.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS = 1024 }; /* most keys whose rows are pulled at once */

/* Makes the plan of the same job without sparse tables. */
static ps_status plan_dense(const ps_plan *plan, ps_plan **out)
{
    Psgd__V1__JobSpec *spec = ps_spec_copy(plan->spec);
    ps_status st;

    psgd__v1__choice__free_unpacked(spec->model->table, NULL);
    spec->model->table = NULL;
    st = ps_plan_create(spec, NULL, NULL, out);
    ps_spec_free(spec);
    return st;
}

static const ps_variable *find(const ps_layout *layout, const char *name)
{
    uint32_t v = 0;

    while (v < layout->variable_count && strcmp(layout->variables[v].name, name) != 0) {
        v++;
    }
    return v < layout->variable_count ? &layout->variables[v] : NULL;
}

/* Copies the weights of plan's dense variables into `block`, which is laid out as in `dense`. */
static ps_status copy_dense(const ps_plan *plan, const float *weights, const ps_plan *dense,
                            float *block)
{
    for (uint32_t i = 0; i < plan->layout.stored_count; i++) {
        const ps_variable *from = &plan->layout.stored[i], *to = find(&dense->layout, from->name);

        if (to == NULL || to->size != from->size) {
            return ps_fail(PS_INTERNAL, "%s is another variable without sparse tables", from->name);
        }
        memcpy(block + to->at, weights + from->at, from->size * sizeof *block);
    }
    return ps_ok();
}

/* Copies the rows of ids [first, first + count) to their places in block. `rows` has (count, width)
 * for each table in turn. */
static void put_rows(const ps_plan *plan, const ps_plan *dense, const float *rows, uint64_t first,
                     size_t count, float *block)
{
    for (uint32_t t = 0; t < ps_plan_table_files(plan); t++) {
        const ps_plan_table *table = &plan->tables[t];
        const ps_variable *to = find(&dense->layout, plan->layout.variables[table->variable].name);

        memcpy(block + to->at + first * table->width, rows, count * table->width * sizeof *block);
        rows += count * table->width;
    }
}

static ps_status copy_rows(const ps_plan *plan, const ps_evaluation_rows *from,
                           const ps_plan *dense, float *block)
{
    uint64_t ids = plan->tables[0].rows, keys[KEYS];
    size_t width = 0;
    float *rows;
    ps_status st = ps_ok();

    for (uint32_t t = 0; t < ps_plan_table_files(plan); t++) {
        const char *name = plan->layout.variables[plan->tables[t].variable].name;
        const ps_variable *to = find(&dense->layout, name);

        if (to == NULL || to->size != ids * plan->tables[t].width) {
            return ps_fail(PS_INTERNAL, "%s is another variable without sparse tables", name);
        }
        width += plan->tables[t].width;
    }
    rows = ps_xcalloc(KEYS * width, sizeof *rows);
    for (uint64_t first = 0; first < ids && ps_is_ok(&st); first += KEYS) {
        size_t count = ids - first < KEYS ? (size_t)(ids - first) : KEYS;

        for (size_t i = 0; i < count; i++) {
            keys[i] = first + i;
        }
        st = ps_evaluation_rows_pull(from, keys, count, rows);
        if (ps_is_ok(&st)) {
            put_rows(plan, dense, rows, first, count, block);
        }
    }
    free(rows);
    return st;
}

static ps_status write_file(const ps_plan *dense, const float *block, const char *path)
{
    char *spec = ps_plan_describe(dense);
    const ps_meta meta[] = {{"title", dense->spec->title}, {PS_DESCRIPTION_KEY, spec}};
    size_t n = strlen(path), count = sizeof meta / sizeof meta[0];
    ps_model *model = NULL;
    ps_status st;

    if (n < 5 || strcmp(path + n - 5, ".onnx") != 0) {
        st = ps_weights_write(path, dense->layout.stored, dense->layout.stored_count, block, meta,
                              count);
    } else {
        st = ps_plan_model(dense, 1, &model);
        if (ps_is_ok(&st)) {
            st = ps_onnx_write(path, model, block, dense->spec->title, meta, count);
        }
    }
    ps_model_destroy(model);
    free(spec);
    return st;
}

ps_status ps_evaluation_export(const ps_plan *plan, const float *weights,
                               const ps_evaluation_rows *rows, const char *path)
{
    ps_plan *dense = NULL;
    float *block = NULL;
    ps_status st = plan_dense(plan, &dense);

    if (ps_is_ok(&st)) {
        block = calloc(dense->layout.param_count, sizeof *block);
        st = block != NULL ? copy_dense(plan, weights, dense, block)
                           : ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %zu parameters",
                                     dense->layout.param_count);
    }
    if (ps_is_ok(&st)) {
        st = copy_rows(plan, rows, dense, block);
    }
    if (ps_is_ok(&st)) {
        st = write_file(dense, block, path);
    }
    free(block);
    ps_plan_destroy(dense);
    return st;
}
