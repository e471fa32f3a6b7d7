/* SPDX-License-Identifier: Apache-2.0 */
/* samples.h - what a ps_dataset is made of; for the sources of this directory. */
#ifndef PS_COMMON_DATA_SAMPLES_H
#define PS_COMMON_DATA_SAMPLES_H

#include "common/data/dataset.h"

typedef struct ps_samples {
    const uint8_t *x;              /* (count, features), 0 to 255; in x_memory */
    const uint8_t *labels;         /* (count), < classes; in label_memory */
    void *x_memory, *label_memory; /* freed with the data set */
    uint32_t count;
} ps_samples;

struct ps_dataset {
    uint32_t features, classes;
    ps_samples split[2]; /* by ps_split */
};

/* Empty splits, to be filled by a source. */
ps_dataset *ps_dataset_create(const ps_data_facts *facts);

#endif
