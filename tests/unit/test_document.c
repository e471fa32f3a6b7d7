/* SPDX-License-Identifier: Apache-2.0 */
/* test_document.c - YAML and JSON as trees, and the scalars of settings. */
#include "common/base/document.h"

#include "common/base/draw.h"
#include "common/base/scalar.h"
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The tree of a YAML text equals that of a JSON text. */
static void assert_tree(const char *text, const char *json)
{
    json_t *got = NULL, *want = json_loads(json, JSON_DECODE_ANY, NULL);
    ps_status st = ps_document_parse(text, strlen(text), &got);

    assert_non_null(want);
    if (!ps_is_ok(&st)) {
        fail_msg("%s: %s", text, st.text);
    }
    if (!json_equal(got, want)) {
        fail_msg("%s gave %s", text, json_dumps(got, JSON_ENCODE_ANY));
    }
    json_decref(got);
    json_decref(want);
}

static void assert_refused(const char *text, const char *why)
{
    json_t *got = NULL;
    ps_status st = ps_document_parse(text, strlen(text), &got);

    if (st.code != PS_INVALID_ARGUMENT || strstr(st.text, why) == NULL) {
        fail_msg("%s: %s", text, ps_is_ok(&st) ? "accepted" : st.text);
    }
    assert_null(got);
}

static void plain_scalars_have_the_types_of_the_core_schema(void **state)
{
    (void)state;
    assert_tree("--- [null, Null, NULL, ~, ]", "[null, null, null, null]");
    assert_tree("a:", "{\"a\": null}");
    assert_tree("--- [true, True, TRUE, false, False, FALSE]",
                "[true, true, true, false, false, false]");
    assert_tree("--- [0, -12, +3, 0x1F, 0o17, 007]", "[0, -12, 3, 31, 15, 7]");
    assert_tree("- 9223372036854775807\n- -9223372036854775808\n",
                "[9223372036854775807, -9223372036854775808]");
    assert_tree("- 1.5\n- -.5\n- 1e3\n- 1.\n- +1.5E-3\n", "[1.5, -0.5, 1000.0, 1.0, 0.0015]");
    assert_tree("--- [yes, no, on, 1_000, 0b1, 1:30, -0x1, e3, ., -, 1e, 2026-01-01]",
                "[\"yes\", \"no\", \"on\", \"1_000\", \"0b1\", \"1:30\", \"-0x1\", \"e3\","
                " \".\", \"-\", \"1e\", \"2026-01-01\"]");
}

static void what_is_quoted_or_in_a_block_is_a_string(void **state)
{
    (void)state;
    assert_tree("--- ['1', \"true\", 'null', \"\\u00e9\", !!str 5, ! 6]",
                "[\"1\", \"true\", \"null\", \"\xc3\xa9\", \"5\", \"6\"]");
    assert_tree("a: |\n  1\n  2\nb: >\n  1\n  2\n", "{\"a\": \"1\\n2\\n\", \"b\": \"1 2\\n\"}");
}

static void mappings_and_sequences_nest(void **state)
{
    (void)state;
    assert_tree("model:\n  layers:\n    - {type: dense, units: 128}\n    - type: tanh\n"
                "update: gradient # a comment\n1: one\n",
                "{\"model\": {\"layers\": [{\"type\": \"dense\", \"units\": 128},"
                " {\"type\": \"tanh\"}]}, \"update\": \"gradient\", \"1\": \"one\"}");
    assert_tree("%YAML 1.1\n---\na: 1\n...\n", "{\"a\": 1}");
}

static void json_is_read_as_json(void **state)
{
    (void)state;
    assert_tree("\n\t{\"a\": [1, 2.5, \"\\ud83d\\ude00\\/\"], \"b\": {}}",
                "{\"a\": [1, 2.5, \"\xf0\x9f\x98\x80/\"], \"b\": {}}");
    assert_tree("{\n\t\"a\":\t1\n}", "{\"a\": 1}"); /* tabs, which YAML refuses */
    assert_tree("--- {a: 1}", "{\"a\": 1}");
}

static void an_empty_text_is_null(void **state)
{
    (void)state;
    assert_tree("", "null");
    assert_tree(" # only a comment\n", "null");
    assert_tree("---\n", "null");
}

static void doubled_keys_are_refused(void **state)
{
    (void)state;
    assert_refused("a: 1\nb: 2\na: 3\n", "line 3, column 1: key \"a\"");
    assert_refused("a:\n  b: 1\n  b: ~\n", "line 3, column 3");
    assert_refused("{\"a\": 1,\n \"a\": 2}", "line 2");
    assert_tree("a: {x: 1}\nb: {x: 1}\n", "{\"a\": {\"x\": 1}, \"b\": {\"x\": 1}}");
}

