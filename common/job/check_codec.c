/* SPDX-License-Identifier: Apache-2.0 */
/* check_codec.c - a job's codecs: finds those of each variable, and refuses uses that they do not
 * support. */
#include "common/job/plan_impl.h"

#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/codec/factors.h"
#include "common/codec/feedback.h"
#include "common/codec/wrap.h"
#include "common/job/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool matches(const char *pattern, const char *name)
{
    size_t n = strlen(pattern);

    if (n > 0 && pattern[n - 1] == '*') {
        return strncmp(pattern, name, n - 1) == 0;
    }
    return strcmp(pattern, name) == 0;
}

static void check_match(ps_check *check, const char *field, const char *match,
                        const ps_layout *layout)
{
    const char *star = strchr(match, '*');

    if (match[0] == '\0' || (star != NULL && star[1] != '\0')) {
        ps_check_bad(check, field,
                     "is \"%s\"; a variable's name is allowed, or a prefix of names and '*'",
                     PS_SHORT(match, 80));
        return;
    }
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        if (matches(match, layout->variables[v].name)) {
            return;
        }
    }
    if (layout->variable_count > 0) {
        ps_strbuf names = {0};

        for (uint32_t v = 0; v < layout->variable_count; v++) {
            ps_strbuf_printf(&names, "%s%s", v == 0 ? "" : ", ", layout->variables[v].name);
        }
        ps_check_bad(check, field,
                     "\"%s\" matches none of the %u variables, which are %s; psgd train --plan "
                     "lists them",
                     PS_SHORT(match, 80), layout->variable_count,
                     PS_SHORT(ps_strbuf_text(&names), 160));
        ps_strbuf_fini(&names);
    }
}

/* Checks one direction's codec of an exception (VariableCodec). Removes a choice without name and
 * numbers, so that the job's codec of that direction stays. */
static void check_exception(ps_check *check, const ps_plan *plan, const char *field,
                            Psgd__V1__Choice **choice, ps_codec_choice *out)
{
    if (*choice != NULL && (*choice)->name[0] == '\0' && (*choice)->n_params == 0) {
        ps_choice_free(*choice);
        *choice = NULL;
    }
    if (*choice != NULL &&
        ps_check_choice(check, field, &ps_kind_codec, *choice, "f32", &out->params)) {
        out->codec = ps_plan_codec(plan, (*choice)->name);
    }
}

/* Returns whether a worker makes several contributions to a clock, or several workers make the same
 * one. */
static bool brings_several(const ps_plan *plan)
{
    const ps_assignment *a = plan->assignment;

    if (a == NULL || plan->update == NULL || !plan->update->per_block) {
        return false;
    }
    for (uint32_t w = 0; w < plan->spec->workers; w++) {
        if (a->held_count[w] > 1) {
            return true;
        }
    }
    return a->redundancy > 1;
}

/* Refuses a codec of differences (`difference`) together with error_feedback, and where the
 * receiver does not add every difference exactly once or does not know whose it is. Also refuses
 * `momentum` where brings_several is true, and `lazy` without `difference`. */
static void check_difference(ps_check *check, const char *field, const ps_plan *plan,
                             const ps_codec_choice *up)
{
    char path[PS_FIELD_MAX];
    bool differs = ps_feedback_differs(up->codec, &up->params);

    snprintf(path, sizeof path, "%s.up.params.difference", field);
    if (differs && ps_wrap_of(up->codec, &up->params, PS_WRAP_FEEDBACK) != 0) {
        ps_check_bad(check, path, "is 1 as error_feedback is; one of them is allowed");
    }
    if (differs && plan->policy != NULL && !plan->policy->is_deterministic) {
        ps_check_bad(check, path,
                     "is 1; with consistency %s, where not every contribution is in every "
                     "sum, 0 is allowed",
                     plan->policy->name);
    }
    if (differs && up->codec->sum_is_vote) {
        ps_check_bad(check, path,
                     "is 1; with codec %s, whose sum is not that of what each sends, 0 is allowed",
                     up->codec->name);
    }
    if (differs && brings_several(plan)) {
        ps_check_bad(check, path,
                     "is 1; with update %s, where a worker brings several blocks a step or "
                     "several bring one, 0 is allowed",
                     plan->update->name);
    }
    if (ps_feedback_has_momentum(up->codec, &up->params) && brings_several(plan)) {
        snprintf(path, sizeof path, "%s.up.params.momentum", field);
        ps_check_bad(check, path,
                     "is %g; with update %s, where a worker brings several blocks a step or "
                     "several bring one, 0 is allowed",
                     ps_wrap_of(up->codec, &up->params, PS_WRAP_MOMENTUM), plan->update->name);
    }
    if (!differs && ps_wrap_of(up->codec, &up->params, PS_WRAP_LAZY) != 0) {
        snprintf(path, sizeof path, "%s.up.params.lazy", field);
        ps_check_bad(check, path, "is %g; without difference only 0 is allowed",
                     ps_wrap_of(up->codec, &up->params, PS_WRAP_LAZY));
    }
}

