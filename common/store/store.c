/* SPDX-License-Identifier: Apache-2.0 */
/* shard_create.c - a shard from its configuration, and its end. */
#include "common/store/shard_state.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static float *zeros(size_t n)
{
    float *x = ps_xaligned_alloc(n * sizeof *x);

    memset(x, 0, n * sizeof *x);
    return x;
}

static ps_buf *create_weights(const float *initial, size_t n)
{
    ps_buf *buf = ps_buf_create(n * sizeof *initial);

    buf->len = n * sizeof *initial;
    if (initial != NULL) {
        memcpy(buf->data, initial, buf->len);
    } else {
        memset(buf->data, 0, buf->len);
    }
    return buf;
}

static void create_slices(ps_shard *shard, const ps_shard_conf *conf)
{
    shard->slices = ps_xcalloc(conf->slice_count, sizeof *shard->slices);
    for (uint32_t s = 0; s < conf->slice_count; s++) {
        const ps_shard_slice *slice = &conf->slices[s];

        assert(slice->n >= 1 && slice->n <= PS_CODEC_VALUES);
        assert(s == 0 || conf->slices[s - 1].index < slice->index);
        assert(slice->up != NULL && slice->down != NULL);
        shard->slices[s].conf = *slice;
        shard->slices[s].at = shard->value_count;
        shard->slices[s].weights = create_weights(
            conf->weights == NULL ? NULL : conf->weights + shard->value_count, slice->n);
        shard->value_count += slice->n;
    }
}

static void create_book(ps_shard *shard, const ps_shard_conf *conf)
{
    size_t words = (conf->slice_count + 63) / 64;

    ps_book_init(&shard->book, &(ps_book_conf){.columns = conf->slice_count,
                                               .workers = conf->workers,
                                               .contributors = conf->contributors,
                                               .held_count = conf->held_count,
                                               .held = conf->held,
                                               .policy = conf->policy,
                                               .policy_params = conf->policy_params,
                                               .counters = &shard->counters});
    for (uint32_t s = 0; s < conf->slice_count; s++) {
        shard->slices[s].col = &shard->book.column[s];
    }
    shard->wish = ps_xcalloc(conf->workers, sizeof *shard->wish);
    for (uint32_t w = 0; w < conf->workers; w++) {
        shard->wish[w].want = ps_xcalloc(words, sizeof *shard->wish[w].want);
        shard->wish[w].unchecked = ps_xcalloc(words, sizeof *shard->wish[w].unchecked);
    }
    /* One contributor's sum is what it sent, if the step follows at once. */
    if (shard->book.buffers && (conf->contributors > 1 || !shard->book.in_order)) {
        shard->sums = zeros(shard->value_count);
    }
}

ps_shard *ps_shard_create(const ps_shard_conf *conf)
{
    ps_shard *shard = ps_xcalloc(1, sizeof *shard);

    shard->slice_count = conf->slice_count;
    shard->descent = conf->descent;
    shard->merge_scale = conf->merge_scale;
    shard->seed = conf->seed;
    shard->broadcasts = conf->broadcasts;
    shard->plain = ps_codec_find("f32");
    shard->plain_params = ps_params_default(shard->plain->params);
    create_slices(shard, conf);
    create_book(shard, conf);
    shard->state =
        zeros(shard->value_count * (conf->descent.optim != NULL ? conf->descent.optim->slots : 0));
    shard->scratch = zeros(PS_CODEC_VALUES);
    shard->delay = conf->delay;
    shard_delay_init(shard);
    shard->change = conf->broadcasts ? zeros(PS_CODEC_VALUES) : NULL;
    for (uint32_t s = 0; s < shard->slice_count; s++) {
        shard_merge_init(shard, &shard->slices[s]);
        shard_rows_init(shard, &shard->slices[s]);
    }
    ps_park_init(&shard->park);
    return shard;
}

void ps_shard_destroy(ps_shard *shard)
{
    if (shard == NULL) {
        return;
    }
    for (uint32_t s = 0; s < shard->slice_count; s++) {
        while (shard->slices[s].parked != NULL) {
            ps_park_remove_first(&shard->park, &shard->slices[s].parked);
        }
        ps_buf_unref(shard->slices[s].weights);
        ps_buf_unref(shard->slices[s].snap);
        shard_merge_fini(&shard->slices[s]);
        shard_rows_fini(&shard->slices[s]);
    }
    ps_park_fini(&shard->park);
    for (uint32_t w = 0; w < shard->book.workers; w++) {
        free(shard->wish[w].want);
        free(shard->wish[w].unchecked);
    }
    ps_book_fini(&shard->book);
    free(shard->slices);
    free(shard->wish);
    free(shard->flat);
    free(shard->state);
    free(shard->sums);
    free(shard->scratch);
    free(shard->change);
    shard_delay_fini(shard);
    shard_rows_room_fini(shard);
    free(shard);
}
