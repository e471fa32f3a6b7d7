/* SPDX-License-Identifier: Apache-2.0 */
/* check_code.c - a job's own plugins: checks their messages, and opens them for the plan. */
#include "common/job/plan_impl.h"

#include "common/base/plain_name.h"
#include "common/base/shorten.h"
#include "common/job/code.h"

#include <stdio.h>
#include <string.h>

enum { FILE_NAME_MAX = 64 };

/* A search for a plugin of one kind by its name. */
typedef struct name_search {
    const char *name;
    bool is_there;
} name_search;

static void compare(const ps_plugin *plugin, void *arg)
{
    name_search *search = arg;

    search->is_there |= strcmp(plugin->name, search->name) == 0;
}

/* Returns the kind of plugins with this name; NULL: only code of jobs is of this kind ("compute").
 */
static const ps_kind *kind_of(const char *name)
{
    for (size_t i = 0; i < ps_kind_count; i++) {
        if (strcmp(ps_kinds[i]->name, name) == 0) {
            return ps_kinds[i];
        }
    }
    return NULL;
}

/* Reports an error if a built-in plugin of the kind, or another one of the job, has the same name.
 * Returns whether none has. */
static bool is_new(ps_check *check, const ps_plan *plan, const char *field,
                   const ps_script_about *about)
{
    name_search search = {.name = about->name};
    const ps_kind *kind = kind_of(about->kind);

    if (kind != NULL) {
        kind->each(compare, &search);
    }
    for (size_t i = 0; i < plan->script_count; i++) {
        const ps_script_about *other = ps_script_about_of(plan->scripts[i]);

        search.is_there |=
            strcmp(other->kind, about->kind) == 0 && strcmp(other->name, about->name) == 0;
    }
    if (search.is_there) {
        ps_check_bad(check, field, "has the %s \"%s\", a name that another %s has", about->kind,
                     about->name, about->kind);
    }
    return !search.is_there;
}

static void check_file(ps_check *check, ps_plan *plan, size_t i)
{
    const Psgd__V1__CodeFile *file = plan->spec->code[i];
    char field[PS_FIELD_MAX];
    ps_script_about about;

    snprintf(field, sizeof field, "spec.code[%zu]", i);
    if (!ps_plain_name_is_valid(file->file, FILE_NAME_MAX) || file->file[0] == '.') {
        ps_check_bad(
            check, field,
            "has the file name \"%s\"; 1 to %d of A-Z a-z 0-9 . _ - are allowed, the first not .",
            PS_SHORT(file->file, 64), FILE_NAME_MAX);
    } else if (file->text[0] == '\0' || strlen(file->text) > PS_SANDBOX_TEXT_MAX) {
        ps_check_bad(check, field, "has %zu bytes of text; 1 to %d are allowed", strlen(file->text),
                     PS_SANDBOX_TEXT_MAX);
    } else if (!ps_code_about_of(file, &about)) {
        ps_check_bad(check, field,
                     "is not completed by what the file says of itself (kind, name, numbers)");
    } else if (is_new(check, plan, field, &about)) {
        plan->scripts[plan->script_count++] =
            ps_script_open(file->file, file->text, strlen(file->text), &about);
    }
}

void ps_check_code(ps_check *check, ps_plan *plan)
{
    if (plan->spec->n_code > PS_CODE_FILES_MAX) {
        ps_check_bad(check, "spec.code", "has %zu files; at most %d are allowed",
                     plan->spec->n_code, PS_CODE_FILES_MAX);
        return;
    }
    for (size_t i = 0; i < plan->spec->n_code; i++) {
        check_file(check, plan, i);
    }
    check->scripts = plan->scripts;
    check->script_count = plan->script_count;
}

ps_script *ps_plan_script(const ps_plan *plan, const char *kind, const char *name)
{
    for (size_t i = 0; i < plan->script_count; i++) {
        const ps_script_about *about = ps_script_about_of(plan->scripts[i]);

        if (strcmp(about->kind, kind) == 0 && strcmp(about->name, name) == 0) {
            return plan->scripts[i];
        }
    }
    return NULL;
}

const ps_codec *ps_plan_codec(const ps_plan *plan, const char *name)
{
    const ps_script *script = ps_plan_script(plan, "codec", name);

    return script != NULL ? ps_script_codec(script) : ps_codec_find(name);
}

const ps_consistency *ps_plan_consistency(const ps_plan *plan, const char *name)
{
    const ps_script *script = ps_plan_script(plan, "consistency", name);

    return script != NULL ? ps_script_consistency(script) : ps_consistency_find(name);
}

const ps_metric *ps_plan_metric(const ps_plan *plan, const char *name)
{
    const ps_script *script = ps_plan_script(plan, "metric", name);

    return script != NULL ? ps_script_metric(script) : ps_metric_find(name);
}

const ps_schedule *ps_plan_schedule(const ps_plan *plan, const char *name)
{
    const ps_script *script = ps_plan_script(plan, "schedule", name);

    return script != NULL ? ps_script_schedule(script) : ps_schedule_find(name);
}

const ps_transform *ps_plan_transform(const ps_plan *plan, const char *name)
{
    const ps_script *script = ps_plan_script(plan, "transform", name);

    return script != NULL ? ps_script_transform(script) : ps_transform_find(name);
}

ps_status ps_plan_code_failure(const ps_plan *plan)
{
    ps_status st = ps_ok();

    for (size_t i = 0; i < plan->script_count && ps_is_ok(&st); i++) {
        st = ps_script_failure(plan->scripts[i]);
    }
    return st;
}
