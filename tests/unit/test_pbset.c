/* SPDX-License-Identifier: Apache-2.0 */
/* test_pbset.c - fields of messages set from text. */
#include "tests/support/cmocka_all.h"
#include "tests/support/pb_filler.h"

#include "common/base/draw.h"
#include "common/rpc/pbfield.h"
#include "common/rpc/pbjson.h"

#include "kinds.pb-c.h"
#include "psgd/v1/spec.pb-c.h"

#include <string.h>

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
        {"codec.down.name", "f16"},
        {"codec", "{\"up\": {\"name\": \"int8\"}}"}, /* replaces what was there */
        {"codec.variables", "[{\"match\": \"dense0.*\"}]"},
        {"codec.variables[0]", "{\"match\": \"dense1.*\", \"up\": {\"name\": \"f16\"}}"},
        {"codec.variables[0]", "{\"match\": \"dense0.*\"}"},
        {"consistency.params.bound", "3"},
        {"consistency", "{\"name\": \"bsp\"}"},
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
    pb_assert_json(m, PS_PB_TERSE,
                   "{\"workers\":4,\"block_size\":16,\"seed\":\"18446744073709551615\","
                   "\"model\":{\"widths\":[128,64,32],\"layers\":[{\"kind\":\"dense\","
                   "\"params\":{\"units\":10.0}},{\"kind\":\"relu\"}]},"
                   "\"optimizer\":{\"rule\":{\"name\":\"adam\",\"params\":{\"lr\":0.02,"
                   "\"beta.1\":0.5}},\"side\":\"OPTIMIZER_SIDE_WORKER\"},"
                   "\"consistency\":{\"name\":\"bsp\"},"
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
    pb_assert_json(m, PS_PB_TERSE,
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
        pb_assert_round_trip(m, PS_PB_TERSE); /* what is left is a valid message */
        protobuf_c_message_free_unpacked(m, NULL);
    }
}

static void junk_paths_harm_nobody(void **state)
{
    static const char *const paths[] = {"inners[a.b].inner.many_inner[0].numbers.x",
                                        "many_inner.0.chosen_kinds.texts[-4]", "chosen_string",
                                        "many_times[0]", "inner.inner.many_tones"};
    static const char *const texts[] = {"1", "", "1,2", "{}", "[{}]", "low", "\xff", "true"};
    pb_filler f = {.key = ps_draw_key(pb_test_seed(), PS_DRAW_TEST, 98, 0, 0)};
    ProtobufCMessage *m = ps_pb_create(&psgd__test__kinds__descriptor);

    (void)state;
    for (size_t i = 0; i < 20000; i++) {
        char path[256];
        ps_error error = {.status = ps_ok()};
        ps_status st;

        strcpy(path, paths[pb_draw(&f) % 5]);
        if (pb_draw(&f) % 2 == 0) {
            pb_mutate(&f, path, sizeof path);
        }
        st = ps_pb_set(m, path, texts[pb_draw(&f) % 8], &error);
        assert_int_equal(ps_is_ok(&st), error.violation_count == 0);
        if (i % 256 == 0) {
            pb_assert_round_trip(m, PS_PB_TERSE);
        }
    }
    protobuf_c_message_free_unpacked(m, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_set_by_path),
        cmocka_unit_test(fields_of_every_kind_are_set_by_path),
        cmocka_unit_test(wrong_paths_and_texts_are_refused),
        cmocka_unit_test(junk_paths_harm_nobody),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
