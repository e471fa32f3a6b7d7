/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_impl.h - the inside of a ps_dataset, for those who make one and those who gather from it.
 * Private to common/data. */
#ifndef PS_COMMON_DATA_DATASET_IMPL_H
#define PS_COMMON_DATA_DATASET_IMPL_H

#include "common/data/dataset.h"
#include "common/data/samples.h"

#include <stdatomic.h>

typedef struct ps_learned_values ps_learned_values; /* learned.h */

/* Where the samples of a training file begin. */
typedef struct ps_file_start {
    uint32_t first;  /* index of its first sample */
    uint32_t number; /* the number at the end of its name */
    /* index of its first sample among the samples of all files of the set, also those of other
     * processes */
    uint32_t place;
} ps_file_start;

struct ps_dataset {
    ps_data_facts facts;
    ps_samples *split[2]; /* index: a ps_split; NULL: no samples */
    ps_file_start *files; /* (file_count) training files, in order; 0: not all are numbered */
    uint32_t file_count;
    char *words; /* (word_bytes): what ps_dataset_words returns; NULL: none */
    size_t word_bytes;
    char *text; /* (text_bytes): what ps_dataset_text returns; NULL: none */
    size_t text_bytes;
    bool is_part; /* other processes have more training files */
    /* (PS_LEARNED_VALUES_MAX), if is_part: what transforms measured on the samples of all files */
    ps_learned_values *measured;
    atomic_bool is_lost; /* a sample could not be read back */
};

/* Creates a data set without samples, whose counts are those of `facts`. The caller sets the
 * splits. */
ps_dataset *ps_dataset_create(const ps_data_facts *facts);

/* What to gather, and how. */
typedef struct ps_gathering {
    uint64_t seed, pass; /* for the key of a sample: see ps_sample_key */
    ps_split split;
    const uint32_t *index; /* (n + soon); NULL: first, first + 1 ... */
    uint32_t first, n;
    uint32_t soon;           /* so many more samples will be gathered next; they are prefetched */
    const ps_stored *stored; /* (n + soon): stored form of each sample; NULL: not fetched yet */
    /* (optional) samples are made by ps_samples.make_affine with it; NULL: by make */
    const ps_affine *affine;
    size_t target_pitch; /* values from the targets of a sample to those of the next one */
} ps_gathering;

/* Gathers samples like ps_dataset_gather, as `g` says. */
void ps_dataset_gather_pass(const ps_dataset *data, const ps_gathering *g, float *x,
                            float *targets);

/* Returns the key of the random draws for a sample in a pass over the data. `at` is the sample's
 * ps_dataset_place. */
uint64_t ps_sample_key(uint64_t seed, uint64_t pass, ps_split split, uint32_t at);

/* Returns the index of a sample among the samples of all files of the set. That is `at`, unless it
 * is a training sample and other processes have files of the set. */
uint32_t ps_dataset_place(const ps_dataset *data, ps_split split, uint32_t at);

/* For the sources: returns the smaller of `count` and `limit`; a limit of 0 is none. */
uint32_t ps_data_limited(uint32_t count, uint32_t limit);

/* For sources with a `look` function (source.h): copies the counts of the conf to the facts.
 * Returns FAILED_PRECONDITION if they are not known. */
PS_MUST_USE ps_status ps_data_known_counts(const ps_data_conf *conf, ps_data_facts *facts);

/* For sources with a `look` function: writes the numbers of samples that the files have to the
 * limits that are 0. Returns INVALID_ARGUMENT if a split has no samples, or fewer than its limit.
 * For a share, which has only a part of the training files, the training limit is neither written
 * nor compared. */
PS_MUST_USE ps_status ps_data_found_counts(ps_data_conf *conf, uint64_t train, uint64_t test);

/* Sets the number `name` that only the files tell, if it is 0. Returns INVALID_ARGUMENT if it
 * is another value. */
PS_MUST_USE ps_status ps_data_found(ps_data_conf *conf, const char *name, uint64_t value);

/* Returns the bytes that the samples of a split may use in memory; more go to a file. With the
 * memory of both splits, the program and its libraries need less than 64 MiB. */
size_t ps_split_memory(ps_split split);

#endif
