/* SPDX-License-Identifier: Apache-2.0 */
/* test_loss.c - what every loss of the list must do, and what softmax cross-entropy is. */
#include "common/base/draw.h"
#include "common/nn/loss.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"

#include <string.h>

static const uint64_t seed = 20240603;

enum { ROWS = 7, WIDTH = 11, N = ROWS * WIDTH };

static void draw(float y[N], uint32_t label[ROWS])
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 0, 0, 0);

    for (size_t i = 0; i < N; i++) {
        y[i] = (float)(6.0 * ps_draw_unit(key, i) - 3.0);
    }
    for (size_t i = 0; i < ROWS; i++) {
        label[i] = (uint32_t)ps_draw_below(key, N + i, WIDTH);
    }
}

static double loss_of(const ps_loss *loss, const float *y, const uint32_t *label)
{
    ps_score score = {0};

    loss->eval(y, label, ROWS, WIDTH, 1.0f, NULL, &score);
    return score.loss_sum;
}

static void check_differences(const ps_loss *loss, void *arg)
{
    const float h = 0x1p-6f, scale = 0.25f;
    float y[N], dy[N];
    uint32_t label[ROWS];
    ps_score score = {0};

    (void)arg;
    draw(y, label);
    loss->eval(y, label, ROWS, WIDTH, scale, dy, &score);
    for (size_t i = 0; i < N; i++) {
        float held = y[i];
        double up, down;

        y[i] = held + h;
        up = loss_of(loss, y, label);
        y[i] = held - h;
        down = loss_of(loss, y, label);
        y[i] = held;
        /* The error of h^2 is at most 4e-5 here: third derivatives are below 1/6. */
        assert_true(is_close((double)dy[i], (double)scale * (up - down) / (2 * (double)h), 2e-5,
                             loss->name, i));
    }
}

static void every_loss_agrees_with_finite_differences(void **state)
{
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    ps_loss_each(check_differences, NULL);
}

static void check_parts(const ps_loss *loss, void *arg)
{
    float y[N], dy[N], part[N];
    uint32_t label[ROWS];
    ps_score whole = {0}, sum = {0};

    (*(size_t *)arg)++;
    assert_ptr_equal(ps_loss_find(loss->name), loss);
    draw(y, label);
    loss->eval(y, label, ROWS, WIDTH, 0.5f, dy, &whole);
    for (size_t i = 0; i < ROWS; i++) {
        loss->eval(y + i * WIDTH, label + i, 1, WIDTH, 0.5f, part + i * WIDTH, &sum);
    }
    assert_memory_equal(dy, part, sizeof dy);
    assert_true(whole.loss_sum == sum.loss_sum && whole.samples == ROWS);
    assert_true(whole.correct == sum.correct && sum.samples == ROWS);
}

static void every_loss_is_the_sum_of_its_samples(void **state)
{
    size_t count = 0;

    (void)state;
    ps_loss_each(check_parts, &count);
    assert_int_equal(count, 4);
    assert_null(ps_loss_find("hinge"));
}

static ps_score eval(const float *y, uint32_t label, size_t width, float *dy)
{
    ps_score score = {0};

    ps_loss_find("softmax_cross_entropy")->eval(y, &label, 1, width, 1.0f, dy, &score);
    return score;
}

static void softmax_matches_a_twin_in_double(void **state)
{
    float y[N], dy[N];
    uint32_t label[ROWS];
    ps_score score = {0};
    double want = 0;

    (void)state;
    draw(y, label);
    ps_loss_find("softmax_cross_entropy")->eval(y, label, ROWS, WIDTH, 2.0f, dy, &score);
    for (size_t i = 0; i < ROWS; i++) {
        double sum = 0;

        for (size_t j = 0; j < WIDTH; j++) {
            sum += exp((double)y[i * WIDTH + j]);
        }
        want -= log(exp((double)y[i * WIDTH + label[i]]) / sum);
        for (size_t j = 0; j < WIDTH; j++) {
            double p = exp((double)y[i * WIDTH + j]) / sum;
            double slope = 2.0 * (p - (j == label[i] ? 1.0 : 0.0));

            assert_true(is_close((double)dy[i * WIDTH + j], slope, 1e-6, "dy", i * WIDTH + j));
        }
    }
    assert_true(is_close(score.loss_sum, want, 1e-6 * want, "loss", 0));
}

static void even_logits_cost_the_logarithm_of_the_classes(void **state)
{
    float y[10] = {0}, dy[10];

    (void)state;
    assert_true(is_close(eval(y, 3, 10, dy).loss_sum, 2.302585092994046, 1e-12, "loss", 0));
    assert_true(is_close((double)dy[3], -0.9, 1e-7, "dy", 3));
    assert_true(is_close((double)dy[0], 0.1, 1e-7, "dy", 0));
}

static void far_logits_neither_overflow_nor_vanish(void **state)
{
    float y[3] = {1e4f, -1e4f, 0.0f}, dy[3];
    ps_score wrong = eval(y, 1, 3, dy);

    (void)state;
    assert_true(wrong.loss_sum == 2e4 && wrong.correct == 0);
    assert_true(dy[0] == 1.0f && dy[1] == -1.0f && fabsf(dy[2]) < 1e-30f);
    assert_true(eval(y, 0, 3, dy).loss_sum < 1e-30);
}

static void the_first_of_equal_logits_is_the_answer(void **state)
{
    float y[4] = {1, 2, 2, 0};

    (void)state;
    assert_int_equal(eval(y, 1, 4, NULL).correct, 1);
    assert_int_equal(eval(y, 2, 4, NULL).correct, 0);
}

static void a_row_that_is_not_a_number_is_never_correct(void **state)
{
    (void)state;
    for (uint32_t at = 0; at < 3; at++) {
        for (uint32_t label = 0; label < 3; label++) {
            float y[3] = {1, 2, 3};
            ps_score score;

            y[at] = NAN;
            score = eval(y, label, 3, NULL);
            assert_true(isnan(score.loss_sum));
            assert_int_equal(score.correct, 0);
            assert_int_equal(score.samples, 1);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_loss_agrees_with_finite_differences),
        cmocka_unit_test(every_loss_is_the_sum_of_its_samples),
        cmocka_unit_test(softmax_matches_a_twin_in_double),
        cmocka_unit_test(even_logits_cost_the_logarithm_of_the_classes),
        cmocka_unit_test(far_logits_neither_overflow_nor_vanish),
        cmocka_unit_test(the_first_of_equal_logits_is_the_answer),
        cmocka_unit_test(a_row_that_is_not_a_number_is_never_correct),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
