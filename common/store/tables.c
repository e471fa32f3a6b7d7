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

typedef struct bringer {
    uint64_t next;  /* the first clock of it that is not in */
    uint32_t parts; /* of that one that have come */
    heap *heaps;    /* (tables) */
} bringer;

struct ps_tables {
    ps_tables_conf conf;
    ps_table **tables;
    bringer *who;
    uint64_t clock; /* contributions to it are missing */
    uint64_t steps; /* so far */
    uint32_t lost;  /* contributors */
    ps_tables_counters counters;
};

ps_tables *ps_tables_create(const ps_tables_conf *conf)
{
    ps_tables *t = ps_xcalloc(1, sizeof *t);

    assert(conf->table_count > 0 && conf->contributors > 0);
    t->conf = *conf;
    t->conf.tables = NULL;
    t->tables = ps_xcalloc(conf->table_count, sizeof(ps_table *));
    for (uint32_t i = 0; i < conf->table_count; i++) {
        assert(conf->tables[i].workers == 1);
        t->tables[i] = ps_table_create(&conf->tables[i]);
    }
    t->who = ps_xcalloc(conf->contributors, sizeof *t->who);
    for (uint32_t k = 0; k < conf->contributors; k++) {
        t->who[k].heaps = ps_xcalloc(conf->table_count, sizeof *t->who[k].heaps);
    }
    return t;
}

static void free_heap(heap *h)
{
    free(h->keys);
    free(h->grads);
    free(h->shows);
    free(h->clicks);
}

