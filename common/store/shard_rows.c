/* SPDX-License-Identifier: Apache-2.0 */
/* shard_rows.c - slices of an embedding's table: steps touch the rows that somebody sent, and
 * answers bring the rows that have changed since the worker's last one.
 *
 * Rows stand in a ring, the one changed last in front, so that those changed since a version
 * are found without a look at the others. What a step or an answer costs goes by the rows that
 * it is about.
 */
#include "common/store/store_impl.h"

#include "common/base/rowset.h"
#include "common/base/xalloc.h"
#include "common/codec/feedback.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct shard_rows {
    uint32_t width, count; /* R rows */
    float *sum;            /* (n) the open sum, zeros but in rows of in_sum; NULL: none is kept */
    bool owns_sum;
    ps_rowset *in_sum;
    uint64_t *changed;     /* (R) version that a row was changed by */
    uint16_t *next, *prev; /* (R + 1): the ring, newest first; R is its head */
    uint64_t *base;        /* (W) version that the worker has for certain */
    uint64_t *first;       /* (W) the first one given for the clock asked for last; NOT_GIVEN */
    uint64_t *first_for;   /* (W) that clock */
    uint64_t snap_from;    /* the snapshot is what has changed since */
};

#define NOT_GIVEN UINT64_MAX

struct shard_rows_room {
    ps_rowset *sorter;                /* (PS_CODEC_VALUES) */
    uint16_t at[PS_CODEC_VALUES];     /* rows of a slice, */
    uint32_t id[PS_CODEC_VALUES];     /* the same, */
    float packed[PS_CODEC_VALUES];    /* and their values */
    float increment[PS_CODEC_VALUES]; /* the same */
    ps_buf *nothing;                  /* bytes of an answer without any */
};

static ps_rowset *set_of(uint32_t rows)
{
    ps_rowset *set = ps_rowset_create(rows);

    assert(set != NULL); /* as xalloc.h: a size that we choose */
    return set;
}

void shard_rows_init(ps_store *store, shard_slice *slice)
{
    const ps_store_slice *conf = &slice->conf;
    shard_rows *r;

    if (conf->row == 0) {
        return;
    }
    assert(conf->n % conf->row == 0 && store->had == NULL && !store->broadcasts);
    assert(conf->up->sum_add == NULL && !ps_feedback_differs(conf->up, &conf->up_params));
    if (store->rows_room == NULL) {
        store->rows_room = ps_xcalloc(1, sizeof *store->rows_room);
        store->rows_room->sorter = set_of(PS_CODEC_VALUES);
        store->rows_room->nothing = ps_buf_create(1);
    }
    r = slice->rows = ps_xcalloc(1, sizeof *r);
    r->width = conf->row;
    r->count = conf->n / conf->row;
    if (store->book.buffers) {
        r->owns_sum = store->sums == NULL;
        r->sum = r->owns_sum ? ps_xcalloc(conf->n, sizeof *r->sum) : store->sums + slice->at;
        r->in_sum = set_of(r->count);
    }
    r->changed = ps_xcalloc(r->count, sizeof *r->changed);
    r->next = ps_xcalloc(r->count + 1u, sizeof *r->next);
    r->prev = ps_xcalloc(r->count + 1u, sizeof *r->prev);
    for (uint32_t i = 0; i <= r->count; i++) {
        r->next[i] = (uint16_t)(i == r->count ? 0 : i + 1);
        r->prev[i] = (uint16_t)(i == 0 ? r->count : i - 1);
    }
    r->base = ps_xcalloc(store->book.workers, sizeof *r->base);
    r->first = ps_xcalloc(store->book.workers, sizeof *r->first);
    r->first_for = ps_xcalloc(store->book.workers, sizeof *r->first_for);
    memset(r->first, 0xff, store->book.workers * sizeof *r->first);
}

