/* SPDX-License-Identifier: Apache-2.0 */
/* mse.c - the mean over outputs of the squared difference from the target. The target is a value,
 * or for a class 1 at its output and 0 at the others.
 */
#include "common/nn/answer.h"
#include "common/nn/loss.h"
#include "common/nn/math32.h"

static void mse_eval(const float *y, ps_targets targets, size_t n, size_t width, float scale,
                     float *dy, ps_score *score)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = y + i * width;
        double sum = 0.0;

        for (size_t j = 0; j < width; j++) {
            float t = ps_targets_of(&targets, i, j, width);
            float d = row[j] - t;

            sum += (double)d * (double)d;
            if (dy != NULL) {
                dy[i * width + j] = scale * 2.0f * d / (float)width;
            }
        }
        score->loss_sum += sum / (double)width;
        score->correct += !isnan(sum) && ps_answers(row, width, 0.5f, &targets, i);
    }
    score->samples += n;
}

const ps_loss ps_loss_mse = {
    .name = "mse",
    .summary = "mean of (y - t)^2, t = onehot(class) or values",
    .takes_values = true,
    .takes_one_output = true,
    .eval = mse_eval,
};
