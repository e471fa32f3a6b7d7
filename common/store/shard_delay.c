/* SPDX-License-Identifier: Apache-2.0 */
/* shard_delay.c - keeps the weights that each worker has, to correct its gradients for their
 * delay. */
#include "common/store/store_impl.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static float *had_by(const ps_store *store, const shard_slice *slice, uint32_t worker)
{
    return store->had + worker * store->value_count + slice->at;
}

void shard_delay_init(ps_store *store)
{
    if (!(store->delay.lambda > 0)) {
        return;
    }
    /* Under policies that sum, all gradients of a sum are computed with the same weights: no
     * gradient has a delay. */
    assert(store->book.policy->closes == NULL);
    store->had = ps_xcalloc(store->book.workers * store->value_count, sizeof *store->had);
    if (store->delay.decay > 0) {
        store->mean_square = ps_xcalloc(store->value_count, sizeof *store->mean_square);
    }
    for (uint32_t w = 0; w < store->book.workers; w++) {
        /* all workers begin with these weights */
        for (uint32_t s = 0; s < store->slice_count; s++) {
            const shard_slice *slice = &store->slices[s];

            memcpy(had_by(store, slice, w), slice->weights->data, slice->weights->len);
        }
    }
}

void shard_delay_fini(ps_store *store)
{
    free(store->had);
    free(store->mean_square);
    store->had = store->mean_square = NULL;
}

void shard_delay_gave(ps_store *store, uint32_t worker, uint32_t s, const ps_store_piece *piece)
{
    const shard_slice *slice = &store->slices[s];

    /* keeps what the worker decodes, which may differ from what was encoded */
    if (store->had != NULL) {
        ps_codec_decode_own(piece->head, piece->buf->data + piece->at, had_by(store, slice, worker),
                            slice->conf.n);
    }
}

const float *shard_delay_correct(ps_store *store, uint32_t worker, uint32_t s, const float *g)
{
    const shard_slice *slice = &store->slices[s];

    if (store->had == NULL || slice->conf.is_state) {
        return g;
    }
    ps_delay_correct(store->delay, g, (const float *)(const void *)slice->weights->data,
                     had_by(store, slice, worker),
                     store->mean_square == NULL ? NULL : store->mean_square + slice->at,
                     store->scratch, slice->conf.n);
    return store->scratch;
}
