/* SPDX-License-Identifier: Apache-2.0 */
/* test_pbjson.c - messages as JSON and back, over every type of the wire. */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/rpc/pbfield.h"
#include "common/rpc/pbjson.h"

#include "google/protobuf/timestamp.pb-c.h"
#include "kinds.pb-c.h"
#include "psgd/v1/codec.pb-c.h"
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

/* --- messages filled by iteration over their descriptors ------------------- */

typedef struct filler {
    uint64_t key, next;
} filler;

static uint64_t draw(filler *f)
{
    return ps_draw_u64(f->key, f->next++);
}

static void fill_message(filler *f, ProtobufCMessage *message, unsigned depth);

static char *drawn_text(filler *f)
{
    static const char *const texts[] = {"a", "dense0.weight", "\"quoted\"\n", "gr\xc3\xbc\xc3\x9f",
                                        "\xf0\x9f\x99\x82"};
    char text[64];

    snprintf(text, sizeof text, "%s %u", texts[draw(f) % 5], (unsigned)(draw(f) % 1000000));
    return strdup(text);
}

static void fill_bytes(filler *f, void *slot)
{
    size_t len = 1 + draw(f) % 9;
    uint8_t *data = malloc(len);

    for (size_t i = 0; i < len; i++) {
        data[i] = (uint8_t)draw(f);
    }
    ps_pb_put_bytes(slot, data, len);
}

static void fill_time(filler *f, Google__Protobuf__Timestamp *time)
{
    static const int32_t nanos[] = {0, 250000000, 1000, 123456789};

    time->seconds = (int64_t)(draw(f) % 4000000000) - 1000000000;
    time->nanos = nanos[draw(f) % 4];
}

/* A value that is not the default; depth bounds types that hold themselves. */
static void fill_slot(filler *f, const ProtobufCFieldDescriptor *field, void *slot, unsigned depth)
{
    const ProtobufCEnumDescriptor *tones = field->descriptor;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        *(uint32_t *)slot = (uint32_t)draw(f) | 1;
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        *(uint64_t *)slot = draw(f) | 1; /* the upper half, too */
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        *(float *)slot = (float)ps_draw_normal(f->key, f->next++) * 1e-3f;
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)slot = ps_draw_normal(f->key, f->next++) * 1e6;
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)slot = 1;
        break;
    case PROTOBUF_C_TYPE_ENUM:
        *(int *)slot = tones->values[draw(f) % tones->n_values].value;
        if (*(int *)slot == 0) {
            *(int *)slot = tones->values[tones->n_values - 1].value;
        }
        break;
    case PROTOBUF_C_TYPE_STRING:
        ps_pb_put_string(field, slot, drawn_text(f));
        break;
    case PROTOBUF_C_TYPE_BYTES:
        fill_bytes(f, slot);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        if (ps_pb_is_timestamp(field)) {
            fill_time(f, (Google__Protobuf__Timestamp *)ps_pb_message_in(field, slot));
        } else {
            fill_message(f, ps_pb_message_in(field, slot), depth + 1);
        }
        break;
    }
}

/* Every field gets a value; of a oneof, one member. */
static void fill_message(filler *f, ProtobufCMessage *message, unsigned depth)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];

        if (field->type == PROTOBUF_C_TYPE_MESSAGE && depth >= 5) {
            continue;
        }
        if (ps_pb_is_map(field)) {
            const ProtobufCMessageDescriptor *entry_type = field->descriptor;
            ProtobufCMessage *entry = ps_pb_create(entry_type);

            *(ProtobufCMessage **)ps_pb_append(message, field) = entry;
            fill_slot(f, &entry_type->fields[0], ps_pb_slot(entry, &entry_type->fields[0], 0),
                      depth);
            fill_slot(f, &entry_type->fields[1], ps_pb_slot(entry, &entry_type->fields[1], 0),
                      depth + 1);
        } else if (ps_pb_is_repeated(field)) {
            for (size_t n = depth < 3 ? 1 + draw(f) % 3 : 1; n > 0; n--) {
                fill_slot(f, field, ps_pb_append(message, field), depth);
            }
        } else if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0 || draw(f) % 3 == 0) {
            fill_slot(f, field, ps_pb_select(message, field), depth);
        }
    }
}

static size_t pack(const ProtobufCMessage *message, uint8_t **bytes)
{
    *bytes = malloc(protobuf_c_message_get_packed_size(message) + 1);
    return protobuf_c_message_pack(message, *bytes);
}

static void assert_same_message(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    uint8_t *bytes_a, *bytes_b;
    size_t len_a = pack(a, &bytes_a), len_b = pack(b, &bytes_b);

    assert_int_equal(len_a, len_b);
    assert_memory_equal(bytes_a, bytes_b, len_a);
    free(bytes_a);
    free(bytes_b);
}

