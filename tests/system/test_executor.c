/* SPDX-License-Identifier: Apache-2.0 */
/* test_executor.c - code of the kind compute in real sandboxes: partitions and their result. */
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/script/record_owner.h"
#include "common/script/result.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time is what a machine at work may take, but where it is to run out. */
static ps_sandbox_budget budget = {
    .instructions = 10 * 1000 * 1000, .memory = 64u << 20, .time_us = 60 * 1000 * 1000};
static uint8_t records[PS_PART_RECORDS_MAX];

static ps_script *open_code(const char *text)
{
    ps_script_about about;
    ps_status st = ps_script_describe(text, strlen(text), &about);

    if (!ps_is_ok(&st)) {
        fail_msg("%s: %s", text, st.text);
    }
    return ps_script_open("test.lua", text, strlen(text), &about);
}

enum { SERVERS = 3 };

/* Writes a file below `folder`. */
static void put(const char *folder, const char *name, const uint8_t *bytes, size_t n)
{
    char path[160];
    ps_status st;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    st = ps_file_write(path, bytes, n);
    assert_true(ps_is_ok(&st));
}

/* Writes the records of a partition for ps_result_write or, if there are servers, into a folder of
 * each for ps_result_reduce. */
static void put_records(const char *folder, uint32_t part, size_t n, uint32_t servers)
{
    static uint8_t split[PS_PART_RECORDS_MAX];
    size_t at[SERVERS + 1];
    char name[PS_MERGE_NAME_BYTES], of_server[128];

    ps_part_name(name, part);
    if (servers == 0) {
        put(folder, name, records, n);
        return;
    }
    ps_records_split(records, n, servers, split, at);
    assert_int_equal(at[0], 0);
    assert_int_equal(at[servers], n);
    for (uint32_t s = 0; s < servers; s++) {
        assert_true(ps_records_are_of(split + at[s], at[s + 1] - at[s], s, servers));
        snprintf(of_server, sizeof of_server, "%s/%u", folder, s);
        put(of_server, name, split + at[s], at[s + 1] - at[s]);
    }
}

/* Does what each server does when it has the records of all partitions. */
static ps_status reduce_all(ps_result_conf conf, ps_executor *executor)
{
    char of_server[128], path[160], name[PS_MERGE_NAME_BYTES];
    const char *folder = conf.folder;
    ps_status st = ps_ok();

    for (uint32_t s = 0; s < conf.servers && ps_is_ok(&st); s++) {
        snprintf(of_server, sizeof of_server, "%s/%u", folder, s);
        ps_reduced_name(name, s);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        conf.folder = of_server;
        st = ps_result_reduce(&conf, executor, path);
    }
    return st;
}

/* Runs all partitions, in an order that `stride` says, reduces on `servers`, if there are some, and
 * returns the result, or the failure. */
static char *compute(const char *code, const char *text, uint32_t parts, uint32_t stride,
                     uint32_t servers, bool is_json, ps_status *st)
{
    ps_script *script = open_code(code);
    double numbers[PS_SANDBOX_NUMBERS];
    char folder[] = "/tmp/psgd-executor-XXXXXX", path[128], *result = NULL;
    const ps_result_conf conf = {.script = script,
                                 .budget = budget,
                                 .numbers = numbers,
                                 .folder = folder,
                                 .parts = parts,
                                 .servers = servers,
                                 .is_json = is_json,
                                 .within_us = 60 * 1000 * 1000};
    ps_executor *executor = NULL;
    uint64_t rows = 0;
    size_t n = 0;

    assert_non_null(mkdtemp(folder));
    for (uint32_t s = 0; s < servers; s++) {
        ps_status made;

        snprintf(path, sizeof path, "%s/%u", folder, s);
        made = ps_dir_make(path);
        assert_true(ps_is_ok(&made));
    }
    for (uint32_t i = 0; i < ps_script_about_of(script)->number_count; i++) {
        numbers[i] = ps_script_about_of(script)->numbers[i].value;
    }
    *st = ps_executor_start(script, &budget, &executor);
    for (uint32_t k = 0; k < parts && ps_is_ok(st); k++) {
        uint32_t i = k * stride % parts;
        ps_partition part = {.number = i + 1, .count = parts, .key = 7 + i};

        if (text != NULL) {
            ps_part_lines(text, strlen(text), i, parts, &part);
        } else {
            ps_part_range(1, 1000, i, parts, &part);
        }
        *st = ps_executor_map(executor, &part, numbers, records, &n);
        if (ps_is_ok(st)) {
            put_records(folder, i, n, servers);
        }
    }
    if (ps_is_ok(st)) {
        *st = reduce_all(conf, executor);
    }
    ps_executor_end(executor);
    snprintf(path, sizeof path, "%s/result", folder);
    if (ps_is_ok(st)) {
        *st = ps_result_write(&conf, path, &rows);
    }
    if (ps_is_ok(st)) {
        ps_status read = ps_file_read(path, 64 << 20, &result, &n);

        assert_true(ps_is_ok(&read));
    }
    ps_script_close(script);
    assert_true(ps_dir_remove(folder).code == PS_OK);
    return result;
}

