/* SPDX-License-Identifier: Apache-2.0 */
/* test_show_progress.c - the line that people watch. */
#include "clients/psgd/show_progress.h"

#include "common/base/printable.h"

#include "tests/support/cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static Psgd__V1__Progress halfway(void)
{
    Psgd__V1__Progress p = PSGD__V1__PROGRESS__INIT;

    p.step = 468;
    p.total_steps = 936;
    p.epoch = 1;
    p.loss = 0.12345;
    p.accuracy = 0.95678;
    p.samples_per_second = 41234;
    p.bytes_up = 110900000;
    p.bytes_up_float32 = 443000000;
    p.bytes_down = 443000000;
    p.bytes_down_float32 = 442900000;
    p.workers_alive = 2;
    p.workers_total = 3;
    p.eta_seconds = 12.4;
    return p;
}

/* Adds `count` metrics, m0 of value 0.5 and so on, whose names have `pad` more characters. */
static void report(Psgd__V1__Progress *p, size_t count, int pad)
{
    static Psgd__V1__Progress__ProgramMetricsEntry entries[20], *list[20];
    static char names[20][128];

    for (size_t i = 0; i < count; i++) {
        psgd__v1__progress__program_metrics_entry__init(&entries[i]);
        snprintf(names[i], sizeof names[i], "m%zu%.*s", i, pad,
                 "__________________________________________________________________");
        entries[i].key = names[i];
        entries[i].value = (double)i + 0.5;
        list[i] = &entries[i];
    }
    p->program_metrics = list;
    p->n_program_metrics = count;
}

static void a_wide_line_says_everything(void **state)
{
    Psgd__V1__Progress p = halfway();
    char text[512];

    (void)state;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_string_equal(text, "[########--------]   50% step 468/936  loss 0.1235  acc 0.957  "
                              "41k samples/s  up 110.9 MB (4.0x less)  down 443.0 MB  "
                              "2/3 workers  ETA 12 s");
}

static void a_job_that_computes_has_partitions_and_no_loss(void **state)
{
    Psgd__V1__Progress p = PSGD__V1__PROGRESS__INIT;
    char text[200];

    (void)state;
    p.step = 4;
    p.total_steps = 16;
    p.workers_alive = p.workers_total = 3;
    report(&p, 1, 0);
    ps_show_progress(&p, true, 0, text, sizeof text);
    assert_string_equal(text, "[####------------]   25% partition 4/16  3/3 workers");
}

static void a_job_that_has_not_made_a_step_has_steps_and_no_loss(void **state)
{
    Psgd__V1__Progress p = PSGD__V1__PROGRESS__INIT;
    char text[200];

    (void)state;
    p.total_steps = 40;
    p.workers_total = 2;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_string_equal(text, "[----------------]    0% step 0/40  up 0 B  down 0 B  0/2 workers");
    ps_show_progress(&p, true, 0, text, sizeof text);
    assert_string_equal(text, "[----------------]    0% partition 0/40  0/2 workers");
}

static void a_duration_below_a_second_has_milliseconds(void **state)
{
    char text[PS_SHOW_BYTES];

    (void)state;
    assert_string_equal(ps_show_duration(0, text), "0 ms");
    assert_string_equal(ps_show_duration(0.0432, text), "43 ms");
    assert_string_equal(ps_show_duration(0.9994, text), "999 ms");
    assert_string_equal(ps_show_duration(0.9996, text), "1.0 s");
    assert_string_equal(ps_show_duration(12.34, text), "12.3 s");
}

static void there_is_no_accuracy_of_values(void **state)
{
    Psgd__V1__Progress p = halfway();
    char text[512];

    (void)state;
    p.accuracy = (double)NAN;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_string_equal(text, "[########--------]   50% step 468/936  loss 0.1235  "
                              "41k samples/s  up 110.9 MB (4.0x less)  down 443.0 MB  "
                              "2/3 workers  ETA 12 s");
}

