/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c - takes contributions, and steps the weights when it is time. */
#include "common/shard/shard_state.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Updates of a slice ---- */

/* The weights of a slice, to be written. Those that are still on their way to a
 * worker stay as they are: the slice goes on in a copy. */
static float *weights_to_write(shard_slice *slice)
{
    ps_buf *old = slice->weights;

    if (atomic_load_explicit(&old->refs, memory_order_acquire) != 1) {
        slice->weights = ps_buf_create(old->len);
        slice->weights->len = old->len;
        memcpy(slice->weights->data, old->data, old->len);
        ps_buf_unref(old);
    }
    return (float *)(void *)slice->weights->data;
}

/* w -= step(g * scale). */
static void step(ps_shard *shard, shard_slice *slice, const float *g, float scale)
{
    float *w = weights_to_write(slice);
    size_t n = slice->conf.n;

    if (scale != 1.0f) {
        for (size_t i = 0; i < n; i++) {
            shard->scratch[i] = g[i] * scale;
        }
        g = shard->scratch;
    }
    if (shard->optim != NULL && !slice->conf.is_state) {
        shard->optim->step(&shard->optim_params, slice->version + 1, g,
                           shard->state + slice->at * shard->optim->slots, w, n);
    } else {
        for (size_t i = 0; i < n; i++) {
            w[i] -= g[i];
        }
    }
    slice->version++;
    shard->counters.steps++;
}

static void decode(const shard_slice *slice, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                   size_t len, ps_into into, float *y)
{
    ps_status st = ps_codec_decode(slice->conf.up, head, bytes, len, into, y, slice->conf.n);

    assert(ps_is_ok(&st)); /* it was checked when it came */
}

/* The values of a contribution: where they lie, if they are float32 already, or
 * decoded into scratch. */
static const float *values_of(const ps_shard *shard, const shard_slice *slice,
                              const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len)
{
    if (ps_encoding_is_plain(head) && len > 0 && (uintptr_t)bytes % _Alignof(float) == 0) {
        return (const float *)(const void *)bytes;
    }
    decode(slice, head, bytes, len, PS_INTO_SET, shard->scratch);
    return shard->scratch;
}

static void add_to_sum(ps_shard *shard, shard_slice *slice, const Psgd__V1__Encoding *head,
                       const uint8_t *bytes, size_t len)
{
    if (shard->sums == NULL) { /* of one contributor; the step follows at once */
        slice->sum = values_of(shard, slice, head, bytes, len);
    } else {
        decode(slice, head, bytes, len, slice->sum != NULL ? PS_INTO_ADD : PS_INTO_SET,
               shard->sums + slice->at);
        slice->sum = shard->sums + slice->at;
    }
}

/* Moves the turn past everybody who is in, and steps when that is all. */
static void drain(ps_shard *shard, uint32_t s)
{
    shard_slice *slice = &shard->slices[s];

    while (slice->turn < shard->contributors &&
           shard->next[(size_t)slice->turn * shard->slice_count + s] > slice->clock) {
        const ps_parked *first = slice->parked;

        if (first != NULL && first->contributor == slice->turn) {
            add_to_sum(shard, slice, &first->head.msg, first->bytes, first->len);
            ps_park_remove_first(&shard->park, &slice->parked);
        }
        slice->turn++;
    }
    if (slice->turn == shard->contributors) {
        assert(slice->parked == NULL);
        if (slice->sum != NULL) {
            step(shard, slice, slice->sum, shard->merge_scale);
        }
        slice->sum = NULL;
        slice->turn = 0;
        slice->clock++;
    }
}

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

/* May contributor k bring `clock` of slice s now, or is it in already? */
static ps_status check_clock(const ps_shard *shard, uint32_t s, uint32_t k, uint64_t clock,
                             bool *is_in)
{
    const shard_slice *slice = &shard->slices[s];
    uint64_t next = shard->next[(size_t)k * shard->slice_count + s];

    *is_in = clock < next;
    if (*is_in) {
        return ps_ok();
    }
    if (clock > next) {
        return ps_fail(PS_OUT_OF_RANGE, "slice %u: clock %llu of contributor %u, %llu is next",
                       slice->conf.index, (unsigned long long)clock, k, (unsigned long long)next);
    }
    if ((clock > slice->least &&
         clock - slice->least > shard->policy->lead(&shard->policy_params)) ||
        (shard->buffers && clock != slice->clock)) {
        return ps_fail(
            PS_OUT_OF_RANGE, "slice %u: clock %llu is too far ahead, clock %llu is not complete",
            slice->conf.index, (unsigned long long)clock, (unsigned long long)slice->least);
    }
    return ps_ok();
}

