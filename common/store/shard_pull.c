/* SPDX-License-Identifier: Apache-2.0 */
/* shard_pull.c - open pulls of slices, and the snapshots that answer them.
 *
 * A pull has two bitmaps: slices that were not given yet, and slices that changed since the policy
 * was last asked about them. So a call that finds no slice ready reads S / 64 words. */
#include "common/store/store_impl.h"

#include "common/base/draw.h"

#include <assert.h>
#include <string.h>

static uint32_t word_count(const ps_store *store)
{
    return (store->slice_count + 63) / 64;
}

void shard_changed(ps_store *store, uint32_t s)
{
    for (uint32_t w = 0, seen = 0; seen < store->waiting; w++) {
        shard_pull *pull = &store->pulls[w];

        if (pull->is_open) {
            pull->unchecked[s / 64] |= UINT64_C(1) << (s % 64);
            seen++;
        }
    }
}

/* Returns whether a pull asks for a later round than the one after the open round. Under a policy
 * with leaves_behind no worker may do that. Always false under other policies. */
static bool is_too_early(const ps_store *store, uint64_t clock)
{
    for (uint32_t c = 0; store->book.policy->leaves_behind && c < store->book.columns; c++) {
        if (clock > store->book.column[c].clock + 1) {
            return true;
        }
    }
    return false;
}

/* Returns whether rows that belong to the worker's pull of slices were not all given yet. */
static bool is_following(const ps_store *store, uint32_t worker)
{
    return store->rows != NULL && store->rows->way->is_following(store, worker);
}

ps_status ps_store_pull_begin(ps_store *store, uint32_t worker, uint64_t clock)
{
    shard_pull *pull;

    if (worker >= store->book.workers) {
        return ps_fail(PS_INVALID_ARGUMENT, "worker %u of %u", worker, store->book.workers);
    }
    if (store->book.worker[worker].is_lost) {
        return ps_fail(PS_FAILED_PRECONDITION, "worker %u is lost", worker);
    }
    pull = &store->pulls[worker];
    if (pull->has_asked && clock < pull->clock) {
        return ps_fail(PS_OUT_OF_RANGE, "clock %llu asked for after %llu",
                       (unsigned long long)clock, (unsigned long long)pull->clock);
    }
    if (clock > pull->clock && (pull->is_open || is_following(store, worker))) {
        return ps_fail(PS_FAILED_PRECONDITION, "clock %llu asked for, %llu is not answered yet",
                       (unsigned long long)clock, (unsigned long long)pull->clock);
    }
    if (is_too_early(store, clock)) {
        return ps_fail(PS_OUT_OF_RANGE, "clock %llu asked for, %llu is not complete",
                       (unsigned long long)clock, (unsigned long long)ps_store_clock(store));
    }
    if (store->rows != NULL) {
        store->rows->way->follow(store, worker, clock);
    }
    store->waiting += !pull->is_open && store->slice_count > 0;
    pull->clock = clock;
    pull->has_asked = true;
    pull->is_whole = false;
    pull->is_open = store->slice_count > 0;
    pull->left = store->slice_count;
    memset(pull->want, 0xff, word_count(store) * sizeof *pull->want);
    memset(pull->unchecked, 0xff, word_count(store) * sizeof *pull->unchecked);
    if (store->slice_count % 64 != 0) {
        pull->want[word_count(store) - 1] = (UINT64_C(1) << (store->slice_count % 64)) - 1;
    }
    if (store->book.policy->leaves_behind) {
        shard_leave_out(store, worker, clock);
    }
    return ps_ok();
}

uint64_t ps_store_pull_clock(const ps_store *store, uint32_t worker)
{
    return store->pulls[worker].clock;
}

void ps_store_pull_whole(ps_store *store, uint32_t worker)
{
    assert(worker < store->book.workers && store->pulls[worker].has_asked);
    store->pulls[worker].is_whole = true;
    if (store->rows != NULL) {
        store->rows->way->changed_all(store, worker);
    }
}

static void close_pull(ps_store *store, shard_pull *pull)
{
    if (pull->is_open) {
        pull->is_open = false;
        store->waiting--;
    }
}

void ps_store_pull_cancel(ps_store *store, uint32_t worker)
{
    if (worker < store->book.workers) {
        close_pull(store, &store->pulls[worker]);
    }
    store_rows_cancel(store, worker);
}

static bool waits_for_slices(const ps_store *store, uint32_t worker)
{
    return worker < store->book.workers && store->pulls[worker].is_open;
}

bool ps_store_is_waiting(const ps_store *store, uint32_t worker)
{
    return waits_for_slices(store, worker) || ps_store_wants_rows(store, worker);
}

/* A buffer that answers a pull, and the head of the encoding in it. */
typedef struct answer_piece {
    ps_buf *buf;
    const ps_encoding *head;
} answer_piece;

