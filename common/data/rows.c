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
    size_t bytes;    /* of a row */
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

static ps_stored rows_stored(const ps_samples *samples, uint32_t at, void *room)
{
    const rows *r = PS_CONTAINER_OF(samples, const rows, samples);

    return (ps_stored){ps_spill_at(r->spill, at * (uint64_t)r->bytes, r->bytes, room), r->bytes};
}

static void rows_row(const ps_samples *samples, const void *stored, uint64_t key, float *x,
                     float *targets)
{
    const rows *r = PS_CONTAINER_OF(samples, const rows, samples);
    const float *values = stored;

    (void)key; /* nothing is drawn */
    memcpy(targets, values, r->targets * sizeof *values);
    values += r->targets;
    if (r->sizes == NULL) { /* as it is stored */
        memcpy(x, values, r->stored * sizeof *values);
    } else {
        spread(r, values, x);
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

    r->samples = (ps_samples){.stored = rows_stored, .row = rows_row, .destroy = rows_destroy};
    r->bytes = ((size_t)targets + stored) * sizeof(float);
    r->samples.is_far = ps_spill_is_in_file(spill);
    r->samples.room = r->samples.is_far ? r->bytes : 0;
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