/* Message -> JSON -> text -> JSON -> message. */
static void assert_round_trip(const ProtobufCMessage *message, unsigned flags)
{
    json_t *json = ps_pb_to_json(message, flags), *again;
    char *text = json_dumps(json, JSON_REAL_PRECISION(17));
    ps_error error = {.status = ps_ok()};
    ProtobufCMessage *copy = NULL;
    json_error_t why;
    ps_status st;

    assert_non_null(text);
    again = json_loads(text, 0, &why);
    assert_non_null(again);
    st = ps_pb_from_json(message->descriptor, again, "", &error, &copy);
    if (!ps_is_ok(&st)) {
        print_error("%s: %s\n%s\n", message->descriptor->name, st.text, text);
    }
    assert_true(ps_is_ok(&st));
    assert_same_message(message, copy);
    protobuf_c_message_free_unpacked(copy, NULL);
    json_decref(json);
    json_decref(again);
    free(text);
}

static uint64_t test_seed(void)
{
    const char *text = getenv("PSGD_TEST_SEED");
    uint64_t seed = text == NULL ? 20261120 : strtoull(text, NULL, 10);

    print_message("seed %llu\n", (unsigned long long)seed);
    return seed;
}

static void assert_type_round_trips(const ProtobufCMessageDescriptor *type, uint64_t seed)
{
    for (uint64_t round = 0; round < 20; round++) {
        filler f = {.key = ps_draw_key(seed, PS_DRAW_TEST, round, 0, 0)};
        ProtobufCMessage *message = ps_pb_create(type);

        assert_round_trip(message, PS_PB_TERSE); /* empty */
        assert_round_trip(message, PS_PB_DEFAULTS);
        fill_message(&f, message, 1);
        assert_round_trip(message, PS_PB_TERSE);
        assert_round_trip(message, PS_PB_DEFAULTS);
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
    uint64_t seed = test_seed();

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
    assert_type_round_trips(&psgd__test__kinds__descriptor, test_seed());
}

/* --- to JSON --------------------------------------------------------------- */

static void assert_json(const ProtobufCMessage *message, unsigned flags, const char *want)
{
    json_t *json = ps_pb_to_json(message, flags);
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(17));

    assert_string_equal(text, want);
    free(text);
    json_decref(json);
}

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
    assert_json(&job.base, PS_PB_TERSE,
                "{\"id\":\"psgd-1\",\"state\":\"JOB_STATE_RUNNING\","
                "\"create_time\":\"2026-11-20T11:26:00.250Z\",\"result\":{\"loss\":0.25}}");
    assert_json(&job.base, PS_PB_DEFAULTS,
                "{\"id\":\"psgd-1\",\"state\":\"JOB_STATE_RUNNING\",\"reason\":\"\","
                "\"message\":\"\",\"attempt\":0,\"create_time\":\"2026-11-20T11:26:00.250Z\","
                "\"result\":{\"loss\":0.25},\"placements\":[],\"artifacts\":[]}");
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
    assert_json(&k.base, PS_PB_TERSE,
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
    assert_json(m, PS_PB_TERSE,
                "{\"an_int32\":1,\"inner\":{\"a_uint32\":9,\"a_string\":\"new\"},"
                "\"many_sint64\":[7],\"numbers\":{\"a\":1.0,\"b\":5.0,\"c\":6.0},"
                "\"chosen_kinds\":{}}");
    json_decref(more);
    protobuf_c_message_free_unpacked(m, NULL);
}

/* --- one field from text --------------------------------------------------- */

static void fields_are_set_by_path(void **state)
{
    static const char *const sets[][2] = {
        {"workers", "4"},
        {"seed", "18446744073709551615"},
        {"optimizer.rule.name", "adam"},
        {"optimizer.rule.params.lr", "0.01"},
        {"optimizer.rule.params[beta.1]", "0.5"},
        {"optimizer.rule.params.lr", "0.02"}, /* the last one counts */
        {"optimizer.side", "WORKER"},
        {"model.widths", "256, 64"},
        {"model.widths[2]", "32"},
        {"model.widths.0", "128"},
        {"model.layers[0].kind", "dense"},
        {"model.layers.0.params.units", "10"},
        {"model.layers[1]", "{\"kind\": \"relu\"}"},
        {"codec", "{\"up\": {\"name\": \"int8\"}}"},
        {"codec.variables", "[{\"match\": \"dense0.*\"}]"},
        {"blockSize", "16"},
    };
    ProtobufCMessage *m = ps_pb_create(&psgd__v1__job_spec__descriptor);
    ps_error error = {.status = ps_ok()};

    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        ps_status st = ps_pb_set(m, sets[i][0], sets[i][1], &error);

        if (!ps_is_ok(&st)) {
            print_error("%s: %s\n", sets[i][0], st.text);
        }
        assert_true(ps_is_ok(&st));
    }
    assert_json(m, PS_PB_TERSE,
                "{\"workers\":4,\"block_size\":16,\"seed\":\"18446744073709551615\","
                "\"model\":{\"widths\":[128,64,32],\"layers\":[{\"kind\":\"dense\","
                "\"params\":{\"units\":10.0}},{\"kind\":\"relu\"}]},"
                "\"optimizer\":{\"rule\":{\"name\":\"adam\",\"params\":{\"lr\":0.02,"
                "\"beta.1\":0.5}},\"side\":\"OPTIMIZER_SIDE_WORKER\"},"
                "\"codec\":{\"up\":{\"name\":\"int8\"},"
                "\"variables\":[{\"match\":\"dense0.*\"}]}}");
    protobuf_c_message_free_unpacked(m, NULL);
}

