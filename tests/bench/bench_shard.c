/* SPDX-License-Identifier: Apache-2.0 */
/* bench_shard.c - how fast a shard takes pushes and gives pulls, on one core.
 *
 * 16 MiB of parameters in slices of 16,384 values, sgd, bsp; GB/s counts
 * float32 bytes, also for memcpy; the best of some clocks each, interleaved.
 * With two workers the later rank comes first, so half of the bytes are parked.
 */
#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/store/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 4 << 20, SLICES = VALUES / PS_CODEC_VALUES, CLOCKS = 10 };

typedef struct world {
    float *x;
    uint8_t *bytes, *copy;
    ps_encoding heads[SLICES];
    ps_shard_slice slices[SLICES];
} world;

static void must(ps_status st)
{
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s\n", st.text);
        exit(1);
    }
}

static double rate(size_t bytes, int64_t start_us)
{
    return (double)bytes * 1e-3 / (double)(ps_clock_us() - start_us);
}

static ps_shard *create(world *w, const ps_codec *codec, const char *optim, uint32_t workers)
{
    ps_shard_conf conf = {.workers = workers,
                          .contributors = workers,
                          .policy = ps_consistency_find("bsp"),
                          .descent.optim = ps_optim_find(optim),
                          .merge_scale = 1.0f,
                          .slice_count = SLICES,
                          .slices = w->slices};

    conf.descent.params = ps_params_default(conf.descent.optim->params);
    for (uint32_t s = 0; s < SLICES; s++) {
        w->slices[s] =
            (ps_shard_slice){.index = s, .n = PS_CODEC_VALUES, .up = codec, .down = codec};
        w->slices[s].up_params = ps_params_default(codec->params);
        w->slices[s].down_params = w->slices[s].up_params;
    }
    return ps_shard_create(&conf);
}

static void push(world *w, ps_shard *shard, uint32_t worker, uint64_t clock, size_t slice_bytes)
{
    for (uint32_t s = 0; s < SLICES; s++) {
        ps_shard_outcome outcome;

        must(ps_shard_push(shard, worker, clock, worker, &w->heads[s].msg,
                           w->bytes + s * slice_bytes, slice_bytes, &outcome));
    }
}

static void pull(ps_shard *shard, uint64_t clock)
{
    ps_shard_piece pieces[64];
    ps_shard_answer answer = {0};

    must(ps_shard_pull_begin(shard, 0, clock));
    while (!answer.is_last) {
        ps_shard_pull_next(shard, 0, 1 << 20, pieces, 64, &answer);
    }
}

static void measure(world *w, const ps_codec *codec, const char *optim, uint32_t workers)
{
    ps_params params = ps_params_default(codec->params);
    size_t bytes = codec->size(&params, PS_CODEC_VALUES);
    ps_shard *shard = create(w, codec, optim, workers);
    double best_push = 0, best_pull = 0, best_copy = 0;

    for (uint32_t s = 0; s < SLICES; s++) {
        ps_codec_encode(codec, &params, s, s, w->x + s * PS_CODEC_VALUES, PS_CODEC_VALUES,
                        w->bytes + s * bytes, &w->heads[s]);
    }
    for (uint64_t clock = 0; clock < CLOCKS; clock++) {
        int64_t start = ps_clock_us();
        double now;

        for (uint32_t worker = workers; worker-- > 0;) {
            push(w, shard, worker, clock, bytes);
        }
        now = rate((size_t)VALUES * 4 * workers, start);
        best_push = now > best_push ? now : best_push;
        start = ps_clock_us();
        pull(shard, clock + 1);
        now = rate((size_t)VALUES * 4, start);
        best_pull = now > best_pull ? now : best_pull;
        start = ps_clock_us();
        memcpy(w->copy, w->x, VALUES * sizeof *w->x);
        now = rate((size_t)VALUES * 4, start);
        best_copy = now > best_copy ? now : best_copy;
    }
    printf("%-8s %-6s %7u %8.1f %8.1f %8.1f\n", codec->name, optim, workers, best_push, best_pull,
           best_copy);
    ps_shard_destroy(shard);
}

static void measure_codec(const ps_codec *codec, void *arg)
{
    measure(arg, codec, "sgd", 1);
    measure(arg, codec, "sgd", 2);
    measure(arg, codec, "adam", 1);
}

int main(void)
{
    world *w = ps_xcalloc(1, sizeof *w);

    w->x = ps_xaligned_alloc(VALUES * sizeof *w->x);
    w->bytes = ps_xaligned_alloc(VALUES * sizeof *w->x);
    w->copy = ps_xaligned_alloc(VALUES * sizeof *w->x);
    for (size_t i = 0; i < VALUES; i++) {
        w->x[i] = (float)(ps_draw_unit(1, i) - 0.5) * 0.01f;
    }
    memset(w->bytes, 0, VALUES * sizeof *w->x);
    memset(w->copy, 0, VALUES * sizeof *w->x);
    printf("GB/s of float32\n%-8s %-6s %7s %8s %8s %8s\n", "codec", "optim", "workers", "push",
           "pull", "memcpy");
    ps_codec_each(measure_codec, w);
    free(w->x);
    free(w->bytes);
    free(w->copy);
    free(w);
    return 0;
}
