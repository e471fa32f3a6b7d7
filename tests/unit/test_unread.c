/* SPDX-License-Identifier: Apache-2.0 */
/* test_unread.c - how many bytes of answers a client may leave unread. */
#include "common/rpc/unread.h"

#include "tests/support/cmocka_all.h"

#include <stdio.h>

enum { MANY = PS_UNREAD_ADDRESS / PS_UNREAD_CONNECTION, EACH = PS_UNREAD_CONNECTION - 1 };

static void a_full_connection_gets_no_answers(void **state)
{
    ps_unread *u = ps_unread_create();

    (void)state;
    assert_true(ps_unread_is_low(u));
    ps_unread_add(u, "ipv4:10.0.0.1:1", EACH);
    assert_false(ps_unread_is_full(u, "ipv4:10.0.0.1:1"));
    ps_unread_add(u, "ipv4:10.0.0.1:1", 1);
    assert_false(ps_unread_is_low(u));
    assert_true(ps_unread_is_full(u, "ipv4:10.0.0.1:1"));
    assert_false(ps_unread_is_full(u, "ipv4:10.0.0.1:11"));
    ps_unread_remove(u, "ipv4:10.0.0.1:1", EACH);
    assert_false(ps_unread_is_full(u, "ipv4:10.0.0.1:1"));
    ps_unread_remove(u, "ipv4:10.0.0.1:1", 1);
    assert_true(ps_unread_is_low(u));
    ps_unread_destroy(u);
}

static void peer_of(char *text, size_t size, unsigned address, unsigned port)
{
    snprintf(text, size, "ipv6:%%5B2001:db8::%x%%5D:%u", address, port);
}

/* Those of its clients that read their answers get more. */
static void a_full_address_has_no_further_answers_for_who_does_not_read(void **state)
{
    ps_unread *u = ps_unread_create();
    char peer[64];

    (void)state;
    for (unsigned i = 0; i <= MANY; i++) {
        peer_of(peer, sizeof peer, 1, i);
        assert_false(ps_unread_is_full(u, peer));
        ps_unread_add(u, peer, EACH);
    }
    assert_true(ps_unread_is_full(u, peer));
    ps_unread_add(u, "ipv6:%5B2001:db8::1%5D:99", PS_UNREAD_CONNECTION_IDLE);
    assert_false(ps_unread_is_full(u, "ipv6:%5B2001:db8::1%5D:99"));
    ps_unread_remove(u, "ipv6:%5B2001:db8::1%5D:99", PS_UNREAD_CONNECTION_IDLE);
    ps_unread_add(u, "ipv6:%5B2001:db8::2%5D:1", EACH);
    assert_false(ps_unread_is_full(u, "ipv6:%5B2001:db8::2%5D:1"));
    ps_unread_remove(u, "ipv6:%5B2001:db8::2%5D:1", EACH);
    for (unsigned i = 0; i <= MANY; i++) {
        peer_of(peer, sizeof peer, 1, i);
        ps_unread_remove(u, peer, EACH);
    }
    assert_true(ps_unread_is_low(u));
    ps_unread_destroy(u);
}

static void many_addresses_have_a_bound_together(void **state)
{
    ps_unread *u = ps_unread_create();
    char peer[64];
    unsigned count = 0;

    (void)state;
    for (;; count++) {
        peer_of(peer, sizeof peer, count, 7);
        ps_unread_add(u, peer, EACH);
        if (ps_unread_is_full(u, peer)) {
            break;
        }
    }
    assert_int_equal(count, PS_UNREAD_ALL / EACH);
    assert_false(ps_unread_is_full(u, "unix:"));
    for (unsigned i = 0; i <= count; i++) {
        peer_of(peer, sizeof peer, i, 7);
        ps_unread_remove(u, peer, EACH);
    }
    ps_unread_destroy(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_connection_gets_no_answers),
        cmocka_unit_test(a_full_address_has_no_further_answers_for_who_does_not_read),
        cmocka_unit_test(many_addresses_have_a_bound_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