static void check_result(const char *code, const char *text, uint32_t parts, bool is_json,
                         const char *expected)
{
    for (uint32_t servers = 0; servers <= SERVERS; servers++) {
        ps_status st;
        char *result = compute(code, text, parts, servers % 2 == 0 ? 1 : 3, servers, is_json, &st);

        if (result == NULL) {
            fail_msg("%s", st.text);
        }
        assert_string_equal(result, expected);
        free(result);
    }
}

static const char words[] =
    "return {kind = 'compute', name = 'words', map = function(part, params, emit) "
    "for w in part.text:gmatch('%a+') do emit(w, 1) end end, "
    "reduce = function(k, a, b) return a + b end}";
static const char text[] = "the cat\nand the dog\n\nand a bird\nthe end";

static void test_words_of_any_partitions_have_one_result(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts < 12; parts += 2) {
        if (parts % 3 != 0) {
            check_result(words, text, parts, false,
                         "key,value\na,1\nand,2\nbird,1\ncat,1\ndog,1\nend,1\nthe,3\n");
        }
    }
}

static void test_a_range_is_taken_once(void **state)
{
    static const char sum[] =
        "return {kind = 'compute', name = 'sum', map = function(part, params, emit) "
        "local s = 0 for i = part.from, part.to do s = s + i end emit('sum', s) "
        "emit(1, 1) end, reduce = function(k, a, b) return a + b end, "
        "finish = function(k, v) if k == 'sum' then return {v, v / 8} end return {v, true} end}";

    (void)state;
    check_result(sum, NULL, 1, true,
                 "[\n{\"key\": 1, \"value\": [1, true]},\n"
                 "{\"key\": \"sum\", \"value\": [500500, 62562.5]}\n]\n");
    check_result(sum, NULL, 8, false, "key,value1,value2\n1,8,true\nsum,500500,62562.5\n");
}

static void test_finish_leaves_keys_out_and_results_may_be_empty(void **state)
{
    (void)state;
    check_result("return {kind = 'compute', name = 'f', map = function(p, n, emit) emit(1, 2) end, "
                 "reduce = function(k, a, b) return a end, finish = function() end}",
                 NULL, 4, true, "[]\n");
    check_result("return {kind = 'compute', name = 'f', map = function() end}", NULL, 4, false,
                 "key,value\n");
}

static void test_texts_are_quoted(void **state)
{
    (void)state;
    check_result("return {kind = 'compute', name = 'q', map = function(p, n, emit) "
                 "emit('a,b', 'say \"hi\"\\n') emit('c', '\\xff') end}",
                 NULL, 1, false, "key,value\n\"a,b\",\"say \"\"hi\"\"\n\"\nc,\xff\n");
    check_result("return {kind = 'compute', name = 'q', map = function(p, n, emit) "
                 "emit('c', '\\xff\"') end}",
                 NULL, 1, true, "[\n{\"key\": \"c\", \"value\": \"\xef\xbf\xbd\\\"\"}\n]\n");
}

/* Values that grow beyond the bytes of one call are merged in several; each counts once. */
static void test_a_key_with_many_values_is_merged_in_pieces(void **state)
{
    static const char big[] =
        "return {kind = 'compute', name = 'big', map = function(p, n, emit) "
        "for k = 1, 14 do emit(k, {('x'):rep(60000), p.number}) end end, "
        "reduce = function(k, a, b) if b[2] ~= a[2] + 1 then error('order') end return b end, "
        "finish = function(k, v) return v[2] end}";

    (void)state;
    check_result(big, NULL, 40, false,
                 "key,value\n1,40\n2,40\n3,40\n4,40\n5,40\n6,40\n7,40\n8,40\n9,40\n10,40\n11,40\n"
                 "12,40\n13,40\n14,40\n");
}

/* A value that is larger than what is given to a call at once is in the next call beside one more.
 */
