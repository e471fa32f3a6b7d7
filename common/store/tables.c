/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c - see tables.h. */
#include "common/store/tables.h"

#include "common/base/xalloc.h"
#include "common/store/heap.h"
#include "common/store/table_state.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A contribution. */
typedef struct gift {
    struct gift *next;
    uint32_t contributor;
    ps_heap heaps[]; /* (tables) */
} gift;

enum { SUM_MAX = 1 << 20 }; /* contributions of an open sum in a file */

/* What comes of a contributor's next clock. */
typedef struct coming {
    uint32_t parts; /* that have come */
    gift *gift;     /* NULL: none is there yet */
} coming;

struct ps_tables {
    ps_tables_conf conf;
    ps_table **tables;
    ps_book book;               /* one column */
    coming *coming;             /* (contributors) */
    gift *sum;                  /* those of the open sum; where sums are in order, by contributor */
    gift *idle;                 /* empty ones */
    uint64_t ticked;            /* clocks that rows have aged by */
    uint64_t steps;             /* so far */
    ps_store_counters counters; /* the book's, unless it was given others */
    ps_status broken;           /* what a step failed with */
    bool has_taken;             /* a virtual shard out of a file */
};

ps_tables *ps_tables_create(const ps_tables_conf *conf)
{
    ps_tables *t = ps_xcalloc(1, sizeof *t);

    ps_book_conf book = conf->book;

    assert(conf->table_count > 0);
    book.columns = 1;
    book.counters = book.counters != NULL ? book.counters : &t->counters;
    ps_book_init(&t->book, &book);
    t->conf = *conf;
    t->conf.tables = NULL;
    t->conf.book = (ps_book_conf){0}; /* what it points to is borrowed */
    t->tables = ps_xcalloc(conf->table_count, sizeof(ps_table *));
    for (uint32_t i = 0; i < conf->table_count; i++) {
        assert(conf->tables[i].workers == 1);
        t->tables[i] = ps_table_create(&conf->tables[i]);
    }
    t->coming = ps_xcalloc(t->book.contributors, sizeof *t->coming);
    return t;
}

static void free_gifts(const ps_tables *t, gift *list)
{
    while (list != NULL) {
        gift *next = list->next;

        for (uint32_t i = 0; i < t->conf.table_count; i++) {
            ps_heap_fini(&list->heaps[i]);
        }
        free(list);
        list = next;
    }
}

void ps_tables_destroy(ps_tables *t)
{
    if (t == NULL) {
        return;
    }
    for (uint32_t k = 0; k < t->book.contributors; k++) {
        free_gifts(t, t->coming[k].gift);
    }
    free_gifts(t, t->sum);
    free_gifts(t, t->idle);
    for (uint32_t i = 0; i < t->conf.table_count; i++) {
        ps_table_destroy(t->tables[i]);
    }
    ps_book_fini(&t->book);
    free(t->coming);
    free(t->tables);
    free(t);
}

/* ---- Contributions ---- */

static gift *take_gift(ps_tables *t, uint32_t contributor)
{
    gift *g = t->idle;

    if (g != NULL) {
        t->idle = g->next;
    } else {
        g = ps_xcalloc(1, sizeof *g + t->conf.table_count * sizeof g->heaps[0]);
    }
    g->next = NULL;
    g->contributor = contributor;
    return g;
}

/* Empties it and keeps its memory. */
static void give_back(ps_tables *t, gift *g)
{
    for (uint32_t i = 0; i < t->conf.table_count; i++) {
        g->heaps[i].count = 0;
    }
    g->next = t->idle;
    t->idle = g;
}

/* Adds it to the open sum: in order of contributors, or behind all. */
static void add_to_sum(ps_tables *t, gift *g)
{
    gift **at = &t->sum;

    while (*at != NULL && (!t->book.in_order || (*at)->contributor < g->contributor)) {
        at = &(*at)->next;
    }
    g->next = *at;
    *at = g;
}