/* Refuses the number `rows` for codecs that servers add without decoding them: these need all
 * values of a slice. */
static void check_rows(ps_check *check, const char *field, const char *way,
                       const ps_codec_choice *choice)
{
    char path[PS_FIELD_MAX];

    if (choice->codec != NULL && choice->codec->sum_add != NULL &&
        ps_wrap_of(choice->codec, &choice->params, PS_WRAP_ROWS) != 0) {
        snprintf(path, sizeof path, "%s.%s.params.rows", field, way);
        ps_check_bad(check, path, "is %g; with codec %s, which servers do not decode, 0 is allowed",
                     ps_wrap_of(choice->codec, &choice->params, PS_WRAP_ROWS), choice->codec->name);
    }
}

static void check_uses(ps_check *check, const char *field, const ps_plan *plan,
                       const ps_codec_choice *up, const ps_codec_choice *down)
{
    char path[PS_FIELD_MAX];
    uint32_t r = plan->assignment != NULL ? plan->assignment->redundancy : 1;
    bool sums = plan->mesh != NULL && plan->mesh->sends_sums;
    /* What comes down are not weights, but sums of a mesh or changes that servers broadcast. */
    bool changes = sums || (plan->update != NULL && plan->update->broadcasts);

    if (!changes && down->codec != NULL &&
        ps_codec_facts_of(down->codec, &down->params).is_sparse) {
        snprintf(path, sizeof path, "%s.down.name", field);
        ps_check_bad(check, path,
                     "is \"%s\", which leaves out most of a slice: for gradients, not for "
                     "weights",
                     down->codec->name);
    }
    if (down->codec != NULL) {
        static const int ups[] = {PS_WRAP_DIFFERENCE, PS_WRAP_MOMENTUM, PS_WRAP_LAZY};

        for (size_t i = 0; i < sizeof ups / sizeof ups[0]; i++) {
            if (ps_wrap_of(down->codec, &down->params, ups[i]) != 0) {
                snprintf(path, sizeof path, "%s.down.params.%s", field,
                         down->codec->params[down->codec->own + (size_t)ups[i]].name);
                ps_check_bad(check, path, "is %g; for weights only 0 is allowed",
                             ps_wrap_of(down->codec, &down->params, ups[i]));
            }
        }
    }
    if (up->codec != NULL) {
        check_difference(check, field, plan, up);
    }
    check_rows(check, field, "up", up);
    check_rows(check, field, "down", down);
    if (up->codec != NULL && ps_feedback_is_on(up->codec, &up->params) && r > 1 && !sums &&
        plan->update != NULL && plan->update->per_block) {
        snprintf(path, sizeof path, "%s.up.params.error_feedback", field);
        ps_check_bad(check, path,
                     "is 1; with redundancy %u and update %s, where a block counts "
                     "once whoever brings it, copies would differ: 0 is allowed",
                     r, plan->update->name);
    }
}

/* Returns the number of values of one item of the first dimension, 1 for a vector: the columns of
 * the variable's matrix for PowerSGD. An item is a row of a dense layer's weights, or a filter of a
 * convolution's. */
static size_t columns_of(const ps_variable *variable)
{
    return variable->shape.rank > 1 ? variable->size / variable->shape.dim[0] : 1;
}

/* Returns the number that replaces `columns` 0: the columns of the variable's matrix, which is 1
 * for a vector. Returns 0, which makes each slice a matrix as square as possible, if the variable
 * has several slices and factors of a slice with these columns would not halve it. */
static double columns_for(size_t rank, const ps_variable *variable)
{
    size_t columns = columns_of(variable), n = PS_SLICE_VALUES;
    bool is_long = columns > n || 2 * rank * (n / columns + columns) > n;

    return variable->size > n && is_long ? 0 : (double)columns;
}

