/* SPDX-License-Identifier: Apache-2.0 */
/* test_metric.c - every metric beside a twin that goes by the definition: all pairs, all
 * thresholds, probabilities by libm.
 */
#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/metric_world.h"

#include <string.h>

static const uint64_t seed = 20261124;

/* ---- Twins ---- */

static double target(const metric_world *at, size_t i, size_t j)
{
    ps_targets t = metric_world_targets(at, 0);

    return (double)ps_targets_of(&t, i, j, at->facts.outputs);
}

static double twin_accuracy(const metric_world *at)
{
    size_t right = 0, width = at->facts.outputs;

    for (size_t i = 0; i < METRIC_N; i++) {
        size_t best = width;

        for (size_t j = width; j-- > 0;) { /* from behind, so that the first of equals wins */
            best = best == width || at->y[i * width + j] >= at->y[i * width + best] ? j : best;
        }
        right += width == 1 ? (at->p[i][0] > 0.5) == (at->t[i] == 1.0f) : at->t[i] == (float)best;
    }
    return (double)right / METRIC_N;
}

static double twin_binary_accuracy(const metric_world *at)
{
    size_t right = 0, width = at->facts.outputs;

    for (size_t i = 0; i < METRIC_N; i++) {
        for (size_t j = 0; j < width; j++) {
            right += (at->p[i][j] > 0.5) == (target(at, i, j) > 0.5);
        }
    }
    return (double)right / (double)(METRIC_N * width);
}

/* k = 2: it is not behind two others. */
static double twin_top_2(const metric_world *at)
{
    size_t right = 0, width = at->facts.outputs;

    for (size_t i = 0; i < METRIC_N; i++) {
        const float *row = at->y + i * width;
        size_t own = (size_t)at->t[i], place = 0;

        for (size_t j = 0; j < width; j++) {
            place += j != own && (row[j] > row[own] || (row[j] == row[own] && j < own));
        }
        right += place <= 1;
    }
    return (double)right / METRIC_N;
}

static double mean_of(const metric_world *at, double power)
{
    double sum = 0.0;

    for (size_t i = 0; i < METRIC_N; i++) {
        for (size_t j = 0; j < at->facts.outputs; j++) {
            sum += pow(fabs(at->p[i][j] - target(at, i, j)), power);
        }
    }
    return sum / (double)(METRIC_N * at->facts.outputs);
}

static double twin_mse(const metric_world *at)
{
    return mean_of(at, 2);
}

static double twin_rmse(const metric_world *at)
{
    return sqrt(mean_of(at, 2));
}

static double twin_mae(const metric_world *at)
{
    return mean_of(at, 1);
}

static double twin_relative_error(const metric_world *at)
{
    double size = 0.0;

    for (size_t i = 0; i < METRIC_N; i++) {
        for (size_t j = 0; j < at->facts.outputs; j++) {
            size += fabs(target(at, i, j));
        }
    }
    return mean_of(at, 1) * (double)(METRIC_N * at->facts.outputs) / size;
}

/* Of class 1; rounded, as equal scores are to be equal for the twin too. */
static double score_of(const metric_world *at, size_t i)
{
    size_t positive = at->facts.outputs == 1 ? 0 : 1;
    double p = at->p[i][positive];

    return at->facts.link == PS_LINK_SOFTMAX ? (double)(float)log(p / (1.0 - p))
                                             : (double)at->y[i * at->facts.outputs + positive];
}

static double twin_auc(const metric_world *at)
{
    double won = 0.0, pairs = 0.0;

    for (size_t i = 0; i < METRIC_N; i++) {
        for (size_t k = 0; k < METRIC_N; k++) {
            if (metric_world_is_positive(at, i) && !metric_world_is_positive(at, k)) {
                double d = score_of(at, i) - score_of(at, k);

                /* Scores that are not equal are further apart than libm is wrong. */
                won += fabs(d) < 1e-6 ? 0.5 : d > 0 ? 1.0 : 0.0;
                pairs += 1.0;
            }
        }
    }
    return won / pairs;
}

