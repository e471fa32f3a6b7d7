/* SPDX-License-Identifier: Apache-2.0 */
/* test_web_curves.c - curves of the page: bounded, and nothing that stands out is lost. */
#include "services/coordinator/web/web_curves.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 1000000, PEAK = 777777, TROUGH = 123456 };

typedef struct fixture {
    ps_curves *curves;
    Psgd__V1__Progress progress;
    Psgd__V1__Job job;
} fixture;

static void begin(fixture *f, char *id)
{
    f->curves = ps_curves_create();
    psgd__v1__progress__init(&f->progress);
    psgd__v1__job__init(&f->job);
    f->job.progress = &f->progress;
    f->job.id = id;
}

static void add(fixture *f, uint64_t step, double loss)
{
    f->progress.step = step;
    f->progress.loss = loss;
    f->progress.bytes_up = 10 * step;
    ps_curves_add(f->curves, &f->job, (int64_t)step * 1000);
}

static size_t count(const fixture *f, const char *id)
{
    json_t *json = ps_curves_json(f->curves, id);
    size_t n = json_array_size(json_object_get(json, "step"));

    json_decref(json);
    return n;
}

static void a_million_steps_keep_their_extremes_and_their_order(void **state)
{
    fixture f;
    json_t *json, *steps, *low, *high, *bytes;
    double least = INFINITY, greatest = 0;
    char id[] = "long";

    (void)state;
    begin(&f, id);
    for (uint64_t step = 1; step <= STEPS; step++) {
        add(&f, step, step == PEAK ? 90 : step == TROUGH ? 0.25 : 1 + (double)(step % 7));
    }
    json = ps_curves_json(f.curves, id);
    steps = json_object_get(json, "step");
    low = json_object_get(json, "loss_min");
    high = json_object_get(json, "loss_max");
    bytes = json_object_get(json, "bytes_up");
    assert_in_range(json_array_size(steps), PS_CURVE_POINTS / 2 - 1, PS_CURVE_POINTS);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        double step = json_real_value(json_array_get(steps, i));

        assert_true(i == 0 || step > json_real_value(json_array_get(steps, i - 1)));
        assert_true(json_real_value(json_array_get(bytes, i)) == 10 * step);
        least = fmin(least, json_real_value(json_array_get(low, i)));
        greatest = fmax(greatest, json_real_value(json_array_get(high, i)));
    }
    assert_true(json_real_value(json_array_get(steps, json_array_size(steps) - 1)) == STEPS);
    assert_true(least == 0.25);
    assert_true(greatest == 90);
    json_decref(json);
    ps_curves_destroy(f.curves);
}

static void a_step_that_is_known_adds_nothing(void **state)
{
    fixture f;
    char id[] = "still";

    (void)state;
    begin(&f, id);
    add(&f, 0, 1); /* nothing is trained yet */
    assert_int_equal(count(&f, id), 0);
    add(&f, 5, 1);
    add(&f, 5, 2);
    assert_int_equal(count(&f, id), 1);
    ps_curves_destroy(f.curves);
}

static void a_job_that_goes_back_draws_anew_from_there(void **state)
{
    fixture f;
    json_t *json, *steps;
    char id[] = "back";

    (void)state;
    begin(&f, id);
    for (uint64_t step = 10; step <= 100; step += 10) {
        add(&f, step, 1);
    }
    add(&f, 35, 3);
    json = ps_curves_json(f.curves, id);
    steps = json_object_get(json, "step");
    assert_int_equal(json_array_size(steps), 4);
    assert_true(json_real_value(json_array_get(steps, 2)) == 30);
    assert_true(json_real_value(json_array_get(steps, 3)) == 35);
    json_decref(json);
    ps_curves_destroy(f.curves);
}

static void the_job_that_was_still_for_longest_makes_room(void **state)
{
    fixture f;
    char id[16];

    (void)state;
    begin(&f, id);
    for (int i = 0; i <= PS_CURVES_MAX; i++) {
        snprintf(id, sizeof id, "job-%d", i);
        add(&f, 1, 1);
        snprintf(id, sizeof id, "job-0");
        add(&f, (uint64_t)i + 2, 1);
    }
    assert_int_equal(count(&f, "job-1"), 0);
    assert_int_equal(count(&f, "job-2"), 1);
    assert_int_equal(count(&f, "job-0"), PS_CURVES_MAX + 2);
    ps_curves_destroy(f.curves);
}

static double number(const json_t *of, const char *name, size_t i)
{
    return json_real_value(json_array_get(json_object_get(of, name), i));
}

