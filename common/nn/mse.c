/* SPDX-License-Identifier: Apache-2.0 */
/* mse.c - the mean over outputs of the squared distance from 1 for the label's and 0 for
 * the others.
 */
#include "common/nn/argmax.h"
#include "common/nn/loss.h"
#include "common/nn/math32.h"

#include <assert.h>

static void mse_eval(const float *y, const uint32_t *label, size_t n, size_t width, float scale,
                     float *dy, ps_score *score)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = y + i * width;
        double sum = 0.0;

        assert(label[i] < width);
        for (size_t j = 0; j < width; j++) {
            float t = j == label[i] ? 1.0f : 0.0f;
            float d = row[j] - t;

            sum += (double)d * (double)d;
            if (dy != NULL) {
                dy[i * width + j] = scale * 2.0f * d / (float)width;
            }
        }
        score->loss_sum += sum / (double)width;
        score->correct += ps_index_of_max(row, width) == label[i] && !isnan(sum);
    }
    score->samples += n;
}

const ps_loss ps_loss_mse = {
    .name = "mse",
    .summary = "mean of (y - t)^2, t = onehot(label)",
    .eval = mse_eval,
};
