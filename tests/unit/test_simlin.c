/* SPDX-License-Identifier: Apache-2.0 */
/* test_simlin.c - linear data drawn by counter: the same everywhere, and linear. */
#include "common/base/xalloc.h"

#include "tests/support/data_rig.h"

#include <math.h>
#include <string.h>

static ps_data_conf conf_of(double features, double outputs, double noise)
{
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("simlin"));

    ps_data_set(&conf, "features", features);
    ps_data_set(&conf, "outputs", outputs);
    ps_data_set(&conf, "noise", noise);
    ps_data_set(&conf, "train", 4000);
    ps_data_set(&conf, "test", 100);
    return conf;
}

static ps_dataset *load(const ps_data_conf *conf)
{
    ps_dataset *data = NULL;
    ps_status st = ps_data_load(conf, NULL, NULL, &data);

    assert_string_equal(st.text, "");
    return data;
}

static void the_default_is_the_older_systems(void **state)
{
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("simlin"));
    ps_data_facts facts;
    ps_status st = ps_data_get_facts(&conf, &facts);

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(facts.features, 1024);
    assert_int_equal(facts.classes, 0);
    assert_int_equal(facts.target_width, 1);
    assert_int_equal(facts.train_count, 50000);
    assert_int_equal(facts.test_count, 10000);
}

static void samples_are_uniform_and_targets_linear(void **state)
{
    /* With one feature: y = w x + b, so three samples lie on a line. */
    ps_data_conf conf = conf_of(1, 1, 0);
    ps_dataset *data = load(&conf);
    double sum = 0, squares = 0;
    float x[3], y[3];

    (void)state;
    ps_dataset_gather(data, PS_TRAIN, NULL, 0, 3, x, y);
    assert_true(fabs((double)((y[1] - y[0]) * (x[2] - x[0]) - (y[2] - y[0]) * (x[1] - x[0]))) <
                1e-4);
    ps_dataset_gather(data, PS_TEST, NULL, 0, 1, x + 2, y + 2); /* the same line */
    assert_true(fabs((double)((y[1] - y[0]) * (x[2] - x[0]) - (y[2] - y[0]) * (x[1] - x[0]))) <
                1e-4);
    for (uint32_t i = 0; i < 4000; i++) {
        ps_dataset_gather(data, PS_TRAIN, NULL, i, 1, x, y);
        assert_true(x[0] >= 0 && x[0] < 10);
        sum += (double)x[0] / 4000;
        squares += (double)(x[0] * x[0]) / 4000;
    }
    assert_true(fabs(sum - 5) < 0.2); /* deviation of the mean is 0.046 */
    assert_true(fabs(squares - 100.0 / 3) < 2);
    ps_dataset_destroy(data);
}

/* A set of so many samples that no targets are kept has the same ones in front. */
static void targets_kept_are_those_made_when_asked_for(void **state)
{
    ps_data_conf few = conf_of(5, 3, 0.5), many = few;
    ps_dataset *a, *b;

    (void)state;
    ps_data_set(&many, "train", 1 << 20);
    a = load(&few);
    b = load(&many);
    for (uint32_t i = 0; i < 4000; i++) {
        float x[5], y[3], same_x[5], same_y[3];

        ps_dataset_gather(a, PS_TRAIN, NULL, i, 1, x, y);
        ps_dataset_gather(b, PS_TRAIN, NULL, i, 1, same_x, same_y);
        assert_memory_equal(x, same_x, sizeof x);
        assert_memory_equal(y, same_y, sizeof y);
    }
    ps_dataset_destroy(a);
    ps_dataset_destroy(b);
}

static void noise_has_the_deviation_asked_for(void **state)
{
    ps_data_conf quiet = conf_of(3, 2, 0), loud = conf_of(3, 2, 0.5);
    ps_dataset *a = load(&quiet), *b = load(&loud);
    double squares = 0;

    (void)state;
    for (uint32_t i = 0; i < 4000; i++) {
        float x[3], y[2], same[3], noisy[2];

        ps_dataset_gather(a, PS_TRAIN, NULL, i, 1, x, y);
        ps_dataset_gather(b, PS_TRAIN, NULL, i, 1, same, noisy);
        assert_memory_equal(x, same, sizeof x);
        for (size_t o = 0; o < 2; o++) {
            squares += (double)((noisy[o] - y[o]) * (noisy[o] - y[o])) / 8000;
        }
    }
    assert_true(fabs(squares - 0.25) < 0.02);
    ps_dataset_destroy(a);
    ps_dataset_destroy(b);
}

static void another_draw_is_another_set(void **state)
{
    ps_data_conf conf = conf_of(4, 1, 0);
    ps_dataset *a = load(&conf), *b = load(&conf), *c;
    float x[3][8], y[3][2];

    (void)state;
    ps_data_set(&conf, "draw", 1);
    c = load(&conf);
    ps_dataset_gather(a, PS_TRAIN, NULL, 5, 2, x[0], y[0]);
    ps_dataset_gather(b, PS_TRAIN, NULL, 5, 2, x[1], y[1]);
    ps_dataset_gather(c, PS_TRAIN, NULL, 5, 2, x[2], y[2]);
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_not_equal(x[0], x[2], sizeof x[0]);
    ps_dataset_destroy(a);
    ps_dataset_destroy(b);
    ps_dataset_destroy(c);
}

static void more_weights_than_allowed_are_refused(void **state)
{
    ps_data_conf conf = conf_of(1 << 20, 17, 0);
    ps_data_facts facts;
    ps_status st = ps_data_get_facts(&conf, &facts);

    (void)state;
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "features 1048576 times outputs 17"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_the_older_systems),
        cmocka_unit_test(samples_are_uniform_and_targets_linear),
        cmocka_unit_test(targets_kept_are_those_made_when_asked_for),
        cmocka_unit_test(noise_has_the_deviation_asked_for),
        cmocka_unit_test(another_draw_is_another_set),
        cmocka_unit_test(more_weights_than_allowed_are_refused),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
