/* SPDX-License-Identifier: Apache-2.0 */
/* test_status.c - ps_status. */
#include "common/base/status.h"

#include "common/base/shorten.h"
#include "common/base/utf8.h"
#include "tests/support/cmocka_all.h"

#include <errno.h>
#include <string.h>

static void wrap_prefixes_a_failure(void **state)
{
    ps_status st = ps_wrap(ps_fail(PS_NOT_FOUND, "open %s", "x"), "load shard %d", 3);

    (void)state;
    assert_int_equal(st.code, PS_NOT_FOUND);
    assert_string_equal(st.text, "load shard 3: open x");
}

static void wrap_keeps_a_success(void **state)
{
    ps_status st = ps_wrap(ps_ok(), "load shard %d", 3);

    (void)state;
    assert_true(ps_is_ok(&st));
    assert_string_equal(st.text, "");
}

static void an_errno_gives_its_code_and_its_text(void **state)
{
    ps_status st = ps_fail_errno(ENOENT, "open %s", "x");

    (void)state;
    assert_int_equal(st.code, PS_NOT_FOUND);
    assert_string_equal(st.text, "open x: No such file or directory");
}

/* What is wrong stands at the beginning, what to do at the end. */
static void long_text_loses_its_middle(void **state)
{
    char longer[2000];
    ps_status st;

    (void)state;
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    st = ps_fail(PS_INTERNAL, "begin %s end", longer);
    assert_int_equal(strlen(st.text), PS_STATUS_TEXT_BYTES - 1);
    assert_non_null(strstr(st.text, "\xe2\x80\xa6"));
    assert_memory_equal(st.text, "begin a", 7);
    assert_string_equal(st.text + strlen(st.text) - 5, "a end");
    st = ps_wrap(ps_fail_errno(ENOENT, "%s", longer), "load %s", longer);
    assert_int_equal(strlen(st.text), PS_STATUS_TEXT_BYTES - 1);
    assert_memory_equal(st.text, "load a", 6);
    assert_non_null(strstr(st.text, "a: No such file or directory"));
}

static void a_value_is_shortened_in_the_middle(void **state)
{
    char buffer[16];

    (void)state;
    assert_string_equal(PS_SHORT("0123456789", 10), "0123456789");
    assert_string_equal(PS_SHORT("0123456789a", 10), "012\xe2\x80\xa6"
                                                     "789a");
    assert_string_equal(PS_SHORT("", 10), "");
    assert_string_equal(ps_shorten(buffer, 8, "abcdefghijkl"), "ab\xe2\x80\xa6kl");
    /* in place */
    strcpy(buffer, "abcdefghijkl");
    assert_string_equal(ps_shorten(buffer, 9, buffer), "ab\xe2\x80\xa6jkl");
}

static void text_is_never_cut_inside_a_character(void **state)
{
    static const char *const characters[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    char text[1200];

    (void)state;
    for (size_t c = 0; c < 3; c++) {
        for (size_t shift = 0; shift < 4; shift++) {
            ps_status st;

            memset(text, 'a', shift);
            text[shift] = '\0';
            while (strlen(text) < 1000) {
                strcat(text, characters[c]);
            }
            st = ps_fail(PS_INTERNAL, "%s", text);
            assert_true(ps_utf8_is_valid(st.text, strlen(st.text)));
            assert_true(strlen(st.text) > PS_STATUS_TEXT_BYTES - 10);
            st = ps_wrap(st, "b");
            assert_true(ps_utf8_is_valid(st.text, strlen(st.text)));
        }
    }
}

static void a_code_of_a_hostile_peer_has_a_name(void **state)
{
    (void)state;
    assert_non_null(ps_code_name((ps_code)4711));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrap_prefixes_a_failure),
        cmocka_unit_test(wrap_keeps_a_success),
        cmocka_unit_test(an_errno_gives_its_code_and_its_text),
        cmocka_unit_test(long_text_loses_its_middle),
        cmocka_unit_test(a_value_is_shortened_in_the_middle),
        cmocka_unit_test(text_is_never_cut_inside_a_character),
        cmocka_unit_test(a_code_of_a_hostile_peer_has_a_name),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_status a_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
