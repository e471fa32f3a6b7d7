/* SPDX-License-Identifier: Apache-2.0 */
/* tanh.c - the hyperbolic tangent of every value. */
#include "common/base/clones.h"
#include "common/nn/layer.h"
#include "common/nn/math32.h"

PS_CLONES(values, (x, y, n), const float *restrict x, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = ps_tanh_f32(x[i]);
    }
}

PS_CLONES(slopes, (y, dy, dx, n), const float *restrict y, const float *restrict dy,
          float *restrict dx, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        dx[i] = dy[i] * ((1.0f - y[i]) * (1.0f + y[i]));
    }
}

#include "common/nn/elementwise_body.h"

const ps_layer ps_layer_tanh = {
    .kind = "tanh",
    .summary = "y = tanh x",
    PS_ELEMENTWISE,
};
