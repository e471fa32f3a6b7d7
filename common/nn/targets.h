/* SPDX-License-Identifier: Apache-2.0 */
/* targets.h - the targets of a batch: what losses and metrics compare outputs with.
 *
 * The target of a sample is a class, or a vector of real values. A class is stored as one value,
 * its index, which float32 represents exactly below 2^24. */
#ifndef PS_COMMON_NN_TARGETS_H
#define PS_COMMON_NN_TARGETS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

enum { PS_CLASSES_MAX = 1 << 24 };

/* How a loss interprets the outputs of a model. */
typedef enum ps_output_link {
    PS_LINK_IDENTITY, /* the values themselves */
    PS_LINK_SIGMOID,  /* logits of independent probabilities */
    PS_LINK_SOFTMAX   /* logits of probabilities that sum to 1 */
} ps_output_link;

typedef struct ps_targets {
    const float *at; /* (n, width), borrowed */
    size_t width;    /* number of values for each sample; 1 for a class */
    bool is_class;
} ps_targets;

/* Returns targets with a class for each sample: at (n), borrowed. */
static inline ps_targets ps_targets_classes(const float *at)
{
    return (ps_targets){.at = at, .width = 1, .is_class = true};
}

/* Returns targets with values for each sample: at (n, width), borrowed. */
static inline ps_targets ps_targets_values(const float *at, size_t width)
{
    return (ps_targets){.at = at, .width = width, .is_class = false};
}

/* Returns the class of sample i; asserts that it is less than `classes`. */
static inline size_t ps_targets_class(const ps_targets *targets, size_t i, size_t classes)
{
    float at = targets->at[i];

    assert(targets->is_class && at >= 0.0f && at < (float)classes);
    return (size_t)at;
}

/* Returns the target of output j of sample i. For values it is value j. For a class it is 1 if j is
 * the class, else 0; with a single output it is the class, 0 or 1. */
static inline float ps_targets_of(const ps_targets *targets, size_t i, size_t j, size_t outputs)
{
    if (!targets->is_class) {
        return targets->at[i * targets->width + j];
    }
    return outputs == 1 ? (float)ps_targets_class(targets, i, 2)
                        : (float)(ps_targets_class(targets, i, outputs) == j);
}

#endif
