/* SPDX-License-Identifier: Apache-2.0 */
/* check_data.c - the data set of a job: shapes, limits, transforms. */
#include "common/data/file_list.h"
#include "common/job/check_conf.h"
#include "common/job/plan_impl.h"

#include <stdio.h>

static void check_limit(ps_check *check, const char *field, uint32_t limit, uint32_t available,
                        uint32_t *count)
{
    *count = limit == 0 ? available : limit;
    if (limit > available) {
        ps_check_bad(check, field, "is %u; 1 to %u are allowed, or 0 for all", limit, available);
        *count = available;
    }
}

bool ps_check_data(ps_check *check, ps_plan *plan)
{
    Psgd__V1__DataSpec *spec = plan->spec->data;
    size_t before = check->count;
    ps_data_facts facts;
    ps_status st;

    if (!ps_check_data_conf(check, spec, &plan->data_conf)) {
        return false;
    }
    st = ps_data_get_facts(&plan->data_conf, &facts);
    if (!ps_is_ok(&st)) {
        ps_check_bad(check, "spec.data", "%s", st.text);
        return false;
    }
    check_limit(check, "spec.data.train_limit", spec->train_limit, facts.train_count,
                &plan->train_count);
    check_limit(check, "spec.data.test_limit", spec->test_limit, facts.test_count,
                &plan->test_count);
    plan->data = plan->data_conf.source;
    plan->facts = facts;
    return check->count == before;
}

static bool check_choices(ps_check *check, ps_plan *plan)
{
    Psgd__V1__DataSpec *spec = plan->spec->data;
    char field[PS_FIELD_MAX];
    size_t before = check->count;

    if (spec->n_transforms > PS_TRANSFORMS_MAX) {
        ps_check_bad(check, "spec.data.transforms", "has %zu entries; at most %d are allowed",
                     spec->n_transforms, PS_TRANSFORMS_MAX);
        return false;
    }
    for (uint32_t i = 0; i < spec->n_transforms; i++) {
        ps_transform_choice *choice = &plan->feed_conf.transforms[i];

        snprintf(field, sizeof field, "spec.data.transforms[%u]", i);
        if (ps_check_choice(check, field, &ps_kind_transform, spec->transforms[i], "",
                            &choice->params)) {
            choice->transform = ps_plan_transform(plan, spec->transforms[i]->name);
        }
    }
    plan->feed_conf.transform_count = (uint32_t)spec->n_transforms;
    return check->count == before;
}

/* Returns whether any training file belongs to the worker: its number modulo `workers` is `worker`.
 */
static bool has_file(const ps_data_conf *conf, uint32_t worker, uint32_t workers)
{
    uint32_t number = 0;

    for (uint32_t i = 0; i < conf->train_files; i++) {
        if (ps_data_file_number(conf->files[i], &number) && number % workers == worker) {
            return true;
        }
    }
    return false;
}

/* Checks, for an assignment by file, that every training file has a number and every worker a file.
 * Only checks the source if a pattern is among the names. */
static void check_by_file(ps_check *check, const ps_plan *plan)
{
    const ps_data_conf *conf = &plan->data_conf;
    uint32_t number = 0, workers = plan->assignment->workers;
    bool has_patterns = false;

    if (!conf->source->takes_files) {
        ps_check_bad(check, "spec.assignment.name", "is \"modulo\"; %s does not read files by name",
                     conf->source->name);
        return;
    }
    for (uint32_t i = 0; i < conf->train_files; i++) {
        has_patterns = has_patterns || ps_file_is_pattern(conf->files[i]);
    }
    if (has_patterns) { /* which files a pattern matches is checked by ps_look and by the nodes */
        return;
    }
    for (uint32_t i = 0; i < conf->train_files; i++) {
        if (!ps_data_file_number(conf->files[i], &number)) {
            char field[PS_FIELD_MAX];

            snprintf(field, sizeof field, "spec.data.files[%u]", i);
            ps_check_bad(check, field,
                         "is \"%s\"; with assignment modulo a name ends in a number, as "
                         "part-00007.csv",
                         conf->files[i]);
            return;
        }
    }
    for (uint32_t w = 0; w < workers; w++) {
        if (!has_file(conf, w, workers)) {
            ps_check_bad(check, "spec.data.files",
                         "has none for worker %u of the %u of spec.workers: a number that is %u "
                         "modulo %u; name more files, or have fewer workers",
                         w, workers, w, workers);
            return;
        }
    }
}

bool ps_check_transforms(ps_check *check, ps_plan *plan)
{
    size_t before = check->count;
    uint32_t place = 0;
    ps_status st;

    if (!check_choices(check, plan) || plan->data == NULL || plan->assignment == NULL) {
        return check->count == before;
    }
    plan->feed_conf.seed = plan->spec->seed;
    plan->feed_conf.block_size = plan->spec->block_size;
    plan->feed_conf.assignment = plan->assignment;
    if (plan->assignment->is_by_file) {
        uint32_t workers = plan->assignment->workers;

        check_by_file(check, plan);
        plan->data_conf.share = (ps_data_share){.of = workers, .count = workers};
    }
    st = ps_feed_facts(&plan->feed_conf, &plan->facts, &place);
    if (!ps_is_ok(&st)) {
        char field[PS_FIELD_MAX];

        snprintf(field, sizeof field, "spec.data.transforms[%u]", place);
        ps_check_bad(check, field, "does not go with %s: %s", plan->data->name, st.text);
    }
    return check->count == before;
}
