/* SPDX-License-Identifier: Apache-2.0 */
/* float_records.c - samples that are stored as float records; see sink.h. */
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/data/sink.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct float_records {
    ps_samples samples;
    uint32_t targets, stored;
    size_t bytes; /* size of a record of (targets + stored) floats */
    /* (stored) a copy of the argument of ps_float_records_create; NULL: all are 0 */
    uint32_t *sizes;
    ps_spill *spill;
} float_records;

/* Writes `size` features: 1 at index `value`, if that is below `size`, and 0 elsewhere. Returns the
 * place behind them. */
static float *one_hot(float *x, uint32_t size, uint32_t value)
{
    memset(x, 0, size * sizeof *x);
    if (value < size) {
        x[value] = 1.0f;
    }
    return x + size;
}

static void spread(const float_records *r, const float *values, float *x)
{
    for (uint32_t i = 0; i < r->stored; i++) {
        if (r->sizes[i] > 0) {
            x = one_hot(x, r->sizes[i], (uint32_t)values[i]);
        } else {
            *x++ = values[i];
        }
    }
}

static ps_stored float_records_stored(const ps_samples *samples, uint32_t at, void *room)
{
    const float_records *r = PS_CONTAINER_OF(samples, const float_records, samples);

    return (ps_stored){ps_spill_at(r->spill, at * (uint64_t)r->bytes, r->bytes, room), r->bytes};
}

static void float_records_make(const ps_samples *samples, const void *stored, uint64_t key,
                               float *x, float *targets)
{
    const float_records *r = PS_CONTAINER_OF(samples, const float_records, samples);
    const float *values = stored;

    (void)key; /* these samples have no random draws */
    memcpy(targets, values, r->targets * sizeof *values);
    values += r->targets;
    if (r->sizes == NULL) { /* each stored value is a feature */
        memcpy(x, values, r->stored * sizeof *values);
    } else {
        spread(r, values, x);
    }
}

static void float_records_destroy(ps_samples *samples)
{
    float_records *r = PS_CONTAINER_OF(samples, float_records, samples);

    ps_spill_destroy(r->spill);
    free(r->sizes);
    free(r);
}

ps_samples *ps_float_records_create(uint32_t targets, uint32_t stored, const uint32_t *sizes,
                                    ps_spill *spill)
{
    float_records *r = ps_xcalloc(1, sizeof *r);
    bool spreads = false;

    r->samples = (ps_samples){.stored = float_records_stored,
                              .make = float_records_make,
                              .destroy = float_records_destroy};
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
