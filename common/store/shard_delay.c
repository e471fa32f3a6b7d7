/* SPDX-License-Identifier: Apache-2.0 */
/* shard_delay.c - what each worker was given, for the correction of its gradients. */
#include "common/store/shard_state.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static float *had_by(const ps_shard *shard, const shard_slice *slice, uint32_t worker)
{
    return shard->had + worker * shard->value_count + slice->at;
}

void shard_delay_init(ps_shard *shard)
{
    if (!(shard->delay.lambda > 0)) {
        return;
    }
    assert(shard->book.policy->closes == NULL); /* sums are of gradients at these weights */
    shard->had = ps_xcalloc(shard->book.workers * shard->value_count, sizeof *shard->had);
    if (shard->delay.decay > 0) {
        shard->mean_square = ps_xcalloc(shard->value_count, sizeof *shard->mean_square);
    }
    for (uint32_t w = 0; w < shard->book.workers; w++) {
        for (uint32_t s = 0; s < shard->slice_count; s++) { /* all begin with these */
            const shard_slice *slice = &shard->slices[s];

            memcpy(had_by(shard, slice, w), slice->weights->data, slice->weights->len);
        }
    }
}

void shard_delay_fini(ps_shard *shard)
{
    free(shard->had);
    free(shard->mean_square);
}

void shard_delay_gave(ps_shard *shard, uint32_t worker, uint32_t s, const ps_shard_piece *piece)
{
    const shard_slice *slice = &shard->slices[s];
    ps_status st;

    if (shard->had != NULL) { /* as it comes out there, not as it is here */
        st = ps_codec_decode(slice->conf.down, piece->head, piece->buf->data + piece->at,
                             piece->len, PS_INTO_SET, had_by(shard, slice, worker), slice->conf.n);
        assert(ps_is_ok(&st));
    }
}

const float *shard_delay_correct(ps_shard *shard, uint32_t worker, uint32_t s, const float *g)
{
    const shard_slice *slice = &shard->slices[s];

    if (shard->had == NULL || slice->conf.is_state) {
        return g;
    }
    ps_delay_correct(shard->delay, g, (const float *)(const void *)slice->weights->data,
                     had_by(shard, slice, worker),
                     shard->mean_square == NULL ? NULL : shard->mean_square + slice->at,
                     shard->scratch, slice->conf.n);
    return shard->scratch;
}
