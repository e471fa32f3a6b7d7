/* SPDX-License-Identifier: Apache-2.0 */
/* shard_push.c - takes contributions to slices: checks the contributor and its clock, and asks
 * the policy what becomes of the contribution. */
#include "common/store/store_impl.h"

#include "common/trace/trace.h"

#include <stdlib.h>
#include <string.h>

/* ---- Pushes ---- */

/* Checks whether contributor k may contribute `clock` to slice s now. Sets *is_in to whether the
 * slice has that contribution already, which is no failure. */
static ps_status check_clock(const ps_store *store, uint32_t s, uint32_t k, uint64_t clock,
                             bool *is_in)
{
    ps_status st = ps_book_check_clock(&store->book, s, k, clock, is_in);

    return ps_is_ok(&st) ? st : ps_wrap(st, "slice %u", store->slices[s].conf.index);
}

/* Applies, buffers or drops, as the policy decides, a contribution that was checked and is new.
 * Then closes the slice's sum if it may close. */
static ps_store_outcome take(ps_store *store, uint32_t s, uint32_t worker, uint32_t k,
                             uint64_t clock, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                             size_t len)
{
    ps_store_outcome outcome = PS_STORE_APPLIED;
    float scale;
    bool is_late;

    store_before(store, s);
    switch (ps_book_arrive(&store->book, s, worker, k, clock, &scale, &is_late)) {
    case PS_APPLY:
        shard_apply(store, s, worker, clock, head, bytes, len, scale);
        break;
    case PS_BUFFER:
        outcome = shard_buffer(store, s, k, is_late, head, bytes, len) ? PS_STORE_APPLIED
                                                                       : PS_STORE_PARKED;
        break;
    case PS_DROP:
        outcome = PS_STORE_DROPPED;
        break;
    }
    ps_book_mark(&store->book, s, k, clock + 1);
    if (store->book.buffers) {
        shard_close(store, s);
    }
    shard_changed(store, s);
    return outcome;
}

/* Counts a checked contribution of `came` bytes. If the slice has it already (is_in), counts a
 * duplicate; else gives it to take(). */
static ps_store_outcome accept(ps_store *store, uint32_t s, uint32_t worker, uint32_t k,
                               uint64_t clock, bool is_in, size_t came,
                               const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len)
{
    store->counters.bytes_in += came;
    store->counters.f32_bytes_in += store->slices[s].conf.n * sizeof(float);
    if (is_in) {
        store->counters.duplicates++;
        return PS_STORE_DUPLICATE;
    }
    return take(store, s, worker, k, clock, head, bytes, len);
}

uint32_t shard_find_slice(const ps_store *store, uint32_t index)
{
    uint32_t lo = 0, hi = store->slice_count;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (store->slices[mid].conf.index < index) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo < store->slice_count && store->slices[lo].conf.index == index ? lo
                                                                            : store->slice_count;
}

/* Takes a slice of a contribution (ps_store_push, ps_store_push_finite). are_finite: the caller has
 * checked that all values are finite. */
static ps_status push(ps_store *store, uint32_t worker, uint64_t clock, uint32_t contributor,
                      const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len,
                      bool are_finite, ps_store_outcome *outcome)
{
    ps_status st = ps_book_check_worker(&store->book, worker, contributor);
    int64_t began_ns = ps_trace_begin();
    const shard_slice *slice;
    ps_encoding plain;
    _Alignas(float) uint8_t room[PS_CODEC_ROOM];
    size_t came = len;
    uint32_t s;
    bool is_in = false;

    if (!ps_is_ok(&st)) {
        return st;
    }
    s = shard_find_slice(store, head->slice);
    if (s == store->slice_count) {
        return ps_fail(PS_INVALID_ARGUMENT, "slice %u is not of this server", head->slice);
    }
    slice = &store->slices[s];
    st = ps_codec_decompress(slice->conf.up, &head, &bytes, &len, slice->conf.n, &plain, room);
    if (ps_is_ok(&st)) {
        st = ps_codec_check(slice->conf.up, head, bytes, len, slice->conf.n);
    }
    if (ps_is_ok(&st)) {
        st = check_clock(store, s, contributor, clock, &is_in);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (!is_in && !are_finite) {
        st = ps_codec_check_finite(slice->conf.up, head, bytes, len, slice->conf.n, store->scratch);
        if (!ps_is_ok(&st)) {
            *outcome = PS_STORE_NOT_FINITE;
            return st;
        }
    }
    ps_trace_end(PS_TRACE_DECODE, began_ns, head->slice, NULL);
    *outcome = accept(store, s, worker, contributor, clock, is_in, came, head, bytes, len);
    return st;
}

/* Counts a push that failed with `st` as refused. Returns `st`. */
static ps_status count_refused(ps_store *store, ps_status st)
{
    store->counters.refused += !ps_is_ok(&st);
    return st;
}

ps_status ps_store_push(ps_store *store, uint32_t worker, uint64_t clock, uint32_t contributor,
                        const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len,
                        ps_store_outcome *outcome)
{
    return count_refused(store,
                         push(store, worker, clock, contributor, head, bytes, len, false, outcome));
}

ps_status ps_store_push_finite(ps_store *store, uint32_t worker, uint64_t clock,
                               uint32_t contributor, const Psgd__V1__Encoding *head,
                               const uint8_t *bytes, size_t len, ps_store_outcome *outcome)
{
    return count_refused(store,
                         push(store, worker, clock, contributor, head, bytes, len, true, outcome));
}

ps_status ps_store_push_zeros(ps_store *store, uint32_t worker, uint64_t clock,
                              uint32_t contributor)
{
    ps_status st = ps_book_check_worker(&store->book, worker, contributor);
    Psgd__V1__Encoding zeros = PSGD__V1__ENCODING__INIT;
    uint32_t in = 0;
    bool is_in;

    for (uint32_t s = 0; s < store->slice_count && ps_is_ok(&st); s++) {
        st = check_clock(store, s, contributor, clock, &is_in);
        in += is_in;
    }
    if (!ps_is_ok(&st)) {
        store->counters.refused++;
        return st;
    }
    for (uint32_t s = 0; s < store->slice_count; s++) {
        is_in = clock < ps_book_next(&store->book, s, contributor);
        /* a repetition, when all slices have the contribution already, counts once for each
         * slice */
        if (!is_in || in == store->slice_count) {
            zeros.slice = store->slices[s].conf.index;
            (void)accept(store, s, worker, contributor, clock, is_in, 0, &zeros, NULL, 0);
        }
    }
    return st;
}

void shard_leave_out(ps_store *store, uint32_t worker, uint64_t clock)
{
    const ps_book_worker *who = &store->book.worker[worker];

    for (uint32_t i = 0; i < who->held_count; i++) {
        uint32_t k = who->held[i];

        for (uint32_t s = 0; store->book.whole[k] < clock && s < store->slice_count; s++) {
            store_before(store, s);
            if (ps_book_leave_out(&store->book, s, worker, k, clock)) {
                shard_close(store, s);
                shard_changed(store, s);
            }
        }
        if (store->rows != NULL && store->book.whole[k] < clock &&
            ps_book_leave_out(&store->book, store->rows->column, worker, k, clock)) {
            store_rows_go_on(store);
        }
    }
}
