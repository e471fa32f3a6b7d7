/* SPDX-License-Identifier: Apache-2.0 */
/* test_log_files.c - which logs of a job's folder are listed, and in which order. */
#include "services/coordinator/io/log_files.h"
#include "tests/support/temp_dir.h"

#include <stdlib.h>
#include <string.h>

static void leave(const temp_dir *dir, const char *name)
{
    ps_status st = ps_file_write(temp_dir_file(dir, name), "{}\n", 3);

    assert_string_equal(st.text, "");
}

static void leave_log(const temp_dir *dir, const char *node_id, uint32_t attempt)
{
    char name[PS_NAME_MAX + 1];

    ps_artifacts_log_name(name, "t", node_id, attempt);
    leave(dir, name);
}

static void must_be(const ps_log_file *log, const char *name, const char *node_id, uint32_t attempt)
{
    assert_string_equal(log->name, name);
    assert_string_equal(log->node_id, node_id);
    assert_int_equal(log->attempt, attempt);
}

static void newest_attempt_first(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_log_file *logs = NULL;
    size_t count = 0;
    ps_status st;

    (void)state;
    leave_log(&dir, "w.2.jsonl", 1);
    leave_log(&dir, "b", 10);
    leave_log(&dir, "a", 10);
    leave_log(&dir, "a", 9);
    leave_log(&dir, "a", 11); /* no attempt of this job yet */
    leave(&dir, "LOG-t-N(a).1.jsonl");
    leave(&dir, "LOG-t-N(a).02.jsonl");
    leave(&dir, "LOG-t-N(a).2.jsonl.tmp");
    leave(&dir, "LOG-t-N(a.jsonl");
    leave(&dir, "LOG-tt-N(a).jsonl");
    leave(&dir, "LOG-");
    leave(&dir, "summary.json");
    st = ps_log_files_list(dir.path, "t", 10, &logs, &count);
    assert_string_equal(st.text, "");
    assert_int_equal(count, 4);
    must_be(&logs[0], "LOG-t-N(a).10.jsonl", "a", 10);
    must_be(&logs[1], "LOG-t-N(b).10.jsonl", "b", 10);
    must_be(&logs[2], "LOG-t-N(a).9.jsonl", "a", 9);
    must_be(&logs[3], "LOG-t-N(w.2.jsonl).jsonl", "w.2.jsonl", 1);
    free(logs);
    temp_dir_destroy(&dir);
}

static void lost_attempts_are_bounded(void **state)
{
    enum { NODES = 3, ATTEMPTS = 150 };
    static const char *const nodes[NODES] = {"a", "b", "c"};
    temp_dir dir = temp_dir_create();
    ps_log_file *logs = NULL;
    size_t count = 0;
    ps_status st;

    (void)state;
    for (uint32_t attempt = 1; attempt <= ATTEMPTS; attempt++) {
        for (size_t i = 0; i < NODES; i++) {
            leave_log(&dir, nodes[i], attempt);
        }
    }
    st = ps_log_files_list(dir.path, "t", ATTEMPTS, &logs, &count);
    assert_string_equal(st.text, "");
    assert_int_equal(count, NODES + PS_LOST_LOGS_MAX);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(logs[i].node_id, nodes[i % NODES]);
        assert_int_equal(logs[i].attempt, ATTEMPTS - i / NODES);
    }
    free(logs);
    temp_dir_destroy(&dir);
}

static void a_folder_that_is_not_there(void **state)
{
    ps_log_file *logs = NULL;
    size_t count = 0;
    ps_status st = ps_log_files_list("/proc/psgd-none", "t", 1, &logs, &count);

    (void)state;
    assert_int_equal(st.code, PS_NOT_FOUND);
    assert_null(logs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_attempt_first),
        cmocka_unit_test(lost_attempts_are_bounded),
        cmocka_unit_test(a_folder_that_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
