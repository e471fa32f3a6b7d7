/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - samples as rows of floats; see sink.h. */
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/data/sink.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct rows {
    ps_samples samples;
    uint32_t targets, stored;
    uint32_t *sizes; /* (stored), or NULL */
    ps_spill *spill;
} rows;

/* One value as `size` features. */
static float *one_hot(float *x, uint32_t size, uint32_t value)
{
    memset(x, 0, size * sizeof *x);
    if (value < size) {
        x[value] = 1.0f;
    }
    return x + size;
}

static void spread(const rows *r, const float *values, float *x)
{
    for (uint32_t i = 0; i < r->stored; i++) {
        if (r->sizes[i] > 0) {
            x = one_hot(x, r->sizes[i], (uint32_t)values[i]);
        } else {
            *x++ = values[i];
        }
    }
}

static bool rows_row(const ps_samples *samples, uint64_t key, uint32_t at, float *x, float *targets)
{
    const rows *r = PS_CONTAINER_OF(samples, const rows, samples);
    size_t bytes = ((size_t)r->targets + r->stored) * sizeof(float);
    size_t target_bytes = r->targets * sizeof(float), rest = bytes - target_bytes;
    const uint8_t *row = ps_spill_view(r->spill, at * bytes);
    float *copy = NULL;

    (void)key;              /* nothing is drawn */
    if (r->sizes == NULL) { /* as it is stored */
        return ps_spill_read(r->spill, at * bytes, target_bytes, targets) &&
               ps_spill_read(r->spill, at * bytes + target_bytes, rest, x);
    }
    if (row != NULL) {
        memcpy(targets, row, target_bytes);
        spread(r, (const float *)(const void *)(row + target_bytes), x);
        return true;
    }
    copy = ps_xmalloc(bytes);
    if (!ps_spill_read(r->spill, at * bytes, bytes, copy)) {
        free(copy);
        return false;
    }
    memcpy(targets, copy, target_bytes);
    spread(r, copy + r->targets, x);
    free(copy);
    return true;
}

static void rows_ask(const ps_samples *samples, uint32_t at)
{
    const rows *r = PS_CONTAINER_OF(samples, const rows, samples);
    size_t bytes = ((size_t)r->targets + r->stored) * sizeof(float);
    const uint8_t *row = ps_spill_view(r->spill, at * bytes);

    for (size_t i = 0; row != NULL && i < bytes; i += 64) {
        __builtin_prefetch(row + i);
    }
}

static void rows_destroy(ps_samples *samples)
{
    rows *r = PS_CONTAINER_OF(samples, rows, samples);

    ps_spill_destroy(r->spill);
    free(r->sizes);
    free(r);
}

ps_samples *ps_rows_create(uint32_t targets, uint32_t stored, const uint32_t *sizes,
                           ps_spill *spill)
{
    rows *r = ps_xcalloc(1, sizeof *r);
    bool spreads = false;

    r->samples = (ps_samples){.row = rows_row, .ask = rows_ask, .destroy = rows_destroy};
    r->samples.is_far = ps_spill_is_in_file(spill);
    r->targets = targets;
    r->stored = stored;
    r->spill = spill;
    for (uint32_t i = 0; sizes != NULL && i < stored; i++) {
        spreads = spreads || sizes[i] > 0;
    }
    if (spreads) {
        r->sizes = ps_xcalloc(stored, sizeof *r->sizes);
        memcpy(r->sizes, sizes, stored * sizeof *r->sizes);
    }
    return &r->samples;
}
