/* SPDX-License-Identifier: Apache-2.0 */
/* test_loss.c - what every loss of the list must do, and what softmax cross-entropy is. */
#include "common/base/draw.h"
#include "common/nn/loss.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"

#include <string.h>

static const uint64_t seed = 20240603;

enum { ROWS = 7, WIDTH = 11, N = ROWS * WIDTH };

/* Targets of one form, and outputs to compare with them. */
typedef struct batch {
    float y[N], at[N];
    ps_targets targets;
    size_t width; /* outputs of a sample */
} batch;

static void draw(batch *b, uint32_t classes, size_t width)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, classes, width, 0);

    b->width = width;
    for (size_t i = 0; i < N; i++) {
        b->y[i] = (float)(6.0 * ps_draw_unit(key, i) - 3.0);
        b->at[i] = classes > 0 ? (float)ps_draw_below(key, N + i, classes)
                               : (float)ps_draw_unit(key, N + i);
    }
    b->targets = classes > 0 ? ps_targets_classes(b->at) : ps_targets_values(b->at, width);
}

typedef void batch_fn(const ps_loss *loss, batch *b);

/* Calls fn with every form of targets that the loss takes. */
static void with_each_form(const ps_loss *loss, void *arg)
{
    static const struct {
        uint32_t classes; /* 0: values */
        size_t width;
    } forms[] = {{WIDTH, WIDTH}, {2, 2}, {2, 1}, {0, WIDTH}, {0, 1}};
    batch_fn *const *fn = arg;
    size_t count = 0;

    assert_ptr_equal(ps_loss_find(loss->name), loss);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        batch b;
        ps_status st = ps_loss_fits(loss, forms[i].classes,
                                    forms[i].classes > 0 ? 1 : forms[i].width, forms[i].width);

        if (ps_is_ok(&st)) {
            draw(&b, forms[i].classes, forms[i].width);
            (*fn)(loss, &b);
            count++;
        }
    }
    assert_int_equal(count, 2 + (loss->takes_one_output ? 1 : 0) + (loss->takes_values ? 2 : 0));
}

static void each_loss_and_form(batch_fn *fn)
{
    ps_loss_each(with_each_form, &fn);
}

static double loss_of(const ps_loss *loss, const batch *b)
{
    ps_score score = {0};

    loss->eval(b->y, b->targets, ROWS, b->width, 1.0f, NULL, &score);
    return score.loss_sum;
}

static void check_differences(const ps_loss *loss, batch *b)
{
    const float h = 0x1p-6f, scale = 0.25f;
    ps_score score = {0};
    float dy[N];

    loss->eval(b->y, b->targets, ROWS, b->width, scale, dy, &score);
    for (size_t i = 0; i < ROWS * b->width; i++) {
        float held = b->y[i];
        double up, down;

        b->y[i] = held + h;
        up = loss_of(loss, b);
        b->y[i] = held - h;
        down = loss_of(loss, b);
        b->y[i] = held;
        /* The error is h^2 / 6 of the third derivative, which is below 1/6 but for
         * tanh_error, where it is below 8 / width. */
        assert_true(is_close((double)dy[i], (double)scale * (up - down) / (2 * (double)h),
                             b->width > 2 ? 2e-5 : 2e-4, loss->name, i));
    }
}

static void every_loss_agrees_with_finite_differences(void **state)
{
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    each_loss_and_form(check_differences);
}

static void check_parts(const ps_loss *loss, batch *b)
{
    float dy[N], part[N];
    ps_score whole = {0}, sum = {0};
    size_t width = b->width;

    loss->eval(b->y, b->targets, ROWS, width, 0.5f, dy, &whole);
    for (size_t i = 0; i < ROWS; i++) {
        ps_targets one = b->targets;

        one.at += i * one.width;
        loss->eval(b->y + i * width, one, 1, width, 0.5f, part + i * width, &sum);
    }
    assert_memory_equal(dy, part, ROWS * width * sizeof *dy);
    assert_true(whole.loss_sum == sum.loss_sum && whole.samples == ROWS);
    assert_true(whole.correct == sum.correct && sum.samples == ROWS);
}

static void every_loss_is_the_sum_of_its_samples(void **state)
{
    (void)state;
    each_loss_and_form(check_parts);
    assert_null(ps_loss_find("hinge"));
}

