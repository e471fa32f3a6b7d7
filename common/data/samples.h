/* SPDX-License-Identifier: Apache-2.0 */
/* samples.h - the inside of a ps_dataset. Private to common/data. */
#ifndef PS_COMMON_DATA_SAMPLES_H
#define PS_COMMON_DATA_SAMPLES_H

#include "common/data/dataset.h"

#include <stdatomic.h>

/* The samples of a split, in the form that a source stores; the first member of that form. */
typedef struct ps_samples ps_samples;
typedef struct ps_affine ps_affine;

/* The stored form of a sample. `at` is NULL if the disk did not return it. */
typedef struct ps_stored {
    const void *at;
    size_t bytes;
} ps_stored;

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
    /* (optional) Does the same, followed by (x - mean) * inverse for each x. Only for samples
     * that draw nothing. */
    void (*make_affine)(const ps_samples *samples, const void *stored, const ps_affine *affine,
                        float *x, float *targets);
    /* (optional) Prefetches what `stored` will need for sample `at`. */
    void (*prefetch)(const ps_samples *samples, uint32_t at);
    /* Frees the samples. */
    void (*destroy)(ps_samples *samples);
    bool draws;  /* false: the key is 0 */
    bool is_far; /* some of it lies in a file and is read sample by sample */
};

/* Where the samples of a training file begin. */
typedef struct ps_file_start {
    uint32_t first;  /* index of its first sample */
    uint32_t number; /* in its name */
} ps_file_start;

struct ps_dataset {
    ps_data_facts facts;
    ps_samples *split[2]; /* by ps_split; NULL: no samples */
    ps_file_start *files; /* (file_count) training files, in order; 0: not all are numbered */
    uint32_t file_count;
    char *words; /* (word_bytes) as of ps_dataset_words; NULL: none */
    size_t word_bytes;
    atomic_bool is_lost; /* a sample could not be read back */
};

/* Creates a data set without samples. The counts are those of `facts`. */
ps_dataset *ps_dataset_create(const ps_data_facts *facts);

/* What to gather, and how. */
typedef struct ps_gathering {
    uint64_t seed, pass; /* the key of sample i is ps_sample_key(seed, pass, split, i) */
    ps_split split;
    const uint32_t *index; /* (n + soon); NULL: first, first + 1 ... */
    uint32_t first, n;
    uint32_t soon;           /* so many more samples will be gathered next; they are prefetched */
    const ps_stored *stored; /* (n + soon): stored form of each sample; NULL: not fetched yet */
    const ps_affine *affine; /* (optional) makes it call make_affine */
    size_t target_pitch;     /* values from the targets of a sample to those of the next one */
} ps_gathering;

/* Gathers samples like ps_dataset_gather, as `g` says. */
void ps_dataset_gather_pass(const ps_dataset *data, const ps_gathering *g, float *x,
                            float *targets);

/* Returns the key of the random draws for a sample in a pass over the data. */
uint64_t ps_sample_key(uint64_t seed, uint64_t pass, ps_split split, uint32_t at);

/* For the sources: returns the smaller of `count` and `limit`; a limit of 0 is none. */
uint32_t ps_data_limited(uint32_t count, uint32_t limit);

/* For the sources that look: copies the counts of the conf to the facts. Returns
 * FAILED_PRECONDITION if they are not known. */
PS_MUST_USE ps_status ps_data_known_counts(const ps_data_conf *conf, ps_data_facts *facts);

/* For the sources that look: writes the counts that the files have to the limits that are 0.
 * Returns INVALID_ARGUMENT if a split has no samples, or fewer than its limit. */
PS_MUST_USE ps_status ps_data_found_counts(ps_data_conf *conf, uint64_t train, uint64_t test);

/* Sets the number `name` that only the files tell, if it is 0. Returns INVALID_ARGUMENT if it
 * is another value. */
PS_MUST_USE ps_status ps_data_found(ps_data_conf *conf, const char *name, uint64_t value);

/* Returns the bytes that the samples of a split may use in memory; more go to a file. With the
 * memory of both splits, the program and its libraries need less than 64 MiB. */
size_t ps_split_memory(ps_split split);

/* --- byte_records.c: images as bytes, x / 255 - 0.5 -------------------------------- */

/* Sets x (n) to from / 255 - 0.5. Every vector width gives the same bits. */
void ps_bytes_scale(const uint8_t *restrict from, float *restrict x, size_t n);

/* Prefetches n bytes. Does nothing if `from` is NULL. */
void ps_bytes_prefetch(const void *from, size_t n);

struct ps_spill;
/* Makes samples of records of a label and `features` bytes. Takes the spill, which must have
 * ended. */
ps_samples *ps_byte_records_create(uint32_t features, struct ps_spill *records);

/* --- nonzero.c: images as their non-zero bytes, x / 255 - 0.5 ---------------- */

typedef struct ps_nonzero ps_nonzero;

/* Creates an empty collection. `scratch` and `memory_max` as in spill.h. */
ps_nonzero *ps_nonzero_create(uint32_t features, const char *scratch, size_t memory_max);
/* Frees the collection. NULL is allowed. Not after ps_nonzero_end has succeeded. */
void ps_nonzero_destroy(ps_nonzero *z);

/* Adds a sample x (features). Returns disk errors and RESOURCE_EXHAUSTED. */
PS_MUST_USE ps_status ps_nonzero_add(ps_nonzero *z, const uint8_t *x, uint8_t label);

/* Ends adding and sets *out, which takes z if the call succeeds. Call it once, before the first
 * read. */
PS_MUST_USE ps_status ps_nonzero_end(ps_nonzero *z, ps_samples **out);

#endif
