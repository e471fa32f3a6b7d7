/* SPDX-License-Identifier: Apache-2.0 */
/* test_program_metrics.c - metrics that programs report: their names, and the columns of a step. */
#include "common/train/trainer_impl.h"
#include "tests/support/plan_rig.h"
#include "tests/support/temp_dir.h"

#include <math.h>

#define JOB(metrics)                                                                               \
    "{\"workers\":2,\"programs\":1,\"metrics\":[{\"name\":\"accuracy\"},{\"name\":\"top_k\"}],"    \
    "\"program_metrics\":[" metrics "]}"

static void names_are_checked(void **state)
{
    static const char first[] = "spec.program_metrics[0]", second[] = "spec.program_metrics[1]";
    static const char all[] = "spec.program_metrics";

    (void)state;
    assert_refused(JOB("\"\""), first, "is \"\"; 1 to 48 of A-Z a-z 0-9 . _ - are allowed");
    assert_refused(JOB("\"grad norm\""), first, "is \"grad norm\"; 1 to 48");
    assert_refused(JOB("\"..\""), first,
                   "is \"..\"; 1 to 48 of A-Z a-z 0-9 . _ - are allowed, the first not .");
    assert_refused(JOB("\"a,b\""), first, "is \"a,b\"; 1 to 48");
    assert_refused(JOB("\"a\",\"a2345678901234567890123456789012345678901234567890\""), second,
                   "1 to 48");
    assert_refused(JOB("\"a\",\"a\""), second, "is \"a\"; spec.program_metrics[0] is it already");
    assert_refused(JOB("\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\",\"k\",\"l\","
                       "\"m\",\"n\",\"o\""),
                   all, "has 15 entries; at most 14 are allowed beside the job's 2 metrics");
    assert_refused(
        "{\"model\":{\"foreign\":[{\"name\":\"w\",\"shape\":[1]}]},\"data\":{\"params\":{"
        "\"samples\":64}},\"program_metrics\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\","
        "\"h\",\"i\",\"j\",\"k\",\"l\",\"m\",\"n\",\"o\",\"p\",\"q\"]}",
        all, "has 17 entries; at most 16 are allowed");
    assert_refused(
        "{\"program_metrics\":[\"a\"]}", all,
        "is given, and no worker is a program that reports; set spec.programs, or leave it out");
    ps_plan_destroy(plan_of(JOB("\"a2345678901234567890123456789012345678901234567"
                                "8\",\"accuracy\",\"top_k\",\"e-1.0_x\"")));
}

/* The columns that psgd fills are those that a report begins with. */
static void columns_of_psgd_are_refused(void **state)
{
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "TR.csv");
    ps_report *report = NULL;
    char *text = NULL, job[512], *rest;
    size_t n = 0, refused = 0;
    ps_status st = ps_report_open_train(path, NULL, 0, &report);

    (void)state;
    assert_string_equal(st.text, "");
    st = ps_report_close(report);
    assert_string_equal(st.text, "");
    st = ps_file_read(path, 4096, &text, &n);
    assert_string_equal(st.text, "");
    for (const char *name = strtok_r(text, ",\n", &rest); name != NULL;
         name = strtok_r(NULL, ",\n", &rest)) {
        if (strcmp(name, "accuracy") != 0) {
            snprintf(job, sizeof job, "{\"workers\":2,\"programs\":1,\"program_metrics\":[\"%s\"]}",
                     name);
            assert_refused(job, "spec.program_metrics[0]", "a column of the TR- report");
            refused++;
        }
    }
    assert_int_equal(refused, 9);
    free(text);
    temp_dir_destroy(&dir);
}

