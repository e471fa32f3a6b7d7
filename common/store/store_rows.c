/* SPDX-License-Identifier: Apache-2.0 */
/* store_rows.c - the rows of sparse tables of a store (store.h): collects the parts of
 * contributions, steps on complete ones, and ages rows. */
#include "common/store/store_impl.h"

#include "common/base/nonfinite.h"
#include "common/base/xalloc.h"

#include <assert.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Rows that are pulled by key ---- */

static void nothing(ps_store *store)
{
    (void)store;
}

static uint64_t step_number(uint64_t version)
{
    (void)version;
    return 0;
}

static void changed(ps_store *store, uint32_t table, const uint64_t *keys, size_t count)
{
    (void)store;
    (void)table;
    (void)keys;
    (void)count;
}

static void changed_all(ps_store *store, uint32_t worker)
{
    (void)store;
    (void)worker;
}

static void follow(ps_store *store, uint32_t worker, uint64_t clock)
{
    (void)store;
    (void)worker;
    (void)clock;
}

static bool is_following(const ps_store *store, uint32_t worker)
{
    (void)store;
    (void)worker;
    return false;
}

static ps_status ask(ps_store *store, uint32_t worker, uint64_t clock, const uint64_t *keys,
                     size_t count)
{
    const store_rows *r = store->rows;
    store_rows_pull *pull = &r->pulls[worker];
    ps_status st = ps_ok();

    if (pull->is_open) {
        return ps_fail(PS_FAILED_PRECONDITION, "keys: those asked for before are not answered yet");
    }
    for (uint32_t i = 0; ps_is_ok(&st) && i < r->tables->table_count; i++) {
        st = ps_table_check_keys(r->tables->tables[i], keys, count);
    }
    if (ps_is_ok(&st)) {
        pull->is_open = true;
        pull->clock = clock;
        pull->count = count;
        pull->keys = ps_xrealloc(pull->keys, (count + 1) * sizeof *keys);
        memcpy(pull->keys, keys, count * sizeof *keys);
    }
    return st;
}

static bool next_asked(ps_store *store, uint32_t worker, ps_store_rows_cut *cut, const void *arg,
                       ps_store_rows_answer *answer)
{
    const store_rows *r = store->rows;
    store_rows_pull *pull = &r->pulls[worker];
    ps_status st;

    (void)cut; /* a request names no more keys than one answer may have rows */
    (void)arg;
    if (!ps_book_admits(&store->book, r->column, worker, pull->clock)) {
        return false;
    }
    answer->table_count = r->tables->table_count;
    answer->count = pull->count;
    answer->keys = pull->keys;
    answer->is_last = true;
    answer->values = ps_buf_create(pull->count * r->width * sizeof(float));
    answer->values->len = answer->values->cap;
    st = ps_tables_pull(r->tables, pull->keys, pull->count, (float *)(void *)answer->values->data);
    assert(ps_is_ok(&st)); /* the keys were checked by ps_store_rows_begin */
    pull->is_open = false;
    ps_book_gave(&store->book, r->column, worker);
    return true;
}

static const store_rows_way by_key = {
    .init = nothing,
    .fini = nothing,
    .step_number = step_number,
    .changed = changed,
    .changed_all = changed_all,
    .follow = follow,
    .is_following = is_following,
    .ask = ask,
    .next = next_asked,
    .count = ps_tables_count,
};

/* ---- Life ---- */

void store_rows_init(ps_store *store, ps_tables *tables)
{
    store_rows *r = store->rows = ps_xcalloc(1, sizeof *r);

    r->tables = tables;
    r->column = store->slice_count;
    r->coming = ps_xcalloc(store->book.workers, sizeof *r->coming);
    r->merged = ps_xcalloc(tables->table_count, sizeof *r->merged);
    r->pulls = ps_xcalloc(store->book.workers, sizeof *r->pulls);
    for (uint32_t i = 0; i < tables->table_count; i++) {
        r->width += ps_table_width(tables->tables[i]);
    }
    r->way = ps_table_is_followed(tables->tables[0]) ? &store_rows_followed : &by_key;
    r->way->init(store);
}

void store_rows_keep_before(ps_store *store)
{
    const store_rows *r = store->rows;

    for (uint32_t i = 0; i < r->tables->table_count; i++) {
        ps_table_keep_before(r->tables->tables[i]);
    }
}

static void free_gifts(const store_rows *r, store_gift *list)
{
    while (list != NULL) {
        store_gift *next = list->next;

        for (uint32_t i = 0; i < r->tables->table_count; i++) {
            ps_heap_fini(&list->heaps[i]);
        }
        free(list);
        list = next;
    }
}

