/* SPDX-License-Identifier: Apache-2.0 */
/* samples.h - samples in the form that a source stores, and those that are stored as bytes. Private
 * to common/data. */
#ifndef PS_COMMON_DATA_SAMPLES_H
#define PS_COMMON_DATA_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The samples of a split. A source embeds this struct as the first member of its own, which has the
 * samples as it stores them. */
typedef struct ps_samples ps_samples;
typedef struct ps_affine ps_affine;

/* The stored form of a sample. `at` is NULL if the disk did not return it. */
typedef struct ps_stored {
    const void *at;
    size_t bytes;
} ps_stored;

/* The map of x to (x - mean) * inverse. */
struct ps_affine {
    float mean, inverse;
};

/* Distance, in samples, of prefetching. Samples of a shuffled block lie anywhere in memory. */
enum { PS_SAMPLES_AHEAD = 4 };

struct ps_samples {
    /* Returns the stored form of sample `at`: its place in memory, or a copy read into `room`.
     * `at` of the result is NULL if the disk fails. Any thread may call it. */
    ps_stored (*stored)(const ps_samples *samples, uint32_t at, void *room);
    /* greatest size of a stored form that is read into `room`, which is aligned for any type */
    size_t room;
    /* Makes a sample of its stored form: x (features), targets (target_width). If `draws`,
     * `key` determines its random draws in this pass. */
    void (*make)(const ps_samples *samples, const void *stored, uint64_t key, float *x,
                 float *targets);
    /* (optional) Makes a sample as `make` does, then replaces each x by (x - mean) * inverse. Only
     * for samples that draw nothing. */
    void (*make_affine)(const ps_samples *samples, const void *stored, const ps_affine *affine,
                        float *x, float *targets);
    /* (optional) Prefetches what `stored` will need for sample `at`. */
    void (*prefetch)(const ps_samples *samples, uint32_t at);
    /* Frees the samples. */
    void (*destroy)(ps_samples *samples);
    bool draws;  /* true: `make` uses its key for random draws; false: the key is 0 */
    bool is_far; /* true: some stored forms lie in a file and are read sample by sample */
};

/* --- byte_records.c: images as bytes, x / 255 - 0.5 -------------------------------- */

/* Sets x (n) to from / 255 - 0.5. Every vector width gives the same bits. */
void ps_bytes_scale(const uint8_t *restrict from, float *restrict x, size_t n);

/* Prefetches n bytes. Does nothing if `from` is NULL. */
void ps_bytes_prefetch(const void *from, size_t n);

struct ps_spill;
/* Makes samples of records of a label and `features` bytes. Takes the spill, which must have
 * ended. */
ps_samples *ps_byte_records_create(uint32_t features, struct ps_spill *records);

#endif