static void numbers_that_are_not_finite_are_null(void **state)
{
    fixture f;
    json_t *json;
    char id[] = "nan";

    (void)state;
    begin(&f, id);
    add(&f, 1, NAN);
    json = ps_curves_json(f.curves, id);
    assert_true(json_is_null(json_array_get(json_object_get(json, "loss"), 0)));
    json_decref(json);
    ps_curves_destroy(f.curves);
}

static void metrics_of_programs_have_curves_from_their_first_value(void **state)
{
    Psgd__V1__Progress__ProgramMetricsEntry entries[2], *list[2] = {&entries[0], &entries[1]};
    char id[] = "own", rare[] = "rare", norm[] = "norm";
    const json_t *metrics;
    json_t *json;
    fixture f;

    (void)state;
    begin(&f, id);
    for (size_t i = 0; i < 2; i++) {
        psgd__v1__progress__program_metrics_entry__init(&entries[i]);
        entries[i].key = i == 0 ? norm : rare;
    }
    f.progress.program_metrics = list;
    for (uint64_t step = 1; step <= PS_CURVE_POINTS; step++) {
        f.progress.n_program_metrics = step < 3 ? 1 : 2;
        entries[0].value = (double)step;
        entries[1].value = step == 3 ? 0.5 : (double)NAN;
        f.progress.accuracy = step == 3 ? 0.75 : (double)NAN;
        add(&f, step, 1);
    }
    json = ps_curves_json(f.curves, id);
    metrics = json_object_get(json, "metrics");
    assert_int_equal(json_array_size(json_object_get(metrics, rare)), PS_CURVE_POINTS);
    assert_true(json_is_null(json_array_get(json_object_get(metrics, rare), 1)));
    assert_true(number(metrics, rare, 2) == 0.5 && number(metrics, norm, 0) == 1);
    json_decref(json);
    add(&f, PS_CURVE_POINTS + 1, 1); /* two neighbours become one: 3 and 4, of which 4 is silent */
    json = ps_curves_json(f.curves, id);
    metrics = json_object_get(json, "metrics");
    assert_int_equal(json_array_size(json_object_get(metrics, rare)), PS_CURVE_POINTS / 2 + 1);
    assert_true(number(metrics, rare, 1) == 0.5 && number(metrics, norm, 1) == 4);
    assert_true(number(json, "accuracy", 1) == 0.75);
    assert_true(number(json, "step", 1) == 4);
    json_decref(json);
    ps_curves_destroy(f.curves);
}

/* Takes a report in pieces of `piece` bytes. */
static bool take(ps_curve_reader *reader, ps_curve_part part, const char *text, size_t piece)
{
    size_t n = strlen(text);

    ps_curve_reader_begin(reader, part);
    for (size_t at = 0; at < n; at += piece) {
        if (!ps_curve_reader_take(reader, text + at, n - at < piece ? n - at : piece)) {
            return false;
        }
    }
    return true;
}

static void reports_are_the_same_in_any_pieces_and_replace_what_was_seen(void **state)
{
    static const char tr[] =
        "time_s,epoch,batch,step,loss,accuracy,samples_per_s,bytes_up,"
        "bytes_down,wait_s,norm,never\n0.5,1,1,1,2.5,0.1,100,10,20,0,nan,nan\n"
        "0.75,1,2,2,nan,0.2,,30,40,0.125,8,nan\n1,1,3,3,1.5,0.3,50,60,80,0.25,9,\n1,1";
    static const char ev[] = "epoch,step,loss,accuracy,time_s,bytes_up,bytes_down\n1,3,1.25,0.5,1,"
                             "60,80\n";
    char id[] = "over";

    (void)state;
    for (size_t piece = 1; piece < sizeof tr; piece++) {
        ps_curve_reader *reader = ps_curve_reader_create(id);
        json_t *json;
        const json_t *tests;
        fixture f;

        begin(&f, id);
        add(&f, 7, 9);
        assert_false(ps_curves_is_whole(f.curves, id));
        assert_true(take(reader, PS_CURVE_TRAINING, tr, piece));
        assert_true(take(reader, PS_CURVE_TESTS, ev, piece));
        ps_curves_put(f.curves, reader);
        assert_true(ps_curves_is_whole(f.curves, id));
        json = ps_curves_json(f.curves, id);
        tests = json_object_get(json, "tests");
        assert_int_equal(json_array_size(json_object_get(json, "step")), 3);
        assert_true(number(json, "seconds", 1) == 0.75 && number(json, "loss_max", 2) == 1.5);
        assert_true(json_is_null(json_array_get(json_object_get(json, "loss"), 1)));
        assert_true(json_is_null(json_array_get(json_object_get(json, "samples_per_second"), 1)));
        assert_true(number(json, "bytes_down", 2) == 80 && number(json, "epoch", 2) == 1);
        assert_true(number(json, "seconds_waiting", 2) == 0.25);
        assert_int_equal(json_object_size(json_object_get(json, "metrics")), 1);
        assert_true(number(json_object_get(json, "metrics"), "norm", 1) == 8);
        assert_true(json_is_null(
            json_array_get(json_object_get(json_object_get(json, "metrics"), "norm"), 0)));
        assert_int_equal(json_array_size(json_object_get(tests, "step")), 1);
        assert_true(number(tests, "accuracy", 0) == 0.5 && number(tests, "bytes_up", 0) == 60);
        json_decref(json);
        add(&f, 5, 1); /* it trains again */
        assert_false(ps_curves_is_whole(f.curves, id));
        assert_int_equal(count(&f, id), 1);
        ps_curves_destroy(f.curves);
    }
}

