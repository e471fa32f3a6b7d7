/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - see check.h. */
#include "common/job/check.h"

#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/codec/feedback.h"
#include "common/codec/wrap.h"
#include "common/job/spec.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ps_check_bad(ps_check *check, const char *field, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (check->count++ == 0) {
        snprintf(check->first, sizeof check->first, "%.*s: %s", PS_FIELD_MAX, field, text);
    }
    if (check->violate != NULL) {
        check->violate(check->arg, field, text);
    }
}

void ps_check_u32(ps_check *check, const char *field, uint32_t *value, uint32_t value_default,
                  uint32_t min, uint32_t max)
{
    if (*value == 0) {
        *value = value_default;
    }
    if (*value < min || *value > max) {
        ps_check_bad(check, field, "is %" PRIu32 "; %" PRIu32 " to %" PRIu32 " are allowed", *value,
                     min, max);
    }
}

void ps_check_u64(ps_check *check, const char *field, uint64_t *value, uint64_t value_default,
                  uint64_t min, uint64_t max)
{
    if (*value == 0) {
        *value = value_default;
    }
    if (*value < min || *value > max) {
        ps_check_bad(check, field, "is %" PRIu64 "; %" PRIu64 " to %" PRIu64 " are allowed", *value,
                     min, max);
    }
}

/* --- plugins --------------------------------------------------------------- */

typedef struct wanted {
    const char *name;
    ps_plugin found;
    bool is_there;
    ps_strbuf names; /* of all */
} wanted;

static void compare(const ps_plugin *plugin, void *arg)
{
    wanted *w = arg;

    if (strcmp(plugin->name, w->name) == 0) {
        w->found = *plugin;
        w->is_there = true;
    }
    ps_strbuf_printf(&w->names, "%s%s", w->names.len == 0 ? "" : ", ", plugin->name);
}

static bool find(ps_check *check, const char *field, const ps_kind *kind, const char *name,
                 ps_plugin *out)
{
    wanted w = {.name = name};

    kind->each(compare, &w);
    if (!w.is_there) {
        ps_check_bad(check, field, "is \"%.64s\"; allowed: %s", name, ps_strbuf_text(&w.names));
    }
    *out = w.found;
    ps_strbuf_fini(&w.names);
    return w.is_there;
}

bool ps_check_plugin(ps_check *check, const char *field, const ps_kind *kind, char **name,
                     const char *name_default)
{
    ps_plugin plugin;

    if ((*name)[0] == '\0') {
        ps_spec_set(name, name_default);
    }
    return find(check, field, kind, *name, &plugin);
}

static void names_of(const ps_param *table, ps_strbuf *out)
{
    for (size_t i = 0; table != NULL && table[i].name != NULL; i++) {
        ps_strbuf_printf(out, "%s%s", i == 0 ? "" : ", ", table[i].name);
    }
}

bool ps_check_number(ps_check *check, const char *field, const ps_param *table, const char *key,
                     double value, ps_params *params)
{
    char path[PS_FIELD_MAX];
    int at = ps_param_find(table, key);
    bool is_whole = floor(value) == value;

    snprintf(path, sizeof path, "%s.params.%s", field, key);
    if (at < 0) {
        ps_strbuf names = {0};

        names_of(table, &names);
        ps_check_bad(check, path, "is not one of its numbers; allowed: %s",
                     names.len > 0 ? names.data : "none");
        ps_strbuf_fini(&names);
        return false;
    }
    if (!(value >= table[at].min && value <= table[at].max) ||
        (table[at].is_integer && !is_whole)) {
        ps_check_bad(check, path, "is %.15g; %s %.15g to %.15g are allowed", value,
                     table[at].is_integer ? "whole numbers" : "numbers", table[at].min,
                     table[at].max);
        return false;
    }
    params->v[at] = value;
    return true;
}

bool ps_check_choice(ps_check *check, const char *field, const ps_kind *kind,
                     Psgd__V1__Choice *choice, const char *name_default, ps_params *params)
{
    char path[PS_FIELD_MAX];
    ps_plugin plugin;
    bool is_good = true;

    snprintf(path, sizeof path, "%s.name", field);
    if (choice->name[0] == '\0') {
        ps_spec_set(&choice->name, name_default);
    }
    if (!find(check, path, kind, choice->name, &plugin)) {
        return false;
    }
    *params = ps_params_default(plugin.params);
    for (size_t i = 0; i < choice->n_params; i++) {
        is_good &= ps_check_number(check, field, plugin.params, choice->params[i]->key,
                                   choice->params[i]->value, params);
    }
    for (size_t i = 0; is_good && plugin.params != NULL && plugin.params[i].name != NULL; i++) {
        ps_choice_set(choice, plugin.params[i].name, params->v[i]);
    }
    return is_good;
}

