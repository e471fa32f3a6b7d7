/* SPDX-License-Identifier: Apache-2.0 */
/* test_thin.c - few rows of long curves are kept, the extremes among them. */
#include "common/artifact/thin.h"

#include "tests/support/cmocka_all.h"

#include <math.h>
#include <stdbool.h>

/* A curve that is thinned: the rows that are kept, by number. */
typedef struct curve {
    ps_thin thin;
    uint64_t rows, kept;
    uint64_t least, greatest; /* rows of the present window */
    uint64_t last;            /* the last row that was kept */
} curve;

/* Adds a row. Returns whether its window ends. */
static bool add(curve *c, double value)
{
    unsigned keep = ps_thin_add(&c->thin, value);

    c->rows++;
    c->least = keep & PS_THIN_LEAST ? c->rows : c->least;
    c->greatest = keep & PS_THIN_GREATEST ? c->rows : c->greatest;
    if (keep & PS_THIN_END) {
        c->kept += c->least == c->greatest ? 1 : 2;
        c->last = c->least > c->greatest ? c->least : c->greatest;
    }
    return (keep & PS_THIN_END) != 0;
}

static void every_row_of_a_short_curve_is_kept(void **state)
{
    curve c = {0};

    (void)state;
    for (uint64_t i = 1; i <= PS_THIN_ROWS; i++) {
        assert_true(add(&c, (double)(i % 7)));
        assert_int_equal(c.kept, i);
        assert_int_equal(c.last, i);
    }
    assert_false(add(&c, 0));
}

static void a_long_curve_keeps_few_rows(void **state)
{
    curve c = {0};

    (void)state;
    for (unsigned doublings = 1; doublings <= 7; doublings++) {
        while (c.rows < (((uint64_t)1 << doublings) - 1) * PS_THIN_ROWS) {
            add(&c, (double)(c.rows * 2654435761U % 1000003));
        }
        assert_int_equal(c.kept, (uint64_t)doublings * PS_THIN_ROWS);
    }
}

static void each_window_keeps_its_extremes(void **state)
{
    curve c = {0};
    double least = INFINITY, greatest = -INFINITY;
    uint64_t at_least = 0, at_greatest = 0;
    unsigned windows = 0;

    (void)state;
    while (windows < 2 * PS_THIN_ROWS) {
        double value = (double)((c.rows + 1) * 2654435761U % 1000003);

        if (value < least) {
            least = value;
            at_least = c.rows + 1;
        }
        if (value > greatest) {
            greatest = value;
            at_greatest = c.rows + 1;
        }
        if (add(&c, value)) {
            assert_int_equal(c.least, at_least);
            assert_int_equal(c.greatest, at_greatest);
            least = INFINITY;
            greatest = -INFINITY;
            windows++;
        }
    }
}

static void values_that_are_nan_are_kept_where_a_window_begins(void **state)
{
    curve c = {0};

    (void)state;
    for (unsigned i = 0; i < 3 * PS_THIN_ROWS; i++) {
        add(&c, (double)NAN);
    }
    assert_int_equal(c.kept, PS_THIN_ROWS + PS_THIN_ROWS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_of_a_short_curve_is_kept),
        cmocka_unit_test(a_long_curve_keeps_few_rows),
        cmocka_unit_test(each_window_keeps_its_extremes),
        cmocka_unit_test(values_that_are_nan_are_kept_where_a_window_begins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
