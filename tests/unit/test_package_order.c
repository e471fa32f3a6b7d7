/* SPDX-License-Identifier: Apache-2.0 */
/* test_package_order.c - which package of PreCommit may come when. */
#include "common/node/package_order.h"

#include "tests/support/cmocka_all.h"

static void a_worker_gets_settings_then_data_then_the_rest(void **state)
{
    /* [expected][package], in the order of ps_package_step */
    static const bool may[PS_PACKAGE_NONE + 1][PS_PACKAGE_NONE + 1] = {
        [PS_PACKAGE_SETTINGS] = {[PS_PACKAGE_SETTINGS] = true},
        [PS_PACKAGE_DATA] = {[PS_PACKAGE_DATA] = true},
        [PS_PACKAGE_FILES] = {[PS_PACKAGE_FILES] = true},
        [PS_PACKAGE_WEIGHTS] = {[PS_PACKAGE_WEIGHTS] = true,
                                [PS_PACKAGE_TABLES] = true,
                                [PS_PACKAGE_STATE] = true,
                                [PS_PACKAGE_SEAL] = true},
        [PS_PACKAGE_TABLES] =
            {[PS_PACKAGE_TABLES] = true, [PS_PACKAGE_STATE] = true, [PS_PACKAGE_SEAL] = true},
        [PS_PACKAGE_STATE] = {[PS_PACKAGE_STATE] = true, [PS_PACKAGE_SEAL] = true},
        [PS_PACKAGE_SEAL] = {[PS_PACKAGE_SEAL] = true},
    };

    (void)state;
    for (ps_package_step e = PS_PACKAGE_SETTINGS; e <= PS_PACKAGE_NONE; e++) {
        for (ps_package_step p = PS_PACKAGE_SETTINGS; p <= PS_PACKAGE_NONE; p++) {
            if (ps_package_may_come(e, p, true) != may[e][p]) {
                fail_msg("expecting %s, %s", ps_package_name(e), ps_package_name(p));
            }
        }
    }
}

static void a_server_may_be_spared_data(void **state)
{
    (void)state;
    assert_true(ps_package_may_come(PS_PACKAGE_DATA, PS_PACKAGE_DATA, false));
    assert_true(ps_package_may_come(PS_PACKAGE_DATA, PS_PACKAGE_WEIGHTS, false));
    assert_true(ps_package_may_come(PS_PACKAGE_DATA, PS_PACKAGE_SEAL, false));
    assert_false(ps_package_may_come(PS_PACKAGE_SETTINGS, PS_PACKAGE_WEIGHTS, false));
    assert_false(ps_package_may_come(PS_PACKAGE_WEIGHTS, PS_PACKAGE_DATA, false));
    assert_false(ps_package_may_come(PS_PACKAGE_SEAL, PS_PACKAGE_NONE, false));
}

static void a_message_without_a_package_brings_none(void **state)
{
    Psgd__V1__PreCommitRequest request = PSGD__V1__PRE_COMMIT_REQUEST__INIT;

    (void)state;
    assert_int_equal(ps_package_of(&request), PS_PACKAGE_NONE);
    request.package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_DATA_CHUNK;
    assert_int_equal(ps_package_of(&request), PS_PACKAGE_FILES);
    request.package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_SEAL;
    assert_int_equal(ps_package_of(&request), PS_PACKAGE_SEAL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_gets_settings_then_data_then_the_rest),
        cmocka_unit_test(a_server_may_be_spared_data),
        cmocka_unit_test(a_message_without_a_package_brings_none),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