static void test_a_value_that_grows_is_merged_up_to_a_bound(void **state)
{
    static const char grows[] =
        "return {kind = 'compute', name = 'grows', map = function(p, n, emit) local v = {} "
        "for i = 1, 5 do v[i] = ('x'):rep(60000) end emit(1, v) end, "
        "reduce = function(k, a, b) for _, x in ipairs(b) do a[#a + 1] = x end return a end, "
        "finish = function(k, v) return #v end}";
    static const char jumps[] =
        "return {kind = 'compute', name = 'jumps', map = function(p, n, emit) local v = {} "
        "for i = 1, 5 do v[i] = ('x'):rep(60000) end emit(1, v) end, "
        "reduce = function(k, a, b) for i = #a + 1, 60 do a[i] = b[1] end return a end, "
        "finish = function(k, v) return #v end}";
    static const struct {
        const char *code, *result;
        uint32_t parts;
    } cases[] = {
        {jumps, "key,value\n1,60\n", 16}, {grows, "key,value\n1,65\n", 13}, {grows, NULL, 14}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ps_status st;
        char *result = compute(cases[i].code, NULL, cases[i].parts, 1, 0, false, &st);

        if (cases[i].result != NULL) {
            assert_non_null(result);
            assert_string_equal(result, cases[i].result);
        } else {
            assert_null(result);
            assert_int_equal(st.code, PS_FAILED_PRECONDITION);
            assert_non_null(strstr(st.text, "4128768 are allowed together"));
        }
        free(result);
    }
}

#define COMPUTE(body)                                                                              \
    "return {kind = 'compute', name = 'x', map = function(part, params, emit)\n" body " end}"

static const struct {
    const char *code, *why;
} failing[] = {
    {COMPUTE("error('no')"), "test.lua: map of partition 1: code:2: no"},
    {COMPUTE("local t = nil + 1"), "code:2: attempt to perform arithmetic on a nil value"},
    {COMPUTE("while true do end"), "the call takes more instructions than the 10 million"},
    {COMPUTE("local s = {} while true do s[#s + 1] = ('x'):rep(1000) .. #s end"),
     "not enough memory"},
    {COMPUTE("emit({}, 1)"), "code:2: a key is a table; integers and strings are allowed"},
    {COMPUTE("emit(1.5, 1)"), "a key is a number with a fraction"},
    {COMPUTE("emit(1, nil)"), "a value is a nil"},
    {COMPUTE("emit(1, 0/0)"), "finite numbers are allowed"},
    {COMPUTE("emit(1, {{}})"), "a value of a list is a table"},
    {COMPUTE("emit(1, 2) emit(1, 3)"), "key 1 is emitted twice, and there is no function reduce"},
    {COMPUTE("return 1"), "map returns a number; it returns nothing"},
    {COMPUTE("emit('k', 1)"), "key k is in more than one partition"},
    {COMPUTE("for i = 1, 30 do emit(i, ('x'):rep(60000)) end"), "the records take more than"},
    {COMPUTE("emit(part.number, part.number == 2 and {1, 2} or 1)"), "choose json"},
    {"return {kind = 'compute', name = 'x', map = function(p, n, emit) emit(1, 1) end, "
     "reduce = function(k, a, b)\n error('no ' .. k) end}",
     "test.lua: reduce and finish: code:2: no 1"},
    {COMPUTE("local s = ('a'):rep(64) s:match(('a?'):rep(64) .. s) s:match(('.-'):rep(60) .. 'b')"),
     "budget"},
};

static void test_failing_code_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof failing / sizeof failing[0]; i++) {
        ps_status st;
        char *result;

        budget.time_us = strcmp(failing[i].why, "budget") == 0 ? 500 * 1000 : 60 * 1000 * 1000;
        result = compute(failing[i].code, NULL, 2, 1, i % 2 == 0 ? 0 : SERVERS, false, &st);

        if (result != NULL || st.code != PS_FAILED_PRECONDITION ||
            strstr(st.text, failing[i].why) == NULL) {
            fail_msg("%s: \"%s\", not \"%s\"", failing[i].code, st.text, failing[i].why);
        }
        free(result);
    }
}

/* A word of which the order of reduction can be read; numbers of which it is in the last bits. */
static void test_values_are_reduced_in_the_order_of_partitions(void **state)
{
    static const char code[] =
        "return {kind = 'compute', name = 'o', map = function(p, n, emit) "
        "for k = 1, 9 do emit('w' .. k, string.char(96 + p.number)) "
        "emit(k, 1 / (7 * p.number * k) - 0.1 * k) end end, "
        "reduce = function(k, a, b) if math.type(a) then return a + b end return a .. b end}";
    ps_status st;
    char *expected = compute(code, NULL, 11, 1, 0, false, &st);

    (void)state;
    assert_non_null(expected);
    assert_non_null(strstr(expected, "\nw9,abcdefghijk\n"));
    check_result(code, NULL, 11, false, expected);
    free(expected);
}

