/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory_limit.c - the limits of control groups, as the kernel writes them. */
#include "common/base/memory_limit.h"

#include "common/base/files.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/temp_dir.h"

#include <stdio.h>
#include <string.h>

static temp_dir dir;
static const char *root;
static char list[300];

static int begin(void **state)
{
    (void)state;
    dir = temp_dir_create();
    root = dir.path;
    snprintf(list, sizeof list, "%s/list", root);
    return 0;
}

static int end(void **state)
{
    (void)state;
    temp_dir_destroy(&dir);
    return 0;
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[600];
    ps_status st;

    snprintf(path, sizeof path, "%s%s", root, folder);
    st = ps_dir_make(path);
    assert_true(ps_is_ok(&st));
    snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    st = ps_file_write(path, text, strlen(text));
    assert_true(ps_is_ok(&st));
}

static void without_groups_there_is_no_limit(void **state)
{
    (void)state;
    assert_true(ps_memory_limit_of_groups("/nonexistent", root) == UINT64_MAX);
    put("", "list", "");
    assert_true(ps_memory_limit_of_groups(list, root) == UINT64_MAX);
    put("", "list", "junk\n0::/a\n");
    assert_true(ps_memory_limit_of_groups(list, root) == UINT64_MAX);
}

static void the_smallest_of_a_group_and_those_above_counts(void **state)
{
    (void)state;
    put("", "list", "0::/a/b\n");
    put("/a", "memory.max", "5000\n");
    put("/a/b", "memory.max", "max\n");
    assert_int_equal(ps_memory_limit_of_groups(list, root), 5000);
    put("/a/b", "memory.max", "4000\n");
    assert_int_equal(ps_memory_limit_of_groups(list, root), 4000);
    put("", "list", "0::/of/the/host\n"); /* not there: the root is the container's own */
    put("", "memory.max", "3000\n");
    assert_int_equal(ps_memory_limit_of_groups(list, root), 3000);
}

static void version_1_has_a_folder_of_its_own(void **state)
{
    (void)state;
    put("", "memory.max", "max\n");
    put("", "list", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/x/y\n1:memorable:/z\n");
    put("/memory/x", "memory.limit_in_bytes", "7000\n");
    put("/memory/x/y", "memory.limit_in_bytes", "9223372036854771712\n");
    put("/memory/z", "memory.limit_in_bytes", "1\n");
    assert_int_equal(ps_memory_limit_of_groups(list, root), 7000);
}

static void a_process_has_some_memory(void **state)
{
    (void)state;
    assert_true(ps_memory_limit() > 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_groups_there_is_no_limit),
        cmocka_unit_test(the_smallest_of_a_group_and_those_above_counts),
        cmocka_unit_test(version_1_has_a_folder_of_its_own),
        cmocka_unit_test(a_process_has_some_memory),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