void shard_rows_fini(shard_slice *slice)
{
    shard_rows *r = slice->rows;

    if (r != NULL) {
        if (r->owns_sum) {
            free(r->sum);
        }
        ps_rowset_destroy(r->in_sum);
        free(r->changed);
        free(r->next);
        free(r->prev);
        free(r->base);
        free(r->first);
        free(r->first_for);
        free(r);
    }
}

void shard_rows_room_fini(ps_store *store)
{
    if (store->rows_room != NULL) {
        ps_rowset_destroy(store->rows_room->sorter);
        ps_buf_unref(store->rows_room->nothing);
        free(store->rows_room);
        store->rows_room = NULL;
    }
}

/* ---- Steps ---- */

/* A contribution's rows and values into the room; how many rows. */
static size_t unpack(ps_store *store, const shard_slice *slice, const Psgd__V1__Encoding *head,
                     const uint8_t *bytes, size_t len)
{
    shard_rows_room *room = store->rows_room;
    size_t count;
    ps_status st = ps_codec_unpack(slice->conf.up, head, bytes, len, slice->conf.n, slice->conf.row,
                                   room->at, &count, room->packed);

    assert(ps_is_ok(&st)); /* it was checked when it came */
    return count;
}

/* The row is the newest. */
static void move_to_front(shard_rows *r, uint16_t row)
{
    uint16_t head = (uint16_t)r->count;

    r->next[r->prev[row]] = r->next[row];
    r->prev[r->next[row]] = r->prev[row];
    r->next[row] = r->next[head];
    r->prev[row] = head;
    r->prev[r->next[row]] = row;
    r->next[head] = row;
}

/* w -= scale * step(g * merge) in the `count` rows room->id, of which room->packed are g. */
static void step(ps_store *store, shard_slice *slice, ps_moment at, size_t count, float merge,
                 float scale)
{
    shard_rows_room *room = store->rows_room;
    shard_rows *r = slice->rows;
    ps_rows rows = {.id = room->id, .count = count, .width = r->width};
    size_t n = slice->conf.n, values = count * r->width;
    float *w = count > 0 ? shard_weights_to_write(slice) : NULL;
    const float *d = room->packed;

    for (size_t i = 0; merge != 1.0f && i < values; i++) {
        room->packed[i] *= merge;
    }
    if (count > 0 && shard_is_descending(store, slice)) {
        ps_descent_increment_rows(&store->descent, at, &rows, room->packed, w,
                                  shard_state_of(store, slice), room->increment, n);
        d = room->increment;
    }
    for (size_t j = 0; j < count; j++) {
        float *to = w + (size_t)room->id[j] * r->width;

        for (size_t i = 0; i < r->width; i++) {
            to[i] -= scale != 1.0f ? d[j * r->width + i] * scale : d[j * r->width + i];
        }
        r->changed[room->id[j]] = slice->col->version + 1;
        move_to_front(r, (uint16_t)room->id[j]);
    }
    slice->col->version++;
    store->counters.steps++;
}

void shard_rows_apply(ps_store *store, shard_slice *slice, uint64_t clock,
                      const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len, float scale)
{
    shard_rows_room *room = store->rows_room;
    size_t count = unpack(store, slice, head, bytes, len);
    ps_moment at = {
        .t = slice->col->version + 1, .step = clock, .share = 1.0 / store->book.contributors};

    for (size_t j = 0; j < count; j++) {
        room->id[j] = room->at[j];
    }
    step(store, slice, at, count, store->merge_scale, scale);
}

void shard_rows_add(ps_store *store, shard_slice *slice, const Psgd__V1__Encoding *head,
                    const uint8_t *bytes, size_t len)
{
    const shard_rows_room *room = store->rows_room;
    size_t count = unpack(store, slice, head, bytes, len);
    shard_rows *r = slice->rows;

    for (size_t j = 0; j < count; j++) {
        float *to = r->sum + (size_t)room->at[j] * r->width;
        const float *from = room->packed + j * r->width;

        ps_rowset_add(r->in_sum, room->at[j]);
        for (size_t i = 0; i < r->width; i++) {
            to[i] += from[i];
        }
    }
    slice->sum = r->sum;
}

