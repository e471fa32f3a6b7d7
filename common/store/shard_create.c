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

static void create_workers(ps_shard *shard, const ps_shard_conf *conf)
{
    size_t words = (conf->slice_count + 63) / 64;

    shard->worker = ps_xcalloc(conf->workers, sizeof *shard->worker);
    for (uint32_t w = 0; w < conf->workers; w++) {
        shard_worker *worker = &shard->worker[w];

        worker->held_count = conf->held != NULL ? conf->held_count[w] : 1;
        worker->held = ps_xcalloc(worker->held_count, sizeof *worker->held);
        for (uint32_t i = 0; i < worker->held_count; i++) {
            worker->held[i] = conf->held != NULL ? conf->held[w][i] : w;
            assert(worker->held[i] < conf->contributors);
        }
        worker->wish.want = ps_xcalloc(words, sizeof *worker->wish.want);
        worker->wish.unchecked = ps_xcalloc(words, sizeof *worker->wish.unchecked);
    }
}

/* Who holds each contributor: the workers' lists turned over. */
static void create_holders(ps_shard *shard)
{
    uint32_t *at = ps_xcalloc((size_t)shard->contributors + 1, sizeof *at);
    uint32_t *filled = ps_xcalloc(shard->contributors, sizeof *filled);

    for (uint32_t w = 0; w < shard->workers; w++) {
        for (uint32_t i = 0; i < shard->worker[w].held_count; i++) {
            at[shard->worker[w].held[i] + 1]++;
        }
    }
    for (uint32_t k = 0; k < shard->contributors; k++) {
        assert(at[k + 1] > 0);
        at[k + 1] += at[k];
    }
    shard->holder_at = at;
    shard->holder = ps_xcalloc(at[shard->contributors], sizeof *shard->holder);
    for (uint32_t w = 0; w < shard->workers; w++) {
        for (uint32_t i = 0; i < shard->worker[w].held_count; i++) {
            uint32_t k = shard->worker[w].held[i];

            shard->holder[at[k] + filled[k]++] = w;
        }
    }
    free(filled);
}

static void create_clocks(ps_shard *shard)
{
    size_t by_worker = (size_t)shard->slice_count * shard->workers;

    shard->next = ps_xcalloc((size_t)shard->contributors * shard->slice_count, sizeof *shard->next);
    shard->done = ps_xcalloc(by_worker, sizeof *shard->done);
    shard->pending = ps_xcalloc(by_worker, sizeof *shard->pending);
    shard->given = ps_xcalloc(by_worker, sizeof *shard->given);
    shard->whole = ps_xcalloc(shard->contributors, sizeof *shard->whole);
    shard->left = ps_xcalloc(shard->contributors, sizeof *shard->left);
    for (uint32_t k = 0; k < shard->contributors; k++) {
        shard->left[k] = shard->slice_count;
    }
    for (size_t i = 0; i < by_worker; i++) {
        shard->pending[i] = shard->worker[i % shard->workers].held_count;
    }
    for (uint32_t w = 0; w < shard->workers; w++) {
        if (shard->worker[w].held_count == 0) {
            shard_forget(shard, w);
        }
    }
}

static void create_policy(ps_shard *shard, const ps_shard_conf *conf)
{
    const ps_consistency *policy = conf->policy;
    size_t words = policy->words == NULL ? 0 : policy->words(conf->workers, conf->contributors);

    assert(!policy->has_rounds || policy->closes != NULL);
    assert(!policy->leaves_behind || policy->has_rounds);
    assert(!policy->is_deterministic || !policy->survives_loss); /* a turn would never come */
    shard->policy = policy;
    shard->policy_params = conf->policy_params;
    shard->buffers = policy->closes != NULL;
    shard->in_order = shard->buffers && policy->is_deterministic;
    shard->words = ps_xcalloc(words * conf->slice_count, sizeof *shard->words);
    for (uint32_t s = 0; s < conf->slice_count && words > 0; s++) {
        shard->slices[s].state = shard->words + words * s;
    }
    for (uint32_t k = 0; policy->leaves_behind && k < conf->contributors; k++) {
        assert(shard->holder_at[k + 1] - shard->holder_at[k] == 1);
    }
    /* One contributor's sum is what it sent, if the step follows at once. */
    if (shard->buffers && (conf->contributors > 1 || !shard->in_order)) {
        shard->sums = zeros(shard->value_count);
    }
}

ps_shard *ps_shard_create(const ps_shard_conf *conf)
{
    ps_shard *shard = ps_xcalloc(1, sizeof *shard);

    assert(conf->workers > 0 && conf->contributors > 0);
    shard->slice_count = conf->slice_count;
    shard->contributors = conf->contributors;
    shard->workers = conf->workers;
    shard->live = conf->contributors;
    shard->policy = conf->policy;
    shard->descent = conf->descent;
    shard->merge_scale = conf->merge_scale;
    shard->seed = conf->seed;
    shard->broadcasts = conf->broadcasts;
    shard->plain = ps_codec_find("f32");
    shard->plain_params = ps_params_default(shard->plain->params);
    create_slices(shard, conf);
    create_workers(shard, conf);
    create_holders(shard);
    create_clocks(shard);
    create_policy(shard, conf);
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
    for (uint32_t w = 0; w < shard->workers; w++) {
        free(shard->worker[w].held);
        free(shard->worker[w].wish.want);
        free(shard->worker[w].wish.unchecked);
    }
    free(shard->slices);
    free(shard->worker);
    free(shard->holder_at);
    free(shard->holder);
    free(shard->words);
    free(shard->next);
    free(shard->done);
    free(shard->pending);
    free(shard->given);
    free(shard->whole);
    free(shard->left);
    free(shard->flat);
    free(shard->state);
    free(shard->sums);
    free(shard->scratch);
    free(shard->change);
    shard_delay_fini(shard);
    shard_rows_room_fini(shard);
    free(shard);
}