/* ---- Parts ---- */

static void append(ps_heap *h, const ps_tables_part *p, uint32_t width)
{
    ps_heap_reserve(h, p->count, width);
    if (p->count == 0) {
        return;
    }
    memcpy(h->keys + h->count, p->keys, p->count * sizeof *p->keys);
    memcpy(h->grads + h->count * width, p->grads, p->count * width * sizeof *p->grads);
    for (size_t i = 0; i < p->count; i++) {
        h->shows[h->count + i] = (float)p->shows[i];
        h->clicks[h->count + i] = (float)p->clicks[i];
    }
    h->count += p->count;
}

static ps_status check_values(const ps_tables_part *p, uint32_t width)
{
    for (size_t i = 0; i < p->count * width; i++) {
        if (!isfinite(p->grads[i])) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "rows: the gradient of key %" PRIu64
                           " is %g; finite numbers are allowed",
                           p->keys[i / width], (double)p->grads[i]);
        }
    }
    for (size_t i = 0; i < p->count; i++) {
        if (p->clicks[i] > p->shows[i]) {
            return ps_fail(PS_INVALID_ARGUMENT, "clicks[%zu]: %" PRIu32 " of %" PRIu32 " shows", i,
                           p->clicks[i], p->shows[i]);
        }
    }
    return ps_ok();
}

/* Checks whether it may come now. *is_old: it is in already. */
static ps_status check_turn(const ps_tables *t, const ps_tables_part *p, bool *is_old)
{
    uint32_t parts = t->coming[p->contributor].parts;
    ps_status st = ps_book_check_clock(&t->book, 0, p->contributor, p->clock, is_old);

    *is_old = *is_old || (p->part < parts && p->part > 0);
    if (ps_is_ok(&st) && !*is_old && p->part > parts) {
        st = ps_fail(PS_OUT_OF_RANGE, "part %" PRIu32 "; %" PRIu32 " is next", p->part, parts);
    }
    return st;
}

static ps_status check_part(const ps_tables *t, const ps_tables_part *p)
{
    const gift *g = t->coming[p->contributor].gift;
    const ps_heap *h = p->part == 0 ? NULL : &g->heaps[p->table];
    size_t before = h == NULL ? 0 : h->count;
    ps_status st = ps_table_check_keys(t->tables[p->table], p->keys, p->count);

    if (ps_is_ok(&st) && before > 0 && p->count > 0 && p->keys[0] <= h->keys[before - 1]) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "keys[0]: %" PRIu64 " behind %" PRIu64 " of a part before", p->keys[0],
                       h->keys[before - 1]);
    }
    if (ps_is_ok(&st) && before + p->count > t->conf.keys_max) {
        return ps_fail(PS_RESOURCE_EXHAUSTED,
                       "%zu keys of table %" PRIu32 " in a contribution; at most %" PRIu32
                       " are allowed",
                       before + p->count, p->table, t->conf.keys_max);
    }
    return ps_is_ok(&st) ? check_values(p, ps_table_width(t->tables[p->table])) : st;
}

/* ---- Steps ---- */

/* Steps a table on the sum of a list of contributions, by key and in the order of the list. */
static ps_status step_table(ps_tables *t, uint32_t table, const gift *list, uint64_t clock,
                            float scale)
{
    uint32_t width = ps_table_width(t->tables[table]);
    ps_params params = ps_descent_params(&t->conf.descent, clock);
    ps_heap all = {0}, one = {0};
    ps_status st;

    for (const gift *g = list; g != NULL; g = g->next) {
        ps_heap_append(&all, &g->heaps[table], width);
    }
    ps_heap_add_up(&one, &all, width, scale);
    st = ps_table_push_rows(t->tables[table], 0, t->steps,
                            &(ps_table_push){.keys = one.keys,
                                             .count = one.count,
                                             .grads = one.grads,
                                             .shows = one.shows,
                                             .clicks = one.clicks,
                                             .params = &params});
    ps_heap_fini(&all);
    ps_heap_fini(&one);
    return st;
}

