/* SPDX-License-Identifier: Apache-2.0 */
/* normalise.c - x becomes (x - mean) / deviation. Both are given, or measured by channel or by
 * feature on the training samples as the source gives them. If samples have ids, "by channel" is by
 * feature, too. Ids are not changed. */
#include "common/data/transform.h"

#include "common/base/clones.h"
#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PER, MEAN, DEVIATION };
enum { GIVEN, BY_CHANNEL, BY_FEATURE };

static const ps_param params[] = {
    [PER] = {.name = "per",
             .value = BY_CHANNEL,
             .min = GIVEN,
             .max = BY_FEATURE,
             .is_integer = true,
             .help =
                 "0: uses `mean` and `deviation`; 1: measured by channel; 2: measured by feature"},
    [MEAN] =
        {.name = "mean", .value = 0, .min = -1e30, .max = 1e30, .help = "subtracted if per is 0"},
    [DEVIATION] =
        {.name = "deviation", .value = 1, .min = 1e-30, .max = 1e30, .help = "divisor if per is 0"},
    {.name = NULL},
};

/* The learned values. Numeric features are in groups of `width` with one mean, usually
 * channels. */
typedef struct learned {
    size_t groups, width;
    float mean[]; /* (2, groups): means, then 1 / deviation of each group */
} learned;

static ps_status plan(const ps_params *unused, ps_data_facts *facts)
{
    (void)unused;
    if (facts->ids == facts->features) {
        return ps_fail(PS_INVALID_ARGUMENT, "all features are ids; at least one number is needed");
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

/* Measures mean and deviation of each group on all training samples (Welford 1962). Writes the
 * means and 1 / deviation, 1 if the deviation is 0. */
static void measure(const ps_transforming *at, learned *l)
{
    uint32_t count = ps_dataset_count(at->data, PS_TRAIN);
    const ps_data_facts *facts = ps_dataset_facts(at->data);
    moments *m = ps_xcalloc(l->groups, sizeof *m);
    float *x = ps_xcalloc(facts->features, sizeof *x);
    float *targets = ps_xcalloc(facts->target_width, sizeof *targets);

    for (uint32_t i = 0; i < count; i++) {
        ps_dataset_gather(at->data, PS_TRAIN, NULL, i, 1, x, targets);
        for (size_t k = 0; k < l->groups * l->width; k++) {
            moments *of = &m[k / l->width];
            double step = (double)x[k] - of->mean;

            of->count++;
            of->mean += step / (double)of->count;
            of->squares += step * ((double)x[k] - of->mean);
        }
    }
    for (size_t g = 0; g < l->groups; g++) {
        l->mean[g] = (float)m[g].mean;
        l->mean[l->groups + g] = inverse_of(&m[g]);
    }
    free(m);
    free(x);
    free(targets);
}

static bool learns(const ps_params *p)
{
    return p->v[PER] != GIVEN;
}

static ps_status learn(ps_transforming *at)
{
    const ps_params *p = at->params;
    size_t numbers = at->facts.features - at->facts.ids;
    size_t groups = p->v[PER] == GIVEN                              ? 1
                    : p->v[PER] == BY_CHANNEL && at->facts.ids == 0 ? at->facts.shape[0]
                                                                    : numbers;
    learned *l = ps_xcalloc(1, sizeof *l + 2 * groups * sizeof l->mean[0]);

    l->groups = groups;
    l->width = numbers / groups;
    at->state = l;
    if (p->v[PER] == GIVEN) {
        l->mean[0] = (float)p->v[MEAN];
        l->mean[1] = (float)(1 / p->v[DEVIATION]);
    } else if (at->known != NULL) {
        if (at->known_count != 2 * groups) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "what was learned from all files: values[%u] are %zu; %zu are expected",
                           at->place, at->known_count, 2 * groups);
        }
        memcpy(l->mean, at->known, 2 * groups * sizeof l->mean[0]);
    } else {
        measure(at, l);
    }
    return ps_ok();
}

static const float *measured(const ps_transforming *at, size_t *count)
{
    const learned *l = at->state;

    *count = 2 * l->groups;
    return l->mean;
}

/* Normalises n values that share one mean. Every vector width gives the same bits. */
PS_CLONES(apply_one, (x, mean, inverse, n), float *restrict x, float mean, float inverse, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        x[k] = (x[k] - mean) * inverse;
    }
}

/* Normalises n values, each with a mean of its own. Every vector width gives the same bits. */
PS_CLONES(apply_each, (x, mean, inverse, n), float *restrict x, const float *restrict mean,
          const float *restrict inverse, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        x[k] = (x[k] - mean[k]) * inverse[k];
    }
}

static void sample(const ps_transforming *at, ps_split split, uint64_t key, float *x,
                   float *targets)
{
    const learned *l = at->state;

    (void)split;
    (void)key;
    (void)targets;
    if (l->width == 1) {
        apply_each(x, l->mean, l->mean + l->groups, l->groups);
        return;
    }
    for (size_t g = 0; g < l->groups; g++) {
        apply_one(x + g * l->width, l->mean[g], l->mean[l->groups + g], l->width);
    }
}

static bool is_affine(const ps_transforming *at, ps_affine *out)
{
    const learned *l = at->state;

    *out = (ps_affine){.mean = l->mean[0], .inverse = l->mean[l->groups]};
    return l->groups == 1 && at->facts.ids == 0;
}

const ps_transform ps_transform_normalise = {
    .name = "normalise",
    .summary = "(x - mean) / deviation of numbers",
    .params = params,
    .plan = plan,
    .learns = learns,
    .learn = learn,
    .measured = measured,
    .sample = sample,
    .is_affine = is_affine,
};