void store_rows_fini(ps_store *store)
{
    store_rows *r = store->rows;

    if (r == NULL) {
        return;
    }
    free_gifts(r, r->sum);
    free_gifts(r, r->idle);
    for (uint32_t w = 0; w < store->book.workers; w++) {
        free_gifts(r, r->coming[w].gift);
        free(r->pulls[w].keys);
    }
    r->way->fini(store);
    for (uint32_t i = 0; i < r->tables->table_count; i++) {
        ps_heap_fini(&r->merged[i]);
    }
    free(r->merged);
    free(r->cursors);
    free(r->pulls);
    free(r->lacks);
    ps_tables_destroy(r->tables);
    free(r->coming);
    free(r);
}

static uint32_t width_of(const store_rows *r, uint32_t table)
{
    return ps_table_width(r->tables->tables[table]);
}

/* ---- Contributions ---- */

static store_gift *take_gift(store_rows *r, uint32_t contributor)
{
    store_gift *g = r->idle;

    if (g != NULL) {
        r->idle = g->next;
    } else {
        g = ps_xcalloc(1, sizeof *g + r->tables->table_count * sizeof g->heaps[0]);
    }
    g->next = NULL;
    g->contributor = contributor;
    return g;
}

/* Empties g and keeps it, with its memory, for a later contribution. */
static void give_back(store_rows *r, store_gift *g)
{
    for (uint32_t i = 0; i < r->tables->table_count; i++) {
        g->heaps[i].count = 0;
    }
    g->next = r->idle;
    r->idle = g;
}

/* Inserts g into the open sum: by contributor if sums are in order, else at the end. */
static void add_to_sum(ps_store *store, store_gift *g)
{
    store_gift **at = &store->rows->sum;

    while (*at != NULL && (!store->book.in_order || (*at)->contributor < g->contributor)) {
        at = &(*at)->next;
    }
    g->next = *at;
    *at = g;
}

store_gift *store_rows_open(ps_store *store, uint32_t contributor)
{
    store_gift *g = take_gift(store->rows, contributor);

    add_to_sum(store, g);
    return g;
}

/* ---- Parts ---- */

static void append(ps_heap *h, const ps_store_rows *p, uint32_t width)
{
    ps_heap_reserve(h, p->count, width);
    if (p->count == 0) {
        return;
    }
    memcpy(h->keys + h->count, p->keys, p->count * sizeof *p->keys);
    memcpy(h->grads + h->count * width, p->grads, p->count * width * sizeof *p->grads);
    for (size_t i = 0; i < p->count; i++) {
        h->shows[h->count + i] = p->shows != NULL ? (float)p->shows[i] : 1.0f;
        h->clicks[h->count + i] = p->clicks != NULL ? (float)p->clicks[i] : 0.0f;
    }
    h->count += p->count;
}

static ps_status check_values(const ps_store_rows *p, uint32_t width)
{
    size_t bad = ps_first_nonfinite(p->grads, p->count * width);

    if (bad < p->count * width) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "rows: the gradient of key %" PRIu64 " is %g; finite numbers are allowed",
                       p->keys[bad / width], (double)p->grads[bad]);
    }
    for (size_t i = 0; p->shows != NULL && p->clicks != NULL && i < p->count; i++) {
        if (p->clicks[i] > p->shows[i]) {
            return ps_fail(PS_INVALID_ARGUMENT, "clicks[%zu]: %" PRIu32 " of %" PRIu32 " shows", i,
                           p->clicks[i], p->shows[i]);
        }
    }
    return ps_ok();
}

/* Returns how many parts of the contribution the part's worker has sent. With redundancy, several
 * workers may be sending the same contribution. */
static uint32_t parts_of(const store_rows *r, const ps_store_rows *p)
{
    const store_coming *c = &r->coming[p->worker];

    return c->gift != NULL && c->gift->contributor == p->contributor && c->clock == p->clock
               ? c->parts
               : 0;
}

/* Checks whether the part may arrive now. Sets *is_old if it arrived before and is to be ignored.
 * Part 0 of a contribution that is not complete is never old, because it starts the contribution
 * anew. */
static ps_status check_turn(const ps_store *store, const ps_store_rows *p, bool *is_old)
{
    uint32_t parts = parts_of(store->rows, p);
    ps_status st =
        ps_book_check_clock(&store->book, store->rows->column, p->contributor, p->clock, is_old);

    *is_old = *is_old || (p->part < parts && p->part > 0);
    if (ps_is_ok(&st) && !*is_old && p->part > parts) {
        st = ps_fail(PS_OUT_OF_RANGE, "part %" PRIu32 "; %" PRIu32 " is next", p->part, parts);
    }
    return st;
}