static void step(ps_tables *t, const gift *list, uint64_t clock, float scale)
{
    ps_status st = t->broken;

    for (uint32_t i = 0; i < t->conf.table_count && ps_is_ok(&st); i++) {
        st = ps_wrap(step_table(t, i, list, clock, t->conf.merge_scale * scale), "table %" PRIu32,
                     i);
    }
    if (ps_is_ok(&st)) {
        t->steps++;
        t->book.column[0].version++;
    }
    t->broken = st;
}

/* Steps on the open sum, as often as it is whole. */
static void close_sums(ps_tables *t)
{
    float scale;

    while (t->book.buffers && ps_book_is_whole(&t->book, 0, &scale)) {
        step(t, t->sum, ps_book_open_clock(&t->book, 0), scale);
        while (t->sum != NULL) {
            gift *g = t->sum;

            t->sum = g->next;
            give_back(t, g);
        }
        ps_book_close(&t->book, 0);
    }
}

/* Rows age with the clocks that everybody has brought. */
static void age(ps_tables *t)
{
    uint64_t clock = ps_book_clock(&t->book);

    while (clock != UINT64_MAX && t->ticked < clock) {
        t->ticked++;
        for (uint32_t i = 0;
             t->conf.tick > 0 && t->ticked % t->conf.tick == 0 && i < t->conf.table_count; i++) {
            (void)ps_table_shrink(t->tables[i]);
        }
    }
}

/* Contributions or losses have changed what is whole. */
static void go_on(ps_tables *t)
{
    close_sums(t);
    if (ps_is_ok(&t->broken)) {
        age(t);
    }
}

/* The contribution that comes is whole. */
static void finish(ps_tables *t, const ps_tables_part *p)
{
    coming *c = &t->coming[p->contributor];
    gift *g = c->gift;
    float scale;
    bool is_late;

    *c = (coming){0};
    switch (ps_book_arrive(&t->book, 0, p->worker, p->contributor, p->clock, &scale, &is_late)) {
    case PS_APPLY:
        assert(scale == 1.0f); /* of a policy that uses contributions whole */
        step(t, g, p->clock, 1.0f);
        give_back(t, g);
        break;
    case PS_BUFFER:
        add_to_sum(t, g);
        ps_book_add(&t->book, 0, is_late);
        break;
    case PS_DROP:
        give_back(t, g);
        break;
    }
    ps_book_mark(&t->book, 0, p->contributor, p->clock + 1);
    go_on(t);
}