void shard_rows_close(ps_store *store, shard_slice *slice, ps_moment at, float merge)
{
    shard_rows_room *room = store->rows_room;
    shard_rows *r = slice->rows;
    size_t count;
    const uint32_t *id = ps_rowset_list(r->in_sum, &count);

    for (size_t j = 0; j < count; j++) {
        float *from = r->sum + (size_t)id[j] * r->width;

        room->id[j] = id[j];
        memcpy(room->packed + j * r->width, from, r->width * sizeof *from);
        memset(from, 0, r->width * sizeof *from);
    }
    ps_rowset_clear(r->in_sum);
    step(store, slice, at, count, merge, 1.0f);
}

/* ---- Answers ---- */

void shard_rows_asked(ps_store *store, uint32_t worker, uint64_t clock)
{
    for (uint32_t s = 0; store->rows_room != NULL && s < store->slice_count; s++) {
        shard_rows *r = store->slices[s].rows;

        if (r != NULL && r->first[worker] != NOT_GIVEN && clock > r->first_for[worker]) {
            r->base[worker] = r->first[worker];
            r->first[worker] = NOT_GIVEN;
        }
    }
}

void shard_rows_forget(ps_store *store, uint32_t worker)
{
    for (uint32_t s = 0; store->rows_room != NULL && s < store->slice_count; s++) {
        shard_rows *r = store->slices[s].rows;

        if (r != NULL) {
            r->base[worker] = 0;
            r->first[worker] = NOT_GIVEN;
        }
    }
}

/* Rows changed since `base`, ascending, into room->at. */
static size_t find_changed(ps_store *store, const shard_rows *r, uint64_t base)
{
    shard_rows_room *room = store->rows_room;
    const uint32_t *id;
    size_t count;

    ps_rowset_clear(room->sorter);
    for (uint16_t i = r->next[r->count]; i != r->count && r->changed[i] > base; i = r->next[i]) {
        ps_rowset_add(room->sorter, i);
    }
    id = ps_rowset_list(room->sorter, &count);
    for (size_t j = 0; j < count; j++) {
        room->at[j] = (uint16_t)id[j];
    }
    return count;
}

/* The snapshot's buffer becomes one for so many rows that nobody reads. */
static void renew_snap(shard_slice *slice, size_t count)
{
    size_t all = slice->conf.n * sizeof(float);
    size_t some = count * (slice->conf.row * sizeof(float) + sizeof(uint16_t)) + 1;
    size_t bytes = some < all ? some : all;

    if (slice->snap == NULL || slice->snap->cap < bytes ||
        atomic_load_explicit(&slice->snap->refs, memory_order_acquire) != 1) {
        ps_buf_unref(slice->snap);
        slice->snap = ps_buf_create(bytes);
    }
}

ps_buf *shard_rows_give(ps_store *store, shard_slice *slice, uint32_t worker,
                        const Psgd__V1__Encoding **head)
{
    const ps_store_slice *conf = &slice->conf;
    const float *w = (const float *)(const void *)slice->weights->data;
    shard_rows *r = slice->rows;
    uint16_t newest = r->next[r->count];
    uint64_t base = r->base[worker];

    if (r->first[worker] == NOT_GIVEN) {
        r->first[worker] = slice->col->version;
        r->first_for[worker] = store->pulls[worker].clock;
    }
    if (r->changed[newest] <= base) {
        *head = &slice->whole_head.msg;
        (void)ps_codec_encode_changed(conf->down, &conf->down_params, conf->index, w, conf->n,
                                      r->width, NULL, 0, store->rows_room->nothing->data,
                                      &slice->whole_head);
        return store->rows_room->nothing;
    }
    *head = &slice->snap_head.msg;
    if (slice->snap == NULL || slice->snap_version != slice->col->version || r->snap_from != base) {
        size_t count = find_changed(store, r, base);

        renew_snap(slice, count);
        slice->snap->len = ps_codec_encode_changed(conf->down, &conf->down_params, conf->index, w,
                                                   conf->n, r->width, store->rows_room->at, count,
                                                   slice->snap->data, &slice->snap_head);
        slice->snap_version = slice->col->version;
        r->snap_from = base;
        store->counters.encoded++;
        store->counters.encoded_bytes += slice->snap->len;
    }
    return slice->snap;
}

