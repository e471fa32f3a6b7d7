/* SPDX-License-Identifier: Apache-2.0 */
/* nonzero.c - images as those of their bytes that are not zero, gathered as floats.
 *
 * Drawings and digits are mostly background: MNIST's 47 MB of pixels take 15 MB so, and a
 * shuffled batch has fewer cache lines to wait for. A sample is a record of its label, a bit
 * for each byte (1: not zero; lowest first), and the bytes whose bit is 1. Eight bytes at a
 * time go back to their places by one shuffle and become floats in the same registers, which
 * takes as long as turning plain bytes into floats.
 */
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/data/samples.h"
#include "common/data/spill.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

enum {
    GROUP = 8,          /* bytes that a byte of bits is about */
    GROUP_VALUES = 256, /* of such a byte */
    NEAR_BYTES = 4096   /* records up to this are read back without an allocation */
};

/* places[bits][k]: which of the bytes that are there is byte k; NOWHERE: it is zero. */
typedef uint8_t group_places[GROUP_VALUES][GROUP];
enum { NOWHERE = 0x80 };

typedef void spread_fn(const group_places places, const uint8_t *bits, const uint8_t *from,
                       size_t n, const ps_affine *affine, float *x);

struct ps_nonzero {
    ps_samples samples;
    uint32_t features;
    size_t groups; /* of a sample, the last one possibly short */
    spread_fn *spread;
    ps_spill *spill;
    uint64_t *start; /* (count + 1) of the records in the spill */
    uint32_t count, cap;
    uint8_t *record; /* while samples are added */
    group_places places;
};

/* --- to floats ------------------------------------------------------------------ */

/* The n values of a sample, of whose bytes `from` up to 7 more than there are may be read: as
 * ps_bytes_scale makes them, then (x - mean) * inverse, to the bit. */
static void spread_plain(const group_places places, const uint8_t *bits, const uint8_t *from,
                         size_t n, const ps_affine *affine, float *x)
{
    uint8_t bytes[GROUP];

    for (size_t at = 0; at < n; at += GROUP, bits++) {
        size_t some = n - at < GROUP ? n - at : GROUP;

        for (size_t k = 0; k < some; k++) {
            uint8_t place = places[*bits][k];

            bytes[k] = place == NOWHERE ? 0 : from[place];
        }
        ps_bytes_scale(bytes, x + at, some);
        for (size_t k = at; k < at + some; k++) {
            x[k] = (x[k] - affine->mean) * affine->inverse;
        }
        from += __builtin_popcount(*bits);
    }
}

#ifdef __x86_64__
__attribute__((target("avx2,popcnt"))) static void spread_avx2(const group_places places,
                                                               const uint8_t *bits,
                                                               const uint8_t *from, size_t n,
                                                               const ps_affine *affine, float *x)
{
    const __m256 step = _mm256_set1_ps(1.0f / 255.0f), half = _mm256_set1_ps(0.5f);
    const __m256 mean = _mm256_set1_ps(affine->mean), inverse = _mm256_set1_ps(affine->inverse);
    size_t whole = n / GROUP;

    for (size_t i = 0; i < whole; i++) {
        __m128i there = _mm_loadl_epi64((const void *)from);
        __m128i place = _mm_loadl_epi64((const void *)places[bits[i]]);
        __m256i bytes = _mm256_cvtepu8_epi32(_mm_shuffle_epi8(there, place));
        __m256 values = _mm256_mul_ps(_mm256_cvtepi32_ps(bytes), step);

        values = _mm256_sub_ps(_mm256_sub_ps(values, half), mean);
        _mm256_storeu_ps(x + GROUP * i, _mm256_mul_ps(values, inverse));
        from += __builtin_popcount(bits[i]);
    }
    if (n % GROUP > 0) {
        spread_plain(places, bits + whole, from, n % GROUP, affine, x + GROUP * whole);
    }
}
#endif

/* The fastest that this processor has. */
static spread_fn *find_spread(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt")) {
        return spread_avx2;
    }
#endif
    return spread_plain;
}

