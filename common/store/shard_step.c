/* SPDX-License-Identifier: Apache-2.0 */
/* shard_step.c - steps of a slice: on one contribution, or on a sum when it closes. */
#include "common/store/store_impl.h"

#include "common/trace/trace.h"

#include <assert.h>
#include <string.h>

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

bool shard_is_descending(const ps_store *store, const shard_slice *slice)
{
    return store->descent.optim != NULL && !slice->conf.is_state;
}

float *shard_state_of(const ps_store *store, const shard_slice *slice)
{
    return store->state + slice->at * store->descent.optim->slots;
}

/* Writes the increment for gradient g into the store's scratch; g itself if no optimizer steps the
 * slice (shard_is_descending). g may lie in the scratch. */
static void find_increment(ps_store *store, shard_slice *slice, ps_moment at, const float *g,
                           const float *w)
{
    float *d = store->scratch;
    size_t n = slice->conf.n;

    if (shard_is_descending(store, slice)) {
        ps_descent_increment(&store->descent, at, g, w, shard_state_of(store, slice), d, n);
    } else if (g != d) {
        memcpy(d, g, n * sizeof *d);
    }
}

/* Steps the slice: w -= scale * step(g * merge), at `clock` of the job. `share`: which part of a
 * whole gradient g * merge is, for penalties. */
static void step(ps_store *store, shard_slice *slice, uint64_t clock, double share, const float *g,
                 float merge, float scale)
{
    int64_t began_ns = ps_trace_begin();
    bool keeps = store->keeps_before;
    float *to = keeps ? shard_other_to_write(slice) : shard_weights_to_write(slice);
    const float *w = (const float *)(const void *)slice->weights->data; /* == `to`, unless keeps */
    size_t n = slice->conf.n;
    ps_moment at = {.t = slice->col->version + 1, .step = clock, .share = share};

    if (merge != 1.0f) {
        for (size_t i = 0; i < n; i++) {
            store->scratch[i] = g[i] * merge;
        }
        g = store->scratch;
    }
    if (store->broadcasts) {
        assert(scale == 1.0f); /* only sums are broadcast, and step_on_sum passes scale 1 */
        find_increment(store, slice, at, g, w);
        if (keeps) { /* `to` had the open sum until now */
            memcpy(to, w, n * sizeof *to);
        }
        shard_broadcast(store, slice, to);
    } else if (scale != 1.0f) {
        assert(!keeps);
        find_increment(store, slice, at, g, w);
        for (size_t i = 0; i < n; i++) {
            to[i] -= store->scratch[i] * scale;
        }
    } else if (shard_is_descending(store, slice)) {
        ps_descent_step(&store->descent, at, g, store->scratch, w, shard_state_of(store, slice), to,
                        n);
    } else {
        for (size_t i = 0; i < n; i++) {
            to[i] = w[i] - g[i];
        }
    }
    slice->has_before = slice->is_ahead = false;
    if (keeps) {
        shard_keep_before(slice);
    }
    slice->col->version++;
    store->counters.steps++;
    ps_trace_end_of(PS_TRACE_APPLY, began_ns, (uint32_t)(slice - store->slices), clock + 1);
}

static void decode(const shard_slice *slice, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                   size_t len, ps_into into, float *y)
{
    int64_t began_ns = ps_trace_begin();
    ps_status st = ps_codec_decode(slice->conf.up, head, bytes, len, into, y, slice->conf.n);

    assert(ps_is_ok(&st)); /* it was checked on arrival */
    ps_trace_end(PS_TRACE_DECODE, began_ns, head->slice, NULL);
}

/* Returns the values of a contribution: in `bytes` if they are aligned float32, else decoded into
 * the store's scratch. */
static const float *values_of(const ps_store *store, const shard_slice *slice,
                              const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len)
{
    if (ps_encoding_is_plain(head) && len > 0 && (uintptr_t)bytes % _Alignof(float) == 0) {
        return (const float *)(const void *)bytes;
    }
    decode(slice, head, bytes, len, PS_INTO_SET, store->scratch);
    return store->scratch;
}

