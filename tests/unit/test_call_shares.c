/* SPDX-License-Identifier: Apache-2.0 */
/* test_call_shares.c - how many calls of an address, and of all, may wait. */
#include "services/coordinator/call_shares.h"

#include "tests/support/cmocka_all.h"

#include <stdio.h>

static void an_address_has_its_share_and_no_more(void **state)
{
    ps_shares shares = {0};
    ps_share *share = NULL;

    (void)state;
    for (unsigned i = 0; i < PS_SHARE_MAX; i++) {
        share = ps_shares_enter(&shares, "ipv4:10.0.0.1");
        assert_non_null(share);
    }
    assert_null(ps_shares_enter(&shares, "ipv4:10.0.0.1"));
    assert_non_null(ps_shares_enter(&shares, "ipv4:10.0.0.2"));
    ps_shares_leave(&shares, shares.first); /* of the second address: it is the newest */
    ps_shares_leave(&shares, share);
    assert_ptr_equal(ps_shares_enter(&shares, "ipv4:10.0.0.1"), share);
    for (unsigned i = 0; i < PS_SHARE_MAX; i++) {
        ps_shares_leave(&shares, share);
    }
    assert_null(shares.first);
    assert_int_equal(shares.waiting, 0);
}

static void who_has_no_call_may_have_one_when_all_are_taken(void **state)
{
    ps_shares shares = {0};
    ps_share *of[PS_SHARES_MAX / PS_SHARE_MAX], *other;

    (void)state;
    for (unsigned i = 0; i < PS_SHARES_MAX; i++) {
        char host[32];

        snprintf(host, sizeof host, "ipv4:10.0.0.%u", i / PS_SHARE_MAX);
        of[i / PS_SHARE_MAX] = ps_shares_enter(&shares, host);
        assert_non_null(of[i / PS_SHARE_MAX]);
    }
    other = ps_shares_enter(&shares, "ipv4:10.0.1.1");
    assert_non_null(other);
    assert_null(ps_shares_enter(&shares, "ipv4:10.0.1.1")); /* it has one */
    ps_shares_leave(&shares, other);
    for (unsigned i = 0; i < PS_SHARES_MAX; i++) {
        ps_shares_leave(&shares, of[i / PS_SHARE_MAX]);
    }
    assert_null(shares.first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_its_share_and_no_more),
        cmocka_unit_test(who_has_no_call_may_have_one_when_all_are_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
