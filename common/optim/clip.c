/* SPDX-License-Identifier: Apache-2.0 */
/* clip.c - see clip.h. */
#include "common/optim/clip.h"

#include <math.h>
#include <string.h>

static const ps_param limit_params[] = {
    {.name = "limit",
     .value = 1,
     .min = 1e-9,
     .max = 1e9,
     .help = "greatest magnitude, or greatest Euclidean norm, of the mean gradient"},
    {.name = NULL},
};

static const ps_clip clips[] = {
    {.name = "none", .summary = "leaves gradients unchanged", .unit = PS_CLIP_NOTHING},
    {.name = "value",
     .summary = "clips each value of a gradient to [-limit, limit]",
     .params = limit_params,
     .unit = PS_CLIP_VALUE},
    {.name = "norm",
     .summary = "g * min(1, limit / ||g||), with the norm of each variable",
     .params = limit_params,
     .unit = PS_CLIP_VARIABLE},
    {.name = "global_norm",
     .summary = "g * min(1, limit / ||g||), with the norm of all variables together (Pascanu, "
                "Mikolov, Bengio 2013)",
     .params = limit_params,
     .unit = PS_CLIP_ALL},
};

enum { CLIP_COUNT = sizeof clips / sizeof clips[0] };

const ps_clip *ps_clip_find(const char *name)
{
    for (size_t i = 0; i < CLIP_COUNT; i++) {
        if (strcmp(clips[i].name, name) == 0) {
            return &clips[i];
        }
    }
    return NULL;
}

void ps_clip_each(void (*fn)(const ps_clip *clip, void *arg), void *arg)
{
    for (size_t i = 0; i < CLIP_COUNT; i++) {
        fn(&clips[i], arg);
    }
}

void ps_clip_values(float *g, size_t n, float limit)
{
    for (size_t i = 0; i < n; i++) { /* both comparisons are false for a NaN, which is kept */
        g[i] = g[i] > limit ? limit : g[i] < -limit ? -limit : g[i];
    }
}

/* Number of independent partial sums, so that additions need not wait for each other. */
enum { PARTS = 8 };

double ps_clip_square_sum(const float *g, size_t n)
{
    double part[PARTS] = {0}, sum = 0.0;
    size_t i = 0;

    for (; i + PARTS <= n; i += PARTS) {
        for (size_t k = 0; k < PARTS; k++) {
            part[k] += (double)g[i + k] * (double)g[i + k];
        }
    }
    for (; i < n; i++) {
        part[0] += (double)g[i] * (double)g[i];
    }
    for (size_t k = 0; k < PARTS; k++) {
        sum += part[k];
    }
    return sum;
}

void ps_clip_to_norm(float *g, size_t n, double square_sum, double limit)
{
    double norm = sqrt(square_sum);

    if (norm > limit) {
        float factor = (float)(limit / norm);

        for (size_t i = 0; i < n; i++) {
            g[i] *= factor;
        }
    }
}
