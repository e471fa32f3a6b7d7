/* SPDX-License-Identifier: Apache-2.0 */
/* adam.c - steps scaled by running moments of the gradient (Kingma and Ba 2015,
 * algorithm 1, arXiv:1412.6980), one pass over memory.
 */
#include "common/base/clones.h"
#include "common/optim/optim.h"

#include <assert.h>
#include <float.h>
#include <math.h>

enum { RATE, BETA1, BETA2, EPSILON };

static const ps_param adam_params[] = {
    {.name = "lr",
     .value = 0.001,
     .min = 0,
     .max = 1000,
     .help = "learning rate: factor of the step"},
    {.name = "beta1", .value = 0.9, .min = 0, .max = 0.999999, .help = "decay of the mean of g"},
    {.name = "beta2",
     .value = 0.999,
     .min = 0,
     .max = 0.999999,
     .help = "decay of the mean of g^2"},
    {.name = "epsilon",
     .value = 1e-8,
     .min = 1e-12,
     .max = 1,
     .help = "added to the root of the mean of g^2"},
    {.name = NULL},
};

/* What does not depend on the value, worked out in double and rounded once. */
typedef struct factors {
    float keep1, take1; /* m = keep1 m + take1 g */
    float keep2, take2; /* v = keep2 v + take2 g^2 */
    float rate;         /* learning rate / (1 - beta1^t) */
    float unbias;       /* 1 / (1 - beta2^t) */
    float epsilon;
} factors;

/* By products only: libm's pow may differ from host to host. */
static double power(double base, uint64_t exponent)
{
    double result = 1.0;

    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) {
            result *= base;
        }
        base *= base;
    }
    return result;
}

static factors factors_of(const ps_params *params, uint64_t t)
{
    double beta1 = params->v[BETA1], beta2 = params->v[BETA2];

    assert(t > 0);
    return (factors){
        .keep1 = (float)beta1,
        .take1 = (float)(1.0 - beta1),
        .keep2 = (float)beta2,
        .take2 = (float)(1.0 - beta2),
        .rate = (float)(params->v[RATE] / (1.0 - power(beta1, t))),
        .unbias = (float)(1.0 / (1.0 - power(beta2, t))),
        .epsilon = (float)params->v[EPSILON],
    };
}

/* A moment below the normal numbers counts as zero: it moves no weight, but would
 * be stuck there, where processors take a hundred times as long for a product. */
static inline float or_zero(float moment)
{
    return fabsf(moment) < FLT_MIN ? 0.0f : moment;
}

static inline float increment_of(factors f, float g, float *m, float *v)
{
    float mean = or_zero(f.keep1 * *m + f.take1 * g);
    float square = or_zero(f.keep2 * *v + f.take2 * (g * g));

    *m = mean;
    *v = square;
    return f.rate * mean / (sqrtf(square * f.unbias) + f.epsilon);
}

PS_CLONES static void increments(factors f, const float *restrict g, float *restrict m,
                                 float *restrict v, float *restrict d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        d[i] = increment_of(f, g[i], &m[i], &v[i]);
    }
}

PS_CLONES static void increments_in_place(factors f, float *restrict m, float *restrict v,
                                          float *restrict d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        d[i] = increment_of(f, d[i], &m[i], &v[i]);
    }
}

PS_CLONES static void steps(factors f, const float *restrict g, float *restrict m,
                            float *restrict v, float *restrict w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= increment_of(f, g[i], &m[i], &v[i]);
    }
}

static void adam_increment(const ps_params *params, uint64_t t, const float *g, float *state,
                           float *d, size_t n)
{
    factors f = factors_of(params, t);

    if (d == g) {
        increments_in_place(f, state, state + n, d, n);
    } else {
        increments(f, g, state, state + n, d, n);
    }
}

static void adam_step(const ps_params *params, uint64_t t, const float *g, float *state, float *w,
                      size_t n)
{
    steps(factors_of(params, t), g, state, state + n, w, n);
}

const ps_optim ps_optim_adam = {
    .name = "adam",
    .summary = "d = lr * mhat / (sqrt(vhat) + epsilon), moments m and v of g and g^2 "
               "corrected for bias (Kingma and Ba 2015)",
    .params = adam_params,
    .slots = 2,
    .increment = adam_increment,
    .step = adam_step,
};