void ps_tables_destroy(ps_tables *t)
{
    if (t == NULL) {
        return;
    }
    for (uint32_t k = 0; k < t->conf.contributors; k++) {
        for (uint32_t i = 0; i < t->conf.table_count; i++) {
            free_heap(&t->who[k].heaps[i]);
        }
        free(t->who[k].heaps);
    }
    for (uint32_t i = 0; i < t->conf.table_count; i++) {
        ps_table_destroy(t->tables[i]);
    }
    free(t->who);
    free(t->tables);
    free(t);
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

/* May it come now? *is_old: it is in already. */
static ps_status check_turn(const ps_tables *t, const ps_tables_part *p, bool *is_old)
{
    const bringer *who = &t->who[p->contributor];

    *is_old =
        p->clock < who->next || (p->clock == who->next && p->part < who->parts && p->part > 0);
    if (*is_old) {
        return ps_ok();
    }
    if (p->clock > who->next || (t->conf.in_step && p->clock > t->clock)) {
        return ps_fail(PS_OUT_OF_RANGE,
                       "clock %" PRIu64 " of contributor %" PRIu32 "; %" PRIu64
                       " is its next, %" PRIu64 " is open",
                       p->clock, p->contributor, who->next, t->clock);
    }
    if (p->part > who->parts) {
        return ps_fail(PS_OUT_OF_RANGE, "part %" PRIu32 "; %" PRIu32 " is next", p->part,
                       who->parts);
    }
    return ps_ok();
}

static ps_status check_part(const ps_tables *t, const ps_tables_part *p)
{
    const heap *h = &t->who[p->contributor].heaps[p->table];
    size_t before = p->part == 0 ? 0 : h->count;
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

/* What contributors [from, to) have brought of a table, one behind the other. */
static heap gather(const ps_tables *t, uint32_t table, uint32_t from, uint32_t to)
{
    uint32_t width = ps_table_width(t->tables[table]);
    size_t cap = 0;
    heap all;

    for (uint32_t k = from; k < to; k++) {
        cap += t->who[k].heaps[table].count;
    }
    all = make_heap(cap, width);
    for (uint32_t k = from; k < to; k++) {
        const heap *h = &t->who[k].heaps[table];

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

/* Steps a table on that, added up by key in the order of contributors. */
static ps_status step_table(ps_tables *t, uint32_t table, uint32_t from, uint32_t to,
                            uint64_t clock)
{
    uint32_t width = ps_table_width(t->tables[table]), *place;
    ps_params params = ps_descent_params(&t->conf.descent, clock);
    heap all = gather(t, table, from, to), one = make_heap(all.count, width);
    ps_status st;

    place = ps_xcalloc(all.count + 1, sizeof *place);
    one.count = ps_keys_unique(all.keys, all.count, one.keys, place);
    ps_rows_merge(all.grads, place, all.count, width, one.count, one.grads);
    ps_rows_merge(all.shows, place, all.count, 1, one.count, one.shows);
    ps_rows_merge(all.clicks, place, all.count, 1, one.count, one.clicks);
    for (size_t i = 0; i < one.count * width; i++) {
        one.grads[i] *= t->conf.merge_scale;
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

static ps_status step(ps_tables *t, uint32_t from, uint32_t to, uint64_t clock)
{
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < t->conf.table_count && ps_is_ok(&st); i++) {
        st = step_table(t, i, from, to, clock);
        if (!ps_is_ok(&st)) {
            st = ps_wrap(st, "table %" PRIu32, i);
        }
    }
    if (ps_is_ok(&st)) {
        t->steps++;
    }
    return st;
}

static void empty(ps_tables *t, uint32_t k)
{
    for (uint32_t i = 0; i < t->conf.table_count; i++) {
        t->who[k].heaps[i].count = 0;
    }
    t->who[k].parts = 0;
}

static bool is_complete(const ps_tables *t)
{
    for (uint32_t k = 0; k < t->conf.contributors; k++) {
        if (t->who[k].next <= t->clock) {
            return false;
        }
    }
    return true;
}

/* Everybody has brought the clock: it is over. */
static void advance(ps_tables *t)
{
    while (is_complete(t)) {
        t->clock++;
        for (uint32_t i = 0;
             t->conf.tick > 0 && t->clock % t->conf.tick == 0 && i < t->conf.table_count; i++) {
            (void)ps_table_shrink(t->tables[i]);
        }
    }
}

/* The contribution in hand of k is whole. */
static ps_status finish(ps_tables *t, uint32_t k)
{
    bringer *who = &t->who[k];
    ps_status st = ps_ok();

    who->next++;
    if (!t->conf.in_step) {
        st = step(t, k, k + 1, who->next - 1);
        empty(t, k);
    } else if (is_complete(t)) {
        st = step(t, 0, t->conf.contributors, t->clock);
        for (uint32_t i = 0; i < t->conf.contributors; i++) {
            empty(t, i);
        }
    }
    t->counters.applied++;
    if (ps_is_ok(&st)) {
        advance(t);
    }
    return st;
}

static ps_status push(ps_tables *t, const ps_tables_part *p)
{
    bringer *who;
    bool is_old;
    ps_status st;

    if (p->contributor >= t->conf.contributors || p->table >= t->conf.table_count) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "contributor %" PRIu32 " of %" PRIu32 ", table %" PRIu32 " of %" PRIu32,
                       p->contributor, t->conf.contributors, p->table, t->conf.table_count);
    }
    who = &t->who[p->contributor];
    st = check_turn(t, p, &is_old);
    if (!ps_is_ok(&st) || is_old) {
        t->counters.duplicates += is_old && p->is_last;
        return st;
    }
    st = check_part(t, p);
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (p->part == 0) {
        empty(t, p->contributor);
    }
    append(&who->heaps[p->table], p, ps_table_width(t->tables[p->table]));
    who->parts++;
    return p->is_last ? finish(t, p->contributor) : st;
}

ps_status ps_tables_push(ps_tables *t, const ps_tables_part *part)
{
    ps_status st = push(t, part);

    t->counters.refused += !ps_is_ok(&st);
    return st;
}

bool ps_tables_is_in(const ps_tables *t, uint64_t clock, uint32_t contributor)
{
    return contributor < t->conf.contributors && clock < t->who[contributor].next;
}

void ps_tables_lose(ps_tables *t, uint32_t contributor)
{
    assert(!t->conf.in_step && contributor < t->conf.contributors);
    empty(t, contributor);
    t->who[contributor].next = UINT64_MAX;
    t->lost++;
    if (t->lost < t->conf.contributors) {
        advance(t);
    }
}

uint64_t ps_tables_clock(const ps_tables *t)
{
    return t->clock;
}

bool ps_tables_may_pull(const ps_tables *t, uint64_t clock)
{
    uint64_t lead = t->conf.in_step ? 0 : t->conf.lead;

    return clock <= t->clock || clock - t->clock <= lead;
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

ps_tables_counters ps_tables_count(const ps_tables *t)
{
    return t->counters;
}