static ps_status check_part(const store_rows *r, const ps_store_rows *p)
{
    const ps_table *table = r->tables->tables[p->table];
    const store_gift *g = r->coming[p->worker].gift;
    const ps_heap *h = p->part == 0 ? NULL : &g->heaps[p->table];
    size_t before = h == NULL ? 0 : h->count;
    ps_status st = ps_table_check_keys(table, p->keys, p->count);

    if (ps_is_ok(&st) && before > 0 && p->count > 0 && p->keys[0] <= h->keys[before - 1]) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "keys[0]: %" PRIu64 " behind %" PRIu64 " of a part before", p->keys[0],
                       h->keys[before - 1]);
    }
    if (ps_is_ok(&st) && before + p->count > r->tables->keys_max) {
        return ps_fail(PS_RESOURCE_EXHAUSTED,
                       "%zu keys of table %" PRIu32 " in a contribution; at most %" PRIu32
                       " are allowed",
                       before + p->count, p->table, r->tables->keys_max);
    }
    return ps_is_ok(&st) ? check_values(p, ps_table_width(table)) : st;
}

/* ---- Steps ---- */

/* A step on a list of contributions: w -= scale * step(sum * merge). */
typedef struct rows_step {
    const store_gift *list;
    uint64_t clock;
    double share; /* the fraction of a whole gradient that the sum of `list` makes up */
    float merge, scale;
    uint64_t t; /* the step number for the rule; 0: each row counts its own steps */
} rows_step;

/* Merges the rows of at->list, of one table, into r->merged[table] and returns that. */
static const ps_heap *merge(store_rows *r, uint32_t table, const rows_step *at)
{
    ps_heap *sum = &r->merged[table];
    size_t n = 0;

    for (const store_gift *g = at->list; g != NULL; g = g->next) {
        if (n == r->cursor_cap) {
            r->cursor_cap += r->cursor_cap / 2 + 4;
            r->cursors = ps_xrealloc(r->cursors, r->cursor_cap * sizeof *r->cursors);
        }
        r->cursors[n++].rows = &g->heaps[table];
    }
    sum->count = 0;
    ps_heap_merge(sum, r->cursors, n, width_of(r, table), at->merge);
    return sum;
}

/* Steps one table on the sum of the contributions at->list. Gradients of the same key are added in
 * the order of that list. */
static ps_status step_table(ps_store *store, uint32_t table, const rows_step *at)
{
    store_rows *r = store->rows;
    bool descends = store->descent.optim != NULL;
    ps_params params = descends ? ps_descent_params(&store->descent, at->clock) : (ps_params){0};
    const ps_heap *sum = merge(r, table, at);
    ps_status st = ps_table_push_rows(r->tables->tables[table],
                                      &(ps_table_push){.keys = sum->keys,
                                                       .count = sum->count,
                                                       .grads = sum->grads,
                                                       .shows = sum->shows,
                                                       .clicks = sum->clicks,
                                                       .params = &params,
                                                       .descent = descends ? &store->descent : NULL,
                                                       .t = at->t,
                                                       .share = at->share,
                                                       .scale = at->scale});

    if (ps_is_ok(&st)) {
        r->way->changed(store, table, sum->keys, sum->count);
    }
    return st;
}

/* Steps all tables on the contributions at.list. Keeps a failure in `broken`; from then on the
 * store refuses rows. */
static void step(ps_store *store, rows_step at)
{
    store_rows *r = store->rows;
    ps_book_column *column = &store->book.column[r->column];
    ps_status st = r->broken;

    at.t = r->way->step_number(column->version);
    for (uint32_t i = 0; i < r->tables->table_count && ps_is_ok(&st); i++) {
        st = ps_wrap(step_table(store, i, &at), "table %" PRIu32, i);
    }
    if (ps_is_ok(&st)) {
        column->version++;
        store->counters.steps++;
        r->has_before = store->keeps_before;
    }
    r->broken = st;
}

/* Steps on the open sum of rows and closes it, again and again while it may close. */
static void close_sums(ps_store *store)
{
    store_rows *r = store->rows;
    float scale;

    while (store->book.buffers && ps_book_is_whole(&store->book, r->column, &scale)) {
        double share =
            (double)store->book.column[r->column].in * (double)scale / store->book.contributors;

        step(store, (rows_step){.list = r->sum,
                                .clock = ps_book_open_clock(&store->book, r->column),
                                .share = share,
                                .merge = store->merge_scale * scale,
                                .scale = 1.0f});
        while (r->sum != NULL) {
            store_gift *g = r->sum;

            r->sum = g->next;
            give_back(r, g);
        }
        ps_book_close(&store->book, r->column);
    }
}

