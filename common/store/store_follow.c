/* SPDX-License-Identifier: Apache-2.0 */
/* store_follow.c - workers that have all rows of a fixed vocabulary and are given the rows that
 * change (store.h).
 *
 * For each worker and table there are two sets of bits. `owed` has the rows that were stepped since
 * they were given to the worker. `sent` has the rows that were given for the clock of the worker's
 * last pull. A pull for a later clock proves that all rows in `sent` have arrived. A pull for the
 * same clock proves nothing: the worker may have received any part of the answers. So rows that are
 * added to a repeated answer stay in `owed` too. */
#include "common/store/store_impl.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static size_t word_count(const store_rows *r, uint32_t table)
{
    return (size_t)(ps_table_key_end(r->tables->tables[table]) / 64) + 1;
}

static uint64_t *bits(uint64_t *const *sets, const store_rows *r, uint32_t worker, uint32_t table)
{
    return sets[(size_t)worker * r->tables->table_count + table];
}

static void init(ps_store *store)
{
    store_rows *r = store->rows;
    uint32_t count = r->tables->table_count;

    /* A contribution counts once for each slice of a fixed vocabulary, so that counters do not
     * depend on which thread has which slice. */
    store->book.column[r->column].weight = store->place_count - store->slice_count;
    r->owed = ps_xcalloc((size_t)store->book.workers * count, sizeof *r->owed);
    r->sent = ps_xcalloc((size_t)store->book.workers * count, sizeof *r->sent);
    for (uint32_t i = 0; i < store->book.workers * count; i++) {
        r->owed[i] = ps_xcalloc(word_count(r, i % count), sizeof **r->owed);
        r->sent[i] = ps_xcalloc(word_count(r, i % count), sizeof **r->sent);
    }
}

static void fini(ps_store *store)
{
    store_rows *r = store->rows;

    for (uint32_t i = 0; i < store->book.workers * r->tables->table_count; i++) {
        free(r->owed[i]);
        free(r->sent[i]);
    }
    free(r->owed);
    free(r->sent);
}

static uint64_t step_number(uint64_t version)
{
    return version + 1;
}

static void changed(ps_store *store, uint32_t table, const uint64_t *keys, size_t count)
{
    const store_rows *r = store->rows;

    for (uint32_t w = 0; w < store->book.workers; w++) {
        uint64_t *owed = bits(r->owed, r, w, table);

        for (size_t i = 0; i < count; i++) {
            owed[keys[i] / 64] |= UINT64_C(1) << (keys[i] % 64);
        }
    }
}

static void add_key(void *arg, uint64_t key)
{
    ((uint64_t *)arg)[key / 64] |= UINT64_C(1) << (key % 64);
}

static void changed_all(ps_store *store, uint32_t worker)
{
    const store_rows *r = store->rows;

    for (uint32_t i = 0; i < r->tables->table_count; i++) {
        ps_table_each_stepped(r->tables->tables[i], add_key, bits(r->owed, r, worker, i));
    }
}

static bool is_following(const ps_store *store, uint32_t worker)
{
    return store->rows->pulls[worker].is_open;
}

static void follow(ps_store *store, uint32_t worker, uint64_t clock)
{
    store_rows *r = store->rows;
    store_rows_pull *pull = &r->pulls[worker];

    for (uint32_t i = 0; clock > pull->clock && i < r->tables->table_count; i++) {
        memset(bits(r->sent, r, worker, i), 0, word_count(r, i) * sizeof **r->sent);
    }
    pull->has_given = pull->has_given && clock == pull->clock;
    pull->is_open = true;
    pull->is_listed = false;
    pull->clock = clock;
}

static ps_status ask(ps_store *store, uint32_t worker, uint64_t clock, const uint64_t *keys,
                     size_t count)
{
    (void)store;
    (void)worker;
    (void)clock;
    (void)keys;
    (void)count;
    return ps_fail(PS_FAILED_PRECONDITION,
                   "keys; of a fixed vocabulary the rows that have changed come with weights");
}

