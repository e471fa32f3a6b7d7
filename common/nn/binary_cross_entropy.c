/* SPDX-License-Identifier: Apache-2.0 */
/* binary_cross_entropy.c - takes each output as the logit of its class. The target is 1 for the
 * sample's class and 0 for the others, or a value from 0 to 1. The losses of outputs are summed.
 * With two classes one output is enough: the logit of class 1.
 *
 * With p = 1 / (1 + e^-y): -t log p - (1 - t) log(1 - p) = max(y, 0) - t y + log(1 + e^-|y|),
 * which is exact where p is near 0 or 1. The gradient is p - t.
 */
#include "common/nn/answer.h"
#include "common/nn/loss.h"
#include "common/nn/math32.h"

static void binary_cross_entropy_eval(const float *y, ps_targets targets, size_t n, size_t width,
                                      float scale, float *dy, ps_score *score)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = y + i * width;
        double sum = 0.0;

        for (size_t j = 0; j < width; j++) {
            float t = ps_targets_of(&targets, i, j, width);
            double z = (double)row[j];

            sum += (z > 0.0 ? z : 0.0) - (double)t * z + log1p((double)ps_exp_f32(-fabsf(row[j])));
            if (dy != NULL) {
                dy[i * width + j] = scale * (ps_sigmoid_f32(row[j]) - t);
            }
        }
        score->loss_sum += sum;
        score->correct += !isnan(sum) && ps_answers(row, width, 0.0f, &targets, i);
    }
    score->samples += n;
}

const ps_loss ps_loss_binary_cross_entropy = {
    .name = "binary_cross_entropy",
    .summary =
        "sum of -t log p - (1 - t) log(1 - p), p = sigmoid(y), t = onehot(class), class or values",
    .link = PS_LINK_SIGMOID,
    .takes_values = true,
    .takes_one_output = true,
    .eval = binary_cross_entropy_eval,
};
