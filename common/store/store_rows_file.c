/* SPDX-License-Identifier: Apache-2.0 */
/* store_rows_file.c - writes and reads the rows in the file of a store's state, by virtual shard
 * (store.h has the layout). The section of each virtual shard repeats the clocks of the rows. Under
 * policies that form sums these must be the same in all sections. Under the others each
 * contribution is a step of its own, and servers save themselves at different clocks:
 * store_rows.lacks then says which rows lack which contributions. */
#include "common/store/store_impl.h"

#include "common/base/xalloc.h"
#include "common/store/table_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUM_MAX = 1 << 20,  /* most contributions of an open sum in a file */
    APART_MAX = 1 << 24 /* most contributions that one virtual shard has and another one lacks */
};

/* Returns the clock from which rows of the virtual shard lack the contributor's contributions. */
static uint64_t lacks_from(const ps_store *store, uint32_t shard, uint32_t contributor)
{
    const store_rows *r = store->rows;
    uint64_t next = ps_book_next(&store->book, r->column, contributor), mine;

    mine = r->lacks != NULL ? r->lacks[(size_t)shard * store->book.contributors + contributor] : 0;
    return mine > next ? mine : next;
}

/* Writes the progress of a virtual shard: u64 clocks for which rows have aged, u32 age of the
 * tables in ticks, u32 number of contributions in the open sum, u32 contributor of each, u64 next
 * clock of each contributor. The progress is the same for all virtual shards, except the next
 * clocks, if `lacks` says that these differ. */
static void put_progress(const ps_store *store, uint32_t shard, ps_state_out *out)
{
    const store_rows *r = store->rows;
    uint32_t count = 0;

    for (const store_gift *g = r->sum; g != NULL; g = g->next) {
        count++;
    }
    ps_state_put_u64(out, r->ticked);
    ps_state_put_u32(out, (uint32_t)ps_table_count(r->tables->tables[0]).ticks);
    ps_state_put_u32(out, count);
    for (const store_gift *g = r->sum; g != NULL; g = g->next) {
        ps_state_put_u32(out, g->contributor);
    }
    for (uint32_t k = 0; k < store->book.contributors; k++) {
        ps_state_put_u64(out, lacks_from(store, shard, k));
    }
}

/* Writes the rows of a contribution that belong to one virtual shard: u32 number of rows, then that
 * many keys, gradients, shows and clicks. */
static void put_heap(const ps_heap *h, const ps_table *table, uint32_t shard, ps_state_out *out)
{
    uint32_t width = ps_table_width(table);
    ps_heap some = {0};

    for (size_t i = 0; i < h->count; i++) {
        if (ps_table_home(table, h->keys[i]) == shard) {
            ps_heap_append(&some,
                           &(ps_heap){.keys = h->keys + i,
                                      .grads = h->grads + i * width,
                                      .shows = h->shows + i,
                                      .clicks = h->clicks + i,
                                      .count = 1},
                           width);
        }
    }
    ps_state_put_u32(out, (uint32_t)some.count);
    ps_state_put(out, some.keys, some.count * sizeof *some.keys);
    ps_state_put(out, some.grads, some.count * width * sizeof *some.grads);
    ps_state_put(out, some.shows, some.count * sizeof *some.shows);
    ps_state_put(out, some.clicks, some.count * sizeof *some.clicks);
    ps_heap_fini(&some);
}

void ps_store_mark(ps_store *store, uint64_t clock, uint64_t base)
{
    store_rows *r = store->rows;

    r->marks[0].mark = store_rows_mark_of(store, base);
    r->marks[0].clock = r->marks[0].mark > 0 ? base : 0;
    r->marks[1].clock = clock;
    for (uint32_t i = 0; i < r->tables->table_count; i++) {
        r->marks[1].mark = ps_table_mark(r->tables->tables[i]);
    }
}

