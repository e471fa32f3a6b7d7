/* SPDX-License-Identifier: Apache-2.0 */
/* shard_pull.c - who wishes for which slices, and their snapshots.
 *
 * A wish keeps two bitmaps: slices not given yet, and slices that may have
 * become ready since the policy was last asked about them. So a call after
 * which nothing is ready costs a look at S / 64 words.
 */
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
        shard_wish *wish = &store->wish[w];

        if (wish->is_open) {
            wish->unchecked[s / 64] |= UINT64_C(1) << (s % 64);
            seen++;
        }
    }
}

/* Nobody can be due for more than the round after the open one. */
static bool is_too_early(const ps_store *store, uint64_t clock)
{
    for (uint32_t s = 0; store->book.policy->leaves_behind && s < store->slice_count; s++) {
        if (clock > store->slices[s].col->clock + 1) {
            return true;
        }
    }
    return false;
}

ps_status ps_store_pull_begin(ps_store *store, uint32_t worker, uint64_t clock)
{
    shard_wish *wish;

    if (worker >= store->book.workers) {
        return ps_fail(PS_INVALID_ARGUMENT, "worker %u of %u", worker, store->book.workers);
    }
    if (store->book.worker[worker].is_lost) {
        return ps_fail(PS_FAILED_PRECONDITION, "worker %u is lost", worker);
    }
    wish = &store->wish[worker];
    if (wish->has_asked && clock < wish->clock) {
        return ps_fail(PS_OUT_OF_RANGE, "clock %llu asked for after %llu",
                       (unsigned long long)clock, (unsigned long long)wish->clock);
    }
    if (wish->is_open && clock > wish->clock) {
        return ps_fail(PS_FAILED_PRECONDITION, "clock %llu asked for, %llu is not answered yet",
                       (unsigned long long)clock, (unsigned long long)wish->clock);
    }
    if (is_too_early(store, clock)) {
        return ps_fail(PS_OUT_OF_RANGE, "clock %llu asked for, %llu is not complete",
                       (unsigned long long)clock, (unsigned long long)ps_store_clock(store));
    }
    shard_rows_asked(store, worker, clock);
    store->waiting += wish->is_open ? 0 : 1;
    wish->clock = clock;
    wish->has_asked = true;
    wish->is_whole = false;
    wish->is_open = true;
    wish->left = store->slice_count;
    memset(wish->want, 0xff, word_count(store) * sizeof *wish->want);
    memset(wish->unchecked, 0xff, word_count(store) * sizeof *wish->unchecked);
    if (store->slice_count % 64 != 0) {
        wish->want[word_count(store) - 1] = (UINT64_C(1) << (store->slice_count % 64)) - 1;
    }
    if (store->book.policy->leaves_behind) {
        shard_leave_out(store, worker, clock);
    }
    return ps_ok();
}

void ps_store_pull_whole(ps_store *store, uint32_t worker)
{
    assert(worker < store->book.workers && store->wish[worker].is_open);
    store->wish[worker].is_whole = true;
    shard_rows_forget(store, worker);
}

static void close_wish(ps_store *store, shard_wish *wish)
{
    if (wish->is_open) {
        wish->is_open = false;
        store->waiting--;
    }
}

void ps_store_pull_cancel(ps_store *store, uint32_t worker)
{
    if (worker < store->book.workers) {
        close_wish(store, &store->wish[worker]);
    }
    store_rows_cancel(store, worker);
}

static bool waits_for_slices(const ps_store *store, uint32_t worker)
{
    return worker < store->book.workers && store->wish[worker].is_open;
}

bool ps_store_is_waiting(const ps_store *store, uint32_t worker)
{
    return waits_for_slices(store, worker) || ps_store_wants_rows(store, worker);
}

/* Under a codec that changes nothing the weights are their own snapshot. */
static ps_buf *share(shard_slice *slice)
{
    const ps_store_slice *conf = &slice->conf;
    uint8_t none[1];

    ps_codec_encode(conf->down, &conf->down_params, 0, conf->index,
                    (const float *)(const void *)slice->weights->data, 0, none, &slice->snap_head);
    slice->snap_head.msg.payload_bytes = (uint32_t)slice->weights->len;
    return slice->weights;
}