static void fields_of_every_kind_are_set_by_path(void **state)
{
    static const char *const sets[][2] = {
        {"an_int32", "-5"},
        {"a_float", "0.5"},
        {"a_bool", "true"},
        {"a_tone", "high"},
        {"some_bytes", "AAH-"},
        {"a_time", "2026-11-20T11:26:00Z"},
        {"many_tones", "low,TONE_KIND_HIGH"},
        {"many_strings", "a,b c"},
        {"many_bool", ""},
        {"many_times[0]", "1970-01-01T00:00:01Z"},
        {"texts.-3", "minus"},
        {"tones.true", "low"},
        {"inners[a.b].inner.a_double", "2.5"},
        {"inners.key.numbers.x.y", "1"},
        {"chosen_string", "gone"},
        {"chosen_kinds.a_uint32", "3"},
    };
    ProtobufCMessage *m = ps_pb_create(&psgd__test__kinds__descriptor);
    ps_error error = {.status = ps_ok()};

    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        ps_status st = ps_pb_set(m, sets[i][0], sets[i][1], &error);

        if (!ps_is_ok(&st)) {
            print_error("%s: %s\n", sets[i][0], st.text);
        }
        assert_true(ps_is_ok(&st));
    }
    assert_json(m, PS_PB_TERSE,
                "{\"an_int32\":-5,\"a_float\":0.5,\"a_bool\":true,\"a_tone\":\"TONE_KIND_HIGH\","
                "\"some_bytes\":\"AAH+\",\"a_time\":\"2026-11-20T11:26:00Z\","
                "\"many_tones\":[\"TONE_KIND_LOW\",\"TONE_KIND_HIGH\"],"
                "\"many_strings\":[\"a\",\"b c\"],\"many_times\":[\"1970-01-01T00:00:01Z\"],"
                "\"texts\":{\"-3\":\"minus\"},\"tones\":{\"true\":\"TONE_KIND_LOW\"},"
                "\"inners\":{\"a.b\":{\"inner\":{\"a_double\":2.5}},"
                "\"key\":{\"numbers\":{\"x.y\":1.0}}},\"chosen_kinds\":{\"a_uint32\":3}}");
    protobuf_c_message_free_unpacked(m, NULL);
}

static void wrong_paths_and_texts_are_refused(void **state)
{
    static const char *const sets[][2] = {
        {"", "1"},
        {"worker", "1"},
        {"workers", "four"},
        {"workers", "1e3"},
        {"workers", ""},
        {"workers.x", "1"},
        {"workers[0]", "1"},
        {"optimizer", "adam"},
        {"optimizer.", "adam"},
        {"optimizer.rule.params", "0.1"},
        {"optimizer.rule.params.", "0.1"},
        {"optimizer.rule.params.lr", "fast"},
        {"optimizer.rule.params.lr", "inf"},
        {"optimizer.rule.params[lr", "0.1"},
        {"model.widths", "1,two"},
        {"model.widths[7]", "1"},
        {"model.widths[-1]", "1"},
        {"model.widths[]", "1"},
        {"model.layers", "dense"},
        {"model.layers[0]", "dense"},
        {"model.layers[0]x", "dense"},
        {"codec", "{\"up\": "},
        {"title", "\xff"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        ProtobufCMessage *m = ps_pb_create(&psgd__v1__job_spec__descriptor);
        ps_error error = {.status = ps_ok()};
        ps_status st = ps_pb_set(m, sets[i][0], sets[i][1], &error);

        if (ps_is_ok(&st)) {
            print_error("taken: %s = %s\n", sets[i][0], sets[i][1]);
        }
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        assert_int_equal(error.violation_count, 1);
        assert_round_trip(m, PS_PB_TERSE); /* what is left is a valid message */
        protobuf_c_message_free_unpacked(m, NULL);
    }
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
        cmocka_unit_test(text_that_is_not_for_c_is_refused),
        cmocka_unit_test(json_that_is_too_deep_is_refused),
        cmocka_unit_test(more_violations_than_there_is_room_for_are_counted),
        cmocka_unit_test(merging_replaces_lists_and_keeps_what_is_not_named),
        cmocka_unit_test(fields_are_set_by_path),
        cmocka_unit_test(fields_of_every_kind_are_set_by_path),
        cmocka_unit_test(wrong_paths_and_texts_are_refused),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
