/* SPDX-License-Identifier: Apache-2.0 */
/* wire_parts.c - see wire_parts.h. */
#include "common/wire/wire_parts.h"

#include "common/base/xalloc.h"
#include "common/train/merge.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void deal(ps_wire_parts *parts, const uint32_t *owned, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ps_wire_part *to = &parts->part[i % parts->count];

        if (to->slices == NULL) {
            to->slices = ps_xcalloc(count / parts->count + 1, sizeof *to->slices);
        }
        parts->part_of[owned[i]] = (uint8_t)(i % parts->count);
        to->slices[to->count++] = owned[i];
    }
}

/* Makes a part's store; `at` says where each slice lies in weights. */
static void fill(const ps_plan *plan, ps_wire_part *part, const float *weights, const size_t *at,
                 ps_tables *tables)
{
    const ps_slice *slices = plan->layout.slices;
    size_t values = 0;
    float *own;

    for (uint32_t i = 0; i < part->count; i++) {
        values += slices[part->slices[i]].n;
    }
    own = ps_xcalloc(values + 1, sizeof *own);
    values = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        const ps_slice *s = &slices[part->slices[i]];

        memcpy(own + values, weights + at[s->index], s->n * sizeof *own);
        values += s->n;
    }
    part->store = ps_merge_store(plan, part->slices, part->count, own, tables);
    free(own);
}

void ps_wire_parts_init(ps_wire_parts *parts, const ps_plan *plan, const ps_placement *placement,
                        uint32_t server, uint32_t count, const float *weights, bool is_block,
                        ps_tables *tables)
{
    const ps_layout *layout = &plan->layout;
    const uint32_t *owned = placement->owned[server];
    uint32_t owned_count = placement->owned_count[server];
    size_t *at = ps_xcalloc(layout->slice_count + 1u, sizeof *at), values = 0;
    pthread_mutexattr_t attr;

    assert(count >= 1 && count <= PS_WIRE_PARTS_MAX);
    *parts = (ps_wire_parts){.plan = plan, .is_shared = count > 1};
    parts->count = owned_count < count ? (owned_count > 0 ? owned_count : 1) : count;
    parts->part = ps_xcalloc(parts->count, sizeof *parts->part);
    parts->part_of = ps_xcalloc(layout->slice_count + 1u, sizeof *parts->part_of);
    deal(parts, owned, owned_count);
    for (uint32_t i = 0; i < owned_count; i++) {
        at[owned[i]] = is_block ? layout->slices[owned[i]].at : values;
        values += layout->slices[owned[i]].n;
    }
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP); /* it is never held for long */
    for (uint32_t i = 0; i < parts->count; i++) {
        pthread_mutex_init(&parts->part[i].mutex, &attr);
        if (parts->count == 1 && !is_block) {
            parts->part[i].store =
                ps_merge_store(plan, parts->part[i].slices, parts->part[i].count, weights, tables);
        } else {
            fill(plan, &parts->part[i], weights, at, i == 0 ? tables : NULL);
        }
    }
    pthread_mutexattr_destroy(&attr);
    free(at);
}

void ps_wire_parts_fini(ps_wire_parts *parts)
{
    for (uint32_t i = 0; i < parts->count; i++) {
        pthread_mutex_destroy(&parts->part[i].mutex);
        ps_store_destroy(parts->part[i].store);
        free(parts->part[i].slices);
    }
    free(parts->part);
    free(parts->part_of);
    *parts = (ps_wire_parts){0};
}

ps_wire_part *ps_wire_part_of(const ps_wire_parts *parts, uint32_t slice)
{
    return &parts->part[slice < parts->plan->layout.slice_count ? parts->part_of[slice] : 0];
}

void ps_wire_part_lock(const ps_wire_parts *parts, ps_wire_part *part)
{
    if (parts->is_shared) {
        pthread_mutex_lock(&part->mutex);
    }
}

bool ps_wire_part_try_lock(const ps_wire_parts *parts, ps_wire_part *part)
{
    return !parts->is_shared || pthread_mutex_trylock(&part->mutex) == 0;
}

void ps_wire_part_unlock(const ps_wire_parts *parts, ps_wire_part *part)
{
    if (parts->is_shared) {
        pthread_mutex_unlock(&part->mutex);
    }
}

void ps_wire_parts_take_weights(ps_wire_parts *parts, float *block)
{
    for (uint32_t i = 0; i < parts->count; i++) {
        ps_wire_part *from = &parts->part[i];
        const float *weights = ps_store_weights(from->store);

        for (uint32_t k = 0; k < from->count; k++) {
            const ps_slice *s = &parts->plan->layout.slices[from->slices[k]];

            memcpy(block + s->at, weights, s->n * sizeof *block);
            weights += s->n;
        }
        ps_store_drop_slices(from->store);
    }
}

ps_store_counters ps_wire_parts_counters(ps_wire_parts *parts)
{
    ps_store_counters sum = {0};

    for (uint32_t i = 0; i < parts->count; i++) {
        const ps_store_counters *c = ps_store_counters_of(parts->part[i].store);

        sum.applied += c->applied;
        sum.duplicates += c->duplicates;
        sum.dropped += c->dropped;
        sum.steps += c->steps;
        sum.staleness_sum += c->staleness_sum;
        sum.staleness_count += c->staleness_count;
        if (c->staleness_max > sum.staleness_max) {
            sum.staleness_max = c->staleness_max;
        }
    }
    return sum;
}