/* Shares of negatives above and of positives not above a threshold. */
static void shares(const metric_world *at, double threshold, double *accepted, double *rejected)
{
    double n[2] = {0, 0}, above[2] = {0, 0};

    for (size_t i = 0; i < METRIC_N; i++) {
        bool is = metric_world_is_positive(at, i);

        n[is] += 1.0;
        above[is] += score_of(at, i) > threshold + 1e-6;
    }
    *accepted = above[0] / n[0];
    *rejected = 1.0 - above[1] / n[1];
}

/* The threshold just below the crossing, and the one just above. */
static double twin_eer(const metric_world *at)
{
    double low = -1e9, high = 1e9, a0, r0, a1, r1, s;

    for (size_t i = 0; i < METRIC_N; i++) {
        double accepted, rejected, threshold = score_of(at, i);

        shares(at, threshold, &accepted, &rejected);
        if (accepted > rejected && threshold > low) {
            low = threshold;
        }
        if (accepted <= rejected && threshold < high) {
            high = threshold;
        }
    }
    shares(at, low, &a0, &r0);
    shares(at, high, &a1, &r1);
    s = (a0 - r0) / (a0 - r0 + r1 - a1);
    return a0 + s * (a1 - a0);
}

static double twin_count(const metric_world *at, bool said, bool is)
{
    double count = 0.0;

    for (size_t i = 0; i < METRIC_N; i++) {
        double p = at->p[i][at->facts.outputs == 1 ? 0 : 1];

        count += (p > 0.5) == said && metric_world_is_positive(at, i) == is;
    }
    return count;
}

static double twin_true_positives(const metric_world *at)
{
    return twin_count(at, true, true);
}

static double twin_false_positives(const metric_world *at)
{
    return twin_count(at, true, false);
}

static double twin_true_negatives(const metric_world *at)
{
    return twin_count(at, false, false);
}

static double twin_false_negatives(const metric_world *at)
{
    return twin_count(at, false, true);
}

static double twin_perplexity(const metric_world *at)
{
    double sum = 0.0;

    for (size_t i = 0; i < METRIC_N; i++) {
        sum -= log(at->p[i][(size_t)at->t[i]]);
    }
    return exp(sum / METRIC_N);
}

static double twin_binary_sum(const metric_world *at)
{
    double sum = 0.0;

    for (size_t i = 0; i < METRIC_N; i++) {
        for (size_t j = 0; j < at->facts.outputs; j++) {
            double t = target(at, i, j), p = fmin(1.0, fmax(0.0, at->p[i][j]));

            sum -= t * log(p + 1e-9) + (1.0 - t) * log(1.0 - p + 1e-9);
        }
    }
    return sum / METRIC_N;
}

static const struct {
    const char *name;
    double (*twin)(const metric_world *at);
} twins[] = {
    {"accuracy", twin_accuracy},
    {"binary_accuracy", twin_binary_accuracy},
    {"top_k", twin_top_2},
    {"mse", twin_mse},
    {"rmse", twin_rmse},
    {"mae", twin_mae},
    {"relative_error", twin_relative_error},
    {"auc", twin_auc},
    {"eer", twin_eer},
    {"true_positives", twin_true_positives},
    {"false_positives", twin_false_positives},
    {"true_negatives", twin_true_negatives},
    {"false_negatives", twin_false_negatives},
    {"perplexity", twin_perplexity},
    {"binary_sum_cross_entropy", twin_binary_sum},
};

enum { TWIN_COUNT = sizeof twins / sizeof twins[0] };

/* ---- All metrics ---- */

static ps_params params_of(const ps_metric *metric)
{
    ps_params params = ps_params_default(metric->params);
    int k = ps_param_find(metric->params, "k");

    if (k >= 0) {
        params.v[k] = 2;
    }
    return params;
}

