/* SPDX-License-Identifier: Apache-2.0 */
/* test_report.c - CSV that any program reads, in any locale, on time. */
#include "common/artifact/report.h"

#include "common/artifact/number.h"

#include "tests/support/temp_dir.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

static const char train_header[] =
    "time_s,epoch,batch,step,loss,accuracy,samples_per_s,bytes_up,bytes_down,wait_s\n";

static void expect_ok(ps_status st)
{
    assert_string_equal(st.text, "");
}

static void expect_content(const char *path, const char *text)
{
    char *bytes = NULL;
    size_t n = 0;

    expect_ok(ps_file_read(path, 1 << 20, &bytes, &n));
    assert_string_equal(bytes, text);
    free(bytes);
}

static const ps_train_row row = {.time_s = 0.25,
                                 .epoch = 1,
                                 .batch = 2,
                                 .step = 3,
                                 .loss = 0.1,
                                 .accuracy = 1.0 / 3,
                                 .samples_per_s = 12345.678901,
                                 .bytes_up = UINT64_MAX,
                                 .bytes_down = 5000000000,
                                 .wait_s = 1e-7};
static const char row_text[] =
    "0.25,1,2,3,0.1,0.333333333,12345.6789,18446744073709551615,5000000000,1e-07\n";

static void a_training_report_has_a_header_and_its_rows(void **state)
{
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "TR.csv");
    ps_report *report = NULL;
    char expected[512];

    (void)state;
    expect_ok(ps_file_write(path, "an older, longer file that was here before", 42));
    expect_ok(ps_report_open_train(path, NULL, 0, &report));
    ps_report_train(report, &row);
    expect_ok(ps_report_close(report));
    snprintf(expected, sizeof expected, "%s%s", train_header, row_text);
    expect_content(path, expected);
    temp_dir_destroy(&dir);
}

static void rows_wait_for_a_second_at_most(void **state)
{
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "TR.csv");
    ps_report *report = NULL;
    ps_train_row later = row;
    char *bytes = NULL;
    size_t n = 0, lines = 0;

    (void)state;
    expect_ok(ps_report_open_train(path, NULL, 0, &report));
    expect_content(path, train_header); /* at once */
    ps_report_train(report, &row);
    expect_content(path, train_header); /* kept */
    later.time_s = 1.25;
    ps_report_train(report, &later);
    expect_ok(ps_file_read(path, 4096, &bytes, &n));
    for (size_t i = 0; i < n; i++) {
        lines += bytes[i] == '\n';
    }
    assert_int_equal(lines, 3);
    free(bytes);
    expect_ok(ps_report_close(report));
    temp_dir_destroy(&dir);
}

static void many_rows_of_one_second_are_all_there(void **state)
{
    enum { ROWS = 5000 };
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "TR.csv");
    ps_report *report = NULL;
    char *bytes = NULL;
    size_t n = 0;

    (void)state;
    expect_ok(ps_report_open_train(path, NULL, 0, &report));
    for (size_t i = 0; i < ROWS; i++) {
        ps_report_train(report, &row);
    }
    expect_ok(ps_report_close(report));
    expect_ok(ps_file_read(path, 1 << 20, &bytes, &n));
    assert_int_equal(n, strlen(train_header) + ROWS * strlen(row_text));
    free(bytes);
    temp_dir_destroy(&dir);
}

static void a_step_has_the_job_s_metrics(void **state)
{
    static const char *const metrics[] = {"top_k", "auc"};
    const double values[] = {0.95, (double)NAN};
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "TR.csv");
    ps_train_row at = row;
    ps_report *report = NULL;
    char expected[512];

    (void)state;
    at.values = values;
    expect_ok(ps_report_open_train(path, metrics, 2, &report));
    ps_report_train(report, &at);
    expect_ok(ps_report_close(report));
    snprintf(expected, sizeof expected, "%.*s,top_k,auc\n%.*s,0.95,nan\n",
             (int)strlen(train_header) - 1, train_header, (int)strlen(row_text) - 1, row_text);
    expect_content(path, expected);
    temp_dir_destroy(&dir);
}

static void an_evaluation_is_there_at_once(void **state)
{
    static const char *const metrics[] = {"accuracy", "auc"};
    const double values[] = {0.95, (double)NAN};
    const ps_eval_row eval = {.epoch = 2,
                              .step = 1874,
                              .loss = 0.2,
                              .values = values,
                              .time_s = 1.5,
                              .bytes_up = 7,
                              .bytes_down = 1ull << 40};
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "EV.csv");
    ps_report *report = NULL;

    (void)state;
    expect_ok(ps_report_open_eval(path, metrics, 2, &report));
    ps_report_eval(report, &eval);
    expect_content(path, "epoch,step,loss,accuracy,auc,time_s,bytes_up,bytes_down\n"
                         "2,1874,0.2,0.95,nan,1.5,7,1099511627776\n");
    expect_ok(ps_report_close(report));
    temp_dir_destroy(&dir);
}

