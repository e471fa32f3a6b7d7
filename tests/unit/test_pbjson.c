/* SPDX-License-Identifier: Apache-2.0 */
/* test_pbjson.c - messages as JSON and back, over every type of the wire. */
#include "tests/support/cmocka_all.h"
#include "tests/support/pb_filler.h"

#include "common/base/draw.h"
#include "common/rpc/pbfield.h"
#include "common/rpc/pbjson.h"
#include "common/rpc/pbtext.h"

#include "google/protobuf/timestamp.pb-c.h"
#include "kinds.pb-c.h"
#include "psgd/v1/coordinator.pb-c.h"
#include "psgd/v1/job.pb-c.h"
#include "psgd/v1/node.pb-c.h"
#include "psgd/v1/parameter.pb-c.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Psgd__Test__Kinds kinds;
typedef Psgd__V1__JobSpec job_spec;

static void assert_type_round_trips(const ProtobufCMessageDescriptor *type, uint64_t seed)
{
    for (uint64_t round = 0; round < 20; round++) {
        pb_filler f = {.key = ps_draw_key(seed, PS_DRAW_TEST, round, 0, 0)};
        ProtobufCMessage *message = ps_pb_create(type);

        pb_assert_round_trip(message, PS_PB_TERSE); /* empty */
        pb_assert_round_trip(message, PS_PB_DEFAULTS);
        pb_fill(&f, message, 1);
        pb_assert_round_trip(message, PS_PB_TERSE);
        pb_assert_round_trip(message, PS_PB_DEFAULTS);
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

static void every_type_of_the_wire_survives_json(void **state)
{
    static const ProtobufCServiceDescriptor *const services[] = {
        &psgd__v1__coordinator_service__descriptor,
        &psgd__v1__node_service__descriptor,
        &psgd__v1__parameter_service__descriptor,
    };
    uint64_t seed = pb_test_seed();

    (void)state;
    for (size_t s = 0; s < sizeof services / sizeof services[0]; s++) {
        assert_true(services[s]->n_methods > 0);
        for (unsigned m = 0; m < services[s]->n_methods; m++) {
            /* What they hold is reached by filling them. */
            assert_type_round_trips(services[s]->methods[m].input, seed);
            assert_type_round_trips(services[s]->methods[m].output, seed);
        }
    }
}

static void every_kind_of_field_survives_json(void **state)
{
    (void)state;
    assert_type_round_trips(&psgd__test__kinds__descriptor, pb_test_seed());
}

/* --- to JSON --------------------------------------------------------------- */

static void json_is_written_as_people_expect(void **state)
{
    Psgd__V1__Job job = PSGD__V1__JOB__INIT;
    Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    Psgd__V1__Job__ResultEntry loss = PSGD__V1__JOB__RESULT_ENTRY__INIT;
    Psgd__V1__Job__ResultEntry *result[] = {&loss};
    char key[] = "loss", id[] = "psgd-1";

    (void)state;
    time.seconds = 1795173960;
    time.nanos = 250000000;
    loss.key = key;
    loss.value = 0.25;
    job.id = id;
    job.state = PSGD__V1__JOB_STATE__JOB_STATE_RUNNING;
    job.create_time = &time;
    job.n_result = 1;
    job.result = result;
    pb_assert_json(&job.base, PS_PB_TERSE,
                   "{\"id\":\"psgd-1\",\"state\":\"JOB_STATE_RUNNING\","
                   "\"create_time\":\"2026-11-20T11:26:00.250Z\",\"result\":{\"loss\":0.25}}");
    pb_assert_json(
        &job.base, PS_PB_DEFAULTS,
        "{\"id\":\"psgd-1\",\"state\":\"JOB_STATE_RUNNING\",\"reason\":\"\","
        "\"message\":\"\",\"attempt\":0,\"create_time\":\"2026-11-20T11:26:00.250Z\","
        "\"result\":{\"loss\":0.25},\"placements\":[],\"artifacts\":[],\"interrupted\":0,"
        "\"no_queue\":false,\"owner\":\"\",\"parameters\":0,\"restarts\":0,\"recoveries\":[],"
        "\"useful_seconds\":0.0,\"goodput\":0.0,\"rollbacks\":0,"
        "\"scaled_processes\":0,\"scaled_pservers\":0,\"tracker_runs\":[],"
        "\"result_step\":0,\"evaluations\":0,\"table_shrinks\":[]}");
}

static void odd_values_have_a_json(void **state)
{
    kinds k = PSGD__TEST__KINDS__INIT;
    Google__Protobuf__Timestamp far = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    char text[] = "ab\xff";

    (void)state;
    far.seconds = INT64_MAX;
    k.an_int64 = INT64_MIN;
    k.a_uint64 = UINT64_MAX;
    k.a_float = 0.1f;
    k.a_double = (double)NAN;
    k.a_tone = (Psgd__Test__ToneKind)99;
    k.a_string = text;
    k.a_time = &far;
    k.choice_case = PSGD__TEST__KINDS__CHOICE_CHOSEN_UINT32; /* set, though it is 0 */
    pb_assert_json(&k.base, PS_PB_TERSE,
                   "{\"an_int64\":-9223372036854775808,\"a_uint64\":\"18446744073709551615\","
                   "\"a_float\":0.10000000000000001,\"a_double\":\"NaN\",\"a_tone\":99,"
                   "\"a_string\":\"ab\xef\xbf\xbd\",\"a_time\":null,\"chosen_uint32\":0}");
}

static void nesting_that_is_too_deep_is_cut(void **state)
{
    kinds k[PS_PB_DEPTH_MAX + 2];
    json_t *json, *at;

    (void)state;
    for (size_t i = 0; i < PS_PB_DEPTH_MAX + 2; i++) {
        psgd__test__kinds__init(&k[i]);
        k[i].inner = i > 0 ? &k[i - 1] : NULL;
    }
    json = ps_pb_to_json(&k[PS_PB_DEPTH_MAX + 1].base, PS_PB_TERSE);
    at = json;
    for (size_t i = 0; i < PS_PB_DEPTH_MAX; i++) {
        assert_true(json_is_object(at));
        at = json_object_get(at, "inner");
    }
    assert_true(json_is_null(at));
    json_decref(json);
}

/* --- from JSON ------------------------------------------------------------- */

static ps_status read_text(const ProtobufCMessageDescriptor *type, const char *text,
                           ps_error *error, ProtobufCMessage **out)
{
    json_error_t why;
    json_t *json = json_loads(text, JSON_DECODE_ANY, &why);
    ps_status st;

    assert_non_null(json);
    *error = (ps_error){.status = ps_ok()};
    st = ps_pb_from_json(type, json, "spec", error, out);
    json_decref(json);
    return st;
}

static void people_may_write_names_in_their_way(void **state)
{
    ps_error error;
    ProtobufCMessage *m = NULL;
    job_spec *spec;
    ps_status st = read_text(&psgd__v1__job_spec__descriptor,
                             "{\"blockSize\": 32, \"epochs\": null, \"optimizer\": {\"rule\": "
                             "{\"name\": \"sgd\", \"params\": {\"lr\": 1}}, \"side\": \"worker\"},"
                             "\"nodes\": [{\"role\": \"Node_Role_Pserver\"}, {\"role\": 1}]}",
                             &error, &m);

    (void)state;
    assert_true(ps_is_ok(&st));
    spec = (job_spec *)m;
    assert_int_equal(spec->block_size, 32);
    assert_int_equal(spec->epochs, 0);
    assert_int_equal(spec->optimizer->side, PSGD__V1__OPTIMIZER_SIDE__OPTIMIZER_SIDE_WORKER);
    assert_string_equal(spec->optimizer->rule->params[0]->key, "lr");
    assert_true(spec->optimizer->rule->params[0]->value == 1.0);
    assert_int_equal(spec->nodes[0]->role, PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER);
    assert_int_equal(spec->nodes[1]->role, PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER);
    protobuf_c_message_free_unpacked(m, NULL);
}

static const ps_violation *find_violation(const ps_error *error, const char *field)
{
    for (size_t i = 0; i < error->violation_count; i++) {
        if (strcmp(error->violations[i].field, field) == 0) {
            return &error->violations[i];
        }
    }
    fail_msg("no violation of %s", field);
    return NULL;
}

static void every_wrong_field_is_named_at_once(void **state)
{
    ps_error error;
    ProtobufCMessage *m = NULL;
    ps_status st =
        read_text(&psgd__v1__job_spec__descriptor,
                  "{\"workers\": -1, \"pservers\": 4294967296, \"epochs\": 2.0,"
                  " \"block_size\": \"64\", \"titel\": \"x\", \"title\": 7, \"preset\": true,"
                  " \"codec\": {\"up\": {\"name\": [], \"params\": {\"bits\": \"8\"}},"
                  "             \"variables\": [{}, {\"match\": {}}, 3]},"
                  " \"optimizer\": {\"side\": \"moon\", \"rule\": []},"
                  " \"model\": {\"layers\": {}, \"widths\": [1, -2]}}",
                  &error, &m);

    (void)state;
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_int_equal(error.status.code, PS_INVALID_ARGUMENT);
    assert_null(m);
    assert_int_equal(error.violation_count, 15);
    assert_string_equal(find_violation(&error, "spec.workers")->text,
                        "-1 is not a whole number of 0 to 4294967295");
    find_violation(&error, "spec.pservers");
    find_violation(&error, "spec.epochs");
    find_violation(&error, "spec.block_size");
    assert_non_null(strstr(find_violation(&error, "spec.titel")->text, "no such field"));
    find_violation(&error, "spec.title");
    find_violation(&error, "spec.preset");
    find_violation(&error, "spec.codec.up.name");
    find_violation(&error, "spec.codec.up.params.bits");
    find_violation(&error, "spec.codec.variables[1].match");
    find_violation(&error, "spec.codec.variables[2]");
    assert_string_equal(find_violation(&error, "spec.optimizer.side")->text,
                        "\"moon\" is not one of OPTIMIZER_SIDE_UNSPECIFIED, "
                        "OPTIMIZER_SIDE_SERVER, OPTIMIZER_SIDE_WORKER");
    find_violation(&error, "spec.optimizer.rule");
    find_violation(&error, "spec.model.layers");
    find_violation(&error, "spec.model.widths[1]");
}

static void assert_refused(const char *text)
{
    ps_error error;
    ProtobufCMessage *m = NULL;
    ps_status st = read_text(&psgd__test__kinds__descriptor, text, &error, &m);

    if (ps_is_ok(&st)) {
        print_error("taken: %s\n", text);
    }
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_int_equal(error.violation_count, 1);
    assert_null(m);
}

static void values_out_of_range_are_refused(void **state)
{
    static const char *const texts[] = {
        "3",
        "[]",
        "{\"an_int32\": 2147483648}",
        "{\"a_sint32\": -2147483649}",
        "{\"a_sfixed32\": 1e3}",
        "{\"an_int64\": \"5\"}",
        "{\"a_sint64\": true}",
        "{\"a_uint64\": -1}",
        "{\"a_uint64\": \"7\"}",
        "{\"a_fixed64\": \"18446744073709551616\"}",
        "{\"a_float\": 1e39}",
        "{\"a_float\": \"nan\"}",
        "{\"a_double\": \"1\"}",
        "{\"a_bool\": 1}",
        "{\"a_tone\": 2}",
        "{\"a_tone\": \"\"}",
        "{\"a_tone\": \"TONE_KIND_\"}",
        "{\"some_bytes\": \"A\"}",
        "{\"some_bytes\": \"AA=\"}",
        "{\"some_bytes\": \"A===\"}",
        "{\"some_bytes\": \"AA*A\"}",
        "{\"a_time\": \"2026-02-29T00:00:00Z\"}",
        "{\"a_time\": \"2026-02-28T00:00:00\"}",
        "{\"a_time\": \"2026-02-28T24:00:00Z\"}",
        "{\"a_time\": \"2026-02-28T00:00:00.0000000001Z\"}",
        "{\"a_time\": \"0000-02-28T00:00:00Z\"}",
        "{\"a_time\": {}}",
        "{\"many_bool\": true}",
        "{\"many_sint64\": [null]}",
        "{\"numbers\": {\"a\": null}}",
        "{\"numbers\": []}",
        "{\"texts\": {\"x\": \"a\"}}",
        "{\"texts\": {\"\": \"a\"}}",
        "{\"tones\": {\"maybe\": 1}}",
        "{\"chosen_uint32\": 1, \"chosen_double\": 2}",
        "{\"an_int32\": 1, \"anInt32\": 2}",
        "{\"AnInt32\": 1}",
        "{\"an_\": 1}",
        "{\"\": 1}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_refused(texts[i]);
    }
}

static void times_with_an_offset_are_moved_to_utc(void **state)
{
    ps_error error;
    ProtobufCMessage *m = NULL;
    ps_status st = read_text(&psgd__test__kinds__descriptor,
                             "{\"a_time\": \"1969-12-31T23:30:00.5-01:30\"}", &error, &m);

    (void)state;
    assert_true(ps_is_ok(&st));
    assert_int_equal(((kinds *)m)->a_time->seconds, 3600);
    assert_int_equal(((kinds *)m)->a_time->nanos, 500000000);
    protobuf_c_message_free_unpacked(m, NULL);
}

static void bytes_are_base64_in_either_alphabet_with_or_without_padding(void **state)
{
    /* RFC 4648, section 10, and the two digits that have two forms. */
    static const char *const vectors[][3] = {
        {"", "", ""},
        {"f", "Zg==", "Zg"},
        {"fo", "Zm8=", "Zm8"},
        {"foo", "Zm9v", "Zm9v"},
        {"foob", "Zm9vYg==", "Zm9vYg"},
        {"\xfb\xff\xbf", "+/+/", "-_-_"},
    };
    static const char *const wrong[] = {" Zm9v", "    Zm9v", "Zm9v ",       "Zm\n9v",
                                        "Z",     "Zg=",      "Zg===",       "Zm9v====",
                                        "=",     "Zg==Zm9v", "Zm9v\xc3\xa9"};

    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        size_t n = strlen(vectors[i][0]), len = 99;
        char *text = ps_pb_base64_print((const uint8_t *)vectors[i][0], n);

        assert_string_equal(text, vectors[i][1]);
        free(text);
        for (size_t form = 1; form < 3; form++) {
            uint8_t *data = NULL;

            assert_true(ps_pb_base64_parse(vectors[i][form], &data, &len));
            assert_int_equal(len, n);
            assert_memory_equal(data, vectors[i][0], n);
            free(data);
        }
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint8_t *data = NULL;
        size_t len = 0;

        assert_false(ps_pb_base64_parse(wrong[i], &data, &len));
        assert_null(data);
    }
}

static void text_that_is_not_for_c_is_refused(void **state)
{
    json_t *json = json_object();
    ps_error error = {.status = ps_ok()};
    ProtobufCMessage *m = NULL;
    ps_status st;

    (void)state;
    json_object_set_new(json, "a_string", json_stringn_nocheck("a\0b", 3));
    json_object_set_new(json, "chosen_string", json_string_nocheck("\xff"));
    st = ps_pb_from_json(&psgd__test__kinds__descriptor, json, "", &error, &m);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_int_equal(error.violation_count, 2);
    json_decref(json);
}

static void json_that_is_too_deep_is_refused(void **state)
{
    char text[1024] = "";
    size_t depth = 40;

    (void)state;
    for (size_t i = 0; i < depth; i++) {
        strcat(text, "{\"inner\":");
    }
    strcat(text, "{}");
    for (size_t i = 0; i < depth; i++) {
        strcat(text, "}");
    }
    assert_refused(text);
}

static void more_violations_than_there_is_room_for_are_counted(void **state)
{
    enum { WRONG = PS_ERROR_VIOLATIONS_MAX + 5 };
    json_t *json = json_object(), *list = json_array();
    ps_error error = {.status = ps_ok()};
    ProtobufCMessage *m = NULL;
    ps_status st;

    (void)state;
    for (size_t i = 0; i < WRONG; i++) {
        json_array_append_new(list, json_string("no"));
    }
    json_object_set_new(json, "many_bool", list);
    st = ps_pb_from_json(&psgd__test__kinds__descriptor, json, "", &error, &m);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_int_equal(error.violation_count, PS_ERROR_VIOLATIONS_MAX);
    assert_int_equal(error.violations_dropped, 5);
    json_decref(json);
}

static void merging_replaces_lists_and_keeps_what_is_not_named(void **state)
{
    ps_error error;
    ProtobufCMessage *m = NULL;
    ps_status st =
        read_text(&psgd__test__kinds__descriptor,
                  "{\"an_int32\": 1, \"many_sint64\": [1, 2, 3], \"chosen_string\": \"x\","
                  " \"numbers\": {\"a\": 1, \"b\": 2}, \"inner\": {\"a_string\": \"old\","
                  " \"a_uint32\": 9}}",
                  &error, &m);
    json_t *more = json_pack("{s:[i], s:{s:f, s:i}, s:{s:s}, s:{}}", "many_sint64", 7, "numbers",
                             "b", 5.0, "c", 6, "inner", "a_string", "new", "chosen_kinds");

    (void)state;
    assert_true(ps_is_ok(&st));
    st = ps_pb_merge_json(m, more, "", &error);
    assert_true(ps_is_ok(&st));
    pb_assert_json(m, PS_PB_TERSE,
                   "{\"an_int32\":1,\"inner\":{\"a_uint32\":9,\"a_string\":\"new\"},"
                   "\"many_sint64\":[7],\"numbers\":{\"a\":1.0,\"b\":5.0,\"c\":6.0},"
                   "\"chosen_kinds\":{}}");
    json_decref(more);
    protobuf_c_message_free_unpacked(m, NULL);
}

/* --- junk ------------------------------------------------------------------ */

static void junk_is_read_or_refused_but_harms_nobody(void **state)
{
    enum { CAP = 16384 };
    pb_filler f = {.key = ps_draw_key(pb_test_seed(), PS_DRAW_TEST, 99, 0, 0)};
    ProtobufCMessage *base = ps_pb_create(&psgd__test__kinds__descriptor);
    char *text = malloc(CAP), *whole;
    size_t taken = 0, refused = 0;
    json_t *json;

    (void)state;
    pb_fill(&f, base, 4);
    json = ps_pb_to_json(base, PS_PB_TERSE);
    whole = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    assert_true(strlen(whole) < CAP / 2);
    for (size_t i = 0; i < 20000; i++) {
        ps_error error = {.status = ps_ok()};
        ProtobufCMessage *m = NULL;
        ps_status st;

        strcpy(text, whole);
        pb_mutate(&f, text, CAP);
        json = json_loads(text, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
        if (json == NULL) {
            continue; /* jansson's to refuse */
        }
        st = ps_pb_from_json(base->descriptor, json, "", &error, &m);
        json_decref(json);
        if (ps_is_ok(&st)) {
            taken++;
            if (i % 16 == 0) {
                pb_assert_round_trip(m, PS_PB_DEFAULTS);
            }
            protobuf_c_message_free_unpacked(m, NULL);
        } else {
            assert_true(error.violation_count > 0);
            refused++;
        }
    }
    print_message("%zu taken, %zu refused\n", taken, refused);
    assert_true(taken > 100 && refused > 100);
    free(whole);
    free(text);
    protobuf_c_message_free_unpacked(base, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_of_the_wire_survives_json),
        cmocka_unit_test(every_kind_of_field_survives_json),
        cmocka_unit_test(json_is_written_as_people_expect),
        cmocka_unit_test(odd_values_have_a_json),
        cmocka_unit_test(nesting_that_is_too_deep_is_cut),
        cmocka_unit_test(people_may_write_names_in_their_way),
        cmocka_unit_test(every_wrong_field_is_named_at_once),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(times_with_an_offset_are_moved_to_utc),
        cmocka_unit_test(bytes_are_base64_in_either_alphabet_with_or_without_padding),
        cmocka_unit_test(text_that_is_not_for_c_is_refused),
        cmocka_unit_test(json_that_is_too_deep_is_refused),
        cmocka_unit_test(more_violations_than_there_is_room_for_are_counted),
        cmocka_unit_test(merging_replaces_lists_and_keeps_what_is_not_named),
        cmocka_unit_test(junk_is_read_or_refused_but_harms_nobody),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