/* Returns the slice's weights themselves as an answer, without a copy. Only for codecs that send
 * float32. */
static answer_piece share(shard_slice *slice, ps_buf *weights)
{
    const ps_store_slice *conf = &slice->conf;
    uint8_t none[1];

    ps_codec_encode(conf->down, &conf->down_params, 0, conf->index,
                    (const float *)(const void *)weights->data, 0, none, &slice->snap.head);
    slice->snap.head.msg.payload_bytes = (uint32_t)weights->len;
    return (answer_piece){.buf = weights, .head = &slice->snap.head};
}

void shard_renew_snap(const shard_slice *slice, shard_snap *snap)
{
    const ps_store_slice *conf = &slice->conf;

    if (snap->buf == NULL || atomic_load_explicit(&snap->buf->refs, memory_order_acquire) != 1) {
        ps_buf_unref(snap->buf);
        snap->buf = ps_buf_create(conf->down->size(&conf->down_params, conf->n));
    }
}

static bool is_of(const shard_snap *snap, uint64_t version)
{
    return snap->buf != NULL && snap->version == version;
}

static bool is_encoded(const shard_slice *slice, uint64_t version)
{
    return is_of(&slice->snap, version) || is_of(&slice->snap_before, version);
}

/* Returns the key of the encoding of the slice's weights of `version`. */
static uint64_t key_of(const ps_store *store, const shard_slice *slice, uint64_t version)
{
    return ps_draw_key(store->seed, PS_DRAW_DOWN, slice->conf.index, version, 0);
}

/* Makes the slice's snapshot its snap_before. The buffer of the old snap_before goes to snap, for
 * the next encoding. */
static void keep_snap(shard_slice *slice)
{
    ps_buf *before = slice->snap_before.buf;

    slice->snap_before.buf = slice->snap.buf;
    slice->snap_before.version = slice->snap.version;
    ps_encoding_copy(&slice->snap_before.head, &slice->snap.head.msg);
    slice->snap.buf = before;
}

/* Returns the encoding of the slice's `weights`, which have `version`. Encodes them unless a
 * snapshot of that version exists. Writes into the snapshot's old buffer unless a pull still sends
 * it. */
static answer_piece refresh(ps_store *store, shard_slice *slice, ps_buf *weights, uint64_t version)
{
    const ps_store_slice *conf = &slice->conf;
    shard_snap *snap = &slice->snap;

    if (ps_codec_is_plain(conf->down, &conf->down_params)) {
        return share(slice, weights);
    }
    if (is_of(snap, version)) {
        return (answer_piece){.buf = snap->buf, .head = &snap->head};
    }
    if (is_of(&slice->snap_before, version)) {
        return (answer_piece){.buf = slice->snap_before.buf, .head = &slice->snap_before.head};
    }
    if (store->keeps_before && slice->kept != NULL && snap->buf != NULL) {
        keep_snap(slice);
    }
    shard_renew_snap(slice, snap);
    snap->buf->len = shard_encode_weights(store, slice, (const float *)(const void *)weights->data,
                                          key_of(store, slice, version), snap->buf->data);
    snap->version = version;
    store->counters.encoded++;
    store->counters.encoded_bytes += snap->buf->len;
    return (answer_piece){.buf = snap->buf, .head = &snap->head};
}

void shard_encode_unasked(ps_store *store, uint32_t s)
{
    shard_slice *slice = &store->slices[s];

    /* Weights of clock 0 are never pulled, because workers begin with them. */
    if (store->keeps_before && slice->kept != NULL && !store->broadcasts &&
        ps_book_open_clock(&store->book, s) > 0) {
        (void)refresh(store, slice, slice->weights, slice->col->version);
    }
}

/* Sets *from to the lowest slice, at *from or after, that the policy lets the worker have. Returns
 * false if there is none. */
static bool find_ready(ps_store *store, uint32_t worker, uint32_t *from)
{
    shard_pull *pull = &store->pulls[worker];

    for (uint32_t i = *from / 64; i < word_count(store); i++) {
        uint64_t from_here = i == *from / 64 ? UINT64_MAX << (*from % 64) : UINT64_MAX, bits;

        while ((bits = pull->want[i] & pull->unchecked[i] & from_here) != 0) {
            uint32_t s = i * 64 + (uint32_t)__builtin_ctzll(bits);

            if (ps_book_may_pull(&store->book, s, worker, pull->clock)) {
                *from = s;
                return true;
            }
            pull->unchecked[i] &= ~(UINT64_C(1) << (s % 64));
        }
    }
    return false;
}

/* Returns the weights of slice s with which a pull for `clock` is answered, and sets *version to
 * theirs. */