/* Returns zeros: counters of slices count the rows of a fixed vocabulary already. */
static ps_table_counters count_none(const ps_tables *tables)
{
    (void)tables;
    return (ps_table_counters){0};
}

/* Adds the owed rows to the rows of the answer, in `sent`. The first answer for a clock (is_first)
 * then clears `owed`. */
static void take_owed(const store_rows *r, uint32_t worker, bool is_first)
{
    for (uint32_t i = 0; i < r->tables->table_count; i++) {
        uint64_t *owed = bits(r->owed, r, worker, i), *sent = bits(r->sent, r, worker, i);

        for (size_t k = 0; k < word_count(r, i); k++) {
            sent[k] |= owed[k];
            owed[k] = is_first ? 0 : owed[k];
        }
    }
}

/* Writes to pull->keys the keys of the table's rows in `sent`: these rows are given next. */
static void list(const store_rows *r, uint32_t worker, uint32_t table)
{
    store_rows_pull *pull = &r->pulls[worker];
    const uint64_t *sent = bits(r->sent, r, worker, table);
    size_t words = word_count(r, table), count = 0;

    for (size_t i = 0; i < words; i++) {
        count += (size_t)__builtin_popcountll(sent[i]);
    }
    pull->keys = ps_xrealloc(pull->keys, (count + 1) * sizeof *pull->keys);
    pull->count = 0;
    for (size_t i = 0; i < words; i++) {
        for (uint64_t left = sent[i]; left != 0; left &= left - 1) {
            pull->keys[pull->count++] = i * 64 + (size_t)__builtin_ctzll(left);
        }
    }
    pull->table = table;
    pull->at = 0;
}

/* Returns the first table, from number `table` on, that has rows in the worker's answer; the number
 * of tables if there is none. */
static uint32_t find_table(const store_rows *r, uint32_t worker, uint32_t table)
{
    for (; table < r->tables->table_count; table++) {
        const uint64_t *sent = bits(r->sent, r, worker, table);

        for (size_t i = 0; i < word_count(r, table); i++) {
            if (sent[i] != 0) {
                return table;
            }
        }
    }
    return table;
}

static bool next(ps_store *store, uint32_t worker, ps_store_rows_cut *cut, const void *arg,
                 ps_store_rows_answer *answer)
{
    store_rows *r = store->rows;
    store_rows_pull *pull = &r->pulls[worker];
    const ps_table *table;
    uint32_t then;

    if (!pull->is_listed) {
        if (!ps_book_may_pull(&store->book, r->column, worker, pull->clock)) {
            return false;
        }
        take_owed(r, worker, !pull->has_given);
        pull->is_listed = pull->has_given = true;
        ps_book_gave(&store->book, r->column, worker);
        list(r, worker, 0);
    }
    then = find_table(r, worker, pull->table + 1);
    if (pull->at == pull->count && then < r->tables->table_count) {
        list(r, worker, then);
        then = find_table(r, worker, then + 1);
    }
    table = r->tables->tables[pull->table];
    answer->first_table = pull->table;
    answer->table_count = 1;
    answer->keys = pull->keys + pull->at;
    answer->count = pull->count - pull->at;
    if (cut != NULL && answer->count > 0) {
        answer->count = cut(arg, pull->table, answer->keys, answer->count);
    }
    answer->values = ps_buf_create(answer->count * ps_table_width(table) * sizeof(float));
    answer->values->len = answer->values->cap;
    ps_table_copy_rows(table, answer->keys, answer->count, (float *)(void *)answer->values->data);
    pull->at += answer->count;
    answer->is_last = pull->at == pull->count && then == r->tables->table_count;
    pull->is_open = !answer->is_last;
    return true;
}

const store_rows_way store_rows_followed = {
    .init = init,
    .fini = fini,
    .step_number = step_number,
    .changed = changed,
    .changed_all = changed_all,
    .follow = follow,
    .is_following = is_following,
    .ask = ask,
    .next = next,
    .count = count_none,
};