static void check_twin(const ps_metric *metric, void *arg)
{
    static metric_world at;
    ps_params params = params_of(metric);
    size_t i = 0, kinds = 0;

    (*(size_t *)arg)++;
    while (i < TWIN_COUNT && strcmp(twins[i].name, metric->name) != 0) {
        i++;
    }
    assert_true(i < TWIN_COUNT);
    for (unsigned kind = 0; kind < METRIC_KINDS; kind++) {
        ps_tally tally;
        ps_status st;
        double want;

        metric_world_draw(&at, kind, seed);
        st = ps_metric_fits(metric, &params, &at.facts);
        if (!ps_is_ok(&st)) {
            continue;
        }
        ps_tally_init(&tally, metric, &params, &at.facts);
        assert_true(isnan(ps_tally_value(&tally)));
        metric_world_add(&at, 0, METRIC_N, &tally);
        want = twins[i].twin(&at);
        if (!is_close(ps_tally_value(&tally), want, 1e-12 * fmax(1.0, fabs(want)), metric->name,
                      kind)) {
            fail();
        }
        ps_tally_fini(&tally);
        kinds++;
    }
    assert_true(kinds >= 2);
}

static void every_metric_is_what_its_twin_says(void **state)
{
    size_t count = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    ps_metric_each(check_twin, &count);
    assert_int_equal(count, TWIN_COUNT);
    assert_null(ps_metric_find("f1"));
}

static void check_facts(const ps_metric *metric, void *arg)
{
    (void)arg;
    assert_ptr_equal(ps_metric_find(metric->name), metric);
    assert_true(strlen(metric->summary) > 0);
    assert_true(metric->counts + metric->sums + metric->ranks > 0);
    assert_true(metric->targets != PS_TARGETS_BINARY ||
                ps_param_find(metric->params, "positive") == PS_METRIC_POSITIVE);
    for (const ps_param *p = metric->params; p != NULL && p->name != NULL; p++) {
        assert_true(p->min <= p->value && p->value <= p->max && p->help != NULL);
    }
}

static void every_metric_has_its_facts(void **state)
{
    (void)state;
    ps_metric_each(check_facts, NULL);
}

/* ---- Each ---- */

static double value(const char *name, const ps_metric_facts *facts, const float *y, const float *t,
                    size_t n)
{
    const ps_metric *metric = ps_metric_find(name);
    ps_params params = params_of(metric);
    ps_tally tally;
    double got;

    ps_tally_init(&tally, metric, &params, facts);
    ps_tally_add(
        &tally, y,
        facts->classes > 0 ? ps_targets_classes(t) : ps_targets_values(t, facts->target_width), n);
    got = ps_tally_value(&tally);
    ps_tally_fini(&tally);
    return got;
}

static const ps_metric_facts coin = {
    .outputs = 1, .classes = 2, .target_width = 1, .link = PS_LINK_SIGMOID};

static void auc_and_eer_know_the_ends(void **state)
{
    const float right[] = {-2, -1, 1, 2}, wrong[] = {2, 1, -1, -2}, same[] = {3, 3, 3, 3};
    const float zeros[] = {0.0f, -0.0f, 0.0f, -0.0f}, half[] = {1, 2, 1, 2};
    const float t[] = {0, 0, 1, 1}, only[] = {1, 1, 1, 1};

    (void)state;
    assert_true(value("auc", &coin, right, t, 4) == 1.0);
    assert_true(value("auc", &coin, wrong, t, 4) == 0.0);
    assert_true(value("auc", &coin, same, t, 4) == 0.5);
    assert_true(value("auc", &coin, zeros, t, 4) == 0.5);
    assert_true(value("auc", &coin, half, t, 4) == 0.5);
    assert_true(isnan(value("auc", &coin, right, only, 4)));
    assert_true(value("eer", &coin, right, t, 4) == 0.0);
    assert_true(value("eer", &coin, wrong, t, 4) == 1.0);
    assert_true(value("eer", &coin, same, t, 4) == 0.5);
    assert_true(isnan(value("eer", &coin, right, only, 4)));
}