static ps_status push(ps_tables *t, const ps_tables_part *p)
{
    ps_status st = t->broken;
    coming *c;
    bool is_old;

    if (ps_is_ok(&st)) {
        st = ps_book_check_worker(&t->book, p->worker, p->contributor);
    }
    if (ps_is_ok(&st) && p->table >= t->conf.table_count) {
        st = ps_fail(PS_INVALID_ARGUMENT, "table %" PRIu32 " of %" PRIu32, p->table,
                     t->conf.table_count);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    st = check_turn(t, p, &is_old);
    if (!ps_is_ok(&st) || is_old) {
        t->book.counters->duplicates += is_old && p->is_last;
        return st;
    }
    st = check_part(t, p);
    if (!ps_is_ok(&st)) {
        return st;
    }
    c = &t->coming[p->contributor];
    if (p->part == 0) {
        if (c->gift != NULL) {
            give_back(t, c->gift);
        }
        *c = (coming){.gift = take_gift(t, p->contributor)};
    }
    append(&c->gift->heaps[p->table], p, ps_table_width(t->tables[p->table]));
    c->parts++;
    if (p->is_last) {
        finish(t, p);
    }
    return t->broken;
}

ps_status ps_tables_push(ps_tables *t, const ps_tables_part *part)
{
    ps_status st = push(t, part);

    t->book.counters->refused += !ps_is_ok(&st);
    return st;
}

bool ps_tables_is_in(const ps_tables *t, uint64_t clock, uint32_t contributor)
{
    return ps_book_is_in(&t->book, clock, contributor);
}

ps_status ps_tables_lose(ps_tables *t, uint32_t worker)
{
    ps_status st = ps_book_lose(&t->book, worker);

    if (ps_is_ok(&st)) {
        go_on(t);
    }
    return st;
}

void ps_tables_tick(ps_tables *t, int64_t now_us)
{
    t->book.now_us = now_us;
    if (ps_book_is_due(&t->book, 0)) {
        close_sums(t);
    }
}

uint64_t ps_tables_clock(const ps_tables *t)
{
    return ps_book_clock(&t->book);
}

ps_book *ps_tables_book(ps_tables *t)
{
    return &t->book;
}

bool ps_tables_may_pull(const ps_tables *t, uint32_t worker, uint64_t clock)
{
    return ps_book_admits(&t->book, 0, worker, clock);
}

void ps_tables_gave(ps_tables *t, uint32_t worker)
{
    ps_book_gave(&t->book, 0, worker);
}

ps_status ps_tables_pull(const ps_tables *t, const uint64_t *keys, size_t count, float *out)
{
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < t->conf.table_count && ps_is_ok(&st); i++) {
        st = ps_table_pull_rows(t->tables[i], keys, count, out);
        out += count * ps_table_width(t->tables[i]);
    }
    return st;
}

ps_table *ps_tables_at(ps_tables *t, uint32_t table)
{
    assert(table < t->conf.table_count);
    return t->tables[table];
}

uint32_t ps_tables_table_count(const ps_tables *t)
{
    return t->conf.table_count;
}

/* ---- Save and load ---- */

/* What all virtual shards of a clock agree on: u64 clocks that rows have aged by, steps; u32 age of
 * the tables, contributions in the open sum; u32 contributor of each. */
static void put_progress(const ps_tables *t, ps_state_out *out)
{
    uint32_t count = 0;

    for (const gift *g = t->sum; g != NULL; g = g->next) {
        count++;
    }
    ps_state_put_u64(out, t->ticked);
    ps_state_put_u64(out, t->steps);
    ps_state_put_u32(out, (uint32_t)ps_table_count(t->tables[0]).ticks);
    ps_state_put_u32(out, count);
    for (const gift *g = t->sum; g != NULL; g = g->next) {
        ps_state_put_u32(out, g->contributor);
    }
    for (uint32_t k = 0; k < t->book.contributors; k++) {
        ps_state_put_u64(out, ps_book_next(&t->book, 0, k));
    }
}