static void a_step_has_what_was_said_of_it_and_of_no_other(void **state)
{
    ps_plan *plan = plan_of(JOB("\"norm\",\"accuracy\",\"top_k\",\"rare\""));
    ps_step_metrics m;

    (void)state;
    ps_step_metrics_init(&m, plan);
    assert_int_equal(m.count, 3); /* accuracy has a column of its own, top_k one of the job's */
    assert_string_equal(m.names[0], "top_k");
    assert_string_equal(m.names[1], "norm");
    assert_string_equal(m.names[2], "rare");
    ps_step_metrics_say(&m, 0, 7);
    ps_step_metrics_say(&m, 0, 8); /* the last value counts */
    ps_step_metrics_say(&m, 2, 0.25);
    ps_step_metrics_close(&m);
    assert_true(m.values[0] == 0.25 && m.values[1] == 8 && isnan(m.values[2]));
    assert_true(isnan(m.accuracy) && isnan(m.newest_accuracy));
    ps_step_metrics_say(&m, 1, 0.5);
    ps_step_metrics_say(&m, 3, 3);
    ps_step_metrics_close(&m);
    assert_true(isnan(m.values[0]) && isnan(m.values[1]) && m.values[2] == 3);
    assert_true(m.accuracy == 0.5);
    ps_step_metrics_close(&m);
    assert_true(isnan(m.accuracy) && isnan(m.values[2]));
    assert_true(m.newest_accuracy == 0.5 && m.newest[1] == 0.5);
    assert_true(m.newest[0] == 8 && m.newest[2] == 0.25 && m.newest[3] == 3);
    ps_step_metrics_fini(&m);
    ps_plan_destroy(plan);
}

/* Of long jobs the file has two rows of each so many, and yet whatever a program has reported. */
static void what_is_reported_now_and_then_is_not_left_out(void **state)
{
    enum { STEPS = PS_THIN_ROWS + 4000, EACH = 7 };
    ps_trainer t = {.step_metrics = {.count = 1, .names = {"rare"}}};
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "TR.csv");
    size_t n = 0, rows = 0;
    uint64_t seen = 0;
    char *text = NULL, *rest;
    ps_status st = ps_report_open_train(path, t.step_metrics.names, 1, &t.train_report);

    (void)state;
    assert_string_equal(st.text, "");
    st = ps_events_open(temp_dir_file(&dir, "TB"), 0, &t.events);
    assert_string_equal(st.text, "");
    pthread_mutex_init(&t.files_mutex, NULL);
    for (uint64_t step = 1; step <= STEPS; step++) {
        double value = step % EACH == 0 ? (double)step : (double)NAN;

        ps_trainer_put_train(&t, &(ps_train_row){.step = step,
                                                 .loss = (double)(step * 37 % 101),
                                                 .accuracy = value,
                                                 .values = &value});
    }
    ps_trainer_end_train(&t);
    st = ps_report_close(t.train_report);
    assert_string_equal(st.text, "");
    st = ps_events_close(t.events);
    assert_string_equal(st.text, "");
    st = ps_file_read(path, 8 << 20, &text, &n);
    assert_string_equal(st.text, "");
    strtok_r(text, "\n", &rest);
    for (const char *row = strtok_r(NULL, "\n", &rest); row != NULL;
         row = strtok_r(NULL, "\n", &rest)) {
        double rare = atof(strrchr(row, ',') + 1), accuracy;

        rows++;
        assert_int_equal(sscanf(row, "%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%lf", &accuracy), 1);
        assert_true(accuracy == rare || (isnan(accuracy) && isnan(rare)));
        if (!isnan(rare) && rare != (double)seen) {
            assert_true(rare == (double)(seen + EACH));
            seen += EACH;
        }
    }
    assert_int_equal(seen, STEPS / EACH * EACH);
    assert_int_equal(rows, PS_THIN_ROWS + 2000 + 1) /* two of each four steps, and the last */;
    free(text);
    pthread_mutex_destroy(&t.files_mutex);
    temp_dir_destroy(&dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(columns_of_psgd_are_refused),
        cmocka_unit_test(a_step_has_what_was_said_of_it_and_of_no_other),
        cmocka_unit_test(what_is_reported_now_and_then_is_not_left_out),
    };

    if (argc == 2) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
