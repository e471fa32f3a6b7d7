/* SPDX-License-Identifier: Apache-2.0 */
/* shard_before.c - the weights that slices had before their last step.
 *
 * When a worker is lost within a clock, some slices have been stepped on that clock and others wait
 * for the worker. The clock is then repeated, with the weights that all slices had when it began. A
 * slice that was stepped is ahead of the others. It has all contributions to the clock; they count
 * as repetitions when they come again, so the slice needs no earlier state of the optimizer. Only
 * its earlier weights have to be given to workers once more.
 *
 * A slice keeps these weights, mostly without copying them. It has two buffers: the weights, and a
 * second one. A step writes the new weights to the second buffer, and the two change places. Until
 * the step the second buffer is the memory of the open sum. So the first contribution to the next
 * clock overwrites the earlier weights. No worker sends one before all slices have been stepped. */
#include "common/store/store_impl.h"

#include <assert.h>
#include <string.h>

float *shard_other_to_write(shard_slice *slice)
{
    slice->has_before = slice->is_ahead = false;
    if (slice->other == NULL ||
        atomic_load_explicit(&slice->other->refs, memory_order_acquire) != 1) {
        ps_buf_unref(slice->other);
        slice->other = ps_buf_create(slice->weights->len);
        slice->other->len = slice->weights->len;
    }
    return (float *)(void *)slice->other->data;
}

void shard_keep_before(shard_slice *slice)
{
    ps_buf *before = slice->weights;

    slice->weights = slice->other;
    slice->other = before;
    slice->has_before = true;
    slice->before_version = slice->col->version;
}

bool shard_has_at(const ps_store *store, uint32_t s, uint64_t clock)
{
    uint64_t open = ps_book_open_clock(&store->book, s);

    return open == clock || (open == clock + 1 && store->slices[s].has_before);
}

bool shard_is_ahead_of(const ps_store *store, uint32_t s, uint64_t clock)
{
    return ps_book_open_clock(&store->book, s) > clock;
}
