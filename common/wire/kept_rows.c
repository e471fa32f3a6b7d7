/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/kept_rows.h"

#include "common/base/xalloc.h"
#include "common/wire/row_groups.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The rows of one table in the contribution, as far as one server has them. */
typedef struct table_rows {
    uint64_t *keys; /* (count), in the order in which they were added */
    float *grads;   /* (count, width) */
    uint32_t *shows, *clicks;
    size_t count, cap;
    bool has_seen; /* the rows have shows and clicks */
} table_rows;

typedef struct server_rows {
    uint32_t parts;    /* number of parts of the server that have rows; 0: nothing was added */
    uint32_t last;     /* number of parts whose last message was added */
    table_rows *table; /* (table_count) */
} server_rows;

struct ps_kept_rows {
    const ps_plan *plan;
    uint32_t server_count;
    server_rows *server; /* (server_count) */
};

ps_kept_rows *ps_kept_rows_create(const ps_plan *plan, uint32_t server_count)
{
    ps_kept_rows *r = ps_xcalloc(1, sizeof *r);

    r->plan = plan;
    r->server_count = server_count;
    r->server = ps_xcalloc(server_count, sizeof *r->server);
    for (uint32_t s = 0; s < server_count; s++) {
        r->server[s].table = ps_xcalloc(plan->table_count, sizeof *r->server[s].table);
    }
    return r;
}

void ps_kept_rows_destroy(ps_kept_rows *r)
{
    if (r == NULL) {
        return;
    }
    for (uint32_t s = 0; s < r->server_count; s++) {
        for (uint32_t t = 0; t < r->plan->table_count; t++) {
            table_rows *to = &r->server[s].table[t];

            free(to->keys);
            free(to->grads);
            free(to->shows);
            free(to->clicks);
        }
        free(r->server[s].table);
    }
    free(r->server);
    free(r);
}

/* Makes room for `more` rows after to->count. */
static void reserve(table_rows *to, size_t more, size_t width)
{
    if (to->count + more <= to->cap) {
        return;
    }
    to->cap += to->cap / 2 + more;
    to->keys = ps_xrealloc(to->keys, to->cap * sizeof *to->keys);
    to->grads = ps_xrealloc(to->grads, to->cap * width * sizeof *to->grads);
    to->shows = ps_xrealloc(to->shows, to->cap * sizeof *to->shows);
    to->clicks = ps_xrealloc(to->clicks, to->cap * sizeof *to->clicks);
}

static const uint8_t *view(void *arg, size_t at, size_t len, void *scratch)
{
    (void)len;
    (void)scratch;
    return (const uint8_t *)arg + at;
}

static ps_status append(table_rows *to, const ps_plan *plan, const Psgd__V1__RowGradients *rows,
                        const uint8_t *bytes, size_t len)
{
    const ps_plan_table *table = &plan->tables[rows->table];
    ps_parts_reader reader = {.heads = rows->values,
                              .count = rows->n_values,
                              .view = view,
                              .arg = (void *)(uintptr_t)bytes,
                              .bytes = len};
    ps_status st;

    if (to->count > 0 && rows->n_keys > 0 && to->has_seen != (rows->n_shows > 0)) {
        return ps_fail(PS_DATA_LOSS, "rows of table %" PRIu32 ": only some have shows",
                       rows->table);
    }
    reserve(to, rows->n_keys, table->width);
    st = ps_row_groups_read(&(ps_row_groups){.plan = plan,
                                             .table = rows->table,
                                             .choice = &plan->up[table->variable],
                                             .keys = rows->keys,
                                             .count = rows->n_keys},
                            &reader, to->grads + to->count * table->width);
    st = ps_is_ok(&st) ? ps_parts_end(&reader) : st;
    if (!ps_is_ok(&st) || rows->n_keys == 0) {
        return st;
    }
    memcpy(to->keys + to->count, rows->keys, rows->n_keys * sizeof *to->keys);
    to->has_seen = rows->n_shows > 0;
    if (to->has_seen) {
        memcpy(to->shows + to->count, rows->shows, rows->n_keys * sizeof *to->shows);
        memcpy(to->clicks + to->count, rows->clicks, rows->n_keys * sizeof *to->clicks);
    }
    to->count += rows->n_keys;
    return st;
}