bool ps_check_layer_params(ps_check *check, const char *field, const ps_layer *layer,
                           Psgd__V1__LayerSpec *spec, ps_params *params)
{
    bool is_good = true;

    *params = ps_params_default(layer->params);
    for (size_t i = 0; i < spec->n_params; i++) {
        is_good &= ps_check_number(check, field, layer->params, spec->params[i]->key,
                                   spec->params[i]->value, params);
    }
    for (size_t i = 0; is_good && layer->params != NULL && layer->params[i].name != NULL; i++) {
        ps_layer_spec_set(spec, layer->params[i].name, params->v[i]);
    }
    return is_good;
}

/* --- codecs ---------------------------------------------------------------- */

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
                     "is \"%.80s\"; a variable's name is allowed, or a prefix of names and '*'",
                     match);
        return;
    }
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        if (matches(match, layout->variables[v].name)) {
            return;
        }
    }
    if (layout->variable_count > 0) {
        ps_check_bad(check, field, "\"%.80s\" matches none of the %u variables, %s to %s", match,
                     layout->variable_count, layout->variables[0].name,
                     layout->variables[layout->variable_count - 1].name);
    }
}

/* An exception's choice; one without a name is none. */
static void check_exception(ps_check *check, const char *field, Psgd__V1__Choice **choice,
                            ps_codec_choice *out)
{
    if (*choice != NULL && (*choice)->name[0] == '\0' && (*choice)->n_params == 0) {
        ps_choice_free(*choice);
        *choice = NULL;
    }
    if (*choice != NULL &&
        ps_check_choice(check, field, &ps_kind_codec, *choice, "f32", &out->params)) {
        out->codec = ps_codec_find((*choice)->name);
    }
}

/* What a codec cannot be used for. Each variable's choices are looked at once. */
static void check_uses(ps_check *check, const char *field, const ps_plan *plan,
                       const ps_codec_choice *up, const ps_codec_choice *down)
{
    char path[PS_FIELD_MAX];
    uint32_t r = plan->assignment != NULL ? plan->assignment->redundancy : 1;

    if (down->codec != NULL && ps_codec_facts_of(down->codec, &down->params).is_sparse) {
        snprintf(path, sizeof path, "%s.down.name", field);
        ps_check_bad(check, path,
                     "is \"%s\", which leaves most values 0: for gradients, not for "
                     "weights",
                     down->codec->name);
    }
    if (down->codec != NULL && ps_feedback_is_on(down->codec, &down->params)) {
        snprintf(path, sizeof path, "%s.down.params.error_feedback", field);
        ps_check_bad(check, path, "is 1; for weights only 0 is allowed");
    }
    if (up->codec != NULL && ps_feedback_is_on(up->codec, &up->params) && r > 1 &&
        plan->update != NULL && plan->update->per_block) {
        snprintf(path, sizeof path, "%s.up.params.error_feedback", field);
        ps_check_bad(check, path,
                     "is 1; with redundancy %u and update %s, where a block counts "
                     "once whoever brings it, copies would differ: 0 is allowed",
                     r, plan->update->name);
    }
}

/* What a codec takes from the variable's shape: rows 1 stands for its own rows. */
static void fit_to(ps_codec_choice *choice, const ps_variable *variable)
{
    const ps_shape *shape = &variable->shape;
    double *rows;

    if (choice->codec == NULL) {
        return;
    }
    rows = &choice->params.v[choice->codec->own + PS_WRAP_ROWS];
    if (*rows == 1) {
        *rows = shape->rank < 2 || shape->dim[shape->rank - 1] > PS_CODEC_VALUES
                    ? 0
                    : (double)shape->dim[shape->rank - 1];
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
        up.codec = ps_codec_find(spec->up->name);
    }
    if (ps_check_choice(check, "spec.codec.down", &ps_kind_codec, spec->down, "f32",
                        &down.params)) {
        down.codec = ps_codec_find(spec->down->name);
    }
    check_uses(check, "spec.codec", plan, &up, &down);
    plan->up = ps_xcalloc(layout->variable_count, sizeof *plan->up);
    plan->down = ps_xcalloc(layout->variable_count, sizeof *plan->down);
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        plan->up[v] = up;
        plan->down[v] = down;
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
        check_exception(check, field, &x->up, &x_up);
        snprintf(field, sizeof field, "spec.codec.variables[%zu].down", i);
        check_exception(check, field, &x->down, &x_down);
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
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        fit_to(&plan->up[v], &layout->variables[v]);
        fit_to(&plan->down[v], &layout->variables[v]);
    }
    free(is_excepted);
}
