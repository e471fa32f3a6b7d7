/* SPDX-License-Identifier: Apache-2.0 */
/* test_schedule.c - what every schedule must do, what each is, and the functions they
 * are made of.
 */
#include "common/base/draw.h"
#include "common/base/steady.h"
#include "common/optim/schedule.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"

#include <string.h>

static const uint64_t seed = 20261121;

/* ---- Functions ---- */

static void steady_functions_agree_with_libm(void **state)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 0, 0, 0);

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < 20000; i++) {
        double u = ps_draw_unit(key, i), x = 1400.0 * u - 700.0, p = 4.0 * ps_draw_unit(key, ~i);

        assert_true(is_close(ps_steady_exp(x) / exp(x), 1.0, 6e-16, "exp", i));
        assert_true(is_close(ps_steady_log(exp(x)), log(exp(x)), 2e-13, "log", i));
        assert_true(
            is_close(ps_steady_cos_pi(u), cos(3.14159265358979323846 * u), 1e-15, "cos", i));
        assert_true(is_close(ps_steady_pow(u, p), pow(u, p), 2e-15, "pow", i));
    }
}

static void steady_functions_are_exact_where_it_shows(void **state)
{
    (void)state;
    assert_true(ps_steady_cos_pi(0.0) == 1.0 && ps_steady_cos_pi(1.0) == -1.0);
    assert_true(fabs(ps_steady_cos_pi(0.5)) < 1e-16);
    assert_true(ps_steady_exp(0.0) == 1.0 && ps_steady_exp(-1e9) == 0.0);
    assert_true(ps_steady_log(1.0) == 0.0);
    assert_true(ps_steady_pow(1.0, 0.3) == 1.0 && ps_steady_pow(0.0, 2.0) == 0.0);
}

/* ---- All schedules ---- */

static double factor(const char *name, const char *number, double value, double warmup, uint64_t s,
                     uint64_t total)
{
    const ps_schedule *schedule = ps_schedule_find(name);
    ps_params params = ps_params_default(schedule->params);

    if (number != NULL) {
        int at = ps_param_find(schedule->params, number);

        assert_true(at >= PS_WARMUP_PARAMS);
        params.v[at] = value;
    }
    params.v[PS_WARMUP] = warmup;
    return ps_schedule_factor(schedule, &params, s, total);
}

static void check_facts(const ps_schedule *schedule, void *arg)
{
    (*(size_t *)arg)++;
    assert_ptr_equal(ps_schedule_find(schedule->name), schedule);
    assert_true(strlen(schedule->summary) > 0);
    assert_string_equal(schedule->params[PS_WARMUP].name, "warmup");
    assert_string_equal(schedule->params[PS_WARMUP_START].name, "warmup_start");
    for (const ps_param *p = schedule->params; p->name != NULL; p++) {
        assert_true(p->min <= p->value && p->value <= p->max && p->help != NULL);
    }
}

static void every_schedule_is_found_by_its_name_and_warms_up(void **state)
{
    size_t count = 0;

    (void)state;
    ps_schedule_each(check_facts, &count);
    assert_int_equal(count, 6);
    assert_null(ps_schedule_find("cyclic"));
}

/* Any numbers of the table: finite, never negative, never above 1, never rising. */
static void check_fall(const ps_schedule *schedule, void *arg)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 1, strlen(schedule->name), 0);
    uint64_t draw = 0;

    (void)arg;
    for (int round = 0; round < 200; round++) {
        ps_params params = ps_params_default(schedule->params);
        uint64_t total = 1 + ps_draw_below(key, draw++, 1000), warmup;
        double last = 1.0;

        for (size_t i = PS_WARMUP_PARAMS; schedule->params[i].name != NULL; i++) {
            const ps_param *p = &schedule->params[i];
            double most = p->is_integer ? 1200.0 : p->max, u = ps_draw_unit(key, draw++);

            params.v[i] = p->min + (most - p->min) * u;
            params.v[i] = p->is_integer ? floor(params.v[i]) : params.v[i];
        }
        warmup = ps_draw_below(key, draw++, 20);
        params.v[PS_WARMUP] = (double)warmup;
        assert_true(ps_schedule_factor(schedule, &params, warmup, total + warmup) == 1.0);
        for (uint64_t s = 0; s < 3 * total; s++) {
            double f = ps_schedule_factor(schedule, &params, warmup + s, total + warmup);

            if (!(f >= 0.0 && f <= last * (1 + 1e-15))) {
                fail_msg("%s: %.17g after %.17g at %llu", schedule->name, f, last,
                         (unsigned long long)s);
            }
            last = f;
        }
        assert_true(ps_schedule_factor(schedule, &params, UINT64_C(1) << 50, total) >= 0.0);
    }
}

