/* SPDX-License-Identifier: Apache-2.0 */
/* test_data_conf.c - names of files and folders, and bytes that spill to the disk. */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/data/spill.h"

#include "tests/support/data_rig.h"
#include "tests/support/temp_dir.h"

#include <string.h>
#include <unistd.h>

static void a_folder_never_leads_out_of_the_data_path(void **state)
{
    static const char *const good[] = {"text", "a/b", "cifar-10-batches-bin", "v1.0/x_(2)"};
    static const char *const bad[] = {"",     "/",  "/etc", "a/",      "a//b", "..",  "a/../b",
                                      "../a", ".a", "a/.b", "a/b/../", "a\\b", "a b", "a/./b"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(ps_data_folder_is_safe(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (ps_data_folder_is_safe(bad[i])) {
            fail_msg("\"%s\" is taken for a folder", bad[i]);
        }
    }
}

static void a_file_s_number_is_the_one_its_name_ends_in(void **state)
{
    static const struct {
        const char *name;
        uint32_t number;
    } good[] = {
        {"part-00007", 7}, {"part-12.csv", 12},       {"3", 3},     {"a1b22.txt", 22},
        {"x.5", 5},        {"x9.tar.txt", 9},         {"00000", 0}, {"t4294967295", UINT32_MAX},
        {"v2.part-3", 3},  {"part-00010.csv.gz", 10}, {"a.b7.c", 7}};
    static const char *const bad[] = {"part", "1a", "7-x", "t4294967296", "t99999999999999999999",
                                      ""};
    uint32_t number = 99;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(ps_data_file_number(good[i].name, &number));
        assert_int_equal(number, good[i].number);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (ps_data_file_number(bad[i], &number)) {
            fail_msg("\"%s\" ends in %u?", bad[i], number);
        }
    }
}

static void two_confs_are_the_same_when_all_they_say_is(void **state)
{
    ps_data_conf a = ps_data_conf_of(ps_data_source_find("simlin")), b = a;

    (void)state;
    assert_true(ps_data_conf_same(&a, &b));
    ps_data_set(&b, "features", 3);
    assert_false(ps_data_conf_same(&a, &b));
    b = a;
    b.test_limit = 1;
    assert_false(ps_data_conf_same(&a, &b));
    b = a;
    b.train_files = 1;
    strcpy(b.files[0], "x");
    assert_false(ps_data_conf_same(&a, &b));
    a = b;
    strcpy(b.files[0], "y");
    assert_false(ps_data_conf_same(&a, &b));
    b = a;
    strcpy(b.folder, "f");
    assert_false(ps_data_conf_same(&a, &b));
    b = a;
    b.column_count = 1;
    assert_false(ps_data_conf_same(&a, &b));
    a = b;
    strcpy(b.columns[0].name, "c");
    assert_false(ps_data_conf_same(&a, &b));
}

enum { BYTES = 5000000 }; /* some large pages */

/* What is read back is what was written, wherever it lies. */
static void check_spill(size_t memory_max, bool in_memory)
{
    temp_dir dir = temp_dir_create();
    ps_spill *spill = ps_spill_create(dir.path, memory_max);
    uint8_t *bytes = ps_xmalloc(BYTES), back[512];
    uint64_t seed = 5, key = ps_draw_key(seed, PS_DRAW_TEST, 0, 0, 0);
    ps_status st;

    for (size_t i = 0; i < BYTES; i++) {
        bytes[i] = (uint8_t)ps_draw_u64(key, i);
    }
    for (size_t at = 0, i = 0; at < BYTES; i++) {
        size_t n = (size_t)ps_draw_below(key, BYTES + i, 3000);

        n = n < BYTES - at ? n : BYTES - at;
        st = ps_spill_add(spill, bytes + at, n);
        assert_string_equal(st.text, "");
        at += n;
    }
    st = ps_spill_end(spill);
    assert_string_equal(st.text, "");
    assert_int_equal(ps_spill_bytes(spill), BYTES);
    assert_int_equal(!ps_spill_is_in_file(spill), in_memory);
    for (size_t i = 0; i < 1000; i++) {
        size_t at = (size_t)ps_draw_below(key, 2 * BYTES + i, BYTES - sizeof back);

        const void *there;

        assert_true(ps_spill_read(spill, at, sizeof back, back));
        assert_memory_equal(back, bytes + at, sizeof back);
        memset(back, 0, sizeof back);
        there = ps_spill_at(spill, at, sizeof back, back);
        assert_int_equal(there != back, in_memory);
        assert_memory_equal(there, bytes + at, sizeof back);
    }
    ps_spill_destroy(spill);
    assert_int_equal(rmdir(dir.path), 0); /* no file is left */
    free(bytes);
}

static void bytes_spill_to_the_disk_and_come_back(void **state)
{
    (void)state;
    check_spill(1 << 23, true);
    check_spill(BYTES, true);
    check_spill(BYTES - 1, false);
    check_spill(0, false);
}

static void a_spill_without_a_place_says_where(void **state)
{
    ps_spill *spill = ps_spill_create("/proc/nowhere/at/all", 4);
    ps_status st = ps_spill_add(spill, "1234", 4);

    (void)state;
    assert_string_equal(st.text, "");
    st = ps_spill_add(spill, "5", 1);
    assert_int_equal(st.code, PS_NOT_FOUND);
    assert_non_null(strstr(st.text, "/proc/nowhere/at/all"));
    ps_spill_destroy(spill);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_never_leads_out_of_the_data_path),
        cmocka_unit_test(a_file_s_number_is_the_one_its_name_ends_in),
        cmocka_unit_test(two_confs_are_the_same_when_all_they_say_is),
        cmocka_unit_test(bytes_spill_to_the_disk_and_come_back),
        cmocka_unit_test(a_spill_without_a_place_says_where),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
