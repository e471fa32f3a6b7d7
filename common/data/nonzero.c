/* SPDX-License-Identifier: Apache-2.0 */
/* nonzero.c - images stored as their non-zero bytes, gathered as floats.
 *
 * Drawings and digits are mostly background. MNIST's 47 MB of pixels take 15 MB in this form,
 * and a shuffled batch touches fewer cache lines. The record of a sample is its label, one bit
 * per byte (1: not zero; lowest first), and the bytes whose bit is 1. spread.c makes floats of
 * it faster than of plain bytes.
 */
#include "common/data/nonzero.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/data/spill.h"
#include "common/data/spread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = PS_SPREAD_GROUP };

struct ps_nonzero {
    ps_samples samples;
    uint32_t features;
    size_t groups; /* groups of GROUP bytes in a sample; the last one may be shorter */
    ps_spread_fn *spread;
    ps_spill *spill;
    uint64_t *start; /* (count + 1): where each record begins in the spill, and the last ends */
    uint32_t count, cap;
    uint8_t *record; /* the record that is being built */
    ps_spread_places places;
};

/* --- samples -------------------------------------------------------------------- */

static ps_stored nonzero_stored(const ps_samples *samples, uint32_t at, void *room)
{
    const ps_nonzero *z = PS_CONTAINER_OF(samples, const ps_nonzero, samples);
    uint64_t from = z->start[at];
    size_t bytes = (size_t)(z->start[at + 1] - from);

    return (ps_stored){ps_spill_at(z->spill, from, bytes + PS_SPREAD_BLOCK, room), bytes};
}

static void nonzero_make_affine(const ps_samples *samples, const void *stored,
                                const ps_affine *affine, float *x, float *targets)
{
    const ps_nonzero *z = PS_CONTAINER_OF(samples, const ps_nonzero, samples);
    const uint8_t *record = stored;

    targets[0] = (float)record[0];
    z->spread(&z->places, record + 1, record + 1 + z->groups, z->features, affine, x);
}

static void nonzero_make(const ps_samples *samples, const void *stored, uint64_t key, float *x,
                         float *targets)
{
    static const ps_affine same = {.mean = 0, .inverse = 1};

    (void)key; /* these samples have no random draws */
    nonzero_make_affine(samples, stored, &same, x, targets);
}

static void nonzero_prefetch(const ps_samples *samples, uint32_t at)
{
    const ps_nonzero *z = PS_CONTAINER_OF(samples, const ps_nonzero, samples);

    __builtin_prefetch(&z->start[at]);
}

static void nonzero_destroy(ps_samples *samples)
{
    ps_nonzero *z = PS_CONTAINER_OF(samples, ps_nonzero, samples);

    ps_spill_destroy(z->spill);
    free(z->start);
    free(z->record);
    free(z);
}

/* --- building --------------------------------------------------------------------- */

ps_nonzero *ps_nonzero_create(uint32_t features, const char *scratch, size_t memory_max)
{
    ps_nonzero *z = ps_xcalloc(1, sizeof *z);

    z->samples = (ps_samples){.stored = nonzero_stored,
                              .make = nonzero_make,
                              .make_affine = nonzero_make_affine,
                              .prefetch = nonzero_prefetch,
                              .destroy = nonzero_destroy};
    z->features = features;
    z->groups = ((size_t)features + GROUP - 1) / GROUP;
    z->spread = ps_spread_of(ps_cpu_level());
    z->spill = ps_spill_create(scratch, memory_max);
    z->record = ps_xmalloc(1 + z->groups + features);
    ps_spread_fill(&z->places);
    return z;
}

void ps_nonzero_destroy(ps_nonzero *z)
{
    if (z != NULL) {
        nonzero_destroy(&z->samples);
    }
}

/* Grows `start` so that it holds the end of one more sample. */
static ps_status make_room(ps_nonzero *z)
{
    uint32_t cap = z->cap == 0 ? 1024 : z->cap + z->cap / 2;
    uint64_t *more;

    if ((uint64_t)z->count + 1 < z->cap) {
        return ps_ok();
    }
    more = cap < z->cap ? NULL : realloc(z->start, cap * sizeof *more);
    if (more == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for the offsets of %u samples", z->count);
    }
    more[z->count] = z->count == 0 ? 0 : more[z->count];
    z->start = more;
    z->cap = cap;
    return ps_ok();
}

ps_status ps_nonzero_add(ps_nonzero *z, const uint8_t *x, uint8_t label)
{
    uint8_t *bits = z->record + 1, *to = bits + z->groups;
    ps_status st = make_room(z);

    if (!ps_is_ok(&st)) {
        return st;
    }
    z->record[0] = label;
    memset(bits, 0, z->groups);
    for (uint32_t k = 0; k < z->features; k++) {
        bits[k / GROUP] |= (uint8_t)((x[k] != 0) << k % GROUP);
        *to = x[k]; /* a zero is overwritten by the next byte */
        to += x[k] != 0;
    }
    st = ps_spill_add(z->spill, z->record, (size_t)(to - z->record));
    if (ps_is_ok(&st)) {
        z->count++;
        z->start[z->count] = ps_spill_bytes(z->spill);
    }
    return st;
}

ps_status ps_nonzero_end(ps_nonzero *z, ps_samples **out)
{
    /* Samples are read in whole blocks: that of the last sample may go beyond its end. */
    static const uint8_t behind[PS_SPREAD_BLOCK];
    ps_status st = ps_spill_add(z->spill, behind, sizeof behind);

    if (ps_is_ok(&st)) {
        st = ps_spill_end(z->spill);
    }
    free(z->record);
    z->record = NULL;
    if (ps_is_ok(&st)) {
        z->samples.is_far = ps_spill_is_in_file(z->spill);
        z->samples.room = z->samples.is_far ? 1 + z->groups + z->features + PS_SPREAD_BLOCK : 0;
        *out = &z->samples;
    }
    return st;
}