void shard_apply(ps_store *store, uint32_t s, uint32_t worker, uint64_t clock,
                 const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len, float scale)
{
    shard_slice *slice = &store->slices[s];
    const float *x =
        shard_delay_correct(store, worker, s, values_of(store, slice, head, bytes, len));

    step(store, slice, clock, 1.0 / store->book.contributors, x, store->merge_scale, scale);
}

/* ---- Sums ---- */

float *shard_sum_memory(const ps_store *store, shard_slice *slice)
{
    return store->keeps_before ? shard_other_to_write(slice) : store->sums + slice->at;
}

static void add_to_sum(ps_store *store, shard_slice *slice, const Psgd__V1__Encoding *head,
                       const uint8_t *bytes, size_t len)
{
    int64_t began_ns = ps_trace_begin();

    if (shard_add_undecoded(store, slice, head, bytes, len)) {
        /* the codec has added it in its own form */
    } else if (!store->has_sums) {
        /* The only contribution of a sum is the sum, and the step follows at once. */
        slice->sum = values_of(store, slice, head, bytes, len);
    } else {
        float *sum = shard_sum_memory(store, slice);

        decode(slice, head, bytes, len, slice->sum != NULL ? PS_INTO_ADD : PS_INTO_SET, sum);
        slice->sum = sum;
    }
    ps_trace_end(PS_TRACE_SUM, began_ns, (uint32_t)(slice - store->slices), NULL);
}

bool shard_buffer(ps_store *store, uint32_t s, uint32_t k, bool is_late,
                  const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len)
{
    shard_slice *slice = &store->slices[s];
    bool is_added = !store->book.in_order || k == slice->turn;

    shard_encode_unasked(store, s);
    if (is_added) {
        add_to_sum(store, slice, head, bytes, len);
    } else {
        ps_park_add(&store->park, &slice->parked, k, head, bytes, len);
    }
    ps_book_add(&store->book, s, is_late);
    return is_added;
}

/* Moves the slice's turn past all contributors that have contributed to the open clock, and adds
 * their parked contributions to the sum. */
static void take_turns(ps_store *store, uint32_t s)
{
    shard_slice *slice = &store->slices[s];

    while (slice->turn < store->book.contributors &&
           ps_book_next(&store->book, s, slice->turn) > slice->col->clock) {
        const ps_parked *first = slice->parked;

        if (first != NULL && first->contributor == slice->turn) {
            add_to_sum(store, slice, &first->head.msg, first->bytes, first->len);
            ps_park_remove_first(&store->park, &slice->parked);
        }
        slice->turn++;
    }
}

void shard_count_parked(ps_store *store)
{
    ps_store_counters *c = &store->counters;

    c->parked_now = store->park.now;
    c->parked_bytes_now = store->park.bytes_now;
    c->parked_total = store->park.total;
    c->parked_bytes_peak = store->park.bytes_peak;
    c->pool_bytes = store->park.pool_bytes;
}

/* Steps on the open sum. If no contribution is in it, the weights stay as they are; a store that
 * keeps earlier weights then keeps a copy of them. */
static void step_on_sum(ps_store *store, shard_slice *slice, uint64_t clock, float scale)
{
    double share = (double)slice->col->in * (double)scale / store->book.contributors;
    float merge = store->merge_scale * scale;
    const float *sum = shard_merged(store, slice);

    if (sum != NULL) {
        step(store, slice, clock, share, sum, merge, 1.0f);
    } else if (store->keeps_before) {
        memcpy(shard_other_to_write(slice), slice->weights->data, slice->weights->len);
        shard_keep_before(slice);
    }
}

void shard_close(ps_store *store, uint32_t s)
{
    shard_slice *slice = &store->slices[s];
    float scale;

    if (store->book.in_order) {
        take_turns(store, s);
    }
    while (ps_book_is_whole(&store->book, s, &scale)) {
        assert(slice->parked == NULL);
        step_on_sum(store, slice, ps_book_open_clock(&store->book, s), scale);
        slice->sum = NULL;
        slice->turn = 0;
        ps_book_close(&store->book, s);
        shard_changed(store, s);
    }
    shard_count_parked(store);
}