uint32_t store_rows_mark_of(const ps_store *store, uint64_t clock)
{
    const store_rows *r = store->rows;

    for (size_t i = 0; r != NULL && clock > 0 && i < sizeof r->marks / sizeof r->marks[0]; i++) {
        if (r->marks[i].clock == clock) {
            return r->marks[i].mark;
        }
    }
    return 0;
}

void store_rows_put(const ps_store *store, uint32_t shard, uint32_t since, ps_state_out *out)
{
    const store_rows *r = store->rows;

    put_progress(store, shard, out);
    ps_book_put(&store->book, r->column, out);
    for (uint32_t i = 0; i < r->tables->table_count; i++) {
        ps_table_put_shard(r->tables->tables[i], shard, false, since, out);
    }
    for (const store_gift *g = r->sum; g != NULL; g = g->next) {
        for (uint32_t i = 0; i < r->tables->table_count; i++) {
            put_heap(&g->heaps[i], r->tables->tables[i], shard, out);
        }
    }
}

bool store_rows_are_ahead_of(const ps_store *store, uint64_t clock)
{
    return ps_book_open_clock(&store->book, store->rows->column) > clock;
}

bool store_rows_have_at(const ps_store *store, uint64_t clock)
{
    const store_rows *r = store->rows;
    uint64_t open = ps_book_open_clock(&store->book, r->column);

    return !r->is_lent && (open == clock || (open == clock + 1 && r->has_before));
}

void store_rows_put_at(const ps_store *store, uint32_t shard, uint64_t clock, ps_state_out *out)
{
    const store_rows *r = store->rows;
    bool is_ahead = store_rows_are_ahead_of(store, clock);

    ps_state_put_u64(out, clock);
    ps_state_put_u32(out, ps_table_age(r->tables->tables[0], is_ahead));
    ps_state_put_u32(out, 0); /* nothing is in the open sum */
    for (uint32_t k = 0; k < store->book.contributors; k++) {
        ps_state_put_u64(out, clock);
    }
    ps_book_put_at(&store->book, r->column, clock,
                   store->book.column[r->column].version - (is_ahead ? 1 : 0), out);
    for (uint32_t i = 0; i < r->tables->table_count; i++) {
        ps_table_put_shard(r->tables->tables[i], shard, is_ahead, 0, out);
    }
}

/* Reads what put_progress has written, from the first virtual shard that the store reads. */
static void take_progress(ps_store *store, ps_state_in *in)
{
    store_rows *r = store->rows;
    uint32_t tick, count;

    r->ticked = ps_state_take_u64(in);
    tick = ps_state_take_u32(in);
    count = ps_state_take_count(in, "contributions in the open sum of rows",
                                store->book.buffers ? SUM_MAX : 0);
    for (uint32_t i = 0; ps_state_is_ok(in) && i < count; i++) {
        uint32_t k = ps_state_take_count(in, "contributor", store->book.contributors - 1);

        (void)store_rows_open(store, k);
    }
    for (uint32_t i = 0; i < r->tables->table_count; i++) {
        ps_table_set_age(r->tables->tables[i], tick);
    }
    /* skips the next clock of each contributor: the column of the book, which follows, has it
     * too */
    (void)ps_state_view(in, store->book.contributors * sizeof(uint64_t));
}

/* Reads the progress of a virtual shard under a policy for which each contribution is a step of its
 * own. Servers may have saved themselves at different clocks. The tables get the greatest age of
 * all virtual shards. Returns the age in the file. */
static uint32_t take_own_progress(ps_store *store, uint32_t shard, ps_state_in *in)
{
    store_rows *r = store->rows;
    uint32_t contributors = store->book.contributors, tick;
    uint64_t ticked = ps_state_take_u64(in);

    tick = ps_state_take_u32(in);
    (void)ps_state_take_count(in, "contributions in the open sum of rows", 0);
    r->ticked = ticked > r->ticked ? ticked : r->ticked;
    for (uint32_t i = 0; i < r->tables->table_count; i++) {
        ps_table *table = r->tables->tables[i];

        ps_table_set_age(table,
                         tick > ps_table_age(table, false) ? tick : ps_table_age(table, false));
    }
    if (r->lacks == NULL) {
        r->lacks = ps_xcalloc((size_t)PS_SHARDS * contributors, sizeof *r->lacks);
    }
    ps_state_take(in, r->lacks + (size_t)shard * contributors, contributors * sizeof *r->lacks);
    return tick;
}

