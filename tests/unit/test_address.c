/* SPDX-License-Identifier: Apache-2.0 */
/* test_address.c - addresses as people write them. */
#include "common/base/address.h"

#include "tests/support/cmocka_all.h"

#include <string.h>

static ps_address parsed(const char *text)
{
    ps_address address = {.port = 0};
    ps_status st = ps_address_parse(text, "127.0.0.1", 15386, &address);

    if (!ps_is_ok(&st)) {
        fail_msg("%s", st.text);
    }
    return address;
}

static void every_form_is_read_and_written(void **state)
{
    static const char *const pairs[][2] = {
        {"node-1.example.org:80", "node-1.example.org:80"},
        {"node_1", "node_1:15386"},
        {":99", "127.0.0.1:99"},
        {"10.1.2.3:0", "10.1.2.3:0"},
        {"10.1.2.3", "10.1.2.3:15386"},
        {"[::1]:65535", "[::1]:65535"},
        {"[fe80::1%eth0]", "[fe80::1%eth0]:15386"},
        {"3com.com:7", "3com.com:7"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        ps_address address = parsed(pairs[i][0]);
        char text[PS_ADDRESS_TEXT_BYTES];

        ps_address_format(&address, text);
        assert_string_equal(text, pairs[i][1]);
    }
}

static void an_address_is_completed_or_its_flag_named(void **state)
{
    char text[PS_ADDRESS_TEXT_BYTES];
    ps_status st = ps_address_complete("--listen", "node-1", "127.0.0.1", 15387, text);

    (void)state;
    assert_string_equal(st.text, "");
    assert_string_equal(text, "node-1:15387");
    st = ps_address_complete("--listen", "15387", "127.0.0.1", 15387, text);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_string_equal(st.text,
                        "--listen: address \"15387\": the host is neither a name nor an IP "
                        "address; write host:port");
}

static void what_is_no_address_is_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "host:",
                                        "host:x",
                                        "host:65536",
                                        "host:-1",
                                        "host:+1",
                                        "::1",
                                        "::1:80",
                                        "[::1",
                                        "[::1]80",
                                        "[::1]:",
                                        "[1.2.3.4]:80",
                                        "[host]",
                                        "999.1.1.1:1",
                                        "1.2.3:80",
                                        "a..b",
                                        "-a",
                                        "a-",
                                        "http://h:1",
                                        "unix:80",
                                        "unix-abstract:80",
                                        "XDS:80",
                                        "dns:80",
                                        "vsock:1",
                                        "unix:/tmp/s",
                                        "a b:1",
                                        ".",
                                        "[]:1",
                                        "h:123456",
                                        "gr\xc3\xbc:1"};
    char longer[400];

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        ps_address address;
        ps_status st = ps_address_parse(texts[i], "127.0.0.1", 1, &address);

        if (st.code != PS_INVALID_ARGUMENT) {
            fail_msg("\"%s\" was accepted", texts[i]);
        }
    }
    for (size_t n = 200; n < 399; n++) {
        ps_address address;
        ps_status st;

        memset(longer, 'a', n);
        longer[n] = '\0';
        st = ps_address_parse(longer, "127.0.0.1", 1, &address);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        longer[0] = '[';
        st = ps_address_parse(longer, "127.0.0.1", 1, &address);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        longer[n - 1] = ']';
        st = ps_address_parse(longer, "127.0.0.1", 1, &address);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    }
}

static void a_bare_ipv6_address_is_told_how_to_be_written(void **state)
{
    ps_address address;
    ps_status st = ps_address_parse("::1", "127.0.0.1", 1, &address);

    (void)state;
    assert_non_null(strstr(st.text, "[::1]:port"));
}

static void loopback_and_any_are_told_apart(void **state)
{
    static const char *const loopback[] = {"127.0.0.1:1", "127.9.9.9", "localhost:5", "[::1]",
                                           "[::ffff:127.0.0.1]"};
    static const char *const any[] = {"0.0.0.0:1", "[::]:1", "[::ffff:0.0.0.0]"};
    static const char *const other[] = {"10.0.0.1", "example.org", "[fe80::1]", "128.0.0.1"};

    (void)state;
    for (size_t i = 0; i < sizeof loopback / sizeof loopback[0]; i++) {
        ps_address address = parsed(loopback[i]);

        assert_true(ps_address_is_loopback(&address));
        assert_false(ps_address_is_any(&address));
    }
    for (size_t i = 0; i < sizeof any / sizeof any[0]; i++) {
        ps_address address = parsed(any[i]);

        assert_false(ps_address_is_loopback(&address));
        assert_true(ps_address_is_any(&address));
    }
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        ps_address address = parsed(other[i]);

        assert_false(ps_address_is_loopback(&address));
        assert_false(ps_address_is_any(&address));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_read_and_written),
        cmocka_unit_test(an_address_is_completed_or_its_flag_named),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(a_bare_ipv6_address_is_told_how_to_be_written),
        cmocka_unit_test(loopback_and_any_are_told_apart),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_address a_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
