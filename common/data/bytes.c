/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.c - samples as bytes, gathered as floats.
 *
 * Bytes, because 60,000 images are 47 MB so and 188 MB as floats, and several
 * workers share a host.
 */
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/data/samples.h"
#include "common/data/spill.h"

#include <assert.h>
#include <stdlib.h>

/* Without branches or calls, so that it vectorises. The product is exact at
 * both ends: 0 becomes -0.5 and 255 becomes 0.5. Every width gives the same bits. */
static inline __attribute__((always_inline)) void scale_body(const uint8_t *restrict from,
                                                             float *restrict x, size_t n)
{
    const float step = 1.0f / 255.0f;

    for (size_t i = 0; i < n; i++) {
        x[i] = (float)from[i] * step - 0.5f;
    }
}

static void scale_plain(const uint8_t *from, float *x, size_t n)
{
    scale_body(from, x, n);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void scale_avx2(const uint8_t *from, float *x, size_t n)
{
    scale_body(from, x, n);
}
#endif

typedef void scale_fn(const uint8_t *from, float *x, size_t n);

/* The widest that this processor has. */
static scale_fn *find_scale(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        return scale_avx2;
    }
#endif
    return scale_plain;
}

typedef struct bytes {
    ps_samples samples;
    uint32_t features;
    scale_fn *scale;
    const uint8_t *x;              /* (count, features) */
    const uint8_t *labels;         /* (count) */
    void *x_memory, *label_memory; /* what they are in */
} bytes;

static bool bytes_row(const ps_samples *samples, uint64_t key, uint32_t at, float *x,
                      float *targets)
{
    const bytes *b = PS_CONTAINER_OF(samples, const bytes, samples);

    (void)key; /* nothing is drawn */
    b->scale(b->x + (size_t)at * b->features, x, b->features);
    targets[0] = (float)b->labels[at];
    return true;
}

/* Rows of a shuffled batch lie anywhere in 47 MB: asked for before their turn, they
 * are there when it comes. */
static void prefetch(const uint8_t *from, size_t n)
{
    for (size_t at = 0; at < n; at += 64) {
        __builtin_prefetch(from + at);
    }
}

static void bytes_ask(const ps_samples *samples, uint32_t at)
{
    const bytes *b = PS_CONTAINER_OF(samples, const bytes, samples);

    prefetch(b->x + (size_t)at * b->features, b->features);
}

static void bytes_destroy(ps_samples *samples)
{
    bytes *b = PS_CONTAINER_OF(samples, bytes, samples);

    free(b->x_memory);
    free(b->label_memory);
    free(b);
}

ps_samples *ps_bytes_create(uint32_t features, void *x_memory, size_t x_at, void *label_memory,
                            size_t label_at)
{
    bytes *b = ps_xmalloc(sizeof *b);

    *b = (bytes){
        .samples = {.row = bytes_row, .ask = bytes_ask, .destroy = bytes_destroy},
        .features = features,
        .scale = find_scale(),
        .x = (const uint8_t *)x_memory + x_at,
        .labels = (const uint8_t *)label_memory + label_at,
        .x_memory = x_memory,
        .label_memory = label_memory,
    };
    return &b->samples;
}

/* --- records ---------------------------------------------------------------- */

enum { RECORD_BYTES_MAX = 4096 };

typedef struct records {
    ps_samples samples;
    uint32_t features;
    scale_fn *scale;
    ps_spill *spill;
} records;

static bool records_row(const ps_samples *samples, uint64_t key, uint32_t at, float *x,
                        float *targets)
{
    const records *r = PS_CONTAINER_OF(samples, const records, samples);
    uint64_t place = (uint64_t)at * (1 + r->features);
    uint8_t copy[RECORD_BYTES_MAX];
    const uint8_t *record = ps_spill_view(r->spill, place);

    (void)key;
    if (record == NULL) {
        if (!ps_spill_read(r->spill, place, 1 + r->features, copy)) {
            return false;
        }
        record = copy;
    }
    r->scale(record + 1, x, r->features);
    targets[0] = (float)record[0];
    return true;
}

static void records_ask(const ps_samples *samples, uint32_t at)
{
    const records *r = PS_CONTAINER_OF(samples, const records, samples);
    const uint8_t *record = ps_spill_view(r->spill, (uint64_t)at * (1 + r->features));

    if (record != NULL) {
        prefetch(record, 1 + r->features);
    }
}

static void records_destroy(ps_samples *samples)
{
    records *r = PS_CONTAINER_OF(samples, records, samples);

    ps_spill_destroy(r->spill);
    free(r);
}

ps_samples *ps_records_create(uint32_t features, ps_spill *spill)
{
    records *r = ps_xmalloc(sizeof *r);

    assert(features < RECORD_BYTES_MAX);
    *r = (records){
        .samples = {.row = records_row, .ask = records_ask, .destroy = records_destroy},
        .features = features,
        .scale = find_scale(),
        .spill = spill,
    };
    return &r->samples;
}