static void a_nan_is_no_right_answer(void **state)
{
    const ps_metric_facts three = {
        .outputs = 3, .classes = 3, .target_width = 1, .link = PS_LINK_SOFTMAX};
    const float y[] = {1, NAN, 0, 2, 1, 0}, t[] = {0, 0}, one[] = {NAN, 1}, sides[] = {0, 1};

    (void)state;
    assert_true(value("accuracy", &three, y, t, 2) == 0.5);
    assert_true(value("top_k", &three, y, t, 2) == 0.5);
    assert_true(value("accuracy", &coin, one, sides, 2) == 0.5);
    assert_true(isnan(value("mse", &three, y, t, 2)));
    assert_true(isnan(value("perplexity", &three, y, t, 2)));
    assert_true(isnan(value("binary_sum_cross_entropy", &three, y, t, 2)));
    assert_true(isnan(value("auc", &coin, one, sides, 2)));
    assert_true(isnan(value("eer", &coin, one, sides, 2)));
    assert_true(value("true_positives", &coin, one, sides, 2) == 1.0);
}

static void extreme_outputs_overflow_nothing(void **state)
{
    const ps_metric_facts two = {
        .outputs = 2, .classes = 2, .target_width = 1, .link = PS_LINK_SOFTMAX};
    const float y[] = {3e38f, -3e38f}, t[] = {1}, right[] = {0}, big[] = {800, 0};

    (void)state;
    assert_true(value("perplexity", &two, y, t, 1) == (double)INFINITY);
    assert_true(value("perplexity", &two, y, right, 1) == 1.0);
    assert_true(value("perplexity", &two, big, t, 1) == (double)INFINITY);
    assert_true(is_close(value("binary_sum_cross_entropy", &two, y, t, 1), -2 * log(1e-9), 1e-12,
                         "sum", 0));
    assert_true(value("mse", &two, y, t, 1) == 1.0);
}

static void refuse(const char *name, const char *number, double given, ps_metric_facts facts,
                   const char *why)
{
    const ps_metric *metric = ps_metric_find(name);
    ps_params params = ps_params_default(metric->params);
    ps_status st;

    if (number != NULL) {
        params.v[ps_param_find(metric->params, number)] = given;
    }
    st = ps_metric_fits(metric, &params, &facts);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    if (strstr(st.text, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", st.text, why);
    }
}

static void what_does_not_fit_is_refused_with_the_reason(void **state)
{
    const ps_metric_facts values = {.outputs = 3, .target_width = 3};
    const ps_metric_facts ten = {
        .outputs = 10, .classes = 10, .target_width = 1, .link = PS_LINK_SIGMOID};

    (void)state;
    refuse("accuracy", NULL, 0, values, "accuracy needs classes as targets; targets have 3 values");
    refuse("perplexity", NULL, 0, values, "needs classes");
    refuse("perplexity", NULL, 0, ten, "needs the loss softmax_cross_entropy");
    refuse("auc", NULL, 0, values, "needs classes, or one output and one target value");
    refuse("auc", "positive", 10, ten, "is 10; 0 to 9 are allowed");
    refuse("eer", "positive", 0, coin, "with one output only 1 is allowed");
    refuse("top_k", "k", 11, ten, "k is 11; 1 to 10, the number of outputs, are allowed");
    refuse("top_k", "k", 1, coin, "needs one output per class");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_metric_is_what_its_twin_says),
        cmocka_unit_test(every_metric_has_its_facts),
        cmocka_unit_test(auc_and_eer_know_the_ends),
        cmocka_unit_test(a_nan_is_no_right_answer),
        cmocka_unit_test(extreme_outputs_overflow_nothing),
        cmocka_unit_test(what_does_not_fit_is_refused_with_the_reason),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
