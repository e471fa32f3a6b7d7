/* SPDX-License-Identifier: Apache-2.0 */
/* test_node_parts.c - fault points, the store of received data sets, the job's log. */
#include "common/base/log.h"
#include "common/node/data_store.h"
#include "common/node/fault.h"
#include "common/node/joblog.h"
#include "tests/support/temp_dir.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void a_fault_is_a_point_and_where_it_is(void **state)
{
    static const char *const wrong[] = {
        "",           "exit-at",     "exit-at:",    "exit-at:NOWHERE",
        "drop-ack:0", "drop-ack:-1", "drop-ack:1x", "burn:1"};
    ps_faults faults = {0};
    ps_status st;

    (void)state;
    st = ps_faults_add(&faults, "exit-at:READY");
    assert_true(ps_is_ok(&st));
    st = ps_faults_add(&faults, "stop-at:running");
    assert_true(ps_is_ok(&st));
    st = ps_faults_add(&faults, "drop-ack:12");
    assert_true(ps_is_ok(&st));
    assert_int_equal(faults.exit_at, PS_PHASE_READY);
    assert_int_equal(faults.stop_at, PS_PHASE_RUNNING);
    assert_int_equal(faults.drop_ack, 12);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        st = ps_faults_add(&faults, wrong[i]);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    }
    ps_faults_at(&faults, PS_PHASE_IDLE); /* not here */
}

/* --- the store --------------------------------------------------------------------- */

static ps_data_file file_of(const char *name, const char *content)
{
    ps_data_file file = {.size = strlen(content)};

    snprintf(file.name, sizeof file.name, "%s", name);
    ps_sha256_of(content, strlen(content), file.sha256);
    return file;
}

static bool is_there(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0;
}

static void files_that_are_whole_become_a_data_set(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_file files[2] = {file_of("a", "hello world"), file_of("b", "!")};
    ps_data_store store = {0};
    bool complete = false;
    char *bytes = NULL, folder[128];
    size_t n = 0;
    ps_status st;

    (void)state;
    snprintf(folder, sizeof folder, "%s/datasets/abc", dir.path);
    st = ps_data_store_open(&store, folder, files, 2);
    assert_string_equal(st.text, "");
    st = ps_data_store_add(&store, 0, 0, "hello ", 6, &complete);
    assert_true(ps_is_ok(&st) && !complete);
    st = ps_data_store_add(&store, 0, 6, "world", 5, &complete);
    assert_true(ps_is_ok(&st) && complete && !ps_data_store_has_all(&store));
    assert_false(is_there(folder));
    st = ps_data_store_add(&store, 1, 0, "!", 1, &complete);
    assert_true(ps_is_ok(&st) && complete && ps_data_store_has_all(&store));
    st = ps_data_store_commit(&store);
    assert_string_equal(st.text, "");
    st = ps_file_read(temp_dir_file(&dir, "datasets/abc/a"), 100, &bytes, &n);
    assert_true(ps_is_ok(&st));
    assert_string_equal(bytes, "hello world");
    free(bytes);
    ps_data_store_abandon(&store); /* legal, changes nothing */
    assert_true(is_there(folder));

    st = ps_data_store_open(&store, folder, files, 1); /* once more, over what is there */
    assert_true(ps_is_ok(&st));
    st = ps_data_store_add(&store, 0, 0, "hello world", 11, &complete);
    assert_true(complete);
    st = ps_data_store_commit(&store);
    assert_string_equal(st.text, "");
    assert_false(is_there(temp_dir_file(&dir, "datasets/abc/b")));
    temp_dir_destroy(&dir);
}

static void pieces_that_do_not_fit_are_refused_and_leave_nothing(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_file files[2] = {file_of("a", "hello"), file_of("b", "!")};
    ps_data_store store = {0};
    bool complete = false;
    char folder[128];
    ps_status st;

    (void)state;
    snprintf(folder, sizeof folder, "%s/datasets/abc", dir.path);
    st = ps_data_store_open(&store, folder, files, 2);
    assert_true(ps_is_ok(&st));
    st = ps_data_store_add(&store, 1, 0, "!", 1, &complete); /* not its turn */
    assert_int_equal(st.code, PS_OUT_OF_RANGE);
    st = ps_data_store_add(&store, 0, 1, "h", 1, &complete); /* a hole */
    assert_int_equal(st.code, PS_OUT_OF_RANGE);
    st = ps_data_store_add(&store, 0, 0, "hello!", 6, &complete); /* too long */
    assert_int_equal(st.code, PS_OUT_OF_RANGE);
    st = ps_data_store_add(&store, 0, 0, "hallo", 5, &complete);
    assert_int_equal(st.code, PS_DATA_LOSS);
    assert_false(complete);
    ps_data_store_abandon(&store);
    assert_int_equal(rmdir(temp_dir_file(&dir, "datasets")), 0); /* empty */
    temp_dir_destroy(&dir);
}

/* --- the log ------------------------------------------------------------------------ */

static void the_log_of_a_job_has_what_was_logged_meanwhile(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_joblog *log = NULL;
    char text[4096];
    size_t n, tail;
    ps_status st;

    (void)state;
    ps_log(PS_LOG_INFO, "test", "before");
    st = ps_joblog_open(temp_dir_file(&dir, "log"), &log);
    assert_true(ps_is_ok(&st));
    ps_log(PS_LOG_INFO, "test", "one");
    ps_log(PS_LOG_INFO, "test", "two");
    n = ps_joblog_read(log, 0, text, sizeof text);
    assert_int_equal(n, ps_joblog_size(log));
    text[n] = '\0';
    assert_null(strstr(text, "before"));
    assert_non_null(strstr(text, "one\n"));
    assert_non_null(strstr(text, "two\n"));
    tail = ps_joblog_read(log, n - 4, text, sizeof text);
    assert_int_equal(tail, 4);
    assert_memory_equal(text, "two\n", 4);
    assert_int_equal(ps_joblog_read(log, n + 1000, text, sizeof text), 0);
    ps_joblog_close(log);
    ps_log(PS_LOG_INFO, "test", "after"); /* goes to stderr only */
    temp_dir_destroy(&dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_is_a_point_and_where_it_is),
        cmocka_unit_test(files_that_are_whole_become_a_data_set),
        cmocka_unit_test(pieces_that_do_not_fit_are_refused_and_leave_nothing),
        cmocka_unit_test(the_log_of_a_job_has_what_was_logged_meanwhile),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
