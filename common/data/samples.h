/* SPDX-License-Identifier: Apache-2.0 */
/* samples.h - what a ps_dataset is made of; for common/data alone. */
#ifndef PS_COMMON_DATA_SAMPLES_H
#define PS_COMMON_DATA_SAMPLES_H

#include "common/data/dataset.h"

#include <stdatomic.h>

/* The samples of a split, in whatever form a source keeps them; the first member of that
 * form. */
typedef struct ps_samples ps_samples;
typedef struct ps_affine ps_affine;

/* What is kept of a sample: bytes in memory, or, `at` NULL, on a disk that does not give them. */
typedef struct ps_stored {
    const void *at;
    size_t bytes;
} ps_stored;

struct ps_affine {
    float mean, inverse;
};

/* Samples of a shuffled block lie anywhere: asked for so many before their turn, they are near when
 * it comes. */
enum { PS_SAMPLES_AHEAD = 4 };

struct ps_samples {
    /* Sample `at` as it is stored: where that lies in memory, else in `room`, into which it is
     * read. Nowhere when the disk does not give it. Any thread may do it for another. */
    ps_stored (*stored)(const ps_samples *samples, uint32_t at, void *room);
    size_t room; /* bytes of room that it takes at most; aligned for any type */
    /* Makes a sample of what is stored: x (features), targets (target_width). `key` names its draws
     * in this pass, where it `draws`. */
    void (*row)(const ps_samples *samples, const void *stored, uint64_t key, float *x,
                float *targets);
    /* (optional) The same, of samples that draw nothing, then (x - mean) * inverse of each x. */
    void (*row_affine)(const ps_samples *samples, const void *stored, const ps_affine *affine,
                       float *x, float *targets);
    /* (optional) `stored` will be asked so many samples later: prefetches what says where it is. */
    void (*soon)(const ps_samples *samples, uint32_t at);
    void (*destroy)(ps_samples *samples);
    bool draws;  /* else it is given no key */
    bool is_far; /* some of it lies in a file, and is read sample by sample */
};

struct ps_dataset {
    ps_data_facts facts;
    ps_samples *split[2]; /* by ps_split; NULL: none */
    /* Of the training samples: where those of each file begin, and the file's number. */
    uint32_t file_first[PS_DATA_FILES_MAX], file_number[PS_DATA_FILES_MAX], file_count;
    atomic_bool is_lost; /* a sample did not come back */
};

/* Without samples; counts are the facts'. */
ps_dataset *ps_dataset_create(const ps_data_facts *facts);

/* Which samples are gathered, and how. */
typedef struct ps_gathering {
    uint64_t seed, pass; /* sample i's draws are those of ps_sample_key */
    ps_split split;
    const uint32_t *index; /* (n + soon); NULL: first, first + 1 ... */
    uint32_t first, n;
    uint32_t soon;           /* so many more will be gathered next, and are asked for */
    const ps_stored *stored; /* (n + soon) of each sample, as they gave it; NULL: not known yet */
    const ps_affine *affine; /* NULL, or for the samples' row_affine */
    size_t target_pitch;     /* values from a sample's targets to the next one's */
} ps_gathering;

/* As ps_dataset_gather. */
void ps_dataset_gather_pass(const ps_dataset *data, const ps_gathering *g, float *x,
                            float *targets);

/* Names what is drawn for a sample in a pass over the data. */
uint64_t ps_sample_key(uint64_t seed, uint64_t pass, ps_split split, uint32_t at);

/* For the sources: the smaller of what there is and a limit, 0 being none. */
uint32_t ps_data_limited(uint32_t count, uint32_t limit);

/* For the sources that look: the counts of the conf become the facts'.
 * FAILED_PRECONDITION when they are not known. */
PS_MUST_USE ps_status ps_data_known_counts(const ps_data_conf *conf, ps_data_facts *facts);

/* For the sources that look: what the files have, into the limits; INVALID_ARGUMENT
 * when there is nothing in a split, or a limit is more than there is. */
PS_MUST_USE ps_status ps_data_found_counts(ps_data_conf *conf, uint64_t train, uint64_t test);

/* A number that only the files know: kept if 0 stood in the conf, else compared. */
PS_MUST_USE ps_status ps_data_found(ps_data_conf *conf, const char *name, uint64_t value);

/* What the samples of a split may keep in memory; more goes to a file. Both, the program and its
 * libraries fit 64 MiB. */
size_t ps_split_memory(ps_split split);

/* --- bytes.c: images as bytes, x / 255 - 0.5 -------------------------------- */

/* Every width of vector gives the same bits. */
void ps_bytes_scale(const uint8_t *restrict from, float *restrict x, size_t n);

/* Prefetches them; NULL: nothing. */
void ps_bytes_ask(const void *from, size_t n);

/* Records of a label and `features` bytes; takes the spill, which has ended. */
struct ps_spill;
ps_samples *ps_records_create(uint32_t features, struct ps_spill *records);

/* --- nonzero.c: images as their bytes that are not zero, x / 255 - 0.5 ------- */

typedef struct ps_nonzero ps_nonzero;

/* `scratch` and memory_max as of spill.h. */
ps_nonzero *ps_nonzero_create(uint32_t features, const char *scratch, size_t memory_max);
void ps_nonzero_destroy(ps_nonzero *z); /* NULL is allowed; not after ps_nonzero_end */

/* One sample: x (features). Errors of the disk, RESOURCE_EXHAUSTED. */
PS_MUST_USE ps_status ps_nonzero_add(ps_nonzero *z, const uint8_t *x, uint8_t label);

/* When it succeeds the samples take z. Once, before the first read. */
PS_MUST_USE ps_status ps_nonzero_end(ps_nonzero *z, ps_samples **out);

#endif
