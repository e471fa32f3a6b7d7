/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - see store.h: creates and destroys a store, and reports its state. */
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

/* Returns one large buffer, in which the weights of all dense slices are allocated. */
static ps_buf *create_home(const ps_store_slice *slices, uint32_t count)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < count; i++) {
        bytes += slices[i].row == 0 ? ps_buf_bytes_in(slices[i].n * sizeof(float)) : 0;
    }
    return ps_buf_create(bytes);
}

static ps_buf *create_weights(ps_buf *home, const float *initial, size_t n)
{
    ps_buf *buf = ps_buf_create_in(home, n * sizeof *initial);

    buf->len = n * sizeof *initial;
    if (initial != NULL) {
        memcpy(buf->data, initial, buf->len);
    } else {
        memset(buf->data, 0, buf->len);
    }
    return buf;
}

static void create_dense(ps_store *store, ps_buf *home, const ps_store_slice *slice,
                         const float *weights)
{
    shard_slice *s = &store->slices[store->slice_count++];

    assert(slice->up != NULL && slice->down != NULL);
    s->conf = *slice;
    s->at = store->value_count;
    s->weights = create_weights(home, weights, slice->n);
    store->value_count += slice->n;
}

static void create_slices(ps_store *store, const ps_store_conf *conf)
{
    ps_buf *home = create_home(conf->slices, conf->slice_count);

    store->slices = ps_xcalloc(conf->slice_count, sizeof *store->slices);
    store->places = ps_xcalloc(conf->slice_count + 1u, sizeof *store->places);
    store->place_count = conf->slice_count;
    for (uint32_t i = 0; i < conf->slice_count; i++) {
        const ps_store_slice *slice = &conf->slices[i];
        const float *weights = conf->weights == NULL ? NULL : conf->weights + store->flat_count;

        assert(slice->n >= 1 && slice->n <= PS_CODEC_VALUES);
        assert(i == 0 || conf->slices[i - 1].index < slice->index);
        store->places[i] = (store_place){.slice = store->slice_count, .n = slice->n};
        store->flat_count += slice->n;
        if (slice->row == 0) {
            create_dense(store, home, slice, weights);
            continue;
        }
        assert(conf->weights != NULL && slice->n % slice->row == 0);
        assert(conf->delay.lambda <= 0 && !conf->broadcasts);
        store->places[i].slice = STORE_NO_SLICE;
        store->places[i].table = slice->table;
        store->places[i].first_row = slice->first_row;
        store->places[i].row_count = slice->n / slice->row;
        ps_table_lay(ps_tables_at(conf->tables, slice->table), slice->first_row,
                     slice->n / slice->row, weights);
    }
    ps_buf_unref(home); /* the buffers in it hold references to it */
}

static void create_book(ps_store *store, const ps_store_conf *conf)
{
    size_t words = (store->slice_count + 63) / 64;

    ps_book_init(&store->book,
                 &(ps_book_conf){.columns = store->slice_count + (conf->tables != NULL),
                                 .workers = conf->workers,
                                 .contributors = conf->contributors,
                                 .held_count = conf->held_count,
                                 .held = conf->held,
                                 .policy = conf->policy,
                                 .policy_params = conf->policy_params,
                                 .counters = &store->counters});
    for (uint32_t s = 0; s < store->slice_count; s++) {
        store->slices[s].col = &store->book.column[s];
    }
    store->pulls = ps_xcalloc(conf->workers, sizeof *store->pulls);
    for (uint32_t w = 0; w < conf->workers; w++) {
        store->pulls[w].want = ps_xcalloc(words, sizeof *store->pulls[w].want);
        store->pulls[w].unchecked = ps_xcalloc(words, sizeof *store->pulls[w].unchecked);
    }
    /* If there is one contributor and sums are in order, each contribution is a whole sum. The
     * step then uses its values directly, and sums need no memory. */
    if (store->book.buffers && (conf->contributors > 1 || !store->book.in_order)) {
        store->has_sums = true;
        store->sums = zeros(store->value_count);
    }
}

/* Creates the second buffer of each slice (shard_before.c), all of them within one large buffer. */
static void create_others(ps_store *store)
{
    ps_buf *home;
    size_t bytes = 0;

    for (uint32_t s = 0; s < store->slice_count; s++) {
        bytes += ps_buf_bytes_in(store->slices[s].weights->len);
    }
    home = ps_buf_create(bytes);
    for (uint32_t s = 0; s < store->slice_count; s++) {
        shard_slice *slice = &store->slices[s];

        slice->other = ps_buf_create_in(home, slice->weights->len);
        slice->other->len = slice->weights->len;
    }
    ps_buf_unref(home);
}