static void rounds_keep_the_longest_wait_of_each_rank_and_all_seconds(void **state)
{
    enum { ROUNDS = 1000, LONG = 701 };
    ps_curve_reader *reader = ps_curve_reader_create("r");
    ps_curves *curves = ps_curves_create();
    const json_t *rounds, *waits;
    double longest = 0;
    char line[128];
    json_t *json;

    (void)state;
    assert_true(take(reader, PS_CURVE_ROUNDS,
                     "round,compute_s_0,exchange_s_0,wait_s_0,compute_s_1,exchange_s_1,wait_s_1,"
                     "wait_s_3\n",
                     7));
    for (int i = 1; i <= ROUNDS; i++) {
        int n = snprintf(line, sizeof line, "%d,0.5,0.25,%s,0.25,0.5,%s,9\n", i,
                         i == LONG ? "64" : "0.125", i == 1 ? "" : "1");

        assert_true(ps_curve_reader_take(reader, line, (size_t)n));
    }
    ps_curves_put(curves, reader);
    json = ps_curves_json(curves, "r");
    rounds = json_object_get(json, "rounds");
    waits = json_object_get(rounds, "longest_wait_s");
    assert_int_equal(json_integer_value(json_object_get(rounds, "count")), ROUNDS);
    assert_int_equal(json_array_size(waits), 2); /* ranks from 0 on without a gap */
    assert_true(number(rounds, "compute_s", 0) == 500 && number(rounds, "exchange_s", 1) == 500);
    assert_true(number(rounds, "wait_s", 0) == 0.125 * (ROUNDS - 1) + 64);
    assert_true(number(rounds, "wait_s", 1) == ROUNDS - 1);
    waits = json_array_get(waits, 0);
    assert_in_range(json_array_size(waits), PS_CURVE_COLUMNS / 2, PS_CURVE_COLUMNS);
    for (size_t i = 0; i < json_array_size(waits); i++) {
        double wait = json_real_value(json_array_get(waits, i));

        assert_true(wait == 0.125 || (wait == 64 && (i * ROUNDS) / json_array_size(waits) <= LONG));
        longest = fmax(longest, wait);
    }
    assert_true(longest == 64);
    json_decref(json);
    ps_curves_destroy(curves);
}

static void what_is_no_report_is_refused(void **state)
{
    static char line[PS_CURVE_LINE_MAX + 2];
    ps_curve_reader *reader = ps_curve_reader_create("odd");

    (void)state;
    assert_false(take(reader, PS_CURVE_TRAINING, "a,b\n1,2\n", 3)); /* no step */
    assert_false(take(reader, PS_CURVE_TRAINING, "step,,loss\n", 100));
    memset(line, '1', PS_CURVE_LINE_MAX + 1);
    assert_false(take(reader, PS_CURVE_TRAINING, line, 65536)); /* a header without end */
    assert_true(take(reader, PS_CURVE_TRAINING, "step,loss\n", 100));
    assert_false(ps_curve_reader_take(reader, line, PS_CURVE_LINE_MAX + 1));
    ps_curve_reader_destroy(reader);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_steps_keep_their_extremes_and_their_order),
        cmocka_unit_test(a_step_that_is_known_adds_nothing),
        cmocka_unit_test(a_job_that_goes_back_draws_anew_from_there),
        cmocka_unit_test(the_job_that_was_still_for_longest_makes_room),
        cmocka_unit_test(numbers_that_are_not_finite_are_null),
        cmocka_unit_test(metrics_of_programs_have_curves_from_their_first_value),
        cmocka_unit_test(reports_are_the_same_in_any_pieces_and_replace_what_was_seen),
        cmocka_unit_test(rounds_keep_the_longest_wait_of_each_rank_and_all_seconds),
        cmocka_unit_test(what_is_no_report_is_refused),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