static ps_buf *weights_for(const ps_store *store, uint32_t s, uint64_t clock, uint64_t *version)
{
    const shard_slice *slice = &store->slices[s];
    bool is_before = slice->is_ahead && shard_is_ahead_of(store, s, clock);

    *version = is_before ? slice->before_version : slice->col->version;
    return is_before ? slice->other : slice->weights;
}

/* Adds the weights of slice s for a pull for `clock` to those that the codec encodes together.
 * Returns false if the codec takes no more. If the encoding exists already, adds nothing and
 * returns true. */
static bool add_ahead(ps_store *store, uint32_t s, uint64_t clock)
{
    const shard_slice *slice = &store->slices[s];
    uint64_t version;
    const ps_buf *weights = weights_for(store, s, clock, &version);

    return is_encoded(slice, version) ||
           shard_encode_ahead(store, slice, (const float *)(const void *)weights->data,
                              key_of(store, slice, version));
}

/* Encodes slice s, and together with it the following slices that the worker may have too, as many
 * as the codec takes at a time. Encodings for which this answer has no room are used by the next
 * one. */
static void encode_together(ps_store *store, uint32_t worker, uint32_t s)
{
    uint64_t clock = store->pulls[worker].clock, version;
    ps_buf *weights = weights_for(store, s, clock, &version);
    uint32_t end = s;

    if (is_encoded(&store->slices[s], version)) {
        return;
    }
    while (find_ready(store, worker, &end) && add_ahead(store, end, clock)) {
        end++;
    }
    ps_codec_run_ahead();
    while (find_ready(store, worker, &s) && s < end) {
        weights = weights_for(store, s, clock, &version);
        if (store->slices[s].kept != NULL) {
            store_before(store, s);
        }
        (void)refresh(store, &store->slices[s], weights, version);
        s++;
    }
    ps_codec_end_ahead();
}

static void give(ps_store *store, uint32_t worker, uint32_t s, ps_store_piece *piece,
                 ps_store_answer *answer)
{
    shard_slice *slice = &store->slices[s];
    shard_pull *pull = &store->pulls[worker];
    bool is_change = shard_gives_change(store, worker, s),
         is_whole = store->broadcasts && !is_change;
    uint64_t version;
    ps_buf *weights = weights_for(store, s, pull->clock, &version);
    answer_piece from;

    if (slice->kept != NULL || store->had != NULL || store->broadcasts) {
        /* A cut that is under way must save what workers were given before this answer changes
         * it. */
        store_before(store, s);
    }
    from = is_change  ? (answer_piece){.buf = slice->snap.buf, .head = &slice->snap.head}
           : is_whole ? (answer_piece){.buf = shard_whole(store, slice), .head = &slice->whole_head}
                      : refresh(store, slice, weights, version);

    *piece = (ps_store_piece){
        .head = &from.head->msg,
        .buf = from.buf,
        .len = from.buf->len,
        .checksum = store->broadcasts ? shard_checksum(slice) : 0,
    };
    answer->is_change = is_change;
    shard_delay_gave(store, worker, s, piece);
    pull->want[s / 64] &= ~(UINT64_C(1) << (s % 64));
    pull->left--;
    ps_book_gave(&store->book, s, worker);
    if (answer->count == 0 || version < answer->version) {
        answer->version = version;
    }
    answer->count++;
    answer->bytes += piece->len;
    store->counters.given++;
    store->counters.bytes_out += piece->len;
    store->counters.f32_bytes_out += slice->conf.n * sizeof(float);
}

void ps_store_pull_next(ps_store *store, uint32_t worker, size_t max_bytes, ps_store_piece *pieces,
                        size_t cap, ps_store_answer *answer)
{
    uint32_t s = 0;
    shard_pull *pull;

    *answer = (ps_store_answer){0};
    if (!waits_for_slices(store, worker)) {
        return;
    }
    pull = &store->pulls[worker];
    answer->clock = pull->clock;
    while (answer->count < cap && find_ready(store, worker, &s)) {
        shard_slice *slice = &store->slices[s];
        size_t bytes = slice->conf.down->size(&slice->conf.down_params, slice->conf.n);

        if (store->broadcasts && bytes < slice->weights->len) {
            /* an upper bound: the weights may be given instead of the change */
            bytes = slice->weights->len;
        }
        assert(bytes <= max_bytes);
        if (answer->bytes + bytes > max_bytes ||
            (answer->count > 0 && answer->is_change != shard_gives_change(store, worker, s)) ||
            (store->book.policy->is_deterministic && answer->count > 0 &&
             slice->col->version != answer->version)) {
            break;
        }
        if (slice->conf.down->ahead != NULL && !store->broadcasts) {
            encode_together(store, worker, s);
        }
        give(store, worker, s, &pieces[answer->count], answer);
    }
    if (pull->left == 0) {
        answer->is_last = true;
        close_pull(store, pull);
    }
}
