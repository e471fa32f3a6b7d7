/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - samples as bytes in memory, gathered as floats.
 *
 * Bytes, because 60,000 images are 47 MB so and 188 MB as floats, and several
 * workers share a host.
 */
#include "common/data/dataset.h"

#include "common/base/xalloc.h"
#include "common/data/samples.h"

#include <assert.h>
#include <stdlib.h>

ps_dataset *ps_dataset_create(const ps_data_facts *facts)
{
    ps_dataset *data = ps_xcalloc(1, sizeof *data);

    data->features = facts->features;
    data->classes = facts->classes;
    return data;
}

void ps_dataset_destroy(ps_dataset *data)
{
    if (data == NULL) {
        return;
    }
    for (size_t s = 0; s < 2; s++) {
        free(data->split[s].x_memory);
        free(data->split[s].label_memory);
    }
    free(data);
}

static void limit_split(ps_samples *samples, uint32_t count)
{
    if (count != 0 && count < samples->count) {
        samples->count = count;
    }
}

void ps_dataset_limit(ps_dataset *data, uint32_t train, uint32_t test)
{
    limit_split(&data->split[PS_TRAIN], train);
    limit_split(&data->split[PS_TEST], test);
}

uint32_t ps_dataset_count(const ps_dataset *data, ps_split split)
{
    return data->split[split].count;
}

/* Without branches or calls, so that it vectorises. The product is exact at
 * both ends: 0 becomes -0.5 and 255 becomes 0.5. */
static void scale(const uint8_t *restrict bytes, float *restrict x, size_t n)
{
    const float step = 1.0f / 255.0f;

    for (size_t i = 0; i < n; i++) {
        x[i] = (float)bytes[i] * step - 0.5f;
    }
}

/* Rows of a shuffled batch lie anywhere in 47 MB: asked for two rows ahead, they
 * are there when their turn comes. */
static void prefetch(const uint8_t *bytes, size_t n)
{
    for (size_t at = 0; at < n; at += 64) {
        __builtin_prefetch(bytes + at);
    }
}

void ps_dataset_gather(const ps_dataset *data, ps_split split, const uint32_t *index,
                       uint32_t first, uint32_t n, float *x, float *targets)
{
    const ps_samples *from = &data->split[split];
    size_t features = data->features;
    enum { AHEAD = 2 };

    assert(index != NULL || (first <= from->count && n <= from->count - first));
    for (uint32_t i = 0; i < n; i++) {
        size_t at = index != NULL ? index[i] : first + i;

        assert(at < from->count);
        if (index != NULL && i + AHEAD < n && index[i + AHEAD] < from->count) {
            prefetch(from->x + index[i + AHEAD] * features, features);
        }
        scale(from->x + at * features, x + i * features, features);
        targets[i] = (float)from->labels[at];
    }
}
