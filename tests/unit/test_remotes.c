/* SPDX-License-Identifier: Apache-2.0 */
/* test_remotes.c - how many connections an address may open. */
#include "common/rpc/remotes.h"

#include "tests/support/cmocka_all.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { S = 1000000, MOST = 10 };

typedef union any {
    struct sockaddr sa;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} any;

static any address(const char *text)
{
    any a;

    memset(&a, 0, sizeof a);
    a.sa.sa_family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET;
    assert_int_equal(
        inet_pton(a.sa.sa_family, text,
                  a.sa.sa_family == AF_INET ? (void *)&a.v4.sin_addr : (void *)&a.v6.sin6_addr),
        1);
    return a;
}

static ps_remote *enter(ps_remotes *table, const char *text, int64_t now_us, ps_admission expected)
{
    any a = address(text);
    ps_remote *r = NULL;

    assert_int_equal(ps_remotes_enter(table, &a.sa, MOST, now_us, &r), expected);
    assert_true((r != NULL) == (expected == PS_ADMITTED));
    return r;
}

static int begin(void **state)
{
    *state = calloc(1, sizeof(ps_remotes));
    return *state == NULL;
}

static int end(void **state)
{
    free(*state);
    return 0;
}

static void one_address_has_so_many_open_and_no_more(void **state)
{
    ps_remote *r[MOST];

    for (size_t i = 0; i < MOST; i++) {
        r[i] = enter(*state, "10.0.0.1", S, PS_ADMITTED);
    }
    enter(*state, "10.0.0.1", S, PS_TOO_MANY);
    enter(*state, "::ffff:10.0.0.1", S, PS_TOO_MANY); /* the same, on a socket of IPv6 */
    enter(*state, "10.0.0.2", S, PS_ADMITTED);
    ps_remote_leave(r[3]);
    enter(*state, "10.0.0.1", S, PS_ADMITTED);
}

static void of_ipv6_the_network_counts(void **state)
{
    ps_remote *a = enter(*state, "2001:db8::1", S, PS_ADMITTED);

    assert_ptr_equal(a, enter(*state, "2001:db8::ffff:1", S, PS_ADMITTED));
    assert_ptr_not_equal(a, enter(*state, "2001:db8:0:1::1", S, PS_ADMITTED));
    assert_ptr_not_equal(a, enter(*state, "::1", S, PS_ADMITTED));
}

static void who_connects_too_fast_is_refused_until_time_has_passed(void **state)
{
    for (unsigned i = 0; i < PS_REMOTE_BURST; i++) {
        ps_remote *r = enter(*state, "10.0.0.1", S, PS_ADMITTED);

        assert_int_equal(ps_remote_is_suspect(r, S), i >= PS_REMOTE_CALM_BURST);
        ps_remote_leave(r);
    }
    enter(*state, "10.0.0.1", S, PS_TOO_FAST);
    enter(*state, "10.0.0.1", S + S / PS_REMOTE_PER_SECOND - 1, PS_TOO_FAST);
    ps_remote_leave(enter(*state, "10.0.0.1", S + S / PS_REMOTE_PER_SECOND, PS_ADMITTED));
    enter(*state, "10.0.0.1", S + S / PS_REMOTE_PER_SECOND, PS_TOO_FAST);
    assert_false(ps_remote_is_suspect(enter(*state, "10.0.0.1", 100 * S, PS_ADMITTED), 100 * S));
}

static void an_offence_is_remembered_for_a_minute(void **state)
{
    ps_remote *r = enter(*state, "10.0.0.1", S, PS_ADMITTED);

    assert_false(ps_remote_is_suspect(r, S));
    r->offended_us = 2 * S;
    assert_true(ps_remote_is_suspect(r, 2 * S + PS_REMOTE_OFFENDED_US - 1));
    assert_false(ps_remote_is_suspect(r, 2 * S + PS_REMOTE_OFFENDED_US));
}

/* Whose connections the service has to end opens fewer of them. */
static void connections_that_the_service_ends_count_as_many(void **state)
{
    ps_remote *r = enter(*state, "10.0.0.1", S, PS_ADMITTED);

    for (unsigned i = 0; i <= PS_REMOTE_BURST / PS_REMOTE_BROKEN_COST; i++) {
        ps_remote_charge(r);
    }
    ps_remote_charge(r); /* no debt without end */
    enter(*state, "10.0.0.1", S, PS_TOO_FAST);
    enter(*state, "10.0.0.1", S + (PS_REMOTE_BROKEN_COST + 1) * (S / PS_REMOTE_PER_SECOND),
          PS_ADMITTED);
}

