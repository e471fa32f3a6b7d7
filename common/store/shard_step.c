/* SPDX-License-Identifier: Apache-2.0 */
/* shard_step.c - updates of a slice: of one contribution, or of a sum that closes. */
#include "common/store/shard_state.h"

#include <assert.h>
#include <string.h>

/* Where they are still on their way to a worker the slice goes on in a copy. */
float *shard_weights_to_write(shard_slice *slice)
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

bool shard_is_descending(const ps_shard *shard, const shard_slice *slice)
{
    return shard->descent.optim != NULL && !slice->conf.is_state;
}

float *shard_state_of(const ps_shard *shard, const shard_slice *slice)
{
    return shard->state + slice->at * shard->descent.optim->slots;
}

/* d = step(g); d is the shard's scratch, and so may g be. */
static void find_increment(ps_shard *shard, shard_slice *slice, ps_moment at, const float *g,
                           const float *w)
{
    float *d = shard->scratch;
    size_t n = slice->conf.n;

    if (shard_is_descending(shard, slice)) {
        ps_descent_increment(&shard->descent, at, g, w, shard_state_of(shard, slice), d, n);
    } else if (g != d) {
        memcpy(d, g, n * sizeof *d);
    }
}

/* w -= scale * step(g * merge), at `clock` of the job; g * merge stands for `share` of a
 * whole gradient. */
static void step(ps_shard *shard, shard_slice *slice, uint64_t clock, double share, const float *g,
                 float merge, float scale)
{
    float *w = shard_weights_to_write(slice);
    size_t n = slice->conf.n;
    ps_moment at = {.t = slice->col->version + 1, .step = clock, .share = share};

    if (merge != 1.0f) {
        for (size_t i = 0; i < n; i++) {
            shard->scratch[i] = g[i] * merge;
        }
        g = shard->scratch;
    }
    if (shard->broadcasts) {
        assert(scale == 1.0f); /* of a policy that sums */
        find_increment(shard, slice, at, g, w);
        shard_broadcast(shard, slice, w);
    } else if (scale != 1.0f) {
        find_increment(shard, slice, at, g, w);
        for (size_t i = 0; i < n; i++) {
            w[i] -= shard->scratch[i] * scale;
        }
    } else if (shard_is_descending(shard, slice)) {
        ps_descent_step(&shard->descent, at, g, shard->scratch, shard_state_of(shard, slice), w, n);
    } else {
        for (size_t i = 0; i < n; i++) {
            w[i] -= g[i];
        }
    }
    slice->col->version++;
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

void shard_apply(ps_shard *shard, uint32_t s, uint32_t worker, uint64_t clock,
                 const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len, float scale)
{
    shard_slice *slice = &shard->slices[s];
    const float *x;

    if (slice->rows != NULL) {
        shard_rows_apply(shard, slice, clock, head, bytes, len, scale);
        return;
    }
    x = shard_delay_correct(shard, worker, s, values_of(shard, slice, head, bytes, len));
    step(shard, slice, clock, 1.0 / shard->book.contributors, x, shard->merge_scale, scale);
}

/* ---- Sums ---- */

static void add_to_sum(ps_shard *shard, shard_slice *slice, const Psgd__V1__Encoding *head,
                       const uint8_t *bytes, size_t len)
{
    if (slice->rows != NULL) {
        shard_rows_add(shard, slice, head, bytes, len);
        return;
    }
    if (shard_add_undecoded(shard, slice, head, bytes, len)) {
        return;
    }
    if (shard->sums == NULL) { /* of one contributor; the step follows at once */
        slice->sum = values_of(shard, slice, head, bytes, len);
    } else {
        decode(slice, head, bytes, len, slice->sum != NULL ? PS_INTO_ADD : PS_INTO_SET,
               shard->sums + slice->at);
        slice->sum = shard->sums + slice->at;
    }
}

bool shard_buffer(ps_shard *shard, uint32_t s, uint32_t k, bool is_late,
                  const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len)
{
    shard_slice *slice = &shard->slices[s];
    bool is_added = !shard->book.in_order || k == slice->turn;

    if (is_added) {
        add_to_sum(shard, slice, head, bytes, len);
    } else {
        ps_park_add(&shard->park, &slice->parked, k, head, bytes, len);
    }
    ps_book_add(&shard->book, s, is_late);
    return is_added;
}

/* Moves the turn past everybody who is in. */
static void take_turns(ps_shard *shard, uint32_t s)
{
    shard_slice *slice = &shard->slices[s];

    while (slice->turn < shard->book.contributors &&
           ps_book_next(&shard->book, s, slice->turn) > slice->col->clock) {
        const ps_parked *first = slice->parked;

        if (first != NULL && first->contributor == slice->turn) {
            add_to_sum(shard, slice, &first->head.msg, first->bytes, first->len);
            ps_park_remove_first(&shard->park, &slice->parked);
        }
        slice->turn++;
    }
}

void shard_count_parked(ps_shard *shard)
{
    ps_store_counters *c = &shard->counters;

    c->parked_now = shard->park.now;
    c->parked_bytes_now = shard->park.bytes_now;
    c->parked_total = shard->park.total;
    c->parked_bytes_peak = shard->park.bytes_peak;
    c->pool_bytes = shard->park.pool_bytes;
}

/* The step on the open sum, if anything is in it. */
static void step_on_sum(ps_shard *shard, shard_slice *slice, uint64_t clock, float scale)
{
    double share = (double)slice->col->in * (double)scale / shard->book.contributors;
    float merge = shard->merge_scale * scale;
    const float *sum;

    if (slice->rows != NULL) {
        ps_moment at = {.t = slice->col->version + 1, .step = clock, .share = share};

        if (slice->sum != NULL) {
            shard_rows_close(shard, slice, at, merge);
        }
        return;
    }
    sum = shard_merged(shard, slice);
    if (sum != NULL) {
        step(shard, slice, clock, share, sum, merge, 1.0f);
    }
}

void shard_close(ps_shard *shard, uint32_t s)
{
    shard_slice *slice = &shard->slices[s];
    float scale;

    if (shard->book.in_order) {
        take_turns(shard, s);
    }
    while (ps_book_is_whole(&shard->book, s, &scale)) {
        assert(slice->parked == NULL);
        step_on_sum(shard, slice, ps_book_open_clock(&shard->book, s), scale);
        slice->sum = NULL;
        slice->turn = 0;
        ps_book_close(&shard->book, s);
        shard_changed(shard, s);
    }
    shard_count_parked(shard);
}

void ps_shard_tick(ps_shard *shard, int64_t now_us)
{
    shard->book.now_us = now_us;
    for (uint32_t s = 0; shard->book.policy->closes_at != NULL && s < shard->slice_count; s++) {
        if (ps_book_is_due(&shard->book, s)) {
            shard_close(shard, s);
        }
    }
}
