/* SPDX-License-Identifier: Apache-2.0 */
/* relu.c - max(0, x). NaN stays NaN, and the gradient at zero is zero. */
#include "common/base/clones.h"
#include "common/nn/layer.h"

PS_CLONES(values, (x, y, n), const float *restrict x, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] < 0.0f ? 0.0f : x[i];
    }
}

PS_CLONES(slopes, (y, dy, dx, n), const float *restrict y, const float *restrict dy,
          float *restrict dx, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float slope =
            dy[i]; /* read unconditionally: a conditional read vectorises only with masked loads */

        dx[i] = y[i] > 0.0f ? slope : 0.0f;
    }
}

#include "common/nn/elementwise_body.h"

const ps_layer ps_layer_relu = {
    .kind = "relu",
    .summary = "y = max(0, x)",
    PS_ELEMENTWISE,
};