static void shrink_all(const ps_tables *t)
{
    for (uint32_t i = 0; i < t->table_count; i++) {
        (void)ps_table_shrink(t->tables[i]);
    }
}

/* Counts the clocks to which all contributors have contributed. Ages the rows each time t->tick
 * more clocks are complete (0: never), and at the clocks of t->shrinks. Calls due_fn when its clock
 * is reached. */
static void age(ps_store *store)
{
    store_rows *r = store->rows;
    const ps_tables *t = r->tables;
    uint64_t clock = ps_book_clock_of(&store->book, r->column);

    while (clock != UINT64_MAX && r->ticked < clock) {
        r->ticked++;
        if (t->tick > 0 && r->ticked % t->tick == 0) {
            shrink_all(t);
        }
        for (size_t i = 0; i < t->shrink_count; i++) {
            if (t->shrinks[i] == r->ticked) {
                shrink_all(t);
            }
        }
        if (r->due_fn != NULL && r->ticked == r->due_clock) {
            r->due_fn(r->due_arg, r->tables, r->due_clock);
            r->due_fn = NULL;
        }
    }
}

/* Returns the store's rows; NULL: it has none, or they are lent to another thread, which writes
 * them to files. */
static store_rows *rows_of(const ps_store *store)
{
    return store->rows != NULL && !store->rows->is_lent ? store->rows : NULL;
}

void store_rows_go_on(ps_store *store)
{
    if (rows_of(store) == NULL) {
        return;
    }
    close_sums(store);
    if (ps_is_ok(&store->rows->broken)) {
        age(store);
    }
}

/* Removes from the contribution to `clock` the rows of those virtual shards whose rows have it
 * already. There are such only if the store was read from files of different clocks. */
static void drop_known(ps_store *store, store_gift *g, uint64_t clock)
{
    store_rows *r = store->rows;

    if (clock >= r->lacks_end) {
        return;
    }
    for (uint32_t i = 0; i < r->tables->table_count; i++) {
        ps_heap *h = &g->heaps[i];
        size_t width = width_of(r, i), kept = 0;

        for (size_t j = 0; j < h->count; j++) {
            uint32_t shard = ps_table_home(r->tables->tables[i], h->keys[j]);

            if (clock < r->lacks[(size_t)shard * store->book.contributors + g->contributor]) {
                continue;
            }
            h->keys[kept] = h->keys[j];
            h->shows[kept] = h->shows[j];
            h->clicks[kept] = h->clicks[j];
            memmove(h->grads + kept * width, h->grads + j * width, width * sizeof *h->grads);
            kept++;
        }
        h->count = kept;
    }
}

/* Applies, sums or drops, as the policy decides, the worker's contribution whose last part has
 * arrived. */
static void finish(ps_store *store, const ps_store_rows *p)
{
    store_rows *r = store->rows;
    store_gift *g = r->coming[p->worker].gift;
    float scale;
    bool is_late;

    r->coming[p->worker] = (store_coming){0};
    switch (ps_book_arrive(&store->book, r->column, p->worker, p->contributor, p->clock, &scale,
                           &is_late)) {
    case PS_APPLY:
        drop_known(store, g, p->clock);
        step(store, (rows_step){.list = g,
                                .clock = p->clock,
                                .share = 1.0 / store->book.contributors,
                                .merge = store->merge_scale,
                                .scale = scale});
        give_back(r, g);
        break;
    case PS_BUFFER:
        add_to_sum(store, g);
        ps_book_add(&store->book, r->column, is_late);
        break;
    case PS_DROP:
        give_back(r, g);
        break;
    }
    ps_book_mark(&store->book, r->column, p->contributor, p->clock + 1);
    store_rows_go_on(store);
}

/* Checks the sender, table, clock, keys and values of a part. Sets *is_old if the part has arrived
 * before; then keys and values are not checked. */
static ps_status check(const ps_store *store, const ps_store_rows *p, bool *is_old)
{
    const store_rows *r = rows_of(store);
    ps_status st;

    *is_old = false;
    if (r == NULL) {
        return ps_fail(PS_INVALID_ARGUMENT, "rows; there are no sparse tables");
    }
    if (!ps_is_ok(&r->broken)) {
        return r->broken;
    }
    st = ps_book_check_worker(&store->book, p->worker, p->contributor);
    if (ps_is_ok(&st) && p->table >= r->tables->table_count) {
        st = ps_fail(PS_INVALID_ARGUMENT, "table %" PRIu32 " of %" PRIu32, p->table,
                     r->tables->table_count);
    }
    if (ps_is_ok(&st)) {
        st = check_turn(store, p, is_old);
    }
    return ps_is_ok(&st) && !*is_old ? check_part(r, p) : st;
}

