/* SPDX-License-Identifier: Apache-2.0 */
/* test_web_curves.c - curves of the page: bounded, and nothing that stands out is lost. */
#include "services/coordinator/web/web_curves.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_steps_keep_their_extremes_and_their_order),
        cmocka_unit_test(a_step_that_is_known_adds_nothing),
        cmocka_unit_test(a_job_that_goes_back_draws_anew_from_there),
        cmocka_unit_test(the_job_that_was_still_for_longest_makes_room),
        cmocka_unit_test(numbers_that_are_not_finite_are_null),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