/* What class i says is what its row of zeros and one says; but values have no answer. */
static void check_one_hot(const ps_loss *loss, batch *b)
{
    float hot[N], dy[N], again[N];
    ps_score of_classes = {0}, of_values = {0};
    size_t width = b->width, right = 0;

    if (!b->targets.is_class || !loss->takes_values) {
        return;
    }
    for (size_t i = 0; i < ROWS; i++) {
        const float *row = b->y + i * width;
        size_t best = 0;

        for (size_t j = 0; j < width; j++) {
            hot[i * width + j] = width == 1 ? b->at[i] : (float)(b->at[i] == (float)j);
            best = row[j] > row[best] ? j : best;
        }
        if (width == 1) {
            best = row[0] > (strcmp(loss->name, "binary_cross_entropy") == 0 ? 0.0f : 0.5f);
        }
        right += b->at[i] == (float)best;
    }
    loss->eval(b->y, b->targets, ROWS, width, 1.0f, dy, &of_classes);
    loss->eval(b->y, ps_targets_values(hot, width), ROWS, width, 1.0f, again, &of_values);
    assert_memory_equal(dy, again, ROWS * width * sizeof *dy);
    assert_true(of_classes.loss_sum == of_values.loss_sum);
    assert_int_equal(of_classes.correct, right);
    assert_int_equal(of_values.correct, 0);
}

static void a_class_is_its_row_of_zeros_and_one(void **state)
{
    (void)state;
    each_loss_and_form(check_one_hot);
}

static void refuse(const char *loss, uint32_t classes, size_t width, size_t outputs,
                   const char *text)
{
    ps_status st = ps_loss_fits(ps_loss_find(loss), classes, width, outputs);

    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_string_equal(st.text, text);
}

static void targets_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    refuse("softmax_cross_entropy", 0, 3, 3,
           "softmax_cross_entropy needs classes, and the targets are 3 values a sample");
    refuse("softmax_cross_entropy", 2, 1, 1,
           "1 outputs, and softmax_cross_entropy over 2 classes needs one each");
    refuse("mse", 0, 3, 2, "2 outputs, and the targets are 3 values a sample");
    refuse("mse", 10, 1, 9, "9 outputs, and mse over 10 classes needs one each");
    refuse("binary_cross_entropy", 3, 1, 1,
           "1 outputs, and binary_cross_entropy over 3 classes needs one each");
    refuse("binary_cross_entropy", 2, 1, 3,
           "3 outputs, and binary_cross_entropy over 2 classes needs one each, or one for both");
}

static void losses_of_values_match_their_formulas(void **state)
{
    const float y[4] = {1.5f, -2.0f, 0.0f, 3.0f}, t[4] = {0.5f, -2.5f, 0.25f, 1.0f};
    double mse = 0, tanh_error = 0, cross = 0;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        double d = (double)y[i] - (double)t[i], p = 1.0 / (1.0 + exp(-(double)y[i]));

        mse += d * d / 2;
        tanh_error += tanh(d) * tanh(d) / 2;
        cross -= (double)t[i] * log(p) + (1.0 - (double)t[i]) * log(1.0 - p);
    }
    for (size_t k = 0; k < 3; k++) {
        const char *name = k == 0 ? "mse" : k == 1 ? "tanh_error" : "binary_cross_entropy";
        ps_score score = {0};

        ps_loss_find(name)->eval(y, ps_targets_values(t, 2), 2, 2, 1.0f, NULL, &score);
        assert_true(is_close(score.loss_sum,
                             k == 0   ? mse
                             : k == 1 ? tanh_error
                                      : cross,
                             1e-6, name, 0));
    }
}

static ps_score eval(const float *y, float class, size_t width, float *dy)
{
    ps_score score = {0};

    ps_loss_find("softmax_cross_entropy")
        ->eval(y, ps_targets_classes(&class), 1, width, 1.0f, dy, &score);
    return score;
}

static void softmax_matches_a_twin_in_double(void **state)
{
    batch b;
    float dy[N];
    const float *y = b.y;
    ps_score score = {0};
    double want = 0;

    (void)state;
    draw(&b, WIDTH, WIDTH);
    ps_loss_find("softmax_cross_entropy")->eval(y, b.targets, ROWS, WIDTH, 2.0f, dy, &score);
    for (size_t i = 0; i < ROWS; i++) {
        size_t class = (size_t)b.at[i];
        double sum = 0;

        for (size_t j = 0; j < WIDTH; j++) {
            sum += exp((double)y[i * WIDTH + j]);
        }
        want -= log(exp((double)y[i * WIDTH + class]) / sum);
        for (size_t j = 0; j < WIDTH; j++) {
            double p = exp((double)y[i * WIDTH + j]) / sum;
            double slope = 2.0 * (p - (j == class ? 1.0 : 0.0));

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
        for (size_t class = 0; class < 3; class ++) {
            float y[3] = {1, 2, 3};
            ps_score score;

            y[at] = NAN;
            score = eval(y, (float)class, 3, NULL);
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
        cmocka_unit_test(a_class_is_its_row_of_zeros_and_one),
        cmocka_unit_test(targets_that_do_not_fit_are_refused),
        cmocka_unit_test(losses_of_values_match_their_formulas),
        cmocka_unit_test(softmax_matches_a_twin_in_double),
        cmocka_unit_test(even_logits_cost_the_logarithm_of_the_classes),
        cmocka_unit_test(far_logits_neither_overflow_nor_vanish),
        cmocka_unit_test(the_first_of_equal_logits_is_the_answer),
        cmocka_unit_test(a_row_that_is_not_a_number_is_never_correct),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