/* Replaces numbers that stand for the variable's shape. `rows` 1 becomes the size of its last
 * dimension, or 0 if the variable is a vector or that size is more than PS_CODEC_VALUES. `columns`
 * 0 becomes what columns_for returns. */
static void fit_to(ps_codec_choice *choice, const ps_variable *variable)
{
    const ps_shape *shape = &variable->shape;
    bool has_rows = shape->rank > 1 && shape->dim[shape->rank - 1] <= PS_CODEC_VALUES;
    double own = has_rows ? (double)shape->dim[shape->rank - 1] : 0, *rows;

    if (choice->codec == NULL) {
        return;
    }
    rows = &choice->params.v[choice->codec->own + PS_WRAP_ROWS];
    if (*rows == 1) {
        *rows = own;
    }
    if (choice->codec->is_low_rank) {
        const ps_param *table = choice->codec->params;
        double *columns = &choice->params.v[ps_param_find(table, "columns")];
        size_t rank = (size_t)choice->params.v[ps_param_find(table, "rank")];

        *columns = *columns == 0 ? columns_for(rank, variable) : *columns;
    }
}

/* Returns whether the variable's gradient is sent whole, as a matrix of low rank. Conditions: the
 * codec is one of low rank; the job sets neither `columns` nor a stage that works by slice; there
 * are servers; the variable has several slices and at most PS_FACTORS_COLUMNS_MAX columns; its
 * factors are shorter than its values and fit into a message. Call it before fit_to, which sets
 * `columns`. */
static bool goes_by_matrix(const ps_plan *plan, uint32_t v)
{
    const ps_variable *var = &plan->layout.variables[v];
    const ps_codec_choice *up = &plan->up[v];
    uint32_t slices = plan->layout.first_slice[v + 1] - plan->layout.first_slice[v];
    size_t rank, columns = columns_of(var), rows = var->size / columns;

    if (up->codec == NULL || !up->codec->is_low_rank ||
        up->params.v[ps_param_find(up->codec->params, "columns")] != 0 || plan->mesh != NULL ||
        slices < 2 || columns > PS_FACTORS_COLUMNS_MAX ||
        ps_wrap_of(up->codec, &up->params, PS_WRAP_LOSSLESS) != 0 ||
        ps_wrap_of(up->codec, &up->params, PS_WRAP_ROWS) != 0 ||
        ps_feedback_differs(up->codec, &up->params)) {
        return false;
    }
    rank = (size_t)up->params.v[ps_param_find(up->codec->params, "rank")];
    return ps_factors_pay(rank, rows, columns, var->size) &&
           rank * (rows + 2 * slices + columns) * sizeof(float) <= PS_MATRIX_BYTES_MAX;
}

/* Returns whether the state of a layer may pass through the codec. Running means and variances have
 * no gradient that would correct a biased or sparse encoding. */
static bool suits_state(const ps_codec_choice *choice)
{
    ps_codec_facts facts = ps_codec_facts_of(choice->codec, &choice->params);

    return facts.is_unbiased && !facts.is_sparse &&
           !ps_feedback_has_momentum(choice->codec, &choice->params) &&
           !ps_feedback_differs(choice->codec, &choice->params);
}

static void spare_state(ps_codec_choice *choice)
{
    if (choice->codec != NULL && !suits_state(choice)) {
        choice->codec = ps_codec_find("f32");
        choice->params = ps_params_default(choice->codec->params);
    }
}

/* Returns whether the variable is sparse and travels as rows by id. It does not if a row is longer
 * than a slice, or where all its values are needed: in a mesh, under updates with local steps,
 * broadcasts or delay correction, and with codecs that keep state or are summed undecoded. A codec
 * up other than plain f32 must be set to send rows of the variable's width. */
static bool goes_by_id(const ps_plan *plan, uint32_t v)
{
    const ps_variable *var = &plan->layout.variables[v];
    const ps_codec_choice *up = &plan->up[v], *down = &plan->down[v];

    return var->is_sparse && var->shape.dim[1] <= PS_SLICE_VALUES && plan->mesh == NULL &&
           plan->update != NULL && plan->update->local == NULL && !plan->update->broadcasts &&
           plan->update->delay == NULL && up->codec != NULL && down->codec != NULL &&
           up->codec->sum_add == NULL &&
           ps_feedback_floats(up->codec, &up->params, PS_SLICE_VALUES) == 0 &&
           ps_feedback_floats(down->codec, &down->params, PS_SLICE_VALUES) == 0 &&
           (ps_codec_is_plain(up->codec, &up->params) ||
            ps_wrap_of(up->codec, &up->params, PS_WRAP_ROWS) == var->shape.dim[1]);
}

