/* SPDX-License-Identifier: Apache-2.0 */
/* targets.h - what the samples of a batch are to be: what losses and metrics compare with.
 *
 * A class is one value, its index, which float32 holds exactly below 2^24; what is
 * no class is so many real values a sample.
 */
#ifndef PS_COMMON_NN_TARGETS_H
#define PS_COMMON_NN_TARGETS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

enum { PS_CLASSES_MAX = 1 << 24 };

/* What a loss reads outputs as. */
typedef enum ps_output_link {
    PS_LINK_IDENTITY, /* the values themselves */
    PS_LINK_SIGMOID,  /* logits, each of a probability of its own */
    PS_LINK_SOFTMAX   /* logits of probabilities that add up to 1 */
} ps_output_link;

typedef struct ps_targets {
    const float *at; /* (n, width), borrowed */
    size_t width;    /* values a sample; 1 for a class */
    bool is_class;
} ps_targets;

/* at (n): a class for each sample. */
static inline ps_targets ps_targets_classes(const float *at)
{
    return (ps_targets){.at = at, .width = 1, .is_class = true};
}

/* at (n, width): values for each sample. */
static inline ps_targets ps_targets_values(const float *at, size_t width)
{
    return (ps_targets){.at = at, .width = width, .is_class = false};
}

/* The class of sample i, which must be one of so many. */
static inline size_t ps_targets_class(const ps_targets *targets, size_t i, size_t classes)
{
    float at = targets->at[i];

    assert(targets->is_class && at >= 0.0f && at < (float)classes);
    return (size_t)at;
}

/* What output j of so many is to be for sample i: the value itself; for a class 1 where
 * j is its index and 0 elsewhere; for a class, 0 or 1, with one output the class. */
static inline float ps_targets_of(const ps_targets *targets, size_t i, size_t j, size_t outputs)
{
    if (!targets->is_class) {
        return targets->at[i * targets->width + j];
    }
    return outputs == 1 ? (float)ps_targets_class(targets, i, 2)
                        : (float)(ps_targets_class(targets, i, outputs) == j);
}

#endif
