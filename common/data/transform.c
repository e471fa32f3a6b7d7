/* SPDX-License-Identifier: Apache-2.0 */
/* transform.c - the registry of transforms (list.h), and functions that they share. */
#include "common/data/transform.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PS_TRANSFORM(name) extern const ps_transform ps_transform_##name;
#include "common/data/list.h"
#undef PS_TRANSFORM

static const ps_transform *const transforms[] = {
#define PS_TRANSFORM(name) &ps_transform_##name,
#include "common/data/list.h"
#undef PS_TRANSFORM
};

const ps_transform *ps_transform_find(const char *name)
{
    for (size_t i = 0; i < sizeof transforms / sizeof transforms[0]; i++) {
        if (strcmp(transforms[i]->name, name) == 0) {
            return transforms[i];
        }
    }
    return NULL;
}

void ps_transform_each(void (*fn)(const ps_transform *transform, void *arg), void *arg)
{
    for (size_t i = 0; i < sizeof transforms / sizeof transforms[0]; i++) {
        fn(transforms[i], arg);
    }
}

uint32_t *ps_transform_labels(const ps_transforming *at)
{
    const ps_data_facts *facts = ps_dataset_facts(at->data);
    uint32_t count = ps_dataset_count(at->data, PS_TRAIN);
    uint32_t *labels = ps_xcalloc(count, sizeof *labels);
    float *x = ps_xcalloc(facts->features, sizeof *x), target = 0;

    assert(facts->classes > 0 && facts->target_width == 1);
    for (uint32_t i = 0; i < count; i++) {
        ps_dataset_gather(at->data, PS_TRAIN, NULL, i, 1, x, &target);
        labels[i] = (uint32_t)target;
    }
    free(x);
    return labels;
}

/* --- pools -------------------------------------------------------------------- */

/* Returns the number of samples in each pool, (block_count); the caller frees it. */
static uint32_t *count_pools(const ps_feed_conf *conf, const uint16_t *pool, uint32_t count)
{
    uint32_t *n = ps_xcalloc(conf->assignment->block_count, sizeof *n);

    for (uint32_t i = 0; i < count; i++) {
        assert(pool[i] < conf->assignment->block_count);
        n[pool[i]]++;
    }
    return n;
}

ps_status ps_pools_check(const ps_feed_conf *conf, const char *who, const uint16_t *pool,
                         uint32_t count)
{
    uint32_t *n = count_pools(conf, pool, count);
    ps_status st = ps_ok();

    for (uint32_t b = 0; b < conf->assignment->block_count && ps_is_ok(&st); b++) {
        if (n[b] == 0) {
            st = ps_fail(PS_FAILED_PRECONDITION,
                         "%s: block %u of %u has none of the %u training samples", who, b,
                         conf->assignment->block_count, count);
        }
    }
    free(n);
    return st;
}

void ps_pools_arrange(const ps_feed_conf *conf, const uint16_t *pool, uint32_t *order,
                      uint32_t count)
{
    uint32_t blocks = conf->assignment->block_count, size = conf->block_size;
    uint32_t batches = (uint32_t)(count / ((uint64_t)blocks * size));
    uint32_t *n = count_pools(conf, pool, count);
    uint32_t *from = ps_xcalloc((size_t)blocks + 1, sizeof *from);
    uint32_t *pooled = ps_xcalloc(count, sizeof *pooled); /* by pool, each in `order` */

    for (uint32_t b = 0; b < blocks; b++) {
        from[b + 1] = from[b] + n[b];
        n[b] = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t b = pool[order[i]];

        pooled[from[b] + n[b]++] = order[i];
    }
    for (uint32_t t = 0; t < batches; t++) {
        for (uint32_t b = 0; b < blocks; b++) {
            for (uint32_t j = 0; j < size; j++) {
                uint64_t turn = (uint64_t)t * size + j;

                order[((uint64_t)t * blocks + b) * size + j] = pooled[from[b] + turn % n[b]];
            }
        }
    }
    free(n);
    free(from);
    free(pooled);
}
