/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c - takes contributions: who brings what, and whether it is due. */
#include "common/store/shard_state.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Pushes ---- */

static ps_status check_worker(const ps_shard *shard, uint32_t worker, uint32_t contributor)
{
    if (worker >= shard->workers) {
        return ps_fail(PS_INVALID_ARGUMENT, "worker %u of %u", worker, shard->workers);
    }
    if (contributor >= shard->contributors) {
        return ps_fail(PS_INVALID_ARGUMENT, "contributor %u of %u", contributor,
                       shard->contributors);
    }
    if (shard->worker[worker].is_lost) {
        return ps_fail(PS_FAILED_PRECONDITION, "worker %u is lost", worker);
    }
    for (uint32_t i = shard->holder_at[contributor]; i < shard->holder_at[contributor + 1]; i++) {
        if (shard->holder[i] == worker) {
            return ps_ok();
        }
    }
    return ps_fail(PS_PERMISSION_DENIED, "worker %u does not hold contributor %u", worker,
                   contributor);
}

/* May contributor k bring `clock` of slice s now, or is it in already? Where
 * there are rounds, clocks that are closed may be left out. */
static ps_status check_clock(const ps_shard *shard, uint32_t s, uint32_t k, uint64_t clock,
                             bool *is_in)
{
    const shard_slice *slice = &shard->slices[s];
    uint64_t next = shard->next[(size_t)k * shard->slice_count + s];
    uint64_t base = shard->policy->has_rounds ? slice->clock : slice->least;

    *is_in = clock < next;
    if (*is_in) {
        return ps_ok();
    }
    if (clock > next && !(shard->policy->has_rounds && clock <= slice->clock)) {
        return ps_fail(PS_OUT_OF_RANGE, "slice %u: clock %llu of contributor %u, %llu is next",
                       slice->conf.index, (unsigned long long)clock, k, (unsigned long long)next);
    }
    if (clock > base && clock - base > shard->policy->lead(&shard->policy_params)) {
        return ps_fail(PS_OUT_OF_RANGE,
                       "slice %u: clock %llu is too far ahead, clock %llu is not complete",
                       slice->conf.index, (unsigned long long)clock, (unsigned long long)base);
    }
    return ps_ok();
}

/* Bin 0 is for 0, bin i for 2^(i - 1) to 2^i - 1. */
static size_t bin_of(uint64_t staleness)
{
    size_t bin = staleness == 0 ? 0 : 64 - (size_t)__builtin_clzll(staleness);

    return bin < PS_SHARD_BINS ? bin : PS_SHARD_BINS - 1;
}

static void count_applied(ps_shard *shard, const ps_arrival *a, bool is_late)
{
    ps_shard_counters *c = &shard->counters;

    c->applied++;
    c->late += is_late;
    c->staleness_max = a->staleness > c->staleness_max ? a->staleness : c->staleness_max;
    c->staleness_sum += a->staleness;
    c->staleness_count++;
    c->staleness_bins[bin_of(a->staleness)]++;
    shard->worker[a->worker].counters.applied++;
}

/* A contribution that was checked and is not in yet. */
static ps_shard_outcome take(ps_shard *shard, uint32_t s, const ps_arrival *a,
                             const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len)
{
    uint64_t next = shard->next[(size_t)a->contributor * shard->slice_count + s];
    ps_clocks clocks = shard_clocks_of(shard, s);
    ps_shard_outcome outcome = PS_SHARD_APPLIED;
    float scale = 1.0f;
    bool is_late;

    switch (shard->policy->on_push(&shard->policy_params, &clocks, a, &scale)) {
    case PS_APPLY:
        assert(!shard->buffers);
        count_applied(shard, a, false);
        shard_apply(shard, s, a->worker, a->clock, head, bytes, len, scale);
        break;
    case PS_BUFFER:
        assert(shard->buffers);
        is_late = shard->policy->has_rounds && a->clock < clocks.clock;
        count_applied(shard, a, is_late);
        outcome = shard_buffer(shard, s, a->contributor, is_late, head, bytes, len)
                      ? PS_SHARD_APPLIED
                      : PS_SHARD_PARKED;
        break;
    case PS_DROP:
        shard->counters.dropped++;
        shard->worker[a->worker].counters.dropped++;
        outcome = PS_SHARD_DROPPED;
        break;
    }
    shard->counters.left_out += a->clock - next;
    shard->worker[a->worker].counters.left_out += a->clock - next;
    shard_mark(shard, s, a->contributor, a->clock + 1);
    if (shard->buffers) {
        shard_close(shard, s);
    }
    shard_changed(shard, s);
    return outcome;
}

/* The place of the slice with that index, or slice_count. */
static uint32_t find_slice(const ps_shard *shard, uint32_t index)
{
    uint32_t lo = 0, hi = shard->slice_count;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (shard->slices[mid].conf.index < index) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo < shard->slice_count && shard->slices[lo].conf.index == index ? lo
                                                                            : shard->slice_count;
}

