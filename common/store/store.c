/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - see store.h: a store from its configuration, what it says of itself, and its end. */
#include "common/store/store_impl.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static float *zeros(size_t n)
{
    float *x = ps_xaligned_alloc(n * sizeof *x);

    memset(x, 0, n * sizeof *x);
    return x;
}

static ps_buf *create_weights(const float *initial, size_t n)
{
    ps_buf *buf = ps_buf_create(n * sizeof *initial);

    buf->len = n * sizeof *initial;
    if (initial != NULL) {
        memcpy(buf->data, initial, buf->len);
    } else {
        memset(buf->data, 0, buf->len);
    }
    return buf;
}

static void create_slices(ps_store *store, const ps_store_conf *conf)
{
    store->slices = ps_xcalloc(conf->slice_count, sizeof *store->slices);
    for (uint32_t s = 0; s < conf->slice_count; s++) {
        const ps_store_slice *slice = &conf->slices[s];

        assert(slice->n >= 1 && slice->n <= PS_CODEC_VALUES);
        assert(s == 0 || conf->slices[s - 1].index < slice->index);
        assert(slice->up != NULL && slice->down != NULL);
        store->slices[s].conf = *slice;
        store->slices[s].at = store->value_count;
        store->slices[s].weights = create_weights(
            conf->weights == NULL ? NULL : conf->weights + store->value_count, slice->n);
        store->value_count += slice->n;
    }
}

static void create_book(ps_store *store, const ps_store_conf *conf)
{
    size_t words = (conf->slice_count + 63) / 64;

    ps_book_init(&store->book,
                 &(ps_book_conf){.columns = conf->slice_count + (conf->tables != NULL),
                                 .workers = conf->workers,
                                 .contributors = conf->contributors,
                                 .held_count = conf->held_count,
                                 .held = conf->held,
                                 .policy = conf->policy,
                                 .policy_params = conf->policy_params,
                                 .counters = &store->counters});
    for (uint32_t s = 0; s < conf->slice_count; s++) {
        store->slices[s].col = &store->book.column[s];
    }
    store->pulls = ps_xcalloc(conf->workers, sizeof *store->pulls);
    for (uint32_t w = 0; w < conf->workers; w++) {
        store->pulls[w].want = ps_xcalloc(words, sizeof *store->pulls[w].want);
        store->pulls[w].unchecked = ps_xcalloc(words, sizeof *store->pulls[w].unchecked);
    }
    /* One contributor's sum is what it sent, if the step follows at once. */
    if (store->book.buffers && (conf->contributors > 1 || !store->book.in_order)) {
        store->sums = zeros(store->value_count);
    }
}

ps_store *ps_store_create(const ps_store_conf *conf)
{
    ps_store *store = ps_xcalloc(1, sizeof *store);

    store->slice_count = conf->slice_count;
    store->descent = conf->descent;
    store->merge_scale = conf->merge_scale;
    store->seed = conf->seed;
    store->broadcasts = conf->broadcasts;
    store->plain = ps_codec_find("f32");
    store->plain_params = ps_params_default(store->plain->params);
    create_slices(store, conf);
    create_book(store, conf);
    store->state =
        zeros(store->value_count * (conf->descent.optim != NULL ? conf->descent.optim->slots : 0));
    store->scratch = zeros(PS_CODEC_VALUES);
    store->delay = conf->delay;
    shard_delay_init(store);
    store->change = conf->broadcasts ? zeros(PS_CODEC_VALUES) : NULL;
    for (uint32_t s = 0; s < store->slice_count; s++) {
        shard_merge_init(store, &store->slices[s]);
        shard_rows_init(store, &store->slices[s]);
    }
    ps_park_init(&store->park);
    if (conf->tables != NULL) {
        store_rows_init(store, conf->tables);
    }
    store->job = conf->job;
    store->is_lost = ps_xcalloc(conf->workers, sizeof *store->is_lost);
    return store;
}

