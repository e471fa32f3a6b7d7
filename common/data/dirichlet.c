/* SPDX-License-Identifier: Apache-2.0 */
/* dirichlet.c - label skew between blocks: block k gets the share p_k of each class, drawn from
 * Dirichlet(alpha, ..., alpha) (Hsu, Qi, Brown 2019, arXiv 1909.06335, by class).
 *
 * A share is a block's Gamma(alpha) draw divided by the sum of all blocks' draws (Marsaglia and
 * Tsang 2000). A draw depends only on its key and index, and uses only operations that every
 * host rounds alike. Gamma draws are logarithms, whose greatest is subtracted, because a small
 * alpha gives draws below the least float. A block that has few samples repeats them, so all blocks
 * train on equally many.
 */
#include "common/data/transform.h"

#include "common/base/draw.h"
#include "common/base/steady.h"
#include "common/base/xalloc.h"

#include <math.h>
#include <stdlib.h>

enum { TRIES = 64 };

static const ps_param params[] = {
    {.name = "alpha",
     .value = 0.5,
     .min = 0.01,
     .max = 1e6,
     .help = "small: a class is on few blocks; large: equally on all blocks"},
    {.name = NULL},
};

static ps_status plan(const ps_params *unused, ps_data_facts *facts)
{
    (void)unused;
    if (facts->classes == 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "samples have no class, so labels cannot be skewed");
    }
    return ps_ok();
}

static double unit(uint64_t key, uint64_t index)
{
    return (ps_draw_unit(key, index) + 0x1p-54); /* never 0, so that its logarithm is finite */
}

/* Returns ln of a Gamma(alpha) draw: draws Gamma(alpha + 1) by rejection, multiplied by U^(1 /
 * alpha). */
static double log_gamma_draw(uint64_t key, double alpha)
{
    double d = alpha + 1 - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d), v = 1;

    for (uint64_t i = 0; i < TRIES; i++) {
        double x = ps_draw_normal(key, 2 * i + 1), u = unit(key, 2 * i + 2);

        v = 1 + c * x;
        v = v * v * v;
        if (v > 0 && ps_steady_log(u) < 0.5 * x * x + d - d * v + d * ps_steady_log(v)) {
            break;
        }
        /* A try fails less than once in 20. If all TRIES fail, the draw is d, which is near the
         * median. */
        v = 1;
    }
    return ps_steady_log(d * v) + ps_steady_log(unit(key, 0)) / alpha;
}

/* Draws the shares of all blocks in a class that has n samples. Sets upto[k] (blocks) to the number
 * of these samples that blocks 0 to k get together. */
static void share_out(uint64_t seed, uint32_t class_index, double alpha, uint32_t n, uint32_t *upto,
                      uint32_t blocks)
{
    double *share = ps_xcalloc(blocks, sizeof *share), most = 0, sum = 0, so_far = 0;

    for (uint32_t k = 0; k < blocks; k++) {
        share[k] = log_gamma_draw(ps_draw_key(seed, PS_DRAW_ARRANGE, 1, class_index, k), alpha);
        most = k == 0 || share[k] > most ? share[k] : most;
    }
    for (uint32_t k = 0; k < blocks; k++) {
        share[k] = ps_steady_exp(share[k] - most);
        sum += share[k];
    }
    for (uint32_t k = 0; k < blocks; k++) {
        so_far += share[k];
        upto[k] = k + 1 == blocks ? n : (uint32_t)(so_far / sum * (double)n);
    }
    free(share);
}

static uint32_t block_of(const uint32_t *upto, uint32_t blocks, uint32_t rank)
{
    uint32_t low = 0, high = blocks - 1;

    while (low < high) { /* finds the first block k with upto[k] > rank, the place in the class */
        uint32_t middle = low + (high - low) / 2;

        if (upto[middle] > rank) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static ps_status learn(ps_transforming *at)
{
    uint32_t count = ps_dataset_count(at->data, PS_TRAIN);
    uint32_t classes = ps_dataset_facts(at->data)->classes;
    uint32_t blocks = at->conf->assignment->block_count;
    uint32_t *labels, *seen, *order, *upto;
    uint16_t *pool = ps_xcalloc(count, sizeof *pool);

    at->state = pool;
    if ((uint64_t)classes * blocks > UINT64_C(1) << 26) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "dirichlet: %u classes on %u blocks; their product may be at most %d",
                       classes, blocks, 1 << 26);
    }
    labels = ps_transform_labels(at);
    seen = ps_xcalloc(classes, sizeof *seen);
    upto = ps_xcalloc((size_t)classes * blocks, sizeof *upto);
    order = ps_xcalloc(count, sizeof *order);
    for (uint32_t i = 0; i < count; i++) {
        seen[labels[i]]++;
    }
    for (uint32_t c = 0; c < classes; c++) {
        share_out(at->conf->seed, c, at->params->v[0], seen[c], upto + (size_t)c * blocks, blocks);
        seen[c] = 0;
    }
    ps_draw_permutation(ps_draw_key(at->conf->seed, PS_DRAW_ARRANGE, 2, 0, 0), order, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t c = labels[order[i]];

        pool[order[i]] = (uint16_t)block_of(upto + (size_t)c * blocks, blocks, seen[c]++);
    }
    free(labels);
    free(seen);
    free(upto);
    free(order);
    return ps_pools_check(at->conf, "dirichlet", pool, count);
}

static void arrange(const ps_transforming *at, uint64_t epoch, uint32_t *order, uint32_t count)
{
    (void)epoch; /* the pools are the same in every epoch */
    ps_pools_arrange(at->conf, at->state, order, count);
}

const ps_transform ps_transform_dirichlet = {
    .name = "dirichlet",
    .summary = "divides each class among the blocks by a draw from Dirichlet(alpha)",
    .params = params,
    .makes_pools = true,
    .deals_blocks = true,
    .plan = plan,
    .learn = learn,
    .arrange = arrange,
};
