/* SPDX-License-Identifier: Apache-2.0 */
/* curve.c - metrics of the curve of true over false positives (ROC) over all thresholds: auc
 * and eer.
 *
 * Both are exact: every distinct score is a threshold, and no threshold separates samples of
 * equal score. A score is the logit of the positive class's probability, or the output, as
 * float32.
 */
#include "common/metric/outputs.h"
#include "common/metric/tally.h"

#include <math.h>

__extension__ typedef unsigned __int128 wide;

static const ps_param curve_params[] = {
    PS_METRIC_POSITIVE_LINE,
    {.name = NULL},
};

static void curve_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    size_t width = tally->facts.outputs, positive = (size_t)tally->params.v[PS_METRIC_POSITIVE];

    for (size_t i = 0; i < n; i++) {
        double score = ps_outputs_score(tally->facts.link, y + i * width, width, positive);

        ps_ranking_add(&tally->ranking, (float)score, ps_targets_positive(&t, i, positive));
    }
}

/* Writes the numbers of negatives and positives to `totals`. Returns whether the curve exists:
 * there are samples of both kinds, and no score is NaN. */
static bool has_curve(const ps_ranking *ranking, uint64_t totals[2])
{
    ps_ranking_totals(ranking, totals);
    return totals[0] > 0 && totals[1] > 0 && ranking->nan[0] + ranking->nan[1] == 0;
}

/* Returns the share of pairs of a positive and a negative whose scores are in the right order.
 * A pair of equal scores counts one half. */
static double auc_value(const ps_tally *tally)
{
    const ps_ranking *r = &tally->ranking;
    uint64_t totals[2], below = 0;
    wide twice = 0;

    if (!has_curve(r, totals)) {
        return NAN;
    }
    for (size_t i = 0; i < r->n; i++) {
        twice += (wide)r->ranks[i].count[1] * (2 * below + r->ranks[i].count[0]);
        below += r->ranks[i].count[0];
    }
    return (double)twice / 2.0 / ((double)totals[0] * (double)totals[1]);
}

/* Returns the error rate at the threshold where the share of false positives among the negatives
 * equals that of false negatives among the positives. Interpolates linearly between the two
 * thresholds around it. */
static double eer_value(const ps_tally *tally)
{
    const ps_ranking *r = &tally->ranking;
    uint64_t totals[2], passed[2] = {0, 0};
    double accepted = 1.0, rejected = 0.0;

    if (!has_curve(r, totals)) {
        return NAN;
    }
    for (size_t i = 0; i < r->n; i++) {
        double last_accepted = accepted, last_rejected = rejected;

        passed[0] += r->ranks[i].count[0];
        passed[1] += r->ranks[i].count[1];
        accepted = (double)(totals[0] - passed[0]) / (double)totals[0];
        rejected = (double)passed[1] / (double)totals[1];
        if (accepted <= rejected) {
            double before = last_accepted - last_rejected, after = rejected - accepted;

            return last_accepted + before / (before + after) * (accepted - last_accepted);
        }
    }
    return NAN; /* not reached: at the last threshold `accepted` is 0 */
}

const ps_metric ps_metric_auc = {
    .name = "auc",
    .summary = "area under the curve of true over false positives: share of pairs that are in "
               "order, pairs of equal scores count one half",
    .params = curve_params,
    .targets = PS_TARGETS_BINARY,
    .ranks = true,
    .add = curve_add,
    .value = auc_value,
};

const ps_metric ps_metric_eer = {
    .name = "eer",
    .summary =
        "equal error rate: the share of negatives above the threshold and of positives below "
        "it, where the two are equal",
    .params = curve_params,
    .targets = PS_TARGETS_BINARY,
    .is_cost = true,
    .ranks = true,
    .add = curve_add,
    .value = eer_value,
};