/* --- samples -------------------------------------------------------------------- */

static bool nonzero_row_affine(const ps_samples *samples, uint32_t at, const ps_affine *affine,
                               float *x, float *targets)
{
    const ps_nonzero *z = PS_CONTAINER_OF(samples, const ps_nonzero, samples);
    uint64_t from = z->start[at];
    size_t bytes = (size_t)(z->start[at + 1] - from) + GROUP;
    const uint8_t *record = ps_spill_view(z->spill, from);
    uint8_t near[NEAR_BYTES], *copy = NULL;
    bool is_there = true;

    if (record == NULL) {
        copy = bytes <= sizeof near ? near : ps_xmalloc(bytes);
        is_there = ps_spill_read(z->spill, from, bytes, copy);
        record = copy;
    }
    if (is_there) {
        targets[0] = (float)record[0];
        z->spread(z->places, record + 1, record + 1 + z->groups, z->features, affine, x);
    }
    if (copy != near) {
        free(copy);
    }
    return is_there;
}

static bool nonzero_row(const ps_samples *samples, uint64_t key, uint32_t at, float *x,
                        float *targets)
{
    static const ps_affine same = {.mean = 0, .inverse = 1};

    (void)key; /* nothing is drawn */
    return nonzero_row_affine(samples, at, &same, x, targets);
}

static void nonzero_ask(const ps_samples *samples, uint32_t at)
{
    const ps_nonzero *z = PS_CONTAINER_OF(samples, const ps_nonzero, samples);
    const uint8_t *record = ps_spill_view(z->spill, z->start[at]);

    if (record != NULL) {
        ps_bytes_ask(record, (size_t)(z->start[at + 1] - z->start[at]));
    }
}

static void nonzero_destroy(ps_samples *samples)
{
    ps_nonzero *z = PS_CONTAINER_OF(samples, ps_nonzero, samples);

    ps_spill_destroy(z->spill);
    free(z->start);
    free(z->record);
    free(z);
}

/* --- making them ------------------------------------------------------------------ */

ps_nonzero *ps_nonzero_create(uint32_t features, const char *scratch, size_t memory_max)
{
    ps_nonzero *z = ps_xcalloc(1, sizeof *z);

    z->samples = (ps_samples){.row = nonzero_row,
                              .row_affine = nonzero_row_affine,
                              .ask = nonzero_ask,
                              .destroy = nonzero_destroy};
    z->features = features;
    z->groups = ((size_t)features + GROUP - 1) / GROUP;
    z->spread = find_spread();
    z->spill = ps_spill_create(scratch, memory_max);
    z->record = ps_xmalloc(1 + z->groups + features);
    for (size_t bits = 0; bits < GROUP_VALUES; bits++) {
        uint8_t next = 0;

        for (size_t k = 0; k < GROUP; k++) {
            z->places[bits][k] = (bits >> k & 1) != 0 ? next++ : (uint8_t)NOWHERE;
        }
    }
    return z;
}

void ps_nonzero_destroy(ps_nonzero *z)
{
    if (z != NULL) {
        nonzero_destroy(&z->samples);
    }
}

/* Room for the place behind one more sample. */
static ps_status make_room(ps_nonzero *z)
{
    uint32_t cap = z->cap == 0 ? 1024 : z->cap + z->cap / 2;
    uint64_t *more;

    if ((uint64_t)z->count + 1 < z->cap) {
        return ps_ok();
    }
    more = cap < z->cap ? NULL : realloc(z->start, cap * sizeof *more);
    if (more == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for the places of %u samples", z->count);
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
        *to = x[k]; /* written over where it is zero */
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
    static const uint8_t behind[GROUP]; /* read with the last bytes, and left out */
    ps_status st = ps_spill_add(z->spill, behind, sizeof behind);

    if (ps_is_ok(&st)) {
        st = ps_spill_end(z->spill);
    }
    free(z->record);
    z->record = NULL;
    if (ps_is_ok(&st)) {
        *out = &z->samples;
    }
    return st;
}