/* Checks that a later virtual shard has the progress that the first one had. */
static void check_progress(const ps_store *store, uint32_t shard, ps_state_in *in)
{
    ps_state_out mine = {0};
    size_t bytes;
    const uint8_t *theirs;

    ps_state_begin(&mine, 1, 0);
    bytes = mine.section.len;
    put_progress(store, shard, &mine);
    theirs = ps_state_view(in, mine.section.len - bytes);
    if (theirs != NULL &&
        memcmp(theirs, mine.section.data + bytes, mine.section.len - bytes) != 0) {
        ps_state_fail(
            in, "rows of virtual shard %" PRIu32 " are of another clock than those before", shard);
    }
    ps_strbuf_fini(&mine.section);
}

/* Skips the column of the book in a later virtual shard. Beside clocks, which were compared, it has
 * times of the server that wrote it; the store uses those of the first shard. */
static void pass_book(const ps_store *store, ps_state_in *in)
{
    (void)ps_state_view(in, ps_book_bytes(&store->book));
}

static void take_heap(const ps_store *store, uint32_t table, ps_heap *h, uint32_t shard,
                      ps_state_in *in)
{
    const store_rows *r = store->rows;
    const ps_table *of = r->tables->tables[table];
    uint32_t width = ps_table_width(of);
    uint32_t count = ps_state_take_count(in, "rows of a contribution", r->tables->keys_max);
    const uint8_t *keys = ps_state_view(in, count * sizeof *h->keys);
    ps_status st;

    if (keys == NULL || in->end - in->at < count * (width + 2) * sizeof(float)) {
        ps_state_fail(in, "%" PRIu32 " rows of a contribution are cut", count);
        return;
    }
    ps_heap_reserve(h, count, width);
    if (count == 0) {
        return;
    }
    memcpy(h->keys + h->count, keys, count * sizeof *h->keys);
    ps_state_take(in, h->grads + h->count * width, count * width * sizeof *h->grads);
    ps_state_take(in, h->shows + h->count, count * sizeof *h->shows);
    ps_state_take(in, h->clicks + h->count, count * sizeof *h->clicks);
    st = ps_table_check_keys(of, h->keys + h->count, count);
    for (size_t i = h->count; ps_is_ok(&st) && i < h->count + count; i++) {
        if (ps_table_home(of, h->keys[i]) != shard || !(h->shows[i] >= 0) || !(h->clicks[i] >= 0) ||
            isinf(h->shows[i]) || isinf(h->clicks[i])) {
            st = ps_fail(PS_DATA_LOSS, "shard, shows or clicks of key %" PRIu64, h->keys[i]);
        }
    }
    if (!ps_is_ok(&st)) {
        ps_state_fail(in, "%s", st.text);
        return;
    }
    h->count += count;
}

static void take_tables(ps_store *store, const ps_table_part *part, ps_state_in *in)
{
    for (uint32_t i = 0; ps_state_is_ok(in) && i < store->rows->tables->table_count; i++) {
        ps_table_take_shard(store->rows->tables->tables[i], part, in);
    }
}

void store_rows_take_earlier(ps_store *store, uint32_t shard, bool has_all, ps_state_in *in)
{
    ps_table_part part = {.shard = shard, .has_all = has_all, .is_earlier = true};
    uint32_t count;

    (void)ps_state_take_u64(in); /* clocks for which rows have aged */
    part.tick = ps_state_take_u32(in);
    count = ps_state_take_count(in, "contributions in the open sum of rows", SUM_MAX);
    (void)ps_state_view(in, count * sizeof(uint32_t) + store->book.contributors * sizeof(uint64_t));
    pass_book(store, in);
    take_tables(store, &part, in);
    (void)ps_state_view(in, in->end - in->at); /* skips the contributions in the open sum */
}

