/* SPDX-License-Identifier: Apache-2.0 */
/* normalise.c - x becomes (x - mean) / deviation, both given or measured on the training
 * samples as the source gives them, by channel or by feature. Ids stay as they are. */
#include "common/data/transform.h"

#include "common/base/xalloc.h"

#include <math.h>
#include <stdlib.h>

enum { PER, MEAN, DEVIATION };
enum { GIVEN, BY_CHANNEL, BY_FEATURE };

static const ps_param params[] = {
    [PER] = {.name = "per",
             .value = BY_CHANNEL,
             .min = GIVEN,
             .max = BY_FEATURE,
             .is_integer = true,
             .help = "0: `mean` and `deviation` as given; 1: measured by channel; 2: by feature"},
    [MEAN] =
        {.name = "mean", .value = 0, .min = -1e30, .max = 1e30, .help = "subtracted, with per 0"},
    [DEVIATION] = {.name = "deviation",
                   .value = 1,
                   .min = 1e-30,
                   .max = 1e30,
                   .help = "divided by, with per 0"},
    {.name = NULL},
};

/* state: for the features that are numbers, their means, then 1 / deviation of each. */

static ps_status plan(const ps_params *unused, ps_data_facts *facts)
{
    (void)unused;
    if (facts->ids == facts->features) {
        return ps_fail(PS_INVALID_ARGUMENT, "all features are ids, none is a number");
    }
    return ps_ok();
}

typedef struct moments {
    double mean, squares;
    uint64_t count;
} moments;

static float inverse_of(const moments *m)
{
    double deviation = sqrt(m->squares / (double)m->count);

    return deviation > 0 ? (float)(1 / deviation) : 1.0f;
}

/* Welford 1962, a group of `width` features at a time. */
static void measure(const ps_transforming *at, uint32_t numbers, uint32_t width, float *means)
{
    uint32_t count = ps_dataset_count(at->data, PS_TRAIN);
    const ps_data_facts *facts = ps_dataset_facts(at->data);
    moments *m = ps_xcalloc(numbers / width, sizeof *m);
    float *x = ps_xcalloc(facts->features, sizeof *x);
    float *targets = ps_xcalloc(facts->target_width, sizeof *targets);

    for (uint32_t i = 0; i < count; i++) {
        ps_dataset_gather(at->data, PS_TRAIN, NULL, i, 1, x, targets);
        for (uint32_t k = 0; k < numbers; k++) {
            moments *of = &m[k / width];
            double step = (double)x[k] - of->mean;

            of->count++;
            of->mean += step / (double)of->count;
            of->squares += step * ((double)x[k] - of->mean);
        }
    }
    for (uint32_t k = 0; k < numbers; k++) {
        means[k] = (float)m[k / width].mean;
        means[numbers + k] = inverse_of(&m[k / width]);
    }
    free(m);
    free(x);
    free(targets);
}

static ps_status learn(ps_transforming *at)
{
    uint32_t numbers = at->facts.features - at->facts.ids;
    float *means = ps_xcalloc(2 * (size_t)numbers, sizeof *means);

    at->state = means;
    if (at->params->v[PER] == GIVEN) {
        for (uint32_t k = 0; k < numbers; k++) {
            means[k] = (float)at->params->v[MEAN];
            means[numbers + k] = (float)(1 / at->params->v[DEVIATION]);
        }
    } else {
        measure(at, numbers,
                at->params->v[PER] == BY_CHANNEL && at->facts.ids == 0
                    ? numbers / at->facts.shape[0]
                    : 1,
                means);
    }
    return ps_ok();
}

/* Every width gives the same bits. */
static inline __attribute__((always_inline)) void
apply_body(float *restrict x, const float *restrict mean, const float *restrict inverse, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        x[k] = (x[k] - mean[k]) * inverse[k];
    }
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void apply_avx2(float *x, const float *means, uint32_t n)
{
    apply_body(x, means, means + n, n);
}
#endif

static void sample(const ps_transforming *at, ps_split split, uint64_t key, float *x,
                   float *targets)
{
    uint32_t numbers = at->facts.features - at->facts.ids;
    const float *means = at->state;

    (void)split;
    (void)key;
    (void)targets;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        apply_avx2(x, means, numbers);
        return;
    }
#endif
    apply_body(x, means, means + numbers, numbers);
}

const ps_transform ps_transform_normalise = {
    .name = "normalise",
    .summary = "numbers less their mean, by their deviation",
    .params = params,
    .plan = plan,
    .learn = learn,
    .sample = sample,
};
