/* SPDX-License-Identifier: Apache-2.0 */
/* byte_records.c - samples that are stored as bytes and gathered as floats: functions that all such
 * forms share, and records of a label and a fixed number of bytes.
 *
 * Bytes take a quarter of the memory: 60,000 images of 28 x 28 are 47 MB as bytes and 188 MB
 * as floats, and several workers may share a host.
 */
#include "common/base/clones.h"
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/data/samples.h"
#include "common/data/spill.h"

#include <assert.h>
#include <stdlib.h>

/* Sets x = from / 255 - 0.5. This is exact at both ends: 0 becomes -0.5 and 255 becomes 0.5. */
PS_CLONES(scale, (from, x, n), const uint8_t *restrict from, float *restrict x, size_t n)
{
    const float step = 1.0f / 255.0f;

    for (size_t i = 0; i < n; i++) {
        x[i] = (float)from[i] * step - 0.5f;
    }
}

void ps_bytes_scale(const uint8_t *restrict from, float *restrict x, size_t n)
{
    scale(from, x, n);
}

void ps_bytes_prefetch(const void *from, size_t n)
{
    const char *bytes = from;

    for (size_t at = 0; bytes != NULL && at < n; at += 64) {
        __builtin_prefetch(bytes + at);
    }
}

/* --- records ---------------------------------------------------------------- */

typedef struct records {
    ps_samples samples;
    uint32_t features;
    size_t bytes; /* size of a record: a label and the features, a byte each */
    ps_spill *spill;
} records;

static ps_stored records_stored(const ps_samples *samples, uint32_t at, void *room)
{
    const records *r = PS_CONTAINER_OF(samples, const records, samples);

    return (ps_stored){ps_spill_at(r->spill, at * (uint64_t)r->bytes, r->bytes, room), r->bytes};
}

static void records_make(const ps_samples *samples, const void *stored, uint64_t key, float *x,
                         float *targets)
{
    const records *r = PS_CONTAINER_OF(samples, const records, samples);
    const uint8_t *record = stored;

    (void)key; /* these samples have no random draws */
    ps_bytes_scale(record + 1, x, r->features);
    targets[0] = (float)record[0];
}

static void records_destroy(ps_samples *samples)
{
    records *r = PS_CONTAINER_OF(samples, records, samples);

    ps_spill_destroy(r->spill);
    free(r);
}

ps_samples *ps_byte_records_create(uint32_t features, ps_spill *spill)
{
    records *r = ps_xmalloc(sizeof *r);

    *r = (records){
        .samples = {.stored = records_stored,
                    .room = ps_spill_is_in_file(spill) ? 1 + (size_t)features : 0,
                    .make = records_make,
                    .destroy = records_destroy,
                    .is_far = ps_spill_is_in_file(spill)},
        .features = features,
        .bytes = 1 + (size_t)features,
        .spill = spill,
    };
    return &r->samples;
}
