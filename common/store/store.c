/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - see store.h: slices and rows behind one interface. */
#include "common/store/store_impl.h"

#include "common/base/xalloc.h"

#include <stdlib.h>

ps_store *ps_store_create(const ps_store_conf *conf)
{
    ps_store *store = ps_xcalloc(1, sizeof *store);

    for (uint32_t i = 0; i < PS_TABLE_SHARDS; i++) {
        store->owned[i] = conf->owned == NULL || conf->owned[i];
    }
    store->job = conf->job;
    store->broadcasts = conf->dense.broadcasts;
    store->optim = conf->dense.descent.optim;
    store->workers = conf->dense.workers;
    store->is_lost = ps_xcalloc(store->workers, sizeof *store->is_lost);
    store->shard = ps_shard_create(&conf->dense);
    store->tables = store->all_tables = conf->tables;
    if (store->tables != NULL) {
        ps_tables_book(store->tables)->counters = ps_shard_book(store->shard)->counters;
    }
    return store;
}

void ps_store_destroy(ps_store *store)
{
    if (store != NULL) {
        ps_tables_destroy(store->all_tables); /* they count in the shard's counters */
        ps_shard_destroy(store->shard);
        free(store->is_lost);
        free(store);
    }
}

/* ---- Contributions ---- */

ps_status ps_store_push(ps_store *store, uint32_t worker, uint64_t clock, uint32_t contributor,
                        const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len,
                        ps_shard_outcome *outcome)
{
    return ps_shard_push(store->shard, worker, clock, contributor, head, bytes, len, outcome);
}

ps_status ps_store_push_zeros(ps_store *store, uint32_t worker, uint64_t clock,
                              uint32_t contributor)
{
    return ps_shard_push_zeros(store->shard, worker, clock, contributor);
}

ps_status ps_store_push_rows(ps_store *store, const ps_tables_part *part)
{
    return store->tables != NULL ? ps_tables_push(store->tables, part)
                                 : ps_fail(PS_INVALID_ARGUMENT, "rows; there are no sparse tables");
}

bool ps_store_is_in(const ps_store *store, uint64_t clock, uint32_t contributor)
{
    return ps_shard_is_in(store->shard, clock, contributor);
}

bool ps_store_has_rows(const ps_store *store, uint64_t clock, uint32_t contributor)
{
    return store->tables == NULL || ps_tables_is_in(store->tables, clock, contributor);
}

/* ---- Answers ---- */

ps_status ps_store_pull_begin(ps_store *store, uint32_t worker, uint64_t clock)
{
    return ps_shard_pull_begin(store->shard, worker, clock);
}

void ps_store_pull_whole(ps_store *store, uint32_t worker)
{
    ps_shard_pull_whole(store->shard, worker);
}

void ps_store_pull_cancel(ps_store *store, uint32_t worker)
{
    if (store->shard != NULL) {
        ps_shard_pull_cancel(store->shard, worker);
    }
}

void ps_store_pull_next(ps_store *store, uint32_t worker, size_t max_bytes, ps_shard_piece *pieces,
                        size_t cap, ps_shard_answer *answer)
{
    ps_shard_pull_next(store->shard, worker, max_bytes, pieces, cap, answer);
}

bool ps_store_is_waiting(const ps_store *store, uint32_t worker)
{
    return ps_shard_is_waiting(store->shard, worker);
}

bool ps_store_may_pull_rows(const ps_store *store, uint32_t worker, uint64_t clock)
{
    return store->tables == NULL || ps_tables_may_pull(store->tables, worker, clock);
}

ps_status ps_store_pull_rows(ps_store *store, uint32_t worker, const uint64_t *keys, size_t count,
                             float *out)
{
    ps_status st = store->tables != NULL
                       ? ps_tables_pull(store->tables, keys, count, out)
                       : ps_fail(PS_INVALID_ARGUMENT, "rows; there are no sparse tables");

    if (ps_is_ok(&st)) {
        ps_tables_gave(store->tables, worker);
    }
    return st;
}

/* ---- Time, losses, how far it is ---- */

void ps_store_tick(ps_store *store, int64_t now_us)
{
    ps_shard_tick(store->shard, now_us);
    if (store->tables != NULL) {
        ps_tables_tick(store->tables, now_us);
    }
}

int64_t ps_store_deadline(const ps_store *store)
{
    int64_t dense = ps_shard_deadline(store->shard), rows = INT64_MAX;

    if (store->tables != NULL) {
        rows = ps_book_deadline(ps_tables_book(store->tables));
    }
    return rows < dense ? rows : dense;
}

ps_status ps_store_lose_worker(ps_store *store, uint32_t worker)
{
    ps_status st = ps_shard_lose_worker(store->shard, worker);

    return ps_is_ok(&st) && store->tables != NULL ? ps_tables_lose(store->tables, worker) : st;
}

bool ps_store_is_lost(const ps_store *store, uint32_t worker)
{
    return ps_shard_is_lost(store->shard, worker);
}

uint64_t ps_store_clock(const ps_store *store)
{
    uint64_t dense = ps_shard_clock(store->shard), rows = UINT64_MAX;

    if (store->tables != NULL) {
        rows = ps_tables_clock(store->tables);
    }
    return rows < dense ? rows : dense;
}

uint32_t ps_store_waits_for(const ps_store *store, uint32_t *workers, uint32_t cap)
{
    uint64_t clock = ps_store_clock(store);
    uint32_t count = 0;

    for (uint32_t w = 0; clock != UINT64_MAX && w < store->workers; w++) {
        if (ps_book_is_missing(ps_shard_book(store->shard), w, clock) ||
            (store->tables != NULL &&
             ps_book_is_missing(ps_tables_book(store->tables), w, clock))) {
            if (count < cap) {
                workers[count] = w;
            }
            count++;
        }
    }
    return count;
}

uint64_t ps_store_open(const ps_store *store)
{
    return ps_shard_open(store->shard) +
           (store->tables != NULL ? ps_book_open(ps_tables_book(store->tables)) : 0);
}

const ps_store_counters *ps_store_counters_of(const ps_store *store)
{
    return store->shard != NULL ? ps_shard_counters_of(store->shard) : &store->last;
}

ps_worker_counters ps_store_worker_counters_of(const ps_store *store, uint32_t worker)
{
    ps_worker_counters sum = *ps_shard_worker_counters_of(store->shard, worker);

    if (store->tables != NULL) {
        const ps_worker_counters *rows = &ps_tables_book(store->tables)->worker[worker].share;

        sum.applied += rows->applied;
        sum.dropped += rows->dropped;
        sum.left_out += rows->left_out;
    }
    return sum;
}

/* ---- What is here ---- */

size_t ps_store_value_count(const ps_store *store)
{
    return ps_shard_value_count(store->shard);
}

const float *ps_store_weights(ps_store *store)
{
    return ps_shard_weights(store->shard);
}

uint64_t ps_store_version(const ps_store *store, uint32_t place)
{
    return ps_shard_version(store->shard, place);
}

void ps_store_drop_slices(ps_store *store)
{
    store->last = *ps_shard_counters_of(store->shard);
    if (store->all_tables != NULL) {
        ps_tables_book(store->all_tables)->counters = &store->last;
    }
    ps_shard_destroy(store->shard);
    store->shard = NULL;
}

ps_tables *ps_store_tables(ps_store *store)
{
    return store->all_tables;
}

void ps_store_lend_tables(ps_store *store)
{
    store->tables = NULL;
}

bool ps_store_has_tables(const ps_store *store)
{
    return store->tables != NULL;
}
