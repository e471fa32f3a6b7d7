/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - see check.h. */
#include "common/job/check.h"

#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/job/numbers.h"
#include "common/job/spec.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ps_check_bad(ps_check *check, const char *field, const char *fmt, ...)
{
    char text[512]; /* as of a ps_violation */
    va_list ap;

    va_start(ap, fmt);
    ps_shorten_vprint(text, sizeof text, fmt, ap);
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
        ps_check_bad(check, field, "is \"%s\"; allowed: %s", PS_SHORT(name, 64),
                     ps_strbuf_text(&w.names));
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

/* Checks one number and writes it to *params. Returns false, after an error, if it is wrong. */
static bool check_number(ps_check *check, const char *field, const ps_param *table, const char *key,
                         double value, ps_params *params)
{
    char path[PS_FIELD_MAX];
    int at = ps_param_find(table, key);
    bool is_whole = floor(value) == value;

    snprintf(path, sizeof path, "%s.params.%s", field, PS_SHORT(key, 40));
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

bool ps_check_numbers(ps_check *check, const char *field, const ps_param *table,
                      ProtobufCMessage *message, ps_params *params)
{
    bool is_good = true;

    *params = ps_params_default(table);
    for (size_t i = 0; i < ps_numbers_count(message); i++) {
        ps_number number = ps_numbers_at(message, i);

        is_good &= check_number(check, field, table, number.key, number.value, params);
    }
    if (is_good) {
        ps_numbers_store(message, table, params);
    }
    return is_good;
}

bool ps_check_choice(ps_check *check, const char *field, const ps_kind *kind,
                     Psgd__V1__Choice *choice, const char *name_default, ps_params *params)
{
    char path[PS_FIELD_MAX];
    ps_plugin plugin;

    snprintf(path, sizeof path, "%s.name", field);
    if (choice->name[0] == '\0') {
        ps_spec_set(&choice->name, name_default);
    }
    if (!find(check, path, kind, choice->name, &plugin)) {
        return false;
    }
    return ps_check_numbers(check, field, plugin.params, &choice->base, params);
}
