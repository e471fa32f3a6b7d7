/* SPDX-License-Identifier: Apache-2.0 */
/* shard_clocks.c - who has brought what, and how far everybody is.
 *
 * Minima are kept with the number of those who are at them, so that a push
 * costs a count and only the last one of a clock looks at the others.
 */
#include "common/store/shard_state.h"

#include <assert.h>

ps_clocks shard_clocks_of(const ps_shard *shard, uint32_t s)
{
    const shard_slice *slice = &shard->slices[s];

    return (ps_clocks){
        .workers = shard->workers,
        .contributors = shard->contributors,
        .live = shard->live,
        .done = shard->done + (size_t)s * shard->workers,
        .least = slice->least,
        .clock = shard->policy->has_rounds ? slice->clock : slice->least,
        .version = slice->version,
        .in = slice->in,
        .due = slice->due,
        .now_us = shard->now_us,
        .first_us = slice->first_us,
        .state = slice->state,
    };
}

static void find_least(ps_shard *shard, uint32_t s)
{
    const uint64_t *done = shard->done + (size_t)s * shard->workers;
    uint64_t least = UINT64_MAX;

    for (uint32_t w = 0; w < shard->workers; w++) {
        least = done[w] < least ? done[w] : least;
    }
    shard->slices[s].least = least;
}

/* One more of what worker w holds has passed w's done. */
static void mark_worker(ps_shard *shard, uint32_t s, uint32_t w)
{
    const shard_worker *worker = &shard->worker[w];
    uint64_t *done = &shard->done[(size_t)s * shard->workers + w];
    uint32_t *pending = &shard->pending[(size_t)s * shard->workers + w];
    bool was_least = *done == shard->slices[s].least;

    assert(*pending > 0);
    if (--*pending > 0) {
        return;
    }
    *done = UINT64_MAX;
    for (uint32_t i = 0; i < worker->held_count; i++) {
        uint64_t next = shard->next[(size_t)worker->held[i] * shard->slice_count + s];

        if (next < *done) {
            *done = next;
            *pending = 0;
        }
        *pending += next == *done;
    }
    if (was_least) {
        find_least(shard, s);
    }
}

void shard_mark(ps_shard *shard, uint32_t s, uint32_t k, uint64_t to)
{
    uint64_t *next = shard->next + (size_t)k * shard->slice_count;
    uint64_t clock = next[s];

    assert(to > clock);
    next[s] = to;
    for (uint32_t i = shard->holder_at[k]; i < shard->holder_at[k + 1]; i++) {
        uint32_t w = shard->holder[i];

        if (clock == shard->done[(size_t)s * shard->workers + w]) {
            mark_worker(shard, s, w);
        }
    }
    if (clock == shard->whole[k] && --shard->left[k] == 0) {
        shard->whole[k] = UINT64_MAX;
        for (uint32_t i = 0; i < shard->slice_count; i++) {
            if (next[i] < shard->whole[k]) {
                shard->whole[k] = next[i];
                shard->left[k] = 0;
            }
            shard->left[k] += next[i] == shard->whole[k];
        }
    }
}

/* Is contributor k of somebody who is not lost? */
static bool is_live(const ps_shard *shard, uint32_t k)
{
    for (uint32_t i = shard->holder_at[k]; i < shard->holder_at[k + 1]; i++) {
        if (!shard->worker[shard->holder[i]].is_lost) {
            return true;
        }
    }
    return false;
}

void shard_forget(ps_shard *shard, uint32_t w)
{
    shard->live = 0;
    for (uint32_t k = 0; k < shard->contributors; k++) {
        shard->live += is_live(shard, k);
    }
    for (uint32_t s = 0; s < shard->slice_count; s++) {
        shard->done[(size_t)s * shard->workers + w] = UINT64_MAX;
        find_least(shard, s);
        shard_changed(shard, s);
    }
}

/* The clock of slice s that is not complete. */
static uint64_t clock_of(const ps_shard *shard, uint32_t s)
{
    const shard_slice *slice = &shard->slices[s];

    return shard->policy->has_rounds && slice->least != UINT64_MAX ? slice->clock : slice->least;
}

uint64_t ps_shard_clock(const ps_shard *shard)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t s = 0; s < shard->slice_count; s++) {
        uint64_t clock = clock_of(shard, s);

        least = clock < least ? clock : least;
    }
    return least;
}

static bool is_missing(const ps_shard *shard, uint32_t w, uint64_t clock)
{
    for (uint32_t s = 0; s < shard->slice_count; s++) {
        if (clock_of(shard, s) == clock && shard->done[(size_t)s * shard->workers + w] <= clock) {
            return true;
        }
    }
    return false;
}

uint32_t ps_shard_waits_for(const ps_shard *shard, uint32_t *workers, uint32_t cap)
{
    uint64_t clock = ps_shard_clock(shard);
    uint32_t count = 0;

    for (uint32_t w = 0; clock != UINT64_MAX && w < shard->workers; w++) {
        if (is_missing(shard, w, clock)) {
            if (count < cap) {
                workers[count] = w;
            }
            count++;
        }
    }
    return count;
}

bool ps_shard_is_in(const ps_shard *shard, uint64_t clock, uint32_t contributor)
{
    return contributor < shard->contributors &&
           (shard->slice_count == 0 || shard->whole[contributor] > clock);
}
