/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_cross_entropy.c - minus the logarithm of the probability of the right class.
 *
 * For a row y of O logits with greatest value m: p_j = e^(y_j - m) / s, where s is the sum of the
 * numerators. loss = log s - (y_class - m), which is exact even where p_class is too small for a
 * float. The gradient is p - onehot(class).
 */
#include "common/nn/argmax.h"
#include "common/nn/loss.h"
#include "common/nn/math32.h"

static void softmax_cross_entropy_eval(const float *y, ps_targets targets, size_t n, size_t width,
                                       float scale, float *dy, ps_score *score)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = y + i * width;
        size_t best = ps_index_of_max(row, width), label = ps_targets_class(&targets, i, width);
        float max = row[best];
        double sum = 0.0;

        for (size_t j = 0; j < width; j++) {
            sum += (double)ps_exp_f32(row[j] - max);
        }
        score->loss_sum += log(sum) - ((double)row[label] - (double)max);
        score->correct += best == label && !isnan(sum);
        if (dy != NULL) {
            float *drow = dy + i * width;
            float factor = (float)((double)scale / sum);

            for (size_t j = 0; j < width; j++) {
                drow[j] = ps_exp_f32(row[j] - max) * factor;
            }
            drow[label] -= scale;
        }
    }
    score->samples += n;
}

const ps_loss ps_loss_softmax_cross_entropy = {
    .name = "softmax_cross_entropy",
    .summary = "-log p[class], p = softmax(y); natural logarithm",
    .link = PS_LINK_SOFTMAX,
    .eval = softmax_cross_entropy_eval,
};
