/* SPDX-License-Identifier: Apache-2.0 */
/* simlin.c - synthetic linear data, drawn sample by sample: y = W x + b + noise.
 *
 * The distributions are those of Parallel-SGD's SimLin: x uniform in [0, 10), W uniform in [0, 1 /
 * (features outputs)), b normal with deviation 0.1. The noise is normal; its deviation is a
 * parameter, by default 0, as there. A draw depends only on its key and index, so every node has
 * the same W and the same samples. W and b are kept, and the targets if they are few: computing W x
 * takes longer than drawing x.
 */
#include "common/base/clones.h"
#include "common/base/container_of.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Increase SIMLIN_VERSION whenever a sample changes. */
enum { SIMLIN_VERSION = 2, VALUES_MAX = 1 << 24 };

/* The targets of a split are kept up to these limits: the number of targets, and the number of
 * products that computing them takes, which is about a tenth of a second of the loading. */
enum { KEPT_MAX = 1 << 20, KEPT_DRAWS_MAX = 1 << 28 };

enum { FEATURES, OUTPUTS, TRAIN, TEST, NOISE, DRAW };

static const ps_param params[] = {
    [FEATURES] = {.name = "features",
                  .value = 1024,
                  .min = 1,
                  .max = PS_DATA_FEATURES_MAX,
                  .is_integer = true,
                  .help = "values of a sample"},
    [OUTPUTS] = {.name = "outputs",
                 .value = 1,
                 .min = 1,
                 .max = 4096,
                 .is_integer = true,
                 .help = "target values of a sample"},
    [TRAIN] = {.name = "train",
               .value = 50000,
               .min = 1,
               .max = 1 << 30,
               .is_integer = true,
               .help = "training samples"},
    [TEST] = {.name = "test",
              .value = 10000,
              .min = 1,
              .max = 1 << 30,
              .is_integer = true,
              .help = "test samples"},
    [NOISE] = {.name = "noise",
               .value = 0,
               .min = 0,
               .max = 1e6,
               .help = "deviation of the normal noise on the targets"},
    [DRAW] = {.name = "draw",
              .value = 0,
              .min = 0,
              .max = 4294967295.0,
              .is_integer = true,
              .help = "number of the set: another one has other weights and samples"},
    {.name = NULL},
};

typedef struct simlin {
    ps_samples samples;
    uint32_t features, outputs;
    uint64_t draw;
    ps_split split;
    float noise;
    float *w;    /* (outputs, features) */
    float *b;    /* (outputs) */
    float *kept; /* (samples, outputs): targets; NULL: computed when a sample is gathered */
} simlin;

/* Draws the inputs of a sample. Adding the stride to the key saves a multiplication per draw. */
PS_CLONES(draw_inputs, (key, x, n), uint32_t key, float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++, key += PS_DRAW_U32_STRIDE) {
        x[i] = (float)(int32_t)(ps_draw_u32(key, 0) >> 8) * (10.0f / 16777216.0f);
    }
}

enum { SUMS = 16 };

/* Adds the products i with i mod SUMS = k to partial sum k. The fixed order of additions gives
 * the same bits for every vector width and host. */
PS_CLONES(add_products, (w, x, n, part), const float *restrict w, const float *restrict x, size_t n,
          double *restrict part)
{
    for (size_t i = 0; i < n; i += SUMS) {
        for (size_t k = 0; k < SUMS; k++) {
            part[k] += (double)(w[i + k] * x[i + k]);
        }
    }
}

static double dot(const float *w, const float *x, size_t n)
{
    double part[SUMS] = {0}, sum = 0;
    size_t whole = n / SUMS * SUMS;

    add_products(w, x, whole, part);
    for (size_t i = whole; i < n; i++) {
        part[i - whole] += (double)(w[i] * x[i]);
    }
    for (size_t k = 0; k < SUMS; k++) {
        sum += part[k];
    }
    return sum;
}

/* Draws the inputs of sample `at`. Returns its key, from which make_targets draws the noise. */
static uint64_t make_inputs(const simlin *s, uint32_t at, float *x)
{
    uint64_t own = ps_draw_key(s->draw, PS_DRAW_SIMLIN, s->split, at, 0);

    draw_inputs((uint32_t)ps_draw_u64(own, 0), x, s->features);
    return own;
}

static void make_targets(const simlin *s, uint64_t own, const float *x, float *targets)
{
    for (uint32_t o = 0; o < s->outputs; o++) {
        double y = (double)s->b[o] + dot(s->w + (size_t)o * s->features, x, s->features);

        if (s->noise > 0) {
            y += (double)s->noise * ps_draw_normal(own, 1 + (uint64_t)o);
        }
        targets[o] = (float)y;
    }
}