void store_rows_take(ps_store *store, uint32_t shard, bool has_all, ps_state_in *in)
{
    store_rows *r = store->rows;
    ps_table_part part = {.shard = shard, .has_all = has_all};

    if (!store->book.buffers) {
        part.tick = take_own_progress(store, shard, in);
    } else if (!r->has_taken) {
        take_progress(store, in);
    } else {
        check_progress(store, shard, in);
    }
    if (!r->has_taken) {
        ps_book_take(&store->book, r->column, in);
        r->has_taken = true;
    } else {
        pass_book(store, in);
    }
    part.tick = store->book.buffers ? ps_table_age(r->tables->tables[0], false) : part.tick;
    take_tables(store, &part, in);
    for (store_gift *g = r->sum; ps_state_is_ok(in) && g != NULL; g = g->next) {
        for (uint32_t i = 0; ps_state_is_ok(in) && i < r->tables->table_count; i++) {
            take_heap(store, i, &g->heaps[i], shard, in);
        }
    }
}

/* Returns the first clock of the contributor that the rows of some virtual shard that was read
 * lack, or that the column of the book has not counted, whichever is less. *last becomes the clock
 * from which all virtual shards that were read lack the contributor's contributions. */
static uint64_t first_lack(const ps_store *store, uint32_t contributor, uint64_t *last)
{
    const store_rows *r = store->rows;
    uint64_t first = ps_book_next(&store->book, r->column, contributor);

    *last = 0;
    for (uint32_t s = 0; s < PS_SHARDS; s++) {
        uint64_t at = r->lacks[(size_t)s * store->book.contributors + contributor];

        if (store->rows_came[s]) {
            first = at < first ? at : first;
            *last = at > *last ? at : *last;
        }
    }
    return first;
}

ps_status store_rows_join(ps_store *store)
{
    store_rows *r = store->rows;
    uint64_t apart = 0;

    for (uint32_t k = 0; r->lacks != NULL && k < store->book.contributors; k++) {
        uint64_t next = ps_book_next(&store->book, r->column, k), last;
        uint64_t first = first_lack(store, k, &last), most = last > next ? last : next;

        if (most - first > APART_MAX - apart) {
            return ps_fail(PS_DATA_LOSS,
                           "contributor %" PRIu32 ": some rows lack what others have, from clock "
                           "%" PRIu64 " up to %" PRIu64 ": too far apart",
                           k, first, most);
        }
        apart += most - first;
        ps_book_take_back(&store->book, r->column, k, first);
        r->lacks_end = last > first && last > r->lacks_end ? last : r->lacks_end;
    }
    if (r->lacks_end == 0) { /* all rows lack the same */
        free(r->lacks);
        r->lacks = NULL;
    }
    return ps_ok();
}

ps_status store_rows_settle(const ps_store *store)
{
    const store_rows *r = store->rows;
    uint64_t clock = ps_book_clock_of(&store->book, r->column);
    /* files of different clocks: some rows have aged for later clocks than the others */
    bool may_be_older = !store->book.buffers && r->ticked > clock;

    /* The file has rows by virtual shard, but sums need them in ascending order of keys. */
    for (store_gift *g = r->sum; g != NULL; g = g->next) {
        for (uint32_t i = 0; i < r->tables->table_count; i++) {
            ps_heap_sort(&g->heaps[i], ps_table_width(r->tables->tables[i]));
        }
    }
    return clock == UINT64_MAX || clock == r->ticked || may_be_older
               ? ps_ok()
               : ps_fail(PS_DATA_LOSS, "rows have aged by %" PRIu64 " clocks; %" PRIu64 " are over",
                         r->ticked, clock);
}
