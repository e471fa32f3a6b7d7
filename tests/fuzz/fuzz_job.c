/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_job.c - any bytes as a job file: YAML or JSON, then a JobSpec, then a plan
 * (libFuzzer).
 *
 * What is refused says why: the place in the text, or the field. What is accepted is
 * complete: it makes the same plan again.
 */
#include "common/job/plan.h"

#include "common/base/document.h"
#include "common/rpc/pbjson.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A model may be asked for that is larger than any memory. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

enum { TEXT_MAX = 1 << 14 }; /* of a larger one nothing more is learnt */

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void note(void *arg, const char *field, const char *text)
{
    size_t *count = arg;

    must(strncmp(field, "spec", 4) == 0 && text[0] != '\0');
    ++*count;
}

static uint8_t *pack(const Psgd__V1__JobSpec *spec, size_t *n)
{
    uint8_t *bytes;

    *n = psgd__v1__job_spec__get_packed_size(spec);
    bytes = malloc(*n + 1);
    must(bytes != NULL);
    psgd__v1__job_spec__pack(spec, bytes);
    return bytes;
}

/* A completed spec makes its plan again and gains nothing. */
static void check_again(const ps_plan *plan)
{
    ps_plan *again = NULL;
    size_t count = 0, n = 0, m = 0;
    ps_status st = ps_plan_create(plan->spec, note, &count, &again);
    uint8_t *one, *two;

    must(ps_is_ok(&st) && count == 0);
    must(again->layout.hash == plan->layout.hash && again->total_steps == plan->total_steps);
    one = pack(plan->spec, &n);
    two = pack(again->spec, &m);
    must(n == m && memcmp(one, two, n) == 0);
    free(one);
    free(two);
    ps_plan_destroy(again);
}

static void check_plan(const Psgd__V1__JobSpec *spec)
{
    ps_plan *plan = NULL;
    size_t count = 0;
    ps_status st = ps_plan_create(spec, note, &count, &plan);

    if (ps_is_ok(&st)) {
        must(count == 0);
        check_again(plan);
    } else {
        must(st.text[0] != '\0' && plan == NULL);
        must(st.code != PS_INVALID_ARGUMENT || count > 0);
    }
    ps_plan_destroy(plan);
}

/* Where a field is said to stand, there is a line. */
static void check_lines(const char *text, size_t n, const ps_error *error)
{
    size_t lines = 1;

    for (size_t i = 0; i < n; i++) { /* as YAML breaks lines: CR, LF, NEL, LS, PS */
        lines += text[i] == '\n' || text[i] == '\r' || (unsigned char)text[i] >= 0x80;
    }
    for (size_t i = 0; i < error->violation_count; i++) {
        must(ps_document_line(text, n, error->violations[i].field) <= lines);
    }
    must(ps_document_line(text, n, "model.layers[1].kind") <= lines);
}

static void check_spec(const json_t *tree, const char *text, size_t n)
{
    ProtobufCMessage *message = NULL;
    ps_error error;
    ps_status st;

    ps_error_init(&error, ps_ok(), NULL);
    st = ps_pb_from_json(&psgd__v1__job_spec__descriptor, tree, "", &error, &message);
    if (!ps_is_ok(&st)) {
        must(st.code == PS_INVALID_ARGUMENT && st.text[0] != '\0' && message == NULL);
        check_lines(text, n, &error);
        return;
    }
    check_plan((const Psgd__V1__JobSpec *)message);
    protobuf_c_message_free_unpacked(message, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *tree = NULL;
    ps_status st;

    if (size > TEXT_MAX) {
        return 0;
    }
    st = ps_document_parse((const char *)data, size, &tree);
    if (ps_is_ok(&st)) {
        check_spec(tree, (const char *)data, size);
        json_decref(tree);
    } else {
        must(st.code == PS_INVALID_ARGUMENT && strncmp(st.text, "line ", 5) == 0);
    }
    return 0;
}