static void a_failed_write_is_told_at_close(void **state)
{
    ps_report *report = NULL;
    ps_status st = ps_report_open_train("/dev/full", NULL, 0, &report);

    (void)state;
    expect_ok(st);
    ps_report_train(report, &row);
    st = ps_report_close(report);
    assert_non_null(strstr(st.text, "write /dev/full: "));
    st = ps_report_open_train("/proc/nowhere/at/all", NULL, 0, &report);
    assert_int_equal(st.code, PS_NOT_FOUND);
}

static void numbers_have_a_point_in_every_locale(void **state)
{
    /* As printf writes them where the mark is "," or U+066B; locales may not be
     * installed, and setlocale would change the whole process. */
    static const char *const marked[][2] = {{"-1,5", "-1.5"},
                                            {"1,5e-20", "1.5e-20"},
                                            {"12\xd9\xab"
                                             "5e+30",
                                             "12.5e+30"},
                                            {"7", "7"},
                                            {"1e+30", "1e+30"},
                                            {"0.25", "0.25"}};

    (void)state;
    for (size_t i = 0; i < sizeof marked / sizeof marked[0]; i++) {
        char text[PS_NUMBER_BYTES];

        strcpy(text, marked[i][0]);
        ps_number_put_point(text);
        assert_string_equal(text, marked[i][1]);
    }
}

static void numbers_bring_a_float_back(void **state)
{
    static const float values[] = {0.1f, 1.0f / 3, 16777217.0f, 3.4028235e38f, 1e-45f, -0.0f};
    char text[PS_NUMBER_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_true(strtof(ps_number_text((double)values[i], text), NULL) == values[i]);
    }
    assert_string_equal(ps_number_text(NAN, text), "nan");
    assert_string_equal(ps_number_text(-NAN, text), "nan");
    assert_string_equal(ps_number_text(INFINITY, text), "inf");
    assert_string_equal(ps_number_text(-INFINITY, text), "-inf");
    assert_string_equal(ps_number_text(-1.23456789e-300, text), "-1.23456789e-300");
}

static void names_are_those_of_the_older_systems(void **state)
{
    char name[PS_NAME_MAX + 1];

    (void)state;
    ps_artifact_name(name, sizeof name, "TR", "P-SGD", "0", ".csv");
    assert_string_equal(name, "TR-P-SGD-N(0).csv");
    ps_artifact_name(name, sizeof name, "MODEL", "my run", "ps-1", ".safetensors");
    assert_string_equal(name, "MODEL-my_run-N(ps-1).safetensors");
}

static void names_are_always_safe(void **state)
{
    char name[PS_NAME_MAX + 1], title[300];

    (void)state;
    ps_artifact_name(name, sizeof name, "EV", "../../etc/passwd\n", "a/b", ".csv");
    assert_string_equal(name, "EV-.__.__etc_passwd_-N(a_b).csv");
    assert_true(ps_name_is_safe(name));
    memset(title, 'x', sizeof title);
    title[sizeof title - 1] = '\0';
    ps_artifact_name(name, sizeof name, "MODEL", title, "11", ".safetensors");
    assert_int_equal(strlen(name), PS_NAME_MAX);
    assert_string_equal(name + PS_NAME_MAX - 18, "-N(11).safetensors");
}

/* As on a full disk: no file of this process may grow beyond where this one is. */
static void set_room(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void rows_wait_for_room(void **state)
{
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "TR.csv");
    ps_train_row at = row;
    ps_report *report = NULL;
    char *text = NULL;
    size_t n = 0, rows = 0;
    ps_status st;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    expect_ok(ps_report_open_train(path, NULL, 0, &report));
    set_room(strlen(train_header) + 10); /* to the middle of a row */
    for (at.step = 1; at.step <= 1000; at.step++) {
        at.time_s = (double)at.step;
        ps_report_train(report, &at);
    }
    st = ps_report_flush(report);
    assert_false(ps_is_ok(&st));
    set_room(RLIM_INFINITY);
    expect_ok(ps_report_close(report));
    expect_ok(ps_file_read(path, 1 << 20, &text, &n));
    for (size_t i = 0; i < n; i++) {
        rows += text[i] == '\n';
    }
    assert_int_equal(rows, 1001);
    assert_memory_equal(text + strlen(train_header), "1,", 2);
    assert_non_null(strstr(text, "\n1000,"));
    free(text);
    temp_dir_destroy(&dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_report_has_a_header_and_its_rows),
        cmocka_unit_test(rows_wait_for_a_second_at_most),
        cmocka_unit_test(many_rows_of_one_second_are_all_there),
        cmocka_unit_test(a_step_has_the_job_s_metrics),
        cmocka_unit_test(an_evaluation_is_there_at_once),
        cmocka_unit_test(a_failed_write_is_told_at_close),
        cmocka_unit_test(rows_wait_for_room),
        cmocka_unit_test(numbers_have_a_point_in_every_locale),
        cmocka_unit_test(numbers_bring_a_float_back),
        cmocka_unit_test(names_are_those_of_the_older_systems),
        cmocka_unit_test(names_are_always_safe),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
