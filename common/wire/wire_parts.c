/* SPDX-License-Identifier: Apache-2.0 */
/* wire_parts.c - see wire_parts.h. */
#include "common/wire/wire_parts.h"

#include "common/base/xalloc.h"
#include "common/train/merge.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Creates the store of a part whose list of slices is complete. at[slice] is the index in `weights`
 * of the slice's first value. */
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

static void make_parts(ps_wire_parts *parts, const ps_plan *plan, uint32_t count, bool is_shared)
{
    pthread_mutexattr_t attr;

    *parts = (ps_wire_parts){.plan = plan, .is_shared = is_shared, .count = count};
    parts->part = ps_xcalloc(count, sizeof *parts->part);
    parts->part_of = ps_xcalloc(plan->layout.slice_count + 1u, sizeof *parts->part_of);
    pthread_mutexattr_init(&attr);
    /* Threads hold the mutexes only briefly, so a thread that waits for one should spin before it
     * sleeps. */
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    for (uint32_t i = 0; i < count; i++) {
        pthread_mutex_init(&parts->part[i].mutex, &attr);
    }
    pthread_mutexattr_destroy(&attr);
}

/* Appends a slice to the list of part number `index`. The list must not exceed `most` slices. */
static void add_slice(ps_wire_parts *parts, uint32_t index, uint32_t slice, uint32_t most)
{
    ps_wire_part *part = &parts->part[index];

    if (part->slices == NULL) {
        part->slices = ps_xcalloc(most, sizeof *part->slices);
    }
    part->slices[part->count++] = slice;
    parts->part_of[slice] = (uint8_t)index;
}

void ps_wire_parts_init(ps_wire_parts *parts, const ps_plan *plan, const ps_placement *placement,
                        uint32_t part, const float *weights, ps_tables *tables)
{
    const ps_part *from = &placement->parts[part];
    uint32_t held = ps_placement_held_count(placement, from->server);
    size_t *at = ps_xcalloc(plan->layout.slice_count + 1u, sizeof *at), values = 0;

    make_parts(parts, plan, 1, false);
    for (uint32_t i = 0; i < from->owned_count; i++) {
        add_slice(parts, 0, from->owned[i], from->owned_count);
    }
    for (uint32_t i = 0; i < held; i++) {
        uint32_t slice = ps_placement_held(placement, from->server, i);

        at[slice] = values;
        values += plan->layout.slices[slice].n;
    }
    /* If the part has all slices of its server, their weights lie one after the other already. */
    if (from->owned_count == held) {
        parts->part[0].store =
            ps_merge_store(plan, from->owned, from->owned_count, weights, tables);
    } else {
        fill(plan, &parts->part[0], weights, at, tables);
    }
    if (ps_plan_rescues(plan)) {
        ps_store_keep_before(parts->part[0].store);
    }
    free(at);
}

void ps_wire_parts_init_shared(ps_wire_parts *parts, const ps_plan *plan,
                               const ps_placement *placement, const float *weights,
                               ps_tables *tables)
{
    uint32_t owned = placement->owned_count[0], place_of[PS_SHARDS];
    size_t *at = ps_xcalloc(plan->layout.slice_count + 1u, sizeof *at);

    make_parts(parts, plan,
               owned >= PS_WIRE_PARTS_MAX ? PS_WIRE_PARTS_MAX : (owned > 0 ? owned : 1), true);
    ps_placement_deal(&plan->layout, placement->server_of_shard, 0, parts->count, place_of);
    for (uint32_t i = 0; i < owned; i++) {
        const ps_slice *s = &plan->layout.slices[placement->owned[0][i]];

        at[s->index] = s->at;
        /* The first part has all rows, so that a message of rows concerns only one part. */
        add_slice(parts, plan->table_of[s->variable] == PS_NO_TABLE ? place_of[s->shard] : 0,
                  s->index, owned);
    }
    for (uint32_t i = 0; i < parts->count; i++) {
        fill(plan, &parts->part[i], weights, at, i == 0 ? tables : NULL);
    }
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

        for (uint32_t k = 0; k < from->count; k++) {
            ps_store_copy_slice(from->store, k,
                                block + parts->plan->layout.slices[from->slices[k]].at);
        }
        ps_store_drop_slices(from->store);
    }
}

ps_store_counters ps_wire_parts_counters(ps_wire_parts *parts)
{
    ps_store_counters sum = {0};

    for (uint32_t i = 0; i < parts->count; i++) {
        ps_store_counters_add(&sum, ps_store_counters_of(parts->part[i].store));
    }
    return sum;
}
