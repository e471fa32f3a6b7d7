/* SPDX-License-Identifier: Apache-2.0 */
/* tanh_error.c - the mean over outputs of tanh^2(t - y). t is a value, or for a class 1 at its
 * output and 0 at the others. Small errors count as their squares; the loss of large ones is
 * bounded by 1.
 */
#include "common/nn/answer.h"
#include "common/nn/loss.h"
#include "common/nn/math32.h"

static void tanh_error_eval(const float *y, ps_targets targets, size_t n, size_t width, float scale,
                            float *dy, ps_score *score)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = y + i * width;
        double sum = 0.0;

        for (size_t j = 0; j < width; j++) {
            float t = ps_targets_of(&targets, i, j, width);
            float h = ps_tanh_f32(row[j] - t);

            sum += (double)h * (double)h;
            if (dy != NULL) {
                dy[i * width + j] = scale * 2.0f * h * ((1.0f - h) * (1.0f + h)) / (float)width;
            }
        }
        score->loss_sum += sum / (double)width;
        score->correct += !isnan(sum) && ps_answers(row, width, 0.5f, &targets, i);
    }
    score->samples += n;
}

const ps_loss ps_loss_tanh_error = {
    .name = "tanh_error",
    .summary = "mean of tanh^2(t - y), t = onehot(class) or values",
    .takes_values = true,
    .takes_one_output = true,
    .eval = tanh_error_eval,
};