static void every_schedule_begins_at_1_and_never_rises(void **state)
{
    (void)state;
    ps_schedule_each(check_fall, NULL);
}

static void check_warmup(const ps_schedule *schedule, void *arg)
{
    ps_params params = ps_params_default(schedule->params), cold = params;

    (void)arg;
    params.v[PS_WARMUP] = 8;
    params.v[PS_WARMUP_START] = 0.2;
    for (uint64_t s = 0; s < 8; s++) {
        double want = 0.2 + 0.8 * (double)s / 8.0;

        assert_true(
            is_close(ps_schedule_factor(schedule, &params, s, 108), want, 1e-15, "rise", s));
    }
    for (uint64_t s = 8; s < 120; s++) {
        assert_true(ps_schedule_factor(schedule, &params, s, 108) ==
                    ps_schedule_factor(schedule, &cold, s - 8, 100));
    }
    params.v[PS_WARMUP] = 1e12; /* longer than the job */
    assert_true(ps_schedule_factor(schedule, &params, 50, 100) < 0.2001);
}

static void every_schedule_comes_after_its_warm_up(void **state)
{
    (void)state;
    ps_schedule_each(check_warmup, NULL);
}

/* ---- Each ---- */

static void each_schedule_is_its_formula(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < 100; s++) {
        double x = (double)s, pi = 3.14159265358979323846;

        assert_true(factor("constant", NULL, 0, 0, s, 100) == 1.0);
        assert_true(is_close(factor("step", NULL, 0, 0, s, 100), pow(0.1, (double)(s / 34)), 1e-15,
                             "step", s));
        assert_true(is_close(factor("step", "every", 7, 0, s, 100), pow(0.1, (double)(s / 7)),
                             1e-15, "step", s));
        assert_true(is_close(factor("exponential", NULL, 0, 0, s, 100), pow(0.1, x / 100), 1e-15,
                             "exponential", s));
        assert_true(is_close(factor("exponential", "every", 1, 0, s, 100), pow(0.1, x), 1e-15,
                             "exponential", s));
        assert_true(is_close(factor("cosine", NULL, 0, 0, s, 100), (1 + cos(pi * x / 100)) / 2,
                             1e-15, "cosine", s));
        assert_true(is_close(factor("cosine", "end", 0.25, 0, s, 100),
                             0.25 + 0.75 * (1 + cos(pi * x / 100)) / 2, 1e-15, "cosine", s));
        assert_true(is_close(factor("polynomial", NULL, 0, 0, s, 100), 1 - x / 100, 1e-15,
                             "polynomial", s));
        assert_true(is_close(factor("polynomial", "power", 0.9, 0, s, 100), pow(1 - x / 100, 0.9),
                             1e-15, "polynomial", s));
        assert_true(is_close(factor("inverse_sqrt", NULL, 0, 0, s, 100), 1 / sqrt(x + 1), 1e-15,
                             "inverse_sqrt", s));
        assert_true(is_close(factor("inverse_sqrt", "every", 50, 0, s, 100), sqrt(50 / (x + 50)),
                             1e-15, "inverse_sqrt", s));
    }
}

static void the_ends_stay(void **state)
{
    (void)state;
    assert_true(factor("cosine", "end", 0.25, 0, 100, 100) == 0.25);
    assert_true(factor("cosine", "end", 0.25, 0, 1000, 100) == 0.25);
    assert_true(factor("cosine", "over", 10, 0, 10, 100) == 0.0);
    assert_true(factor("polynomial", "end", 0.5, 0, 100, 100) == 0.5);
    assert_true(factor("polynomial", "end", 0.5, 0, UINT64_MAX, 100) == 0.5);
    assert_true(factor("exponential", "gamma", 1e-9, 0, 100000, 1) == 0.0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_functions_agree_with_libm),
        cmocka_unit_test(steady_functions_are_exact_where_it_shows),
        cmocka_unit_test(every_schedule_is_found_by_its_name_and_warms_up),
        cmocka_unit_test(every_schedule_begins_at_1_and_never_rises),
        cmocka_unit_test(every_schedule_comes_after_its_warm_up),
        cmocka_unit_test(each_schedule_is_its_formula),
        cmocka_unit_test(the_ends_stay),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