/* Each file of a server is sorted, and no two have a key. */
static void test_wrong_files_of_servers_are_refused(void **state)
{
    static const uint8_t one[] = {1, 1, 0, 0, 0, 0, 0, 0, 0, 5},
                         two[] = {1, 2, 0, 0, 0, 0, 0, 0, 0, 5};
    const struct {
        const uint8_t *a, *b;
        size_t n;
        const char *why; /* NULL: this is good */
    } files[] = {{one, two, sizeof one, NULL},
                 {two, one, sizeof one, NULL},
                 {one, one, sizeof one, "the records of server 2 are damaged"},
                 {one, two, sizeof one - 1, "the records of server 1 are damaged"},
                 {one, NULL, sizeof one, "server 2: "}};
    ps_script *script = open_code(words);

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char folder[] = "/tmp/psgd-servers-XXXXXX", path[128];
        const ps_result_conf conf = {.script = script, .folder = folder, .servers = 2};
        uint64_t rows = 0;
        ps_status st;

        assert_non_null(mkdtemp(folder));
        put(folder, ".reduced-0", files[i].a, files[i].n);
        if (files[i].b != NULL) {
            put(folder, ".reduced-1", files[i].b, files[i].n);
        }
        snprintf(path, sizeof path, "%s/result", folder);
        st = ps_result_write(&conf, path, &rows);
        assert_int_equal(st.code, files[i].why == NULL ? PS_OK : PS_DATA_LOSS);
        if (files[i].why != NULL && strstr(st.text, files[i].why) == NULL) {
            fail_msg("\"%s\", not \"%s\"", st.text, files[i].why);
        }
        assert_true(files[i].why != NULL || rows == 2);
        assert_true(ps_dir_remove(folder).code == PS_OK);
    }
    ps_script_close(script);
}

static void test_partitions_cover_a_text_and_a_range(void **state)
{
    char lines[4096] = "";
    size_t n = 0;

    (void)state;
    for (int i = 0; n + 80 < sizeof lines; i++) {
        n += (size_t)snprintf(lines + n, sizeof lines - n, "%.*s\n", i * 7 % 60,
                              "abcdefghijklmnopqrstuvwxyz abcdefghijklmnopqrstuvwxyz abcdefghi");
    }
    for (uint32_t count = 1; count < 300; count = count * 2 + 1) {
        size_t at = 0;
        int64_t next = INT64_MIN;

        for (uint32_t i = 0; i < count; i++) {
            ps_partition part = {0};

            ps_part_lines(lines, n, i, count, &part);
            assert_ptr_equal(part.text, lines + at);
            at += part.bytes;
            assert_true(part.bytes == 0 || lines[at - 1] == '\n');
            ps_part_range(INT64_MIN, INT64_MAX - 1, i, count, &part);
            assert_true(part.from == next);
            next = part.to + 1;
        }
        assert_int_equal(at, n);
        assert_true(next == INT64_MAX);
    }
}

/* Records that a sandbox could make up are not read beyond their end. */
static void test_wrong_records_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
    } wrong[] = {
        {"\1\0\0\0", 4},
        {"\1\0\0\0\0\0\0\0\0", 9},
        {"\2\xff\xff\xff\xff", 5},
        {"\2\0\0\0\0\2\5\0\0\0abc", 13},
        {"\3\0\0\0\0\0\0\0\0\4", 10},
        {"\4\4", 2},
        {"\2\0\0\0\0\6\xff\xff\xff\xff", 10},
        {"\2\0\0\0\0\6\1\0\0\0\6\0\0\0\0", 15},
        {"\2\0\0\0\0\3\0\0\0\0\0\0\xf0\x7f", 14},
        {"\2\0\0\0\0\7", 6},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint8_t *copy = malloc(wrong[i].n);
        ps_keyed record;
        size_t at = 0;

        memcpy(copy, wrong[i].bytes, wrong[i].n);
        assert_false(ps_record_next(copy, wrong[i].n, &at, &record));
        assert_int_equal(at, 0);
        free(copy);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_of_any_partitions_have_one_result),
        cmocka_unit_test(test_a_range_is_taken_once),
        cmocka_unit_test(test_finish_leaves_keys_out_and_results_may_be_empty),
        cmocka_unit_test(test_texts_are_quoted),
        cmocka_unit_test(test_a_key_with_many_values_is_merged_in_pieces),
        cmocka_unit_test(test_a_value_that_grows_is_merged_up_to_a_bound),
        cmocka_unit_test(test_failing_code_is_named),
        cmocka_unit_test(test_values_are_reduced_in_the_order_of_partitions),
        cmocka_unit_test(test_wrong_files_of_servers_are_refused),
        cmocka_unit_test(test_partitions_cover_a_text_and_a_range),
        cmocka_unit_test(test_wrong_records_are_refused),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