ps_status ps_store_push_rows(ps_store *store, const ps_store_rows *p)
{
    store_rows *r = store->rows;
    store_coming *c;
    bool is_old;
    ps_status st = check(store, p, &is_old);

    if (!ps_is_ok(&st) || is_old) {
        store->counters.refused += !ps_is_ok(&st);
        store->counters.duplicates += is_old && p->is_last;
        return st;
    }
    c = &r->coming[p->worker];
    if (p->part == 0) {
        if (c->gift != NULL) {
            give_back(r, c->gift);
        }
        *c = (store_coming){.clock = p->clock, .gift = take_gift(r, p->contributor)};
    }
    append(&c->gift->heaps[p->table], p, width_of(r, p->table));
    c->parts++;
    if (p->is_last) {
        finish(store, p);
    }
    store->counters.refused += !ps_is_ok(&r->broken);
    return r->broken;
}

/* ---- Pulls ---- */

bool ps_store_wants_rows(const ps_store *store, uint32_t worker)
{
    return store->rows != NULL && worker < store->book.workers &&
           store->rows->pulls[worker].is_open;
}

void store_rows_cancel(ps_store *store, uint32_t worker)
{
    if (ps_store_wants_rows(store, worker)) {
        store->rows->pulls[worker].is_open = false;
    }
}

ps_status ps_store_rows_begin(ps_store *store, uint32_t worker, uint64_t clock,
                              const uint64_t *keys, size_t count)
{
    store_rows *r = rows_of(store);

    if (worker >= store->book.workers) {
        return ps_fail(PS_INVALID_ARGUMENT, "worker %u of %u", worker, store->book.workers);
    }
    if (r == NULL) {
        return ps_fail(PS_FAILED_PRECONDITION, "rows; there are no sparse tables");
    }
    if (store->book.worker[worker].is_lost) {
        return ps_fail(PS_FAILED_PRECONDITION, "worker %u is lost", worker);
    }
    return r->way->ask(store, worker, clock, keys, count);
}

bool ps_store_rows_next(ps_store *store, uint32_t worker, ps_store_rows_cut *cut, const void *arg,
                        ps_store_rows_answer *answer)
{
    const store_rows *r = rows_of(store);

    if (r == NULL || !ps_store_wants_rows(store, worker)) {
        return false;
    }
    *answer = (ps_store_rows_answer){.clock = r->pulls[worker].clock,
                                     .version = store->book.column[r->column].version};
    return r->way->next(store, worker, cut, arg, answer);
}

/* ---- The tables ---- */

ps_tables *ps_store_tables(ps_store *store)
{
    return store->rows != NULL ? store->rows->tables : NULL;
}

ps_status ps_store_at_clock(ps_store *store, uint64_t clock, ps_store_at_clock_fn *fn, void *arg)
{
    store_rows *r = rows_of(store);

    if (r == NULL) {
        return ps_fail(PS_FAILED_PRECONDITION, "there are no sparse tables that train");
    }
    if (r->due_fn != NULL) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "another call on the tables is due at step %" PRIu64 "; call again after it",
                       r->due_clock);
    }
    if (clock <= r->ticked) {
        return ps_fail(PS_OUT_OF_RANGE,
                       "step %" PRIu64 " is over, the tables are at step %" PRIu64 "; call again",
                       clock, r->ticked);
    }
    r->due_fn = fn;
    r->due_arg = arg;
    r->due_clock = clock;
    return ps_ok();
}

void ps_store_forget_at_clock(ps_store *store, uint64_t clock)
{
    if (store->rows != NULL && store->rows->due_clock == clock) {
        store->rows->due_fn = NULL;
    }
}

bool ps_store_has_rows(const ps_store *store)
{
    return rows_of(store) != NULL;
}

void ps_store_lend_tables(ps_store *store)
{
    if (store->rows != NULL) {
        store->rows->counted = store->rows->way->count(store->rows->tables);
        store->rows->is_lent = true;
    }
}

bool ps_store_has_lent_tables(const ps_store *store)
{
    return store->rows != NULL && store->rows->is_lent;
}

ps_table_counters ps_store_table_counters(const ps_store *store)
{
    const store_rows *r = store->rows;

    return r == NULL ? (ps_table_counters){0} : r->is_lent ? r->counted : r->way->count(r->tables);
}