/* Makes a variable a table with a fixed vocabulary, if it travels as rows by id and no table grows.
 */
static void fix_vocabulary(ps_plan *plan, uint32_t v)
{
    if (!goes_by_id(plan, v) || !ps_check_table_fixed(plan, v)) {
        return;
    }
    /* a table's contribution lists only touched rows, so the codec need not leave out zeros */
    plan->up[v].params.v[plan->up[v].codec->own + PS_WRAP_ROWS] = 0;
    plan->down[v].params.v[plan->down[v].codec->own + PS_WRAP_ROWS] = 0;
}

/* Adapts each variable's codecs to its shape and use. A state of a layer gets f32 if its codec does
 * not suit it, unless the job has named that codec for the variable (is_excepted). */
static void fit_all(ps_plan *plan, const bool *is_excepted)
{
    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        const ps_variable *variable = &plan->layout.variables[v];

        if (variable->is_state && !is_excepted[v]) {
            spare_state(&plan->up[v]);
            spare_state(&plan->down[v]);
        }
        plan->by_matrix[v] = goes_by_matrix(plan, v);
        fit_to(&plan->up[v], variable);
        fit_to(&plan->down[v], variable);
        fix_vocabulary(plan, v);
    }
}

enum { EXCEPTIONS_MAX = 256 };

void ps_check_codecs(ps_check *check, ps_plan *plan)
{
    Psgd__V1__CodecSpec *spec = plan->spec->codec;
    const ps_layout *layout = &plan->layout;
    ps_codec_choice up = {0}, down = {0};
    char field[PS_FIELD_MAX];
    bool *is_excepted = ps_xcalloc(layout->variable_count, sizeof *is_excepted);

    if (ps_check_choice(check, "spec.codec.up", &ps_kind_codec, spec->up, "f32", &up.params)) {
        up.codec = ps_plan_codec(plan, spec->up->name);
    }
    if (ps_check_choice(check, "spec.codec.down", &ps_kind_codec, spec->down, "f32",
                        &down.params)) {
        down.codec = ps_plan_codec(plan, spec->down->name);
    }
    check_uses(check, "spec.codec", plan, &up, &down);
    plan->up = ps_xcalloc(layout->variable_count, sizeof *plan->up);
    plan->down = ps_xcalloc(layout->variable_count, sizeof *plan->down);
    plan->table_of = ps_xcalloc(layout->variable_count, sizeof *plan->table_of);
    plan->by_matrix = ps_xcalloc(layout->variable_count, sizeof *plan->by_matrix);
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        plan->up[v] = up;
        plan->down[v] = down;
        plan->table_of[v] = PS_NO_TABLE;
    }
    for (uint32_t t = 0; t < plan->table_count; t++) {
        plan->table_of[plan->tables[t].variable] = t;
    }
    if (spec->n_variables > EXCEPTIONS_MAX) {
        ps_check_bad(check, "spec.codec.variables", "has %zu entries; at most %d are allowed",
                     spec->n_variables, EXCEPTIONS_MAX);
    }
    for (size_t i = 0; i < spec->n_variables && i < EXCEPTIONS_MAX; i++) {
        Psgd__V1__VariableCodec *x = spec->variables[i];
        ps_codec_choice x_up = up, x_down = down;

        snprintf(field, sizeof field, "spec.codec.variables[%zu].match", i);
        check_match(check, field, x->match, layout);
        snprintf(field, sizeof field, "spec.codec.variables[%zu].up", i);
        check_exception(check, plan, field, &x->up, &x_up);
        snprintf(field, sizeof field, "spec.codec.variables[%zu].down", i);
        check_exception(check, plan, field, &x->down, &x_down);
        if (x->up != NULL || x->down != NULL) {
            const ps_codec_choice none = {0};

            snprintf(field, sizeof field, "spec.codec.variables[%zu]", i);
            check_uses(check, field, plan, x->up != NULL ? &x_up : &none,
                       x->down != NULL ? &x_down : &none);
        }
        for (uint32_t v = 0; v < layout->variable_count; v++) {
            if (!is_excepted[v] && matches(x->match, layout->variables[v].name)) {
                is_excepted[v] = true;
                plan->up[v] = x_up;
                plan->down[v] = x_down;
            }
        }
    }
    fit_all(plan, is_excepted);
    free(is_excepted);
}