static void a_narrow_line_is_shortened_before_anything_is_left_out(void **state)
{
    Psgd__V1__Progress p = halfway();
    char text[512];

    (void)state;
    ps_show_progress(&p, false, 120, text, sizeof text);
    assert_string_equal(text, "[####----]  50% 468/936 loss 0.123 acc 0.957 41k/s "
                              "up 110.9 MB/4.0x down 443.0 MB 2/3 ETA 12 s");
}

static void no_line_is_wider_than_its_terminal_and_step_and_loss_stay(void **state)
{
    Psgd__V1__Progress p = halfway();

    (void)state;
    for (size_t width = 24; width < 200; width++) {
        char text[512];

        ps_show_progress(&p, false, width, text, sizeof text);
        assert_true(strlen(text) <= width);
        assert_non_null(strstr(text, "468/936"));
        assert_non_null(strstr(text, "loss 0.12"));
    }
}

static void metrics_of_programs_follow_accuracy_and_the_last_ones_go_first(void **state)
{
    Psgd__V1__Progress p = halfway();
    char text[PS_SHOW_PROGRESS_BYTES];

    (void)state;
    report(&p, 3, 0);
    p.program_metrics[1]->value = 2e-5;
    p.program_metrics[2]->value = 7;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_non_null(strstr(text, "acc 0.957  m0 0.5000  m1 2e-05  m2 7  41k samples/s"));
    ps_show_progress(&p, false, 62, text, sizeof text);
    assert_string_equal(text, " 50% 468/936 loss 0.123 acc 0.957 m0 0.500 m1 2e-05 ETA 12 s");
    report(&p, 20, 60); /* more than a job may have, with longer names */
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_true(strlen(text) + 1 < sizeof text);
    assert_non_null(strstr(text, "m15_"));
    assert_null(strstr(text, "m16_"));
    assert_non_null(strstr(text, "ETA 12 s"));
    for (size_t width = 24; width < 1200; width++) {
        ps_show_progress(&p, false, width, text, sizeof text);
        assert_true(strlen(text) <= width);
        assert_non_null(strstr(text, "loss 0.12"));
    }
}

static void a_name_cannot_deceive(void **state)
{
    Psgd__V1__Progress p = halfway();
    char text[512], name[] = "a\033[2J\nb", whom[] = "\033c";

    (void)state;
    report(&p, 1, 0);
    p.program_metrics[0]->key = name;
    p.waiting_for = whom;
    p.samples_per_second = 0;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_non_null(strstr(text, "  a?[2J?b 0.5000  "));
    assert_non_null(strstr(text, "  waits for ?c"));
}

static void the_bar_fills_from_none_to_all(void **state)
{
    Psgd__V1__Progress p = halfway();
    char text[512];

    (void)state;
    p.step = 0;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_non_null(strstr(text, "[----------------]    0%"));
    p.step = 935;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_non_null(strstr(text, "[###############-]"));
    p.step = p.total_steps;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_non_null(strstr(text, "[################]  100%"));
    p.total_steps = 0;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_non_null(strstr(text, "[----------------]    0%"));
}

static void an_end_that_is_not_known_is_left_out(void **state)
{
    const double useless[] = {0, 0.3, -1, 1e9, 1e300};
    Psgd__V1__Progress p = halfway();
    char text[512];

    (void)state;
    for (size_t i = 0; i < sizeof useless / sizeof useless[0]; i++) {
        p.eta_seconds = useless[i];
        ps_show_progress(&p, false, 0, text, sizeof text);
        assert_null(strstr(text, "ETA"));
    }
    p.eta_seconds = 3725;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_non_null(strstr(text, "ETA 62 min"));
    p.eta_seconds = 9000;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_non_null(strstr(text, "ETA 2 h 30 min"));
}

static void a_job_that_stands_still_says_whom_it_waits_for(void **state)
{
    Psgd__V1__Progress p = halfway();
    char text[512], whom[] = "worker-1";

    (void)state;
    p.waiting_for = whom;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_null(strstr(text, "waits"));
    p.samples_per_second = 0;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_non_null(strstr(text, "  waits for worker-1"));
    p.step = p.total_steps;
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_null(strstr(text, "waits"));
}