static void count_staleness(ps_shard *shard, uint32_t s, uint32_t worker)
{
    ps_shard_counters *c = &shard->counters;
    uint64_t stale = shard->slices[s].version - shard->given[(size_t)s * shard->workers + worker];

    c->staleness_max = stale > c->staleness_max ? stale : c->staleness_max;
    c->staleness_sum += stale;
    c->staleness_count++;
}

static void count_parked(ps_shard *shard)
{
    ps_shard_counters *c = &shard->counters;

    c->parked_now = shard->park.now;
    c->parked_bytes_now = shard->park.bytes_now;
    c->parked_total = shard->park.total;
    c->parked_bytes_peak = shard->park.bytes_peak;
    c->pool_bytes = shard->park.pool_bytes;
}

static ps_shard_outcome take_buffered(ps_shard *shard, uint32_t s, uint32_t contributor,
                                      const Psgd__V1__Encoding *head, const uint8_t *bytes,
                                      size_t len)
{
    shard_slice *slice = &shard->slices[s];
    bool is_turn = contributor == slice->turn;

    if (is_turn) {
        add_to_sum(shard, slice, head, bytes, len);
    } else {
        ps_park_add(&shard->park, &slice->parked, contributor, head, bytes, len);
    }
    shard_mark(shard, s, contributor);
    drain(shard, s);
    count_parked(shard);
    return is_turn ? PS_SHARD_APPLIED : PS_SHARD_PARKED;
}

/* A contribution that was checked and is not in yet. */
static ps_shard_outcome take(ps_shard *shard, uint32_t s, uint32_t worker, uint64_t clock,
                             uint32_t contributor, const Psgd__V1__Encoding *head,
                             const uint8_t *bytes, size_t len)
{
    shard_slice *slice = &shard->slices[s];
    ps_clocks clocks = shard_clocks_of(shard, s);
    ps_shard_outcome outcome = PS_SHARD_DROPPED;
    float scale = 1.0f;

    switch (shard->policy->on_push(&shard->policy_params, &clocks, worker, clock, &scale)) {
    case PS_APPLY:
        assert(!shard->buffers);
        count_staleness(shard, s, worker);
        step(shard, slice, values_of(shard, slice, head, bytes, len), scale * shard->merge_scale);
        shard_mark(shard, s, contributor);
        shard->counters.applied++;
        outcome = PS_SHARD_APPLIED;
        break;
    case PS_BUFFER:
        assert(shard->buffers);
        count_staleness(shard, s, worker);
        outcome = take_buffered(shard, s, contributor, head, bytes, len);
        shard->counters.applied++;
        break;
    case PS_DROP:
        shard_mark(shard, s, contributor);
        if (shard->buffers) {
            drain(shard, s);
            count_parked(shard);
        }
        shard->counters.dropped++;
        break;
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
    st = ps_codec_check(slice->conf.up, head, bytes, len, slice->conf.n);
    if (ps_is_ok(&st)) {
        st = check_clock(shard, s, contributor, clock, &is_in);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    shard->counters.bytes_in += len;
    shard->counters.f32_bytes_in += slice->conf.n * sizeof(float);
    if (is_in) {
        shard->counters.duplicates++;
        *outcome = PS_SHARD_DUPLICATE;
    } else {
        *outcome = take(shard, s, worker, clock, contributor, head, bytes, len);
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

ps_status ps_shard_push_zeros(ps_shard *shard, uint32_t worker, uint64_t clock,
                              uint32_t contributor)
{
    ps_status st = check_worker(shard, worker, contributor);
    Psgd__V1__Encoding zeros = PSGD__V1__ENCODING__INIT;
    bool is_in;

    for (uint32_t s = 0; s < shard->slice_count && ps_is_ok(&st); s++) {
        st = check_clock(shard, s, contributor, clock, &is_in);
    }
    if (!ps_is_ok(&st)) {
        shard->counters.refused++;
        return st;
    }
    for (uint32_t s = 0; s < shard->slice_count; s++) {
        ps_shard_outcome outcome;

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
    }
    return ps_ok();
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
