/* SPDX-License-Identifier: Apache-2.0 */
/* samples.h - what a ps_dataset is made of; for common/data alone. */
#ifndef PS_COMMON_DATA_SAMPLES_H
#define PS_COMMON_DATA_SAMPLES_H

#include "common/data/dataset.h"

#include <stdatomic.h>

/* The samples of a split, in whatever form a source keeps them; the first member of that
 * form. */
typedef struct ps_samples ps_samples;
struct ps_samples {
    /* Writes sample `at`: x (features), targets (target_width). `key` names the draws of
     * this sample in this pass. False when the disk does not give it. */
    bool (*row)(const ps_samples *samples, uint64_t key, uint32_t at, float *x, float *targets);
    void (*ask)(const ps_samples *samples, uint32_t at); /* (optional) soon wanted: prefetch */
    void (*destroy)(ps_samples *samples);
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

/* As ps_dataset_gather; sample i's draws are those of ps_sample_key. */
void ps_dataset_gather_pass(const ps_dataset *data, uint64_t seed, uint64_t pass, ps_split split,
                            const uint32_t *index, uint32_t first, uint32_t n, float *x,
                            float *targets, size_t target_pitch);

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

/* --- bytes.c: images as bytes, x / 255 - 0.5 -------------------------------- */

/* x (count, features) and labels (count), the first after what is before it in the
 * memory; takes both memories. */
ps_samples *ps_bytes_create(uint32_t features, void *x_memory, size_t x_at, void *label_memory,
                            size_t label_at);

/* Records of a label and `features` bytes; takes the spill, which has ended. */
struct ps_spill;
ps_samples *ps_records_create(uint32_t features, struct ps_spill *records);

#endif