void shard_renew_snap(shard_slice *slice)
{
    const ps_store_slice *conf = &slice->conf;

    if (slice->snap == NULL ||
        atomic_load_explicit(&slice->snap->refs, memory_order_acquire) != 1) {
        ps_buf_unref(slice->snap);
        slice->snap = ps_buf_create(conf->down->size(&conf->down_params, conf->n));
    }
}

/* Encodes the slice if it is not what the snapshot holds. The buffer is used
 * again unless somebody still sends the old one. */
static ps_buf *refresh(ps_store *store, shard_slice *slice)
{
    const ps_store_slice *conf = &slice->conf;
    uint64_t key;

    if (ps_codec_is_plain(conf->down, &conf->down_params)) {
        return share(slice);
    }
    if (slice->snap != NULL && slice->snap_version == slice->col->version) {
        return slice->snap;
    }
    shard_renew_snap(slice);
    key = ps_draw_key(store->seed, PS_DRAW_DOWN, conf->index, slice->col->version, 0);
    slice->snap->len = shard_encode_weights(store, slice, key, slice->snap->data);
    slice->snap_version = slice->col->version;
    store->counters.encoded++;
    store->counters.encoded_bytes += slice->snap->len;
    return slice->snap;
}

/* The lowest slice that the policy lets go, at or after *from; false if none. */
static bool find_ready(ps_store *store, uint32_t worker, uint32_t *from)
{
    shard_wish *wish = &store->wish[worker];

    for (uint32_t i = *from / 64; i < word_count(store); i++) {
        uint64_t bits;

        while ((bits = wish->want[i] & wish->unchecked[i]) != 0) {
            uint32_t s = i * 64 + (uint32_t)__builtin_ctzll(bits);

            if (ps_book_may_pull(&store->book, s, worker, wish->clock)) {
                *from = s;
                return true;
            }
            wish->unchecked[i] &= ~(UINT64_C(1) << (s % 64));
        }
    }
    return false;
}

static void give(ps_store *store, uint32_t worker, uint32_t s, ps_store_piece *piece,
                 ps_store_answer *answer)
{
    shard_slice *slice = &store->slices[s];
    shard_wish *wish = &store->wish[worker];
    bool is_change = shard_gives_change(store, worker, s),
         is_whole = store->broadcasts && !is_change;
    const Psgd__V1__Encoding *head = is_whole ? &slice->whole_head.msg : &slice->snap_head.msg;
    ps_buf *buf = is_change                ? slice->snap
                  : is_whole               ? shard_whole(store, slice)
                  : slice->conf.gives_rows ? shard_rows_give(store, slice, worker, &head)
                                           : refresh(store, slice);

    *piece = (ps_store_piece){
        .head = head,
        .buf = buf,
        .len = buf->len,
        .checksum = store->broadcasts ? shard_checksum(slice) : 0,
    };
    answer->is_change = is_change;
    shard_delay_gave(store, worker, s, piece);
    wish->want[s / 64] &= ~(UINT64_C(1) << (s % 64));
    wish->left--;
    ps_book_gave(&store->book, s, worker);
    if (answer->count == 0 || slice->col->version < answer->version) {
        answer->version = slice->col->version;
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
    shard_wish *wish;

    *answer = (ps_store_answer){0};
    if (!waits_for_slices(store, worker)) {
        return;
    }
    wish = &store->wish[worker];
    answer->clock = wish->clock;
    while (answer->count < cap && find_ready(store, worker, &s)) {
        shard_slice *slice = &store->slices[s];
        size_t bytes = slice->conf.down->size(&slice->conf.down_params, slice->conf.n);

        if (store->broadcasts && bytes < slice->weights->len) {
            bytes = slice->weights->len; /* it may be those */
        }
        assert(bytes <= max_bytes);
        if (answer->bytes + bytes > max_bytes ||
            (answer->count > 0 && answer->is_change != shard_gives_change(store, worker, s)) ||
            (store->book.policy->is_deterministic && answer->count > 0 &&
             slice->col->version != answer->version)) {
            break;
        }
        give(store, worker, s, &pieces[answer->count], answer);
    }
    if (wish->left == 0) {
        answer->is_last = true;
        close_wish(store, wish);
    }
}