/* ---- Save and load ---- */

float *shard_rows_sum(const shard_slice *slice)
{
    return slice->rows->sum;
}

/* u64 version that each row was changed by; u16 rows, the newest first; (W) u64 base, (W) u64
 * first, (W) u64 first_for; u32 rows of the open sum; u32 each. */
void shard_rows_put(const ps_store *store, const shard_slice *slice, ps_state_out *out)
{
    const shard_rows *r = slice->rows;
    const uint32_t *id = NULL;
    size_t count = 0;

    ps_state_put(out, r->changed, r->count * sizeof *r->changed);
    for (uint16_t i = r->next[r->count]; i != r->count; i = r->next[i]) {
        ps_state_put(out, &i, sizeof i);
    }
    ps_state_put(out, r->base, store->book.workers * sizeof *r->base);
    ps_state_put(out, r->first, store->book.workers * sizeof *r->first);
    ps_state_put(out, r->first_for, store->book.workers * sizeof *r->first_for);
    if (r->in_sum != NULL) {
        id = ps_rowset_list(r->in_sum, &count);
    }
    ps_state_put_u32(out, (uint32_t)count);
    ps_state_put(out, id, count * sizeof *id);
}

/* Makes the ring anew in the order of the file, which must be one of all rows. */
static void take_ring(ps_store *store, shard_rows *r, ps_state_in *in)
{
    uint16_t last = (uint16_t)r->count;
    size_t count;

    ps_rowset_clear(store->rows_room->sorter);
    for (uint32_t j = 0; ps_state_is_ok(in) && j < r->count; j++) {
        uint16_t row;

        ps_state_take(in, &row, sizeof row);
        if (row >= r->count) {
            ps_state_fail(in, "row %u of %" PRIu32, (unsigned)row, r->count);
            return;
        }
        ps_rowset_add(store->rows_room->sorter, row);
        r->next[last] = row;
        r->prev[row] = last;
        last = row;
    }
    r->next[last] = (uint16_t)r->count;
    r->prev[r->count] = last;
    (void)ps_rowset_list(store->rows_room->sorter, &count);
    if (ps_state_is_ok(in) && count != r->count) {
        ps_state_fail(in, "%zu rows in the order of changes; there are %" PRIu32, count, r->count);
    }
}

void shard_rows_take(ps_store *store, shard_slice *slice, ps_state_in *in)
{
    shard_rows *r = slice->rows;
    uint32_t count;

    ps_state_take(in, r->changed, r->count * sizeof *r->changed);
    take_ring(store, r, in);
    ps_state_take(in, r->base, store->book.workers * sizeof *r->base);
    ps_state_take(in, r->first, store->book.workers * sizeof *r->first);
    ps_state_take(in, r->first_for, store->book.workers * sizeof *r->first_for);
    count = ps_state_take_count(in, "rows of the open sum", r->in_sum != NULL ? r->count : 0);
    for (uint32_t i = 0; ps_state_is_ok(in) && i < count; i++) {
        uint32_t row = ps_state_take_u32(in);

        if (row >= r->count) {
            ps_state_fail(in, "row %" PRIu32 " of %" PRIu32, row, r->count);
        } else {
            ps_rowset_add(r->in_sum, row);
        }
    }
}