static void what_can_grow_or_mean_two_things_is_refused(void **state)
{
    (void)state;
    assert_refused("a: &x [1]\nb: *x\n", "line 1, column 4: anchors");
    assert_refused("b: *x\n", "line 1, column 4: aliases");
    assert_refused("a: 1\n---\nb: 2\n", "line 2, column 1: a second document");
    assert_refused("a: !!int 5\n", "tags");
    assert_refused("a: !python/object {}\n", "tags");
    assert_refused("&k a: 1\n", "anchors");
    assert_refused("? [a]\n: 1\n", "a key must be a word");
    assert_refused("a: 9223372036854775808\n", "line 1, column 4: the whole number");
    assert_refused("a: .inf\n", "finite");
    assert_refused("a: -.INF\n", "finite");
    assert_refused("a: .nan\n", "finite");
    assert_refused("a: 1e999\n", "");
    assert_refused("a: \"\\0\"\n", "NUL");
    assert_refused("\"\\0\": 1\n", "NUL");
}

static void errors_name_line_and_column(void **state)
{
    (void)state;
    assert_refused("a: 1\nb: [1, 2\nc: 3\n", "line 3, column");
    assert_refused("a: 1\n\tb: 2\n", "line 2, column 1");
    assert_refused("{\"a\": 1,\n  oops\"}", "line 2, column");
    assert_refused("{a: 1}", "line 1, column 2");
    assert_refused("a: \xff\n", "line 1");
}

static void depth_is_bounded(void **state)
{
    char json[2 * 40 + 1], yaml[2 * 40 + 5];

    (void)state;
    for (int n = PS_TREE_MAX_DEPTH; n <= PS_TREE_MAX_DEPTH + 1; n++) {
        memset(json, '[', (size_t)n);
        memset(json + n, ']', (size_t)n);
        json[2 * n] = '\0';
        snprintf(yaml, sizeof yaml, "--- %s", json);
        if (n <= PS_TREE_MAX_DEPTH) {
            assert_tree(json, json);
            assert_tree(yaml, json);
        } else {
            assert_refused(json, "line 1, column 33: more than 32 levels");
            assert_refused(yaml, "line 1, column 37: more than 32 levels");
        }
    }
}

static void size_is_bounded(void **state)
{
    size_t n = PS_TREE_MAX_BYTES + 1;
    char *text = malloc(n);
    json_t *tree = NULL;
    ps_status st;

    (void)state;
    assert_non_null(text);
    memset(text, '[', n);
    st = ps_document_parse(text, n, &tree);
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
    st = ps_document_parse(text, n - 1, &tree);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    memset(text, ' ', n);
    st = ps_document_parse(text, n - 1, &tree);
    assert_true(ps_is_ok(&st) && json_is_null(tree));
    free(text);
}

static void junk_never_harms(void **state)
{
    static const char seed_text[] =
        "a: &x [1, {b: *x}]\n\"c\": |\n  t\n? d\n: !!str 'e'\n# f\n--- {}";
    enum { SEED = 11, ROUNDS = 20000, N = sizeof seed_text - 1 };
    uint64_t key = ps_draw_key(SEED, PS_DRAW_TEST, 0, 0, 0), index = 0;

    (void)state;
    print_message("seed %d\n", SEED);
    for (int round = 0; round < ROUNDS; round++) {
        char *text = malloc(N); /* exact, so that ASan sees one byte too many */
        json_t *tree = NULL;
        ps_status st;

        assert_non_null(text);
        memcpy(text, seed_text, N);
        for (int i = 0; i < 4; i++) {
            size_t to = ps_draw_below(key, index++, N), from = ps_draw_below(key, index++, N);

            text[to] = round % 2 == 0 ? seed_text[from] : (char)ps_draw_u64(key, index++);
        }
        st = ps_document_parse(text, ps_draw_below(key, index++, N + 1), &tree);
        assert_true(ps_is_ok(&st) == (tree != NULL));
        json_decref(tree);
        free(text);
    }
}

static void a_file_is_read_and_named_in_errors(void **state)
{
    char path[] = "/tmp/test_document.XXXXXX";
    int fd = mkstemp(path);
    json_t *tree = NULL;
    ps_status st;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a: 1\n", 5), 5);
    st = ps_document_parse_file(path, &tree);
    assert_true(ps_is_ok(&st));
    assert_int_equal(json_integer_value(json_object_get(tree, "a")), 1);
    json_decref(tree);
    assert_int_equal(write(fd, "a: 2\n", 5), 5);
    close(fd);
    st = ps_document_parse_file(path, &tree);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_memory_equal(st.text, path, strlen(path));
    assert_non_null(strstr(st.text, "line 2"));
    unlink(path);
    st = ps_document_parse_file(path, &tree);
    assert_int_equal(st.code, PS_NOT_FOUND);
}

