/* SPDX-License-Identifier: Apache-2.0 */
/* hard_tanh.c - the value, clamped to [-1, 1]. NaN stays NaN. The gradient at -1 and 1 is zero. */
#include "common/base/clones.h"
#include "common/nn/layer.h"

PS_CLONES(values, (x, y, n), const float *restrict x, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float low = x[i] < -1.0f ? -1.0f : x[i];

        y[i] = low > 1.0f ? 1.0f : low;
    }
}

PS_CLONES(slopes, (y, dy, dx, n), const float *restrict y, const float *restrict dy,
          float *restrict dx, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float slope = dy[i];
        float low = y[i] > -1.0f ? slope : 0.0f;

        dx[i] = y[i] < 1.0f ? low : 0.0f;
    }
}

#include "common/nn/elementwise_body.h"

const ps_layer ps_layer_hard_tanh = {
    .kind = "hard_tanh",
    .summary = "y = min(1, max(-1, x))",
    PS_ELEMENTWISE,
};