static void a_line_is_cut_at_the_end_of_its_buffer(void **state)
{
    Psgd__V1__Progress p = halfway();
    char text[64];

    (void)state;
    memset(text, 'x', sizeof text);
    ps_show_progress(&p, false, 0, text, 20);
    assert_int_equal(strlen(text), 19);
    assert_int_equal(text[20], 'x');
}

static void sizes_and_rates_are_short(void **state)
{
    char text[PS_SHOW_BYTES];

    (void)state;
    assert_string_equal(ps_show_size(0, text), "0 B");
    assert_string_equal(ps_show_size(999, text), "999 B");
    assert_string_equal(ps_show_size(1000, text), "1.0 kB");
    assert_string_equal(ps_show_size(473688, text), "473.7 kB");
    assert_string_equal(ps_show_size(UINT64_MAX, text), "18446.7 PB");
    assert_string_equal(ps_show_rate(41234, text), "41k");
    assert_string_equal(ps_show_rate(9876, text), "9876");
}

static void numbers_far_from_one_are_short_too(void **state)
{
    Psgd__V1__Progress p = halfway();
    char text[512];

    (void)state;
    assert_string_equal(ps_show_number(0, 4, text), "0.0000");
    assert_string_equal(ps_show_number(2.30258, 4, text), "2.3026");
    assert_string_equal(ps_show_number(0.00002, 3, text), "2e-05");
    assert_string_equal(ps_show_number(-9.1632e20, 4, text), "-9.163e+20");
    assert_string_equal(ps_show_number((double)NAN, 4, text), "nan");
    p.loss = 1e300;
    p.samples_per_second = 0; /* it evaluates */
    ps_show_progress(&p, false, 0, text, sizeof text);
    assert_non_null(strstr(text, "  loss 1e+300  acc 0.957  up 110.9 MB"));
}

static void control_characters_become_question_marks(void **state)
{
    char text[] = "a\033[2J\r\n\tb\x7f \xc2\x9b \xc3\xa9 \xc2\xb5 \xc2";
    char unseen[] = "a\u00ad\u200b\u2060\u2064z\u200dz";
    char turned[] = "a\u202e\u2066b\u200f\u061c\u2028 \u20ac\U0001f600\x9b \xe2\x80";

    (void)state;
    ps_printable(text);
    assert_string_equal(text, "a?[2J???b? ?? \xc3\xa9 \xc2\xb5 ?");
    ps_printable(turned);
    assert_string_equal(turned, "a??????b???????? \u20ac\U0001f600? ??");
    ps_printable(unseen);
    assert_string_equal(unseen, "a???????????z\u200dz");
    assert_string_equal(PS_PLAIN("x\u202ey", 20), "x???y");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wide_line_says_everything),
        cmocka_unit_test(a_job_that_computes_has_partitions_and_no_loss),
        cmocka_unit_test(a_job_that_has_not_made_a_step_has_steps_and_no_loss),
        cmocka_unit_test(a_duration_below_a_second_has_milliseconds),
        cmocka_unit_test(there_is_no_accuracy_of_values),
        cmocka_unit_test(a_narrow_line_is_shortened_before_anything_is_left_out),
        cmocka_unit_test(no_line_is_wider_than_its_terminal_and_step_and_loss_stay),
        cmocka_unit_test(metrics_of_programs_follow_accuracy_and_the_last_ones_go_first),
        cmocka_unit_test(a_name_cannot_deceive),
        cmocka_unit_test(the_bar_fills_from_none_to_all),
        cmocka_unit_test(an_end_that_is_not_known_is_left_out),
        cmocka_unit_test(a_job_that_stands_still_says_whom_it_waits_for),
        cmocka_unit_test(a_line_is_cut_at_the_end_of_its_buffer),
        cmocka_unit_test(sizes_and_rates_are_short),
        cmocka_unit_test(numbers_far_from_one_are_short_too),
        cmocka_unit_test(control_characters_become_question_marks),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_show_progress a_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
