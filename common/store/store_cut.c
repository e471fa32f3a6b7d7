/* SPDX-License-Identifier: Apache-2.0 */
/* store_cut.c - saves a store while it goes on (store.h).
 *
 * The unit is a virtual shard, because a section of the file is one. Whatever changes a slice calls
 * store_before first; if the slice's section was not written yet, that writes it. */
#include "common/store/store_impl.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct store_cut {
    ps_store_cut_sink sink;
    ps_state_out out;
    int64_t now_us; /* the book's now_us when the cut began; again while a section is written */
    /* copy of the book's `given` when the cut began, because pulls change `given` */
    uint64_t *given;
    uint32_t next; /* all virtual shards below it are written */
    bool is_written[PS_SHARDS];
};

void ps_store_cut_begin(ps_store *store, const ps_store_cut_sink *sink)
{
    const ps_book *book = &store->book;
    size_t bytes = (size_t)book->columns * book->workers * sizeof *book->given;

    assert(store->rows == NULL && store->slices != NULL);
    ps_store_cut_drop(store);
    store->cut = ps_xcalloc(1, sizeof *store->cut);
    store->cut->sink = *sink;
    store->cut->now_us = book->now_us;
    store->cut->given = ps_xmalloc(bytes);
    memcpy(store->cut->given, book->given, bytes);
    store_file_begin(store, &store->cut->out, sink->write, sink->arg);
}

/* Gives the weights of the slices of a virtual shard to the sink. */
static ps_status give_weights(const ps_store *store, uint32_t shard)
{
    const ps_store_cut_sink *sink = &store->cut->sink;
    ps_status st = ps_ok();

    for (uint32_t s = 0; s < store->slice_count && ps_is_ok(&st); s++) {
        const shard_slice *slice = &store->slices[s];

        if (slice->conf.index % PS_SHARDS == shard) {
            st = sink->weights(sink->arg, s, (const float *)(const void *)slice->weights->data,
                               slice->conf.n);
        }
    }
    return st;
}

static void write_shard(ps_store *store, uint32_t shard)
{
    store_cut *cut = store->cut;
    int64_t now_us = store->book.now_us;
    uint64_t *given = store->book.given;

    cut->is_written[shard] = true;
    if (!ps_is_ok(&cut->out.status) || shard_count(store, shard) == 0) {
        return;
    }
    cut->sink.watch(cut->sink.arg, true);
    store->book.now_us = cut->now_us; /* times in the file are relative to it */
    store->book.given = cut->given;
    store_file_put_slices(store, shard, &cut->out);
    store->book.now_us = now_us;
    store->book.given = given;
    if (ps_is_ok(&cut->out.status)) {
        cut->out.status = give_weights(store, shard);
    }
    cut->sink.watch(cut->sink.arg, false);
}

void store_cut_before(ps_store *store, uint32_t s)
{
    uint32_t shard = store->slices[s].conf.index % PS_SHARDS;

    if (!store->cut->is_written[shard]) {
        write_shard(store, shard);
    }
}

bool ps_store_cut_next(ps_store *store)
{
    store_cut *cut = store->cut;

    while (cut->next < PS_SHARDS && cut->is_written[cut->next]) {
        cut->next++;
    }
    if (cut->next == PS_SHARDS || !ps_is_ok(&cut->out.status)) {
        return false;
    }
    write_shard(store, cut->next);
    return true;
}

void store_cut_all(ps_store *store)
{
    while (store->cut != NULL && ps_store_cut_next(store)) {
    }
}

static void forget(ps_store *store)
{
    free(store->cut->given);
    free(store->cut);
    store->cut = NULL;
}

ps_status ps_store_cut_end(ps_store *store)
{
    ps_status st;

    store_cut_all(store);
    st = ps_state_out_end(&store->cut->out);
    forget(store);
    return st;
}

void ps_store_cut_drop(ps_store *store)
{
    if (store->cut != NULL) {
        ps_status st = ps_state_out_part(&store->cut->out);

        /* The caller gives the file up, so it does not matter whether it could be written. */
        (void)st;
        forget(store);
    }
}
