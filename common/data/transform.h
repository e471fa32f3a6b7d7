/* SPDX-License-Identifier: Apache-2.0 */
/* transform.h - what is done to samples, and to their order, before they are trained on.
 *
 * A transform is a const table. A job names them in order. Those of samples change rows in
 * place as they are gathered; what they draw follows from (seed, epoch, split, sample), so
 * any process draws it again. Those of the order change an epoch's permutation; what
 * they draw follows from (seed, epoch), so it is one order on every node. To add one:
 * common/data/NAME.c, a line in list.h, a line in CMakeLists.txt.
 */
#ifndef PS_COMMON_DATA_TRANSFORM_H
#define PS_COMMON_DATA_TRANSFORM_H

#include "common/data/assign.h"
#include "common/data/dataset.h"

enum { PS_TRANSFORMS_MAX = 16 };

typedef struct ps_transform ps_transform;
typedef struct ps_affine ps_affine; /* samples.h */

typedef struct ps_transform_choice {
    const ps_transform *transform;
    ps_params params;
} ps_transform_choice;

/* What a job makes of a data set. */
typedef struct ps_feed_conf {
    uint64_t seed;
    uint32_t block_size;
    const ps_assignment *assignment; /* kept */
    ps_transform_choice transforms[PS_TRANSFORMS_MAX];
    uint32_t transform_count;
} ps_feed_conf;

/* A transform at work, in its place in the list. */
typedef struct ps_transforming {
    const ps_transform *transform;
    const ps_params *params;
    uint32_t place;
    ps_data_facts facts; /* of the samples it is given */
    const ps_feed_conf *conf;
    const ps_dataset *data;
    void *state; /* what it learned: one allocation, or NULL */
} ps_transforming;

struct ps_transform {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) */
    bool begins_order;      /* the order it is given is 0, 1, 2 ..., not yet shuffled */
    bool makes_pools;       /* it says which block gets a sample: once in a list */
    bool draws;             /* for each sample; else it is given no key */

    /* (optional) What samples are afterwards. INVALID_ARGUMENT: they are no such samples. */
    PS_MUST_USE ps_status (*plan)(const ps_params *params, ps_data_facts *facts);

    /* (optional) Learns from the training samples as the source gives them; at->state is freed
     * with the feed. */
    PS_MUST_USE ps_status (*learn)(ps_transforming *at);

    /* (optional) One sample in place: x (features), targets (target_width afterwards, of which
     * it is given those before). `key` names its draws, where it `draws`. */
    void (*sample)(const ps_transforming *at, ps_split split, uint64_t key, float *x,
                   float *targets);

    /* (optional) Is `sample` (x - mean) * inverse for all features? Then a source that can do that
     * while it makes them does, in the same steps of float32, and `sample` is not called. */
    bool (*is_affine)(const ps_transforming *at, ps_affine *out);

    /* (optional) The order of an epoch in place; order (count), a permutation. */
    void (*arrange)(const ps_transforming *at, uint64_t epoch, uint32_t *order, uint32_t count);
};

const ps_transform *ps_transform_find(const char *name); /* NULL if there is none */
void ps_transform_each(void (*fn)(const ps_transform *transform, void *arg), void *arg);

/* --- for the transforms -------------------------------------------------------- */

/* The classes of all training samples, (train_count), to be freed by the caller. */
uint32_t *ps_transform_labels(const ps_transforming *at);

/* Fills the order so that each block holds samples of its own pool: those samples i with
 * pool[i] (count) the block's number, in the order given, from the front again when they end. What
 * does not fill a batch is left out of all. No pool is empty. */
void ps_pools_arrange(const ps_feed_conf *conf, const uint16_t *pool, uint32_t *order,
                      uint32_t count);

/* FAILED_PRECONDITION, with `who` in the text, when a block has no samples. */
PS_MUST_USE ps_status ps_pools_check(const ps_feed_conf *conf, const char *who,
                                     const uint16_t *pool, uint32_t count);

#endif