ps_status ps_kept_rows_add(ps_kept_rows *r, uint32_t server, uint32_t parts, const uint8_t *packed,
                           size_t packed_bytes, const uint8_t *bytes, size_t len)
{
    Psgd__V1__RowGradients *rows = psgd__v1__row_gradients__unpack(NULL, packed_bytes, packed);
    server_rows *to;
    ps_status st;

    if (rows == NULL || server >= r->server_count || rows->table >= r->plan->table_count ||
        rows->n_keys > PS_TABLE_KEYS || rows->n_shows != rows->n_clicks ||
        (rows->n_shows > 0 && rows->n_shows != rows->n_keys)) {
        st = ps_fail(PS_DATA_LOSS, "rows of server %" PRIu32 " are none of this job", server);
    } else {
        to = &r->server[server];
        to->parts = parts;
        to->last += rows->is_last ? 1 : 0;
        st = append(&to->table[rows->table], r->plan, rows, bytes, len);
    }
    if (rows != NULL) {
        psgd__v1__row_gradients__free_unpacked(rows, NULL);
    }
    return st;
}

typedef struct place {
    uint64_t key;
    size_t at;
} place;

static int compare(const void *a, const void *b)
{
    uint64_t x = ((const place *)a)->key, y = ((const place *)b)->key;

    return (x > y) - (x < y);
}

/* Sorts the rows by their keys, as ps_store_push_rows requires. The keys of one part of a server
 * ascend, but all rows of one part come before those of the next. */
static void sort(table_rows *rows, size_t width)
{
    place *order = ps_xcalloc(rows->count + 1, sizeof *order);
    table_rows sorted = {.has_seen = rows->has_seen};

    for (size_t i = 0; i < rows->count; i++) {
        order[i] = (place){.key = rows->keys[i], .at = i};
    }
    qsort(order, rows->count, sizeof *order, compare);
    reserve(&sorted, rows->count, width);
    for (size_t i = 0; i < rows->count; i++) {
        size_t at = order[i].at;

        sorted.keys[i] = rows->keys[at];
        memcpy(sorted.grads + i * width, rows->grads + at * width, width * sizeof *sorted.grads);
        sorted.shows[i] = rows->has_seen ? rows->shows[at] : 0;
        sorted.clicks[i] = rows->has_seen ? rows->clicks[at] : 0;
    }
    sorted.count = rows->count;
    free(order);
    free(rows->keys);
    free(rows->grads);
    free(rows->shows);
    free(rows->clicks);
    *rows = sorted;
}

static ps_status push_table(const ps_kept_rows *r, table_rows *rows, ps_store_rows what,
                            ps_store *store)
{
    if (rows->count > 0) {
        sort(rows, r->plan->tables[what.table].width);
    }
    what.keys = rows->keys;
    what.count = rows->count;
    what.grads = rows->grads;
    what.shows = rows->has_seen ? rows->shows : NULL;
    what.clicks = rows->has_seen ? rows->clicks : NULL;
    return ps_store_push_rows(store, &what);
}

ps_status ps_kept_rows_push(ps_kept_rows *r, uint32_t worker, uint64_t clock, uint32_t contributor,
                            ps_store *const *stores)
{
    uint32_t tables = r->plan->table_count;
    ps_status st = ps_ok();

    for (uint32_t s = 0; s < r->server_count; s++) {
        server_rows *from = &r->server[s];
        bool is_whole = from->parts > 0 && from->last == from->parts && stores[s] != NULL;

        for (uint32_t t = 0; t < tables && is_whole && ps_is_ok(&st); t++) {
            st = push_table(r, &from->table[t],
                            (ps_store_rows){.worker = worker,
                                            .clock = clock,
                                            .contributor = contributor,
                                            .part = t,
                                            .table = t,
                                            .is_last = t + 1 == tables},
                            stores[s]);
        }
        from->last = from->parts = 0;
        for (uint32_t t = 0; t < tables; t++) {
            from->table[t].count = 0;
        }
    }
    return st;
}
