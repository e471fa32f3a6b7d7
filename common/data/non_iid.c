/* SPDX-License-Identifier: Apache-2.0 */
/* non_iid.c - balanced batches of unbalanced blocks, by label strata.
 *
 * Letters: N training samples, B samples of a global batch, N' = N - N mod B, M = N' / B. The
 * samples are sorted by ascending label, stably, and cut into B strata of M samples. Place j of
 * batch t takes the t-th sample of stratum j. So each batch has all labels in their shares,
 * while a block, which is a run of neighbouring places, has few. The last N mod B sorted
 * samples are not used. Then the first floor(N' disorder) places are shuffled among themselves:
 * 0 is fully skewed, 1 is not skewed (the older system's Make_Non_IID and True_Non_IID).
 */
#include "common/data/transform.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

static const ps_param params[] = {
    {.name = "disorder",
     .value = 0,
     .min = 0,
     .max = 1,
     .help = "share of the places that are shuffled afterwards"},
    {.name = NULL},
};

static ps_status plan(const ps_params *unused, ps_data_facts *facts)
{
    (void)unused;
    if (facts->classes == 0) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "samples have no class, so they cannot be sorted by label");
    }
    return ps_ok();
}

static ps_status learn(ps_transforming *at)
{
    at->state = ps_transform_labels(at);
    return ps_ok();
}

/* Writes `order` to sorted (count), stably sorted by ascending label. */
static void sort(const uint32_t *labels, uint32_t classes, const uint32_t *order, uint32_t *sorted,
                 uint32_t count)
{
    uint32_t *from = ps_xcalloc((size_t)classes + 1, sizeof *from);

    for (uint32_t i = 0; i < count; i++) {
        from[labels[order[i]] + 1]++;
    }
    for (uint32_t c = 0; c < classes; c++) {
        from[c + 1] += from[c];
    }
    for (uint32_t i = 0; i < count; i++) {
        sorted[from[labels[order[i]]]++] = order[i];
    }
    free(from);
}

static void disorder(uint64_t key, uint32_t *order, uint32_t n)
{
    for (uint32_t i = n; i-- > 1;) {
        uint32_t j = (uint32_t)ps_draw_below(key, i, (uint64_t)i + 1);
        uint32_t held = order[i];

        order[i] = order[j];
        order[j] = held;
    }
}

static void arrange(const ps_transforming *at, uint64_t epoch, uint32_t *order, uint32_t count)
{
    uint32_t batch = at->conf->block_size * at->conf->assignment->block_count;
    uint32_t used = count - count % batch, rows = used / batch;
    uint32_t *sorted = ps_xcalloc(count, sizeof *sorted);

    sort(at->state, ps_dataset_facts(at->data)->classes, order, sorted, count);
    for (uint32_t t = 0; t < rows; t++) {
        for (uint32_t j = 0; j < batch; j++) {
            order[t * batch + j] = sorted[j * rows + t];
        }
    }
    memcpy(order + used, sorted + used, (count - used) * sizeof *order);
    disorder(ps_draw_key(at->conf->seed, PS_DRAW_ARRANGE, 0, epoch, at->place), order,
             (uint32_t)((double)used * at->params->v[0]));
    free(sorted);
}

const ps_transform ps_transform_non_iid = {
    .name = "non_iid",
    .summary =
        "each block has few labels, each batch has all: sorts by label, then shuffles a share",
    .params = params,
    .deals_blocks = true,
    .plan = plan,
    .learn = learn,
    .arrange = arrange,
};
