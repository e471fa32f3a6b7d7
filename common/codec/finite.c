/* SPDX-License-Identifier: Apache-2.0 */
/* finite.c - see finite.h. */
#include "common/codec/finite.h"

#include "common/codec/kernels.h"

#include <math.h>
#include <string.h>

const float *ps_finite(const float *x, size_t n, float *room, float *most)
{
    uint32_t bits = ps_kernels_best()->largest(x, n);
    float m;

    memcpy(&m, &bits, sizeof m);
    if (!isfinite(m)) {
        m = 0;
        for (size_t i = 0; i < n; i++) {
            float magnitude = fabsf(x[i]);

            m = isfinite(magnitude) && magnitude > m ? magnitude : m;
        }
        for (size_t i = 0; i < n; i++) {
            room[i] = isnan(x[i]) ? 0.0f : isinf(x[i]) ? copysignf(m, x[i]) : x[i];
        }
        x = room;
    }
    *most = m < 0x1p-100f ? 0.0f : m;
    return x;
}