void ps_store_drop_slices(ps_store *store)
{
    for (uint32_t s = 0; store->slices != NULL && s < store->slice_count; s++) {
        while (store->slices[s].parked != NULL) {
            ps_park_remove_first(&store->park, &store->slices[s].parked);
        }
        ps_buf_unref(store->slices[s].weights);
        ps_buf_unref(store->slices[s].snap);
        shard_merge_fini(&store->slices[s]);
        shard_rows_fini(&store->slices[s]);
    }
    free(store->slices);
    store->slices = NULL;
    ps_park_fini(&store->park);
    free(store->flat);
    free(store->state);
    free(store->sums);
    free(store->scratch);
    free(store->change);
    store->flat = store->state = store->sums = store->scratch = store->change = NULL;
    shard_delay_fini(store);
    shard_rows_room_fini(store);
}

void ps_store_destroy(ps_store *store)
{
    if (store == NULL) {
        return;
    }
    ps_store_drop_slices(store); /* again changes nothing */
    store_rows_fini(store);
    for (uint32_t w = 0; w < store->book.workers; w++) {
        free(store->pulls[w].want);
        free(store->pulls[w].unchecked);
    }
    ps_book_fini(&store->book);
    free(store->pulls);
    free(store->is_lost);
    free(store);
}

/* ---- Time and losses ---- */

void ps_store_tick(ps_store *store, int64_t now_us)
{
    store->book.now_us = now_us;
    for (uint32_t s = 0; store->book.policy->closes_at != NULL && s < store->slice_count; s++) {
        if (ps_book_is_due(&store->book, s)) {
            shard_close(store, s);
        }
    }
    if (store->rows != NULL && ps_book_is_due(&store->book, store->rows->column)) {
        store_rows_go_on(store);
    }
}

ps_status ps_store_lose_worker(ps_store *store, uint32_t worker)
{
    bool was_lost = ps_store_is_lost(store, worker);
    ps_status st = ps_book_lose(&store->book, worker);

    if (!ps_is_ok(&st) || was_lost) {
        return st;
    }
    ps_store_pull_cancel(store, worker);
    for (uint32_t s = 0; s < store->slice_count; s++) {
        shard_changed(store, s);
        if (store->book.buffers) {
            shard_close(store, s);
        }
    }
    store_rows_go_on(store);
    return st;
}

bool ps_store_is_lost(const ps_store *store, uint32_t worker)
{
    return worker < store->book.workers && store->book.worker[worker].is_lost;
}

/* ---- How far it is ---- */

bool ps_store_is_in(const ps_store *store, uint64_t clock, uint32_t contributor)
{
    return ps_book_is_in(&store->book, clock, contributor);
}

uint64_t ps_store_clock(const ps_store *store)
{
    return ps_book_clock(&store->book);
}

uint32_t ps_store_waits_for(const ps_store *store, uint32_t *workers, uint32_t cap)
{
    return ps_book_waits_for(&store->book, workers, cap);
}

int64_t ps_store_deadline(const ps_store *store)
{
    return ps_book_deadline(&store->book);
}

uint64_t ps_store_open(const ps_store *store)
{
    return ps_book_open(&store->book);
}

const ps_store_counters *ps_store_counters_of(const ps_store *store)
{
    return &store->counters;
}

const ps_worker_counters *ps_store_worker_counters_of(const ps_store *store, uint32_t worker)
{
    assert(worker < store->book.workers);
    return &store->book.worker[worker].share;
}

/* ---- What is here ---- */

size_t ps_store_value_count(const ps_store *store)
{
    return store->value_count;
}

const float *ps_store_weights(ps_store *store)
{
    if (store->flat == NULL) {
        store->flat = ps_xaligned_alloc(store->value_count * sizeof *store->flat);
    }
    for (uint32_t s = 0; s < store->slice_count; s++) {
        memcpy(store->flat + store->slices[s].at, store->slices[s].weights->data,
               store->slices[s].weights->len);
    }
    return store->flat;
}

const float *ps_store_slice_weights(const ps_store *store, uint32_t place)
{
    assert(place < store->slice_count);
    return (const float *)(const void *)store->slices[place].weights->data;
}

uint64_t ps_store_version(const ps_store *store, uint32_t place)
{
    assert(place < store->slice_count);
    return store->book.column[place].version;
}