/* u32 rows of a virtual shard; that many keys, gradients, shows, clicks. */
static void put_heap(const ps_heap *h, uint32_t width, uint32_t shard, ps_state_out *out)
{
    ps_heap some = {0};

    for (size_t i = 0; i < h->count; i++) {
        if (ps_table_shard_of(h->keys[i]) == shard) {
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

void ps_tables_put(const ps_tables *t, uint32_t shard, ps_state_out *out)
{
    put_progress(t, out);
    ps_book_put(&t->book, 0, out);
    for (uint32_t i = 0; i < t->conf.table_count; i++) {
        ps_table_put_shard(t->tables[i], shard, out);
    }
    for (const gift *g = t->sum; g != NULL; g = g->next) {
        for (uint32_t i = 0; i < t->conf.table_count; i++) {
            put_heap(&g->heaps[i], ps_table_width(t->tables[i]), shard, out);
        }
    }
}

/* Takes the progress of the first virtual shard. */
static void take_progress(ps_tables *t, ps_state_in *in)
{
    uint32_t tick, count;

    t->ticked = ps_state_take_u64(in);
    t->steps = ps_state_take_u64(in);
    tick = ps_state_take_u32(in);
    count = ps_state_take_count(in, "contributions in the open sum of rows",
                                t->book.buffers ? SUM_MAX : 0);
    for (uint32_t i = 0; ps_state_is_ok(in) && i < count; i++) {
        uint32_t k = ps_state_take_count(in, "contributor", t->book.contributors - 1);

        add_to_sum(t, take_gift(t, k));
    }
    for (uint32_t i = 0; i < t->conf.table_count; i++) {
        ps_table_set_age(t->tables[i], tick, t->steps);
    }
    (void)ps_state_view(in, t->book.contributors * sizeof(uint64_t)); /* the book's next */
}

/* Checks that another virtual shard has the same one. */
static void check_progress(const ps_tables *t, uint32_t shard, ps_state_in *in)
{
    ps_state_out mine = {0};
    size_t bytes;
    const uint8_t *theirs;

    ps_state_begin(&mine, 1, 0);
    bytes = mine.section.len;
    put_progress(t, &mine);
    theirs = ps_state_view(in, mine.section.len - bytes);
    if (theirs != NULL &&
        memcmp(theirs, mine.section.data + bytes, mine.section.len - bytes) != 0) {
        ps_state_fail(
            in, "rows of virtual shard %" PRIu32 " are of another clock than those before", shard);
    }
    ps_strbuf_fini(&mine.section);
}

/* What the others say of clocks beside next, such as times, is a server's own: the first counts. */
static void pass_book(const ps_tables *t, ps_state_in *in)
{
    (void)ps_state_view(in, ps_book_bytes(&t->book));
}

static void take_heap(const ps_tables *t, uint32_t table, ps_heap *h, uint32_t shard,
                      ps_state_in *in)
{
    uint32_t width = ps_table_width(t->tables[table]);
    uint32_t count = ps_state_take_count(in, "rows of a contribution", t->conf.keys_max);
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
    st = ps_table_check_keys(t->tables[table], h->keys + h->count, count);
    for (size_t i = h->count; ps_is_ok(&st) && i < h->count + count; i++) {
        if (ps_table_shard_of(h->keys[i]) != shard || !(h->shows[i] >= 0) || !(h->clicks[i] >= 0) ||
            isinf(h->shows[i]) || isinf(h->clicks[i])) {
            st = ps_fail(PS_DATA_LOSS, "shard, shows or clicks of key %" PRIu64, h->keys[i]);
        }
    }
    if (!ps_is_ok(&st)) {
        ps_state_fail(in, "%.90s", st.text);
        return;
    }
    h->count += count;
}

void ps_tables_take(ps_tables *t, uint32_t shard, ps_state_in *in)
{
    if (!t->has_taken) {
        take_progress(t, in);
        ps_book_take(&t->book, 0, in);
        t->has_taken = true;
    } else {
        check_progress(t, shard, in);
        pass_book(t, in);
    }
    for (uint32_t i = 0; ps_state_is_ok(in) && i < t->conf.table_count; i++) {
        ps_table_take_shard(t->tables[i], shard, in);
    }
    for (gift *g = t->sum; ps_state_is_ok(in) && g != NULL; g = g->next) {
        for (uint32_t i = 0; ps_state_is_ok(in) && i < t->conf.table_count; i++) {
            take_heap(t, i, &g->heaps[i], shard, in);
        }
    }
}

ps_status ps_tables_settle(ps_tables *t)
{
    uint64_t clock;

    ps_book_settle(&t->book);
    clock = ps_book_clock(&t->book);
    return clock == UINT64_MAX || clock == t->ticked
               ? ps_ok()
               : ps_fail(PS_DATA_LOSS, "rows have aged by %" PRIu64 " clocks; %" PRIu64 " are over",
                         t->ticked, clock);
}
