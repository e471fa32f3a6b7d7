/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c - takes contributions: who brings what, and whether it is due. */
#include "common/store/shard_state.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Pushes ---- */

/* Checks whether contributor k may bring `clock` of slice s now, or has already. */
static ps_status check_clock(const ps_shard *shard, uint32_t s, uint32_t k, uint64_t clock,
                             bool *is_in)
{
    return ps_wrap(ps_book_check_clock(&shard->book, s, k, clock, is_in), "slice %u",
                   shard->slices[s].conf.index);
}

/* A contribution that was checked and is not in yet. */
static ps_shard_outcome take(ps_shard *shard, uint32_t s, uint32_t worker, uint32_t k,
                             uint64_t clock, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                             size_t len)
{
    ps_shard_outcome outcome = PS_SHARD_APPLIED;
    float scale;
    bool is_late;

    switch (ps_book_arrive(&shard->book, s, worker, k, clock, &scale, &is_late)) {
    case PS_APPLY:
        shard_apply(shard, s, worker, clock, head, bytes, len, scale);
        break;
    case PS_BUFFER:
        outcome = shard_buffer(shard, s, k, is_late, head, bytes, len) ? PS_SHARD_APPLIED
                                                                       : PS_SHARD_PARKED;
        break;
    case PS_DROP:
        outcome = PS_SHARD_DROPPED;
        break;
    }
    ps_book_mark(&shard->book, s, k, clock + 1);
    if (shard->book.buffers) {
        shard_close(shard, s);
    }
    shard_changed(shard, s);
    return outcome;
}

uint32_t shard_find_slice(const ps_shard *shard, uint32_t index)
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
    ps_status st = ps_book_check_worker(&shard->book, worker, contributor);
    const shard_slice *slice;
    Psgd__V1__Encoding plain;
    uint8_t room[PS_CODEC_ROOM];
    size_t came = len;
    uint32_t s;
    bool is_in = false;

    if (!ps_is_ok(&st)) {
        return st;
    }
    s = shard_find_slice(shard, head->slice);
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
        *outcome = take(shard, s, worker, contributor, clock, head, bytes, len);
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
    ps_status st = ps_book_check_worker(&shard->book, worker, contributor);
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

        if (in < shard->slice_count && clock < ps_book_next(&shard->book, s, contributor)) {
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
    bool was_lost = ps_shard_is_lost(shard, worker);
    ps_status st = ps_book_lose(&shard->book, worker);

    if (ps_is_ok(&st) && !was_lost) {
        ps_shard_pull_cancel(shard, worker);
        for (uint32_t s = 0; s < shard->slice_count; s++) {
            shard_changed(shard, s);
            if (shard->book.buffers) {
                shard_close(shard, s);
            }
        }
    }
    return st;
}

bool ps_shard_is_lost(const ps_shard *shard, uint32_t worker)
{
    return worker < shard->book.workers && shard->book.worker[worker].is_lost;
}

void shard_leave_out(ps_shard *shard, uint32_t worker, uint64_t clock)
{
    const ps_book_worker *who = &shard->book.worker[worker];

    for (uint32_t i = 0; i < who->held_count; i++) {
        uint32_t k = who->held[i];

        for (uint32_t s = 0; shard->book.whole[k] < clock && s < shard->slice_count; s++) {
            if (ps_book_leave_out(&shard->book, s, worker, k, clock)) {
                shard_close(shard, s);
                shard_changed(shard, s);
            }
        }
    }
}

bool ps_shard_is_in(const ps_shard *shard, uint64_t clock, uint32_t contributor)
{
    return ps_book_is_in(&shard->book, clock, contributor);
}

uint64_t ps_shard_clock(const ps_shard *shard)
{
    return ps_book_clock(&shard->book);
}

uint32_t ps_shard_waits_for(const ps_shard *shard, uint32_t *workers, uint32_t cap)
{
    return ps_book_waits_for(&shard->book, workers, cap);
}

int64_t ps_shard_deadline(const ps_shard *shard)
{
    return ps_book_deadline(&shard->book);
}

uint64_t ps_shard_open(const ps_shard *shard)
{
    return ps_book_open(&shard->book);
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
    return shard->slices[place].col->version;
}

ps_book *ps_shard_book(ps_shard *shard)
{
    return &shard->book;
}

const ps_store_counters *ps_shard_counters_of(const ps_shard *shard)
{
    return &shard->counters;
}

const ps_worker_counters *ps_shard_worker_counters_of(const ps_shard *shard, uint32_t worker)
{
    assert(worker < shard->book.workers);
    return &shard->book.worker[worker].share;
}