/* The stored form is the index of the sample, from which everything is drawn. */
static ps_stored simlin_stored(const ps_samples *samples, uint32_t at, void *room)
{
    (void)samples;
    memcpy(room, &at, sizeof at);
    return (ps_stored){room, sizeof at};
}

static void simlin_make(const ps_samples *samples, const void *stored, uint64_t key, float *x,
                        float *targets)
{
    const simlin *s = PS_CONTAINER_OF(samples, const simlin, samples);
    const uint32_t *at = stored;
    uint64_t own = make_inputs(s, *at, x);

    (void)key; /* a sample is the same in each pass */
    if (s->kept != NULL) {
        memcpy(targets, s->kept + (size_t)*at * s->outputs, s->outputs * sizeof *targets);
    } else {
        make_targets(s, own, x, targets);
    }
}

static void simlin_destroy(ps_samples *samples)
{
    simlin *s = PS_CONTAINER_OF(samples, simlin, samples);

    free(s->w);
    free(s->b);
    free(s->kept);
    free(s);
}

static ps_status simlin_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    uint32_t features = ps_data_count(conf, "features"), outputs = ps_data_count(conf, "outputs");

    if ((uint64_t)features * outputs > VALUES_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "simlin: features %u times outputs %u exceeds the limit of %d weights",
                       features, outputs, VALUES_MAX);
    }
    facts->shape[0] = facts->shape[1] = 1;
    facts->shape[2] = facts->features = features;
    facts->target_width = outputs;
    facts->train_count = ps_data_count(conf, "train");
    facts->test_count = ps_data_count(conf, "test");
    return ps_ok();
}

/* Computes and keeps the targets of all `count` samples, if they are within KEPT_MAX and
 * KEPT_DRAWS_MAX. */
static void keep_targets(simlin *s, uint32_t count)
{
    float *x;

    if ((uint64_t)count * s->outputs > KEPT_MAX ||
        (uint64_t)count * s->features > KEPT_DRAWS_MAX / s->outputs) {
        return;
    }
    s->kept = ps_xmalloc((size_t)count * s->outputs * sizeof *s->kept);
    x = ps_xmalloc(s->features * sizeof *x);
    for (uint32_t i = 0; i < count; i++) {
        make_targets(s, make_inputs(s, i, x), x, s->kept + (size_t)i * s->outputs);
    }
    free(x);
}

static ps_samples *create(const ps_data_conf *conf, const ps_data_facts *facts, ps_split split)
{
    simlin *s = ps_xcalloc(1, sizeof *s);
    size_t n = (size_t)facts->features * facts->target_width;
    uint64_t key;

    s->samples = (ps_samples){.stored = simlin_stored,
                              .room = sizeof(uint32_t),
                              .make = simlin_make,
                              .destroy = simlin_destroy};
    s->features = facts->features;
    s->outputs = facts->target_width;
    s->draw = ps_data_count(conf, "draw");
    s->split = split;
    s->noise = (float)ps_data_number(conf, "noise");
    s->w = ps_xmalloc(n * sizeof *s->w);
    s->b = ps_xmalloc(s->outputs * sizeof *s->b);
    /* W and b have 2 and 3 in place of a split, so that no sample has their keys */
    key = ps_draw_key(s->draw, PS_DRAW_SIMLIN, 2, 0, 0);
    for (size_t i = 0; i < n; i++) {
        s->w[i] = (float)(ps_draw_unit(key, i) / (double)n);
    }
    key = ps_draw_key(s->draw, PS_DRAW_SIMLIN, 3, 0, 0);
    for (uint32_t o = 0; o < s->outputs; o++) {
        s->b[o] = (float)(0.1 * ps_draw_normal(key, o));
    }
    keep_targets(s, split == PS_TRAIN ? facts->train_count : facts->test_count);
    return &s->samples;
}

static ps_status load(const ps_data_conf *conf, const char *folder, const char *scratch,
                      ps_dataset **out)
{
    ps_data_facts facts = {.features = 0};
    ps_status st = simlin_facts(conf, &facts);

    (void)folder; /* there are no files */
    (void)scratch;
    if (!ps_is_ok(&st)) {
        return st;
    }
    facts.train_count = ps_data_limited(facts.train_count, conf->train_limit);
    facts.test_count = ps_data_limited(facts.test_count, conf->test_limit);
    *out = ps_dataset_create(&facts);
    (*out)->split[PS_TRAIN] = create(conf, &facts, PS_TRAIN);
    (*out)->split[PS_TEST] = create(conf, &facts, PS_TEST);
    return ps_ok();
}

const ps_data_source ps_data_source_simlin = {
    .name = "simlin",
    .summary = "synthetic linear data y = W x + b, drawn by the program, values as targets",
    .params = params,
    .version = SIMLIN_VERSION,
    .facts = simlin_facts,
    .load = load,
};