/* So many calls that nobody takes are an offence. */
static void calls_in_vain_are_an_offence_when_they_are_many(void **state)
{
    ps_remote *r = enter(*state, "10.0.0.1", S, PS_ADMITTED);

    for (unsigned i = 0; i < PS_REMOTE_WASTE_BURST; i++) {
        assert_false(ps_remote_waste(r, S));
    }
    assert_false(ps_remote_is_suspect(r, S));
    assert_true(ps_remote_waste(r, S));
    assert_true(ps_remote_is_suspect(r, S));
    for (unsigned i = 0; i < PS_REMOTE_WASTE_PER_SECOND; i++) {
        assert_false(ps_remote_waste(r, 2 * S));
    }
    assert_true(ps_remote_waste(r, 2 * S));
}

/* A new connection has no calls of its own, so nothing is gained by opening one. */
static void suspect_connections_of_an_address_share_its_calls(void **state)
{
    ps_remote *r = enter(*state, "10.0.0.1", S, PS_ADMITTED);

    assert_int_equal(ps_remote_call(r, PS_REMOTE_CALLS_BURST, S), 0);
    assert_int_equal(ps_remote_call(r, 1, S), S / PS_REMOTE_CALLS_PER_SECOND);
    assert_ptr_equal(r, enter(*state, "10.0.0.1", S, PS_ADMITTED));
    assert_int_equal(ps_remote_call(r, 0, S), S / PS_REMOTE_CALLS_PER_SECOND);
    assert_int_equal(ps_remote_call(r, 1000000, S), PS_REMOTE_CALLS_WAIT_US);
    assert_int_equal(ps_remote_call(r, 0, S + PS_REMOTE_CALLS_WAIT_US), 0);
    assert_int_equal(ps_remote_call(r, 1, S + PS_REMOTE_CALLS_WAIT_US),
                     S / PS_REMOTE_CALLS_PER_SECOND);
    assert_int_equal(ps_remote_call(r, PS_REMOTE_CALLS_BURST, 10 * S), 0);
}

/* Then those who come are not counted, and those whom it has stay in it. */
static void a_full_table_admits_everybody(void **state)
{
    ps_remote *first = enter(*state, "10.9.0.1", S, PS_ADMITTED);
    unsigned uncounted = 0;

    for (unsigned i = 0; i < 3 * PS_REMOTES_MAX; i++) {
        any a = address("10.0.0.0");
        ps_remote *r = NULL;

        a.v4.sin_addr.s_addr = htonl(0x0a000000 + i);
        assert_int_equal(ps_remotes_enter(*state, &a.sa, MOST, S + i, &r), PS_ADMITTED);
        uncounted += r == NULL;
    }
    assert_in_range(uncounted, 2 * PS_REMOTES_MAX - 1, 3 * PS_REMOTES_MAX - 1);
    assert_ptr_equal(first, enter(*state, "10.9.0.1", 2 * S, PS_ADMITTED));
    assert_int_equal(atomic_load(&first->connections), 2);
}

/* Without connections an address makes room, and no entry is made for a unix socket. */
static void who_has_gone_is_forgotten_first(void **state)
{
    struct sockaddr unix_address = {.sa_family = AF_UNIX};
    ps_remote *r = NULL;

    for (unsigned i = 0; i < 5 * PS_REMOTES_MAX; i++) {
        any a = address("10.0.0.0");

        a.v4.sin_addr.s_addr = htonl(0x0a000000 + i);
        assert_int_equal(ps_remotes_enter(*state, &a.sa, MOST, S + i, &r), PS_ADMITTED);
        assert_non_null(r);
        ps_remote_leave(r);
    }
    assert_int_equal(ps_remotes_enter(*state, &unix_address, MOST, S, &r), PS_ADMITTED);
    assert_null(r);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(one_address_has_so_many_open_and_no_more),
        CASE(of_ipv6_the_network_counts),
        CASE(who_connects_too_fast_is_refused_until_time_has_passed),
        CASE(an_offence_is_remembered_for_a_minute),
        CASE(connections_that_the_service_ends_count_as_many),
        CASE(calls_in_vain_are_an_offence_when_they_are_many),
        CASE(suspect_connections_of_an_address_share_its_calls),
        CASE(a_full_table_admits_everybody),
        CASE(who_has_gone_is_forgotten_first),
    };
#undef CASE

    return cmocka_run_group_tests(tests, NULL, NULL);
}
