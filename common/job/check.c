/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - see check.h. */
#include "common/job/check.h"

#include "common/base/nearest.h"
#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/job/numbers.h"
#include "common/job/preset.h"
#include "common/rpc/pbjson.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OF_PRESET_BYTES = 240 }; /* most bytes of the note that names a preset, with the NUL */

/* Returns the value of `spec` at a path such as "spec.optimizer.rule.name"; NULL: it has none, or
 * the path does not begin with "spec.". */
static const json_t *value_at(const json_t *spec, const char *path)
{
    const json_t *at = spec;

    if (strncmp(path, "spec.", 5) != 0) {
        return NULL;
    }
    path += 5;
    while (at != NULL && *path != '\0') {
        size_t n = strcspn(path, ".[");
        char *name = ps_xstrndup(path, n);

        at = json_object_get(at, name);
        free(name);
        path += n;
        if (*path == '[') {
            at = json_array_get(at, strtoul(path + 1, NULL, 10));
            path += strcspn(path, "]");
            path += *path == ']';
        }
        path += *path == '.';
    }
    return at;
}

/* Appends to an error's text the name of the preset that sets the field, and shortens the text to
 * make room. Appends nothing if the user gave the value, or the preset does not set it. */
static void name_preset(const ps_check *check, const char *field, char *text, size_t cap)
{
    const ps_preset *preset = check->given == NULL ? NULL : ps_preset_find(check->given->preset);
    json_t *given, *own;
    char note[OF_PRESET_BYTES];

    if (preset == NULL) {
        return;
    }
    given = ps_pb_to_json(&check->given->base, PS_PB_TERSE);
    own = json_loads(preset->json, 0, NULL);
    if (value_at(given, field) == NULL && value_at(own, field) != NULL) {
        snprintf(note, sizeof note, " (preset %s sets it; -s %s=VALUE gives another)", preset->name,
                 field + 5);
        ps_shorten(text, cap - strlen(note), text);
        strcat(text, note);
    }
    json_decref(given);
    json_decref(own);
}

void ps_check_bad(ps_check *check, const char *field, const char *fmt, ...)
{
    char text[512]; /* as long as ps_violation.text */
    va_list ap;

    va_start(ap, fmt);
    ps_shorten_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    name_preset(check, field, text, sizeof text);
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

enum { NAMES_MAX = 128 };

typedef struct wanted {
    const char *name;
    ps_plugin found;
    bool is_there;
    ps_strbuf names; /* names of all plugins of the kind, the job's own too, separated by ", " */
    const char *all[NAMES_MAX];
    size_t count;
} wanted;

static void compare(const ps_plugin *plugin, void *arg)
{
    wanted *w = arg;

    if (strcmp(plugin->name, w->name) == 0) {
        w->found = *plugin;
        w->is_there = true;
    }
    if (w->count < NAMES_MAX) {
        w->all[w->count++] = plugin->name;
    }
    ps_strbuf_printf(&w->names, "%s%s", w->names.len == 0 ? "" : ", ", plugin->name);
}

static bool find(ps_check *check, const char *field, const ps_kind *kind, const char *name,
                 ps_plugin *out)
{
    wanted w = {.name = name};

    kind->each(compare, &w);
    for (size_t i = 0; i < check->script_count; i++) {
        const ps_script_about *about = ps_script_about_of(check->scripts[i]);

        if (strcmp(about->kind, kind->name) == 0) {
            const ps_plugin own = {about->name, about->summary,
                                   ps_script_params(check->scripts[i])};

            compare(&own, &w);
        }
    }
    if (!w.is_there) {
        const char *meant = ps_nearest(name, w.all, w.count);

        ps_check_bad(check, field, "is \"%s\"%s%s%s; allowed: %s", PS_SHORT(name, 64),
                     meant != NULL ? "; did you mean \"" : "", meant != NULL ? meant : "",
                     meant != NULL ? "\"?" : "", ps_strbuf_text(&w.names));
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

/* Checks one number and writes it to *params. If the table has no number `key`, or does not allow
 * the value, reports an error and returns false. */
static bool check_number(ps_check *check, const char *field, const ps_param *table, const char *key,
                         double value, ps_params *params)
{
    char path[PS_FIELD_MAX];
    ps_status st = ps_param_set(table, key, value, params);

    if (!ps_is_ok(&st)) {
        bool is_descent = value < 0 && strcmp(key, "lr") == 0 && ps_param_find(table, key) >= 0;

        snprintf(path, sizeof path, "%s.params.%s", field, PS_SHORT(key, 40));
        ps_check_bad(check, path, "%s%s", st.text,
                     is_descent ? "; optimizer.maximise goes up the gradient (--maximise)" : "");
    }
    return ps_is_ok(&st);
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
