/* SPDX-License-Identifier: Apache-2.0 */
/* test_curves.c - curves of a job as text. */
#include "clients/psgd/curves.h"

#include "tests/support/cmocka_all.h"

#include <math.h>
#include <string.h>

/* Returns the characters of a line of UTF-8. */
static size_t width_of(const char *line, size_t n)
{
    size_t width = 0;

    for (size_t i = 0; i < n; i++) {
        width += ((unsigned char)line[i] & 0xc0) != 0x80;
    }
    return width;
}

static ps_curves falling(int n)
{
    ps_curves curves = {0};

    for (int i = 1; i <= n; i++) {
        ps_curves_add(&curves, false, i, 1.0 / i, 1 - 1.0 / i);
    }
    return curves;
}

static void lines_fit_every_screen(void **state)
{
    ps_curves curves = falling(200);

    (void)state;
    ps_curves_add(&curves, true, 100, 0.5, 0.5);
    for (size_t columns = 0; columns < 240; columns += 3) {
        for (size_t rows = 0; rows < 60; rows += 2) {
            for (int utf8 = 0; utf8 < 2; utf8++) {
                ps_strbuf out = {0};
                size_t lines = ps_curves_draw(&out, &curves, columns, rows, utf8 == 1), n = 0;

                assert_true(lines <= rows);
                assert_int_equal(lines > 0, columns >= 40 && rows >= PS_CURVES_ROWS_LEAST);
                for (const char *at = ps_strbuf_text(&out); *at != '\0'; n++) {
                    size_t length = strcspn(at, "\n");

                    assert_in_range(width_of(at, length), columns / 2, columns);
                    assert_true(utf8 == 1 || width_of(at, length) == length);
                    assert_true(at[length] == '\n');
                    at += length + 1;
                }
                assert_int_equal(n, lines);
                ps_strbuf_fini(&out);
            }
        }
    }
    ps_curves_fini(&curves);
}

static void a_curve_is_where_its_values_are(void **state)
{
    ps_curves curves = {0};
    ps_strbuf out = {0};
    const char *at;

    (void)state;
    for (int i = 0; i <= 100; i++) {
        ps_curves_add(&curves, false, i, 1 - i / 100.0, (double)NAN);
    }
    ps_curves_add(&curves, true, 50, 0.5, (double)NAN);
    assert_int_equal(ps_curves_draw(&out, &curves, 41, 14, false), 14);
    at = ps_strbuf_text(&out);
    assert_memory_equal(at, "         loss 0.0000, test 0.5000 ", 34);
    at = strchr(at, '\n') + 1;
    assert_memory_equal(at, "      1 |**", 11); /* the curve begins at the top, left */
    assert_non_null(strchr(at, 'o'));           /* the test */
    assert_non_null(strstr(at, "step 100\n"));
    assert_null(strstr(ps_strbuf_text(&out), "accuracy"));
    ps_strbuf_fini(&out);
    ps_curves_fini(&curves);
}

static void points_are_bounded_and_a_spike_stays(void **state)
{
    ps_curves curves = {0};
    bool has_spike = false;

    (void)state;
    for (int i = 1; i <= 1000000; i++) {
        ps_curves_add(&curves, false, i, i == 4321 ? 50 : 1, 0.5);
    }
    assert_true(curves.train.n <= PS_CURVES_POINTS_MAX);
    for (size_t i = 0; i < curves.train.n; i++) {
        has_spike =
            has_spike || curves.train.values[i * curves.train.stride + PS_PLOT_METRICS] > 49;
    }
    assert_true(has_spike);
    ps_curves_fini(&curves);
}

static void a_job_that_goes_back_draws_over(void **state)
{
    ps_curves curves = falling(100);

    (void)state;
    ps_curves_add(&curves, false, 40, 3, 0.5);
    assert_int_equal(curves.train.n, 40);
    assert_true(curves.train.values[39 * curves.train.stride + PS_PLOT_METRICS] == 3);
    ps_curves_fini(&curves);
}

static void values_that_are_not_finite_are_not_drawn(void **state)
{
    ps_curves curves = {0};
    ps_strbuf out = {0};

    (void)state;
    ps_curves_add(&curves, false, 1, (double)NAN, (double)NAN);
    ps_curves_add(&curves, false, 2, (double)INFINITY, (double)NAN);
    assert_true(ps_curves_draw(&out, &curves, 80, 24, true) > 0);
    assert_null(strstr(ps_strbuf_text(&out), "nan"));
    assert_null(strstr(ps_strbuf_text(&out), "inf"));
    ps_strbuf_fini(&out);
    ps_curves_fini(&curves);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_fit_every_screen),
        cmocka_unit_test(a_curve_is_where_its_values_are),
        cmocka_unit_test(points_are_bounded_and_a_spike_stays),
        cmocka_unit_test(a_job_that_goes_back_draws_over),
        cmocka_unit_test(values_that_are_not_finite_are_not_drawn),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