static void durations_are_read_and_written(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
        const char *written;
    } good[] = {
        {"0", 0, "0s"},
        {"10s", 10000000, "10s"},
        {"250ms", 250000, "250ms"},
        {"1.5h", 5400000000, "1h30m"},
        {"1m30s", 90000000, "1m30s"},
        {"90s", 90000000, "1m30s"},
        {"7us", 7, "7us"},
        {"2d", 172800000000, "2d"},
        {".5s", 500000, "500ms"},
        {"0.3s", 300000, "300ms"},
        {"1.001s", 1001000, "1s1ms"}, /* its double is just below */
    };
    static const char *const wrong[] = {"",   "10",  "s",      "-1s", "10 s",      "10S",  "1e3s",
                                        "1y", "1s ", "1.2.3s", "1s5", "99999999d", "infs", "1sm"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char written[PS_DURATION_BYTES];
        int64_t us = -1;

        assert_true(ps_scalar_duration(good[i].text, &us));
        assert_true(us == good[i].us);
        ps_scalar_format_duration(us, written);
        assert_string_equal(written, good[i].written);
        assert_true(ps_scalar_duration(written, &us) && us == good[i].us);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int64_t us;

        if (ps_scalar_duration(wrong[i], &us)) {
            fail_msg("\"%s\" was accepted", wrong[i]);
        }
    }
}

static void numbers_take_all_of_their_text(void **state)
{
    static const char *const wrong[] = {"", " 1", "1 ", "0x", "1x", "nan", "inf", "0x1p3", "--1"};
    int64_t whole;
    double real;
    bool is_on;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(ps_scalar_int(wrong[i], &whole));
        assert_false(ps_scalar_double(wrong[i], &real));
        assert_false(ps_scalar_bool(wrong[i], &is_on));
    }
    assert_false(ps_scalar_int("1.0", &whole));
    assert_true(ps_scalar_double("1e-3", &real) && real == 1e-3);
    assert_true(ps_scalar_bool("on", &is_on) && is_on);
    assert_true(ps_scalar_bool("0", &is_on) && !is_on);
    assert_false(ps_scalar_bool("TRUE", &is_on));
}

static void a_path_has_its_line(void **state)
{
    static const char yaml[] = "# a job\n"
                               "title: x\n"
                               "data:\n"
                               "  name: csv\n"
                               "  trainLimit: 5\n"
                               "model:\n"
                               "  layers:\n"
                               "    - kind: dense\n"
                               "      params: {units: 1}\n"
                               "    -\n"
                               "      kind: relu\n"
                               "codec: {up: {exceptions: {a.b: f32,\n"
                               "   c.d: {name: f16}}}}\n";
    static const char json[] =
        "{\"title\": \"x\",\n\t\"data\":\n{\"name\":1},\"list\": [1,\n[2,\n{}]]}";
    static const struct {
        const char *text, *path;
        size_t line;
    } cases[] = {
        {yaml, "title", 2},
        {yaml, "data", 3},
        {yaml, "data.name", 4},
        {yaml, "data.train_limit", 5},
        {yaml, "data.test_limit", 0},
        {yaml, "data.name.more", 0},
        {yaml, "model.layers[0].kind", 8},
        {yaml, "model.layers[0].params.units", 9},
        {yaml, "model.layers[1].kind", 11},
        {yaml, "model.layers[1].params.units", 11}, /* what the item lacks */
        {yaml, "model.layers[2].kind", 0},
        {yaml, "model.layers[x]", 0},
        {yaml, "codec.up.exceptions.a.b", 12},
        {yaml, "codec.up.exceptions.c.d.name", 13},
        {yaml, "codec.up.exceptions.a", 0},
        {yaml, "", 0},
        {json, "title", 1},
        {json, "data", 2},
        {json, "data.name", 3},
        {json, "list[1][1]", 5},
        {json, "list[1][2]", 4},
        {"", "a", 0},
        {"a: [", "a[0].b", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t line = ps_document_line(cases[i].text, strlen(cases[i].text), cases[i].path);

        if (line != cases[i].line) {
            fail_msg("%s is in line %zu, not %zu", cases[i].path, cases[i].line, line);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_scalars_have_the_types_of_the_core_schema),
        cmocka_unit_test(what_is_quoted_or_in_a_block_is_a_string),
        cmocka_unit_test(mappings_and_sequences_nest),
        cmocka_unit_test(json_is_read_as_json),
        cmocka_unit_test(an_empty_text_is_null),
        cmocka_unit_test(doubled_keys_are_refused),
        cmocka_unit_test(what_can_grow_or_mean_two_things_is_refused),
        cmocka_unit_test(errors_name_line_and_column),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(size_is_bounded),
        cmocka_unit_test(junk_never_harms),
        cmocka_unit_test(a_file_is_read_and_named_in_errors),
        cmocka_unit_test(a_path_has_its_line),
        cmocka_unit_test(durations_are_read_and_written),
        cmocka_unit_test(numbers_take_all_of_their_text),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_document a_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
