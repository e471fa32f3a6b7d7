/* SPDX-License-Identifier: Apache-2.0 */
/* shard_merge.c - what some codecs need of a slice beyond adding decoded contributions: sums in the
 * codec's own form, sums of differences, and feedback for the codec of weights
 * (common/codec/codec.h, feedback.h). Each needs memory in the slice; its pointer is NULL if the
 * codecs do not need it. */
#include "common/store/store_impl.h"

#include "common/base/xalloc.h"
#include "common/codec/feedback.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void shard_merge_init(const ps_store *store, shard_slice *slice)
{
    const ps_store_slice *conf = &slice->conf;
    size_t kept = ps_feedback_floats(conf->down, &conf->down_params, conf->n);

    if (conf->up->sum_add != NULL && store->has_sums) {
        slice->undecoded = ps_xcalloc(1, conf->up->sum_bytes(conf->n));
    }
    if (ps_feedback_differs(conf->up, &conf->up_params)) {
        assert(store->book.in_order); /* differences need every contribution in exactly one sum */
        slice->standing = ps_xcalloc(conf->n, sizeof *slice->standing);
    }
    slice->kept = kept > 0 ? ps_xcalloc(kept, sizeof *slice->kept) : NULL;
}

void shard_merge_fini(shard_slice *slice)
{
    free(slice->undecoded);
    free(slice->standing);
    free(slice->kept);
}

bool shard_add_undecoded(ps_store *store, shard_slice *slice, const Psgd__V1__Encoding *head,
                         const uint8_t *bytes, size_t len)
{
    ps_status st;

    if (slice->undecoded == NULL) {
        return false;
    }
    st = ps_codec_sum_add(slice->conf.up, head, bytes, len, slice->undecoded, slice->conf.n);
    assert(ps_is_ok(&st)); /* ps_store_push has checked the encoding */
    /* any pointer but NULL says that there is a sum; shard_merged decodes it to the scratch */
    slice->sum = store->scratch;
    return true;
}

const float *shard_merged(ps_store *store, shard_slice *slice)
{
    size_t n = slice->conf.n;
    const float *sum = slice->sum;

    if (slice->undecoded != NULL && sum != NULL) {
        slice->conf.up->sum_value(slice->undecoded, store->scratch, n);
        memset(slice->undecoded, 0, slice->conf.up->sum_bytes(n));
    }
    if (slice->standing == NULL || sum == NULL) {
        return sum;
    }
    for (size_t i = 0; i < n; i++) {
        slice->standing[i] += sum[i];
    }
    return slice->standing;
}

/* Returns the values to encode for w (n), the weights of the slice: w itself, or, if the codec has
 * feedback, w and what earlier encodings have lost, in the store's scratch. A second call returns
 * the same values, because a codec of weights has no momentum and no differences. */
static const float *carry(ps_store *store, const shard_slice *slice, const float *w)
{
    const ps_store_slice *conf = &slice->conf;

    if (slice->kept == NULL) {
        return w;
    }
    memcpy(store->scratch, w, conf->n * sizeof *w);
    ps_feedback_carry(conf->down, &conf->down_params, slice->kept, store->scratch, conf->n);
    return store->scratch;
}

bool shard_encode_ahead(ps_store *store, const shard_slice *slice, const float *w, uint64_t key)
{
    const ps_store_slice *conf = &slice->conf;

    /* All slices with feedback are encoded from the same memory, the scratch: the key tells them
     * apart. */
    return ps_codec_encode_ahead(conf->down, &conf->down_params, key, carry(store, slice, w),
                                 conf->n, NULL);
}

size_t shard_encode_weights(ps_store *store, shard_slice *slice, const float *w, uint64_t key,
                            uint8_t *out)
{
    const ps_store_slice *conf = &slice->conf;

    w = carry(store, slice, w);
    return ps_feedback_encode(conf->down, &conf->down_params, slice->kept, key, conf->index, w,
                              conf->n, out, &slice->snap.head);
}
