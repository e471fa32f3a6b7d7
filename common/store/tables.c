/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c - see tables.h. */
#include "common/store/tables.h"

#include "common/base/xalloc.h"
#include "common/store/table_keys.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of one table that one contributor has brought. */
typedef struct heap {
    uint64_t *keys; /* (count), ascending */
    float *grads;   /* (count, width) */
    float *shows, *clicks;
    size_t count, cap;
} heap;

/* A contribution. */
typedef struct gift {
    struct gift *next;
    uint32_t contributor;
    heap heaps[]; /* (tables) */
} gift;

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

static void free_heap(heap *h)
{
    free(h->keys);
    free(h->grads);
    free(h->shows);
    free(h->clicks);
}

static void free_gifts(const ps_tables *t, gift *list)
{
    while (list != NULL) {
        gift *next = list->next;

        for (uint32_t i = 0; i < t->conf.table_count; i++) {
            free_heap(&list->heaps[i]);
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

static void append(heap *h, const ps_tables_part *p, uint32_t width)
{
    if (h->count + p->count > h->cap) {
        h->cap = (h->count + p->count) * 3 / 2;
        h->keys = ps_xrealloc(h->keys, h->cap * sizeof *h->keys);
        h->grads = ps_xrealloc(h->grads, h->cap * width * sizeof *h->grads);
        h->shows = ps_xrealloc(h->shows, h->cap * sizeof *h->shows);
        h->clicks = ps_xrealloc(h->clicks, h->cap * sizeof *h->clicks);
    }
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
    const heap *h = p->part == 0 ? NULL : &g->heaps[p->table];
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

static heap make_heap(size_t cap, uint32_t width)
{
    return (heap){.keys = ps_xcalloc(cap + 1, sizeof(uint64_t)),
                  .grads = ps_xcalloc((cap + 1) * width, sizeof(float)),
                  .shows = ps_xcalloc(cap + 1, sizeof(float)),
                  .clicks = ps_xcalloc(cap + 1, sizeof(float)),
                  .cap = cap};
}

/* The rows of a table that a list of contributions brings, one behind the other. */
static heap gather(const ps_tables *t, uint32_t table, const gift *list)
{
    uint32_t width = ps_table_width(t->tables[table]);
    size_t cap = 0;
    heap all;

    for (const gift *g = list; g != NULL; g = g->next) {
        cap += g->heaps[table].count;
    }
    all = make_heap(cap, width);
    for (const gift *g = list; g != NULL; g = g->next) {
        const heap *h = &g->heaps[table];

        if (h->count > 0) {
            memcpy(all.keys + all.count, h->keys, h->count * sizeof *h->keys);
            memcpy(all.grads + all.count * width, h->grads, h->count * width * sizeof *h->grads);
            memcpy(all.shows + all.count, h->shows, h->count * sizeof *h->shows);
            memcpy(all.clicks + all.count, h->clicks, h->count * sizeof *h->clicks);
        }
        all.count += h->count;
    }
    return all;
}

/* Steps a table on the sum of a list of contributions, by key and in the order of the list. */
static ps_status step_table(ps_tables *t, uint32_t table, const gift *list, uint64_t clock,
                            float scale)
{
    uint32_t width = ps_table_width(t->tables[table]), *place;
    ps_params params = ps_descent_params(&t->conf.descent, clock);
    heap all = gather(t, table, list), one = make_heap(all.count, width);
    ps_status st;

    place = ps_xcalloc(all.count + 1, sizeof *place);
    one.count = ps_keys_unique(all.keys, all.count, one.keys, place);
    ps_rows_merge(all.grads, place, all.count, width, one.count, one.grads);
    ps_rows_merge(all.shows, place, all.count, 1, one.count, one.shows);
    ps_rows_merge(all.clicks, place, all.count, 1, one.count, one.clicks);
    for (size_t i = 0; i < one.count * width; i++) {
        one.grads[i] *= scale;
    }
    st = ps_table_push_rows(t->tables[table], 0, t->steps,
                            &(ps_table_push){.keys = one.keys,
                                             .count = one.count,
                                             .grads = one.grads,
                                             .shows = one.shows,
                                             .clicks = one.clicks,
                                             .params = &params});
    free(place);
    free_heap(&all);
    free_heap(&one);
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

const ps_book *ps_tables_book(const ps_tables *t)
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
