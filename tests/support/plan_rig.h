/* SPDX-License-Identifier: Apache-2.0 */
/* plan_rig.h - makes plans from JobSpecs in JSON, and checks why a JobSpec is refused. */
#ifndef PS_TESTS_SUPPORT_PLAN_RIG_H
#define PS_TESTS_SUPPORT_PLAN_RIG_H

#include "common/job/plan.h"
#include "common/rpc/pbjson.h"
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <string.h>

typedef struct found {
    size_t count;
    char text[4096]; /* a line "field: text" for each violation */
} found;

static inline void note(void *arg, const char *field, const char *text)
{
    found *f = arg;
    size_t at = strlen(f->text);

    f->count++;
    snprintf(f->text + at, sizeof f->text - at, "%s: %s\n", field, text);
}

static inline Psgd__V1__JobSpec *spec_of(const char *json)
{
    ProtobufCMessage *message = NULL;
    ps_error error = {.status = ps_ok()};
    json_t *tree = json_loads(json, 0, NULL);
    ps_status st;

    assert_non_null(tree);
    st = ps_pb_from_json(&psgd__v1__job_spec__descriptor, tree, "spec", &error, &message);
    json_decref(tree);
    if (!ps_is_ok(&st)) {
        fail_msg("%s", st.text);
    }
    return (Psgd__V1__JobSpec *)message;
}

static inline void free_spec(Psgd__V1__JobSpec *spec)
{
    psgd__v1__job_spec__free_unpacked(spec, NULL);
}

static inline ps_plan *plan_of(const char *json)
{
    Psgd__V1__JobSpec *spec = spec_of(json);
    ps_plan *plan = NULL;
    found f = {0};
    ps_status st = ps_plan_create(spec, note, &f, &plan);

    if (!ps_is_ok(&st)) {
        fail_msg("%s: %s", json, f.text);
    }
    free_spec(spec);
    return plan;
}

/* Asserts that the job is refused with exactly one violation, which is of `field` and has `words`
 * in its text. */
static inline void assert_refused(const char *json, const char *field, const char *words)
{
    Psgd__V1__JobSpec *spec = spec_of(json);
    ps_plan *plan = NULL;
    found f = {0};
    ps_status st = ps_plan_create(spec, note, &f, &plan);
    size_t n = strlen(field);

    if (st.code != PS_INVALID_ARGUMENT || f.count != 1 || strncmp(f.text, field, n) != 0 ||
        f.text[n] != ':' || strstr(f.text, words) == NULL) {
        fail_msg("%s: wanted %s with \"%s\", got %zu:\n%s", json, field, words, f.count, f.text);
    }
    assert_null(plan);
    free_spec(spec);
}

#endif
