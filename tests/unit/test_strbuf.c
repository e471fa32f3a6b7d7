/* SPDX-License-Identifier: Apache-2.0 */
/* test_strbuf.c - growing text, UTF-8 and JSON strings. */
#include "common/base/strbuf.h"

#include "common/base/utf8.h"
#include "tests/support/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

static void an_empty_one_reads_as_no_text(void **state)
{
    ps_strbuf sb = {0};
    char *taken;

    (void)state;
    assert_string_equal(ps_strbuf_text(&sb), "");
    ps_strbuf_clear(&sb);
    taken = ps_strbuf_take(&sb);
    assert_string_equal(taken, "");
    free(taken);
    ps_strbuf_fini(&sb);
}

static void appends_of_all_kinds_follow_each_other(void **state)
{
    ps_strbuf sb = {0};
    char *taken;

    (void)state;
    ps_strbuf_puts(&sb, "a");
    ps_strbuf_printf(&sb, "%s-%d", "b", 7);
    ps_strbuf_putc(&sb, 'c');
    ps_strbuf_pad(&sb, '.', 3);
    ps_strbuf_append(&sb, "de", 1);
    assert_string_equal(ps_strbuf_text(&sb), "ab-7c...d");
    assert_int_equal(sb.len, 9);
    ps_strbuf_truncate(&sb, 2);
    assert_string_equal(ps_strbuf_text(&sb), "ab");
    taken = ps_strbuf_take(&sb);
    assert_string_equal(taken, "ab");
    free(taken);
}

static void it_grows_past_any_first_size(void **state)
{
    ps_strbuf sb = {0};

    (void)state;
    for (int i = 0; i < 10000; i++) {
        ps_strbuf_printf(&sb, "%04d", i);
    }
    assert_int_equal(sb.len, 40000);
    assert_int_equal(strlen(ps_strbuf_text(&sb)), 40000);
    assert_memory_equal(ps_strbuf_text(&sb) + 39996, "9999", 4);
    ps_strbuf_fini(&sb);
    ps_strbuf_puts(&sb, "x");
    ps_strbuf_pad(&sb, ' ', 100000); /* many doublings at once */
    assert_true(sb.cap > 100001);
    ps_strbuf_fini(&sb);
}

static void lengths_of_utf8_are_known_and_wrong_ones_refused(void **state)
{
    (void)state;
    assert_int_equal(ps_utf8_length("a", 1), 1);
    assert_int_equal(ps_utf8_length("\xc3\xa9", 2), 2);
    assert_int_equal(ps_utf8_length("\xe2\x82\xac", 3), 3);
    assert_int_equal(ps_utf8_length("\xf0\x9f\x98\x80", 4), 4);
    assert_int_equal(ps_utf8_length("\xf4\x8f\xbf\xbf", 4), 4);
    assert_int_equal(ps_utf8_length("\xf4\x90\x80\x80", 4), 0); /* beyond U+10FFFF */
    assert_int_equal(ps_utf8_length("\xed\xa0\x80", 3), 0);     /* a surrogate */
    assert_int_equal(ps_utf8_length("\xc0\x80", 2), 0);         /* overlong */
    assert_int_equal(ps_utf8_length("\xe0\x80\x80", 3), 0);
    assert_int_equal(ps_utf8_length("\xe2\x82", 2), 0); /* cut */
    assert_int_equal(ps_utf8_length("\xe2\x82\xac", 2), 0);
    assert_int_equal(ps_utf8_length("\x80", 1), 0);
    assert_int_equal(ps_utf8_length("\xff", 1), 0);
    assert_true(ps_utf8_is_valid("", 0));
    assert_true(ps_utf8_is_valid("gr\xc3\xbc\xc3\x9f", 6));
    assert_false(ps_utf8_is_valid("gr\xfc\xdf", 4));
}

static void json_strings_are_escaped(void **state)
{
    ps_strbuf sb = {0};

    (void)state;
    ps_strbuf_json_string(&sb, "a\"b\\c\n\t\x01\0\x7f\xff\xc3\xa9", 13);
    assert_string_equal(ps_strbuf_text(&sb),
                        "\"a\\\"b\\\\c\\n\\t\\u0001\\u0000\\u007f\xef\xbf\xbd\xc3\xa9\"");
    ps_strbuf_fini(&sb);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_one_reads_as_no_text),
        cmocka_unit_test(appends_of_all_kinds_follow_each_other),
        cmocka_unit_test(it_grows_past_any_first_size),
        cmocka_unit_test(lengths_of_utf8_are_known_and_wrong_ones_refused),
        cmocka_unit_test(json_strings_are_escaped),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_strbuf a_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
