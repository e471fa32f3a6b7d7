/* SPDX-License-Identifier: Apache-2.0 */
/* shard_world.c - see shard_world.h. */
#include "tests/support/shard_world.h"

#include "common/base/draw.h"

#include <assert.h>

void world_init(world *w, const char *policy, uint32_t workers, uint32_t slice_count)
{
    static const uint32_t sizes[WORLD_SLICES] = {100, 1, 37, 64, 300, 16, 5, 1000};

    assert(workers <= WORLD_WORKERS && slice_count <= WORLD_SLICES);
    *w = (world){0};
    w->conf.workers = workers;
    w->conf.contributors = workers;
    w->conf.policy = ps_consistency_find(policy);
    w->conf.policy_params = ps_params_default(w->conf.policy->params);
    w->conf.descent.optim = ps_optim_find("sgd");
    w->conf.descent.params = ps_params_default(w->conf.descent.optim->params);
    w->conf.descent.params.v[0] = 0.5;
    w->conf.merge_scale = 1.0f;
    w->conf.seed = 1;
    w->conf.slice_count = slice_count;
    w->conf.slices = w->slices;
    for (uint32_t s = 0; s < slice_count; s++) {
        w->slices[s].index = 10 + 3 * s;
        w->slices[s].n = sizes[s];
    }
    world_codecs(w, "f32", "f32");
}

void world_codecs(world *w, const char *up, const char *down)
{
    for (uint32_t s = 0; s < w->conf.slice_count; s++) {
        w->slices[s].up = ps_codec_find(up);
        w->slices[s].down = ps_codec_find(down);
        w->slices[s].up_params = ps_params_default(w->slices[s].up->params);
        w->slices[s].down_params = ps_params_default(w->slices[s].down->params);
    }
}

void world_blocks(world *w, uint32_t blocks)
{
    assert(blocks <= WORLD_CONTRIBUTORS);
    w->conf.contributors = blocks;
    w->conf.held_count = w->held_count;
    w->conf.held = w->held_at;
    for (uint32_t i = 0; i < w->conf.workers; i++) {
        w->held_at[i] = w->held[i];
    }
}

void world_hold(world *w, uint32_t worker, uint32_t block)
{
    w->held[worker][w->held_count[worker]++] = block;
}

void world_values(const ps_store_slice *slice, uint64_t clock, uint32_t contributor, float *x)
{
    uint64_t key = ps_draw_key(2, PS_DRAW_TEST, slice->index, clock, contributor);

    for (uint32_t i = 0; i < slice->n; i++) {
        x[i] = (float)ps_draw_normal(key, i);
    }
}

void world_gift(const ps_store_slice *slice, uint64_t clock, uint32_t contributor, gift *out)
{
    static _Thread_local float x[PS_CODEC_VALUES];

    world_values(slice, clock, contributor, x);
    out->len = ps_codec_encode(slice->up, &slice->up_params,
                               ps_draw_key(3, PS_DRAW_UP, slice->index, clock, contributor),
                               slice->index, x, slice->n, out->bytes, &out->head);
}

ps_status world_push(const world *w, ps_store *shard, uint32_t worker, uint64_t clock,
                     uint32_t contributor, uint32_t place, ps_store_outcome *outcome)
{
    static _Thread_local gift g;

    world_gift(&w->slices[place], clock, contributor, &g);
    return ps_store_push(shard, worker, clock, contributor, &g.head.msg, g.bytes, g.len, outcome);
}