ps_store *ps_store_create(const ps_store_conf *conf)
{
    ps_store *store = ps_xcalloc(1, sizeof *store);

    store->descent = conf->descent;
    store->merge_scale = conf->merge_scale;
    store->seed = conf->seed;
    store->workers_have_rows = conf->workers_have_rows;
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
    }
    ps_park_init(&store->park);
    if (conf->tables != NULL) {
        store_rows_init(store, conf->tables);
    }
    store->job = conf->job;
    store->is_lost = ps_xcalloc(conf->workers, sizeof *store->is_lost);
    return store;
}

void ps_store_keep_before(ps_store *store)
{
    assert(store->book.policy->is_deterministic && store->book.buffers);
    store->keeps_before = true;
    if (store->rows != NULL) {
        store_rows_keep_before(store);
    }
    free(store->sums); /* sums are now made in the second buffers of the slices */
    store->sums = NULL;
    create_others(store);
}

bool ps_store_has_at(const ps_store *store, uint64_t clock)
{
    for (uint32_t s = 0; s < store->slice_count; s++) {
        if (!shard_has_at(store, s, clock)) {
            return false;
        }
    }
    return store->slices != NULL && (store->rows == NULL || store_rows_have_at(store, clock));
}

void ps_store_drop_slices(ps_store *store)
{
    ps_store_cut_drop(store);
    for (uint32_t s = 0; store->slices != NULL && s < store->slice_count; s++) {
        while (store->slices[s].parked != NULL) {
            ps_park_remove_first(&store->park, &store->slices[s].parked);
        }
        ps_buf_unref(store->slices[s].weights);
        ps_buf_unref(store->slices[s].other);
        ps_buf_unref(store->slices[s].snap.buf);
        ps_buf_unref(store->slices[s].snap_before.buf);
        shard_merge_fini(&store->slices[s]);
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
}

void ps_store_destroy(ps_store *store)
{
    if (store == NULL) {
        return;
    }
    ps_store_drop_slices(store); /* may have been called before; a second call does nothing */
    store_rows_fini(store);
    for (uint32_t w = 0; w < store->book.workers; w++) {
        free(store->pulls[w].want);
        free(store->pulls[w].unchecked);
    }
    ps_book_fini(&store->book);
    free(store->pulls);
    free(store->places);
    free(store->is_lost);
    free(store);
}

/* ---- Time and lost workers ---- */

void ps_store_tick(ps_store *store, int64_t now_us)
{
    store->book.now_us = now_us;
    for (uint32_t s = 0; store->book.policy->closes_at != NULL && s < store->slice_count; s++) {
        if (ps_book_is_due(&store->book, s)) {
            store_before(store, s);
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
    ps_status st;

    /* a cut that is under way is written first, because the loss changes all columns */
    store_cut_all(store);
    st = ps_book_lose(&store->book, worker);
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

/* ---- Progress ---- */

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

uint32_t ps_store_ledger(const ps_store *store, bool *is_first, ps_ledger *ledger)
{
    return ps_book_ledger(&store->book, is_first, ledger);
}

const ps_worker_counters *ps_store_worker_counters_of(const ps_store *store, uint32_t worker)
{
    assert(worker < store->book.workers);
    return &store->book.worker[worker].share;
}

/* ---- What the store has ---- */

size_t ps_store_value_count(const ps_store *store)
{
    return store->flat_count;
}

void ps_store_copy_slice(const ps_store *store, uint32_t place, float *out)
{
    const store_place *at = &store->places[place];

    assert(place < store->place_count);
    if (at->slice == STORE_NO_SLICE) {
        ps_table_copy(store->rows->tables->tables[at->table], at->first_row, at->row_count, false,
                      out);
    } else {
        memcpy(out, store->slices[at->slice].weights->data, at->n * sizeof *out);
    }
}

void ps_store_copy_slice_at(const ps_store *store, uint32_t place, uint64_t clock, float *out)
{
    const store_place *at = &store->places[place];
    const shard_slice *slice;

    assert(place < store->place_count && ps_store_has_at(store, clock));
    if (at->slice == STORE_NO_SLICE) {
        ps_table_copy(store->rows->tables->tables[at->table], at->first_row, at->row_count,
                      store_rows_are_ahead_of(store, clock), out);
        return;
    }
    slice = &store->slices[at->slice];
    memcpy(out,
           shard_is_ahead_of(store, at->slice, clock) ? slice->other->data : slice->weights->data,
           at->n * sizeof *out);
}

const float *ps_store_weights(ps_store *store)
{
    float *to;

    if (store->flat == NULL) {
        store->flat = ps_xaligned_alloc(store->flat_count * sizeof *store->flat);
    }
    to = store->flat;
    for (uint32_t i = 0; i < store->place_count; i++) {
        ps_store_copy_slice(store, i, to);
        to += store->places[i].n;
    }
    return store->flat;
}

uint64_t ps_store_version(const ps_store *store, uint32_t place)
{
    uint32_t slice;

    assert(place < store->place_count);
    slice = store->places[place].slice;
    return store->book.column[slice == STORE_NO_SLICE ? store->rows->column : slice].version;
}
