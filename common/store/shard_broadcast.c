/* SPDX-License-Identifier: Apache-2.0 */
/* shard_broadcast.c - encodes the change of a step once, for the store itself and for all workers.
 *
 * A slice keeps the change of its last step. A worker that was given the previous version is given
 * this change. Every other worker, and one that says that its replica is lost, is given the weights
 * as float32. With either goes the checksum of the weights. */
#include "common/store/store_impl.h"

#include "common/base/draw.h"
#include "common/codec/feedback.h"
#include "common/store/replica.h"

void shard_broadcast(ps_store *store, shard_slice *slice, float *w)
{
    const ps_store_slice *conf = &slice->conf;
    uint64_t key = ps_draw_key(store->seed, PS_DRAW_DOWN, conf->index, slice->col->version + 1, 0);
    float *d = store->scratch;

    ps_feedback_carry(conf->down, &conf->down_params, slice->kept, d, conf->n);
    shard_renew_snap(slice, &slice->snap);
    slice->snap.buf->len =
        ps_feedback_encode(conf->down, &conf->down_params, slice->kept, key, conf->index, d,
                           conf->n, slice->snap.buf->data, &slice->snap.head);
    slice->snap.version = slice->col->version + 1;
    store->counters.encoded++;
    store->counters.encoded_bytes += slice->snap.buf->len;
    ps_codec_decode_own(&slice->snap.head.msg, slice->snap.buf->data, store->change, conf->n);
    ps_replica_step(w, store->change, conf->n);
}

bool shard_gives_change(const ps_store *store, uint32_t worker, uint32_t s)
{
    const shard_slice *slice = &store->slices[s];
    uint64_t given = store->book.given[(size_t)s * store->book.workers + worker];

    return store->broadcasts && !store->pulls[worker].is_whole && slice->snap.buf != NULL &&
           slice->snap.version == slice->col->version && given + 1 >= slice->col->version;
}

ps_buf *shard_whole(const ps_store *store, shard_slice *slice)
{
    uint8_t none[1];

    ps_codec_encode(store->plain, &store->plain_params, 0, slice->conf.index,
                    (const float *)(const void *)slice->weights->data, 0, none, &slice->whole_head);
    slice->whole_head.msg.payload_bytes = (uint32_t)slice->weights->len;
    return slice->weights;
}

uint64_t shard_checksum(shard_slice *slice)
{
    if (!slice->has_checksum || slice->checksum_version != slice->col->version) {
        slice->checksum =
            ps_replica_checksum((const float *)(const void *)slice->weights->data, slice->conf.n);
        slice->checksum_version = slice->col->version;
        slice->has_checksum = true;
    }
    return slice->checksum;
}
