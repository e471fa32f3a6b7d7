/* SPDX-License-Identifier: Apache-2.0 */
/* delay.c - see delay.h. */
#include "common/store/delay.h"

#include <math.h>

void ps_delay_correct(ps_delay delay, const float *g, const float *w, const float *had,
                      float *mean_square, float *out, size_t n)
{
    float lambda = (float)delay.lambda, decay = (float)delay.decay, rest = 1.0f - decay;

    for (size_t i = 0; i < n; i++) {
        float square = g[i] * g[i], factor = lambda;

        if (mean_square != NULL) {
            mean_square[i] = decay * mean_square[i] + rest * square;
            factor = lambda / sqrtf(mean_square[i] + 1e-7f);
        }
        out[i] = g[i] + factor * square * (w[i] - had[i]);
    }
}
