/* SPDX-License-Identifier: Apache-2.0 */
/* transform.h - changes of samples, or of their order, before training.
 *
 * A transform is a const table. A job names transforms in order. Transforms of samples change
 * features or targets in place when samples are gathered; their draws depend on (seed, epoch,
 * split, sample), for test samples without the epoch, so any process can repeat them. Transforms of
 * the order change the order of an epoch; their draws depend on (seed, epoch, ps_feed_conf.worker)
 * at most, so every node can draw the same order. To add one: write common/data/NAME.c, add a line
 * to list.h and one to CMakeLists.txt.
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

/* The choices of a job for a data set. */
typedef struct ps_feed_conf {
    uint64_t seed;
    uint32_t block_size;
    const ps_assignment *assignment; /* kept */
    /* the worker whose order the feed has, where every worker has an order of its own; else 0 */
    uint32_t worker;
    ps_transform_choice transforms[PS_TRANSFORMS_MAX];
    uint32_t transform_count;
} ps_feed_conf;

/* A transform in use, at its place in the list. */
typedef struct ps_transforming {
    const ps_transform *transform;
    const ps_params *params;
    uint32_t place;
    ps_data_facts facts; /* shapes of the samples before this transform */
    const ps_feed_conf *conf;
    const ps_dataset *data;
    const float *known; /* (known_count) what was measured of all samples, if `data` is a part */
    size_t known_count;
    void *state; /* what `learn` has made: one allocation that the feed frees, or NULL */
} ps_transforming;

struct ps_transform {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) */
    bool begins_order;      /* `order` starts from 0, 1, 2 ..., which is not shuffled */
    /* the transform decides which block gets a sample; at most one in a list */
    bool makes_pools;
    bool deals_blocks; /* the order that it makes depends on who gets which block */
    bool draws;        /* `sample` uses its key for random draws; false: the key is 0 */

    /* (optional) Changes the shapes to those after it. Returns INVALID_ARGUMENT if the samples
     * do not fit. */
    PS_MUST_USE ps_status (*plan)(const ps_params *params, ps_data_facts *facts);

    /* (optional) Returns whether `learn` measures training samples. NULL: it does not. */
    bool (*learns)(const ps_params *params);

    /* (optional) Learns from the training samples as the source gives them. The feed frees
     * at->state. If at->known is not NULL, takes these values, which were measured on all samples,
     * and measures nothing; returns INVALID_ARGUMENT if their number is wrong. */
    PS_MUST_USE ps_status (*learn)(ps_transforming *at);

    /* (optional, with `learns`) Returns what the transform has measured, (*count) values. Valid as
     * long as the feed. */
    const float *(*measured)(const ps_transforming *at, size_t *count);

    /* (optional) Changes one sample in place: x (features), and targets, which has room for the
     * target_width after the transform; as many values as the target_width before it are set. If
     * `draws`, `key` determines its random draws. */
    void (*sample)(const ps_transforming *at, ps_split split, uint64_t key, float *x,
                   float *targets);

    /* (optional) Returns whether `sample` does (x - mean) * inverse for all features, and
     * writes both. A source that can do that while it makes samples then does, with the same
     * float32 operations, and `sample` is not called. */
    bool (*is_affine)(const ps_transforming *at, ps_affine *out);

    /* (optional) Changes the order (count) of an epoch in place. It is a permutation, unless a
     * transform with makes_pools has changed it. */
    void (*arrange)(const ps_transforming *at, uint64_t epoch, uint32_t *order, uint32_t count);
};

/* Returns the transform with this name, or NULL if there is none. */
const ps_transform *ps_transform_find(const char *name);
/* Calls `fn` for every transform, in the order of list.h. */
void ps_transform_each(void (*fn)(const ps_transform *transform, void *arg), void *arg);

/* --- for the transforms -------------------------------------------------------- */

/* Returns the classes of all training samples, (train_count); the caller frees them. */
uint32_t *ps_transform_labels(const ps_transforming *at);

/* Arranges order (count) so that each block takes samples of its own pool, which are those with
 * pool[i] (count) equal to the block's number. A pool is taken in the given order, and from its
 * front again when it ends; it must not be empty. Samples that do not fill a batch are not
 * used. */
void ps_pools_arrange(const ps_feed_conf *conf, const uint16_t *pool, uint32_t *order,
                      uint32_t count);

/* Returns FAILED_PRECONDITION with `who` in the text if a block has no samples. */
PS_MUST_USE ps_status ps_pools_check(const ps_feed_conf *conf, const char *who,
                                     const uint16_t *pool, uint32_t count);

#endif