static ps_status push(ps_shard *shard, uint32_t worker, uint64_t clock, uint32_t contributor,
                      const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len,
                      ps_shard_outcome *outcome)
{
    ps_status st = check_worker(shard, worker, contributor);
    const shard_slice *slice;
    Psgd__V1__Encoding plain;
    uint8_t room[PS_CODEC_ROOM];
    size_t came = len;
    uint32_t s;
    bool is_in = false;

    if (!ps_is_ok(&st)) {
        return st;
    }
    s = find_slice(shard, head->slice);
    if (s == shard->slice_count) {
        return ps_fail(PS_INVALID_ARGUMENT, "slice %u is not of this server", head->slice);
    }
    slice = &shard->slices[s];
    st = ps_codec_decompress(slice->conf.up, &head, &bytes, &len, slice->conf.n, &plain, room);
    if (ps_is_ok(&st)) {
        st = head->others_stay
                 ? ps_fail(PS_DATA_LOSS, "slice %u: others_stay, which is of weights", head->slice)
                 : ps_codec_check(slice->conf.up, head, bytes, len, slice->conf.n);
    }
    if (ps_is_ok(&st)) {
        st = check_clock(shard, s, contributor, clock, &is_in);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    shard->counters.bytes_in += came;
    shard->counters.f32_bytes_in += slice->conf.n * sizeof(float);
    if (is_in) {
        shard->counters.duplicates++;
        *outcome = PS_SHARD_DUPLICATE;
    } else {
        ps_arrival a = {
            .worker = worker,
            .contributor = contributor,
            .clock = clock,
            .staleness = slice->version - shard->given[(size_t)s * shard->workers + worker],
        };

        *outcome = take(shard, s, &a, head, bytes, len);
    }
    return ps_ok();
}

ps_status ps_shard_push(ps_shard *shard, uint32_t worker, uint64_t clock, uint32_t contributor,
                        const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len,
                        ps_shard_outcome *outcome)
{
    ps_status st = push(shard, worker, clock, contributor, head, bytes, len, outcome);

    shard->counters.refused += !ps_is_ok(&st);
    return st;
}

static bool is_brought(const ps_shard *shard, uint32_t s, uint32_t k, uint64_t clock)
{
    return clock < shard->next[(size_t)k * shard->slice_count + s];
}

ps_status ps_shard_push_zeros(ps_shard *shard, uint32_t worker, uint64_t clock,
                              uint32_t contributor)
{
    ps_status st = check_worker(shard, worker, contributor);
    Psgd__V1__Encoding zeros = PSGD__V1__ENCODING__INIT;
    uint32_t in = 0;
    bool is_in;

    for (uint32_t s = 0; s < shard->slice_count && ps_is_ok(&st); s++) {
        st = check_clock(shard, s, contributor, clock, &is_in);
        in += is_in;
    }
    if (!ps_is_ok(&st)) {
        shard->counters.refused++;
        return st;
    }
    for (uint32_t s = 0; s < shard->slice_count; s++) {
        ps_shard_outcome outcome;

        if (in < shard->slice_count && is_brought(shard, s, contributor, clock)) {
            continue; /* these are the others */
        }
        zeros.slice = shard->slices[s].conf.index;
        st = push(shard, worker, clock, contributor, &zeros, NULL, 0, &outcome);
        assert(ps_is_ok(&st));
    }
    return st;
}

/* ---- Membership and results ---- */

ps_status ps_shard_lose_worker(ps_shard *shard, uint32_t worker)
{
    if (worker >= shard->workers) {
        return ps_fail(PS_INVALID_ARGUMENT, "worker %u of %u", worker, shard->workers);
    }
    if (!shard->policy->survives_loss) {
        return ps_fail(PS_FAILED_PRECONDITION, "%s does not go on without worker %u",
                       shard->policy->name, worker);
    }
    if (!shard->worker[worker].is_lost) {
        shard->worker[worker].is_lost = true;
        ps_shard_pull_cancel(shard, worker);
        shard_forget(shard, worker);
        for (uint32_t s = 0; shard->buffers && s < shard->slice_count; s++) {
            shard_close(shard, s);
        }
    }
    return ps_ok();
}

bool ps_shard_is_lost(const ps_shard *shard, uint32_t worker)
{
    return worker < shard->workers && shard->worker[worker].is_lost;
}

void shard_leave_out(ps_shard *shard, uint32_t worker, uint64_t clock)
{
    const shard_worker *who = &shard->worker[worker];

    for (uint32_t i = 0; i < who->held_count; i++) {
        uint32_t k = who->held[i];

        for (uint32_t s = 0; shard->whole[k] < clock && s < shard->slice_count; s++) {
            uint64_t next = shard->next[(size_t)k * shard->slice_count + s];

            if (next < clock) {
                shard->counters.left_out += clock - next;
                shard->worker[worker].counters.left_out += clock - next;
                shard_mark(shard, s, k, clock);
                shard_close(shard, s);
                shard_changed(shard, s);
            }
        }
    }
}

size_t ps_shard_value_count(const ps_shard *shard)
{
    return shard->value_count;
}

const float *ps_shard_weights(ps_shard *shard)
{
    if (shard->flat == NULL) {
        shard->flat = ps_xaligned_alloc(shard->value_count * sizeof *shard->flat);
    }
    for (uint32_t s = 0; s < shard->slice_count; s++) {
        memcpy(shard->flat + shard->slices[s].at, shard->slices[s].weights->data,
               shard->slices[s].weights->len);
    }
    return shard->flat;
}

uint64_t ps_shard_version(const ps_shard *shard, uint32_t place)
{
    assert(place < shard->slice_count);
    return shard->slices[place].version;
}

const ps_shard_counters *ps_shard_counters_of(const ps_shard *shard)
{
    return &shard->counters;
}

const ps_shard_worker_counters *ps_shard_worker_counters_of(const ps_shard *shard, uint32_t worker)
{
    assert(worker < shard->workers);
    return &shard->worker[worker].counters;
}
