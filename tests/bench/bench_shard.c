/* SPDX-License-Identifier: Apache-2.0 */
/* bench_shard.c - how fast a shard takes pushes and gives pulls, on one core; and what two threads
 * of a server gain.
 *
 * 16 MiB of parameters in slices of 16,384 values, sgd, bsp; GB/s counts
 * float32 bytes, also for memcpy; the best of some clocks each, interleaved.
 * With two workers the later rank comes first, so half of the bytes are parked.
 *
 * Threads: the virtual shards are dealt to them as a server deals them (ps_placement_deal), and
 * each thread decodes, sums and steps what is its own. Two workers push int8 with adam, in order.
 * One thread and two take turns of a clock; the ratio is that of the best ones.
 */
#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/placement/placement.h"
#include "common/store/store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VALUES = 4 << 20,
    SLICES = VALUES / PS_CODEC_VALUES,
    CLOCKS = 10,
    TURNS = 1500,             /* of the comparison of threads, */
    TURN_SLICES = SLICES / 4, /* which fit into the cache: not the memory is to be compared */
    THREADS = 2
};

typedef struct world {
    float *x;
    uint8_t *bytes, *copy;
    ps_encoding heads[SLICES];
    ps_store_slice slices[SLICES];
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

/* Creates a shard of those of the first `count` slices that are dealt to `place`; with place_of
 * NULL of all of them. */
static ps_store *create(world *w, const ps_codec *codec, const char *optim, uint32_t workers,
                        uint32_t count, const uint32_t *place_of, uint32_t place)
{
    ps_store_conf conf = {.workers = workers,
                          .contributors = workers,
                          .policy = ps_consistency_find("bsp"),
                          .descent.optim = ps_optim_find(optim),
                          .merge_scale = 1.0f,
                          .slices = w->slices};

    conf.descent.params = ps_params_default(conf.descent.optim->params);
    for (uint32_t s = 0; s < count; s++) {
        ps_store_slice *slice = &w->slices[conf.slice_count];

        if (place_of != NULL && place_of[s % PS_SHARDS] != place) {
            continue;
        }
        *slice = (ps_store_slice){.index = s, .n = PS_CODEC_VALUES, .up = codec, .down = codec};
        slice->up_params = ps_params_default(codec->params);
        slice->down_params = slice->up_params;
        conf.slice_count++;
    }
    return ps_store_create(&conf);
}

static void encode(world *w, const ps_codec *codec)
{
    ps_params params = ps_params_default(codec->params);
    size_t bytes = codec->size(&params, PS_CODEC_VALUES);

    for (uint32_t s = 0; s < SLICES; s++) {
        ps_codec_encode(codec, &params, s, s, w->x + s * PS_CODEC_VALUES, PS_CODEC_VALUES,
                        w->bytes + s * bytes, &w->heads[s]);
    }
}

static void push(world *w, ps_store *shard, uint32_t worker, uint64_t clock, size_t slice_bytes)
{
    for (uint32_t s = 0; s < SLICES; s++) {
        ps_store_outcome outcome;

        must(ps_store_push(shard, worker, clock, worker, &w->heads[s].msg,
                           w->bytes + s * slice_bytes, w->heads[s].msg.payload_bytes, &outcome));
    }
}

static void pull(ps_store *shard, uint64_t clock)
{
    ps_store_piece pieces[64];
    ps_store_answer answer = {0};

    must(ps_store_pull_begin(shard, 0, clock));
    while (!answer.is_last) {
        ps_store_pull_next(shard, 0, 1 << 20, pieces, 64, &answer);
    }
}

static void measure(world *w, const ps_codec *codec, const char *optim, uint32_t workers)
{
    ps_params params = ps_params_default(codec->params);
    size_t bytes = codec->size(&params, PS_CODEC_VALUES);
    ps_store *shard = create(w, codec, optim, workers, SLICES, NULL, 0);
    double best_push = 0, best_pull = 0, best_copy = 0;

    encode(w, codec);
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
    ps_store_destroy(shard);
}

/* ---- Threads of a server ---- */

/* Where threads wait for one another. They stay awake: what it takes to wake a thread is not to be
 * measured. */
typedef struct meeting {
    atomic_uint arrivals;
} meeting;

static void meet(meeting *m)
{
    unsigned mine = atomic_fetch_add(&m->arrivals, 1), all = mine - mine % THREADS + THREADS;

    while (atomic_load(&m->arrivals) < all) {
    }
}

/* A thread and the shard that is its own. */
typedef struct owner {
    world *w;
    ps_store *shard;
    const uint32_t *place_of;
    uint32_t place;
    size_t slice_bytes;
    uint64_t clock;             /* the next one */
    int64_t began_us, ended_us; /* of the last turn */
    meeting *meeting;           /* NULL: it is alone */
    pthread_t thread;
} owner;

static void take_pushes(owner *o)
{
    if (o->meeting != NULL) {
        meet(o->meeting);
    }
    o->began_us = ps_clock_us();
    for (uint32_t worker = 0; worker < 2; worker++) {
        for (uint32_t s = 0; s < TURN_SLICES; s++) {
            ps_store_outcome outcome;

            if (o->place_of[s % PS_SHARDS] == o->place) {
                must(ps_store_push(o->shard, worker, o->clock, worker, &o->w->heads[s].msg,
                                   o->w->bytes + s * o->slice_bytes,
                                   o->w->heads[s].msg.payload_bytes, &outcome));
            }
        }
    }
    o->clock++;
    o->ended_us = ps_clock_us();
    if (o->meeting != NULL) {
        meet(o->meeting);
    }
}

static void *run(void *arg)
{
    for (uint32_t i = 0; i <= TURNS; i++) {
        take_pushes(arg);
    }
    return NULL;
}

/* Returns the microseconds from the first thread's begin to the last one's end. */
static double turn(owner *owners, uint32_t count)
{
    int64_t began_us, ended_us;

    take_pushes(&owners[0]); /* the others do so on their threads */
    began_us = owners[0].began_us;
    ended_us = owners[0].ended_us;
    for (uint32_t t = 1; t < count; t++) {
        began_us = owners[t].began_us < began_us ? owners[t].began_us : began_us;
        ended_us = owners[t].ended_us > ended_us ? owners[t].ended_us : ended_us;
    }
    return (double)(ended_us - began_us);
}

/* Prints the best turns of one thread and of several. */
static void compare(owner *one, owner *many)
{
    double one_us = 1e12, many_us = 1e12;
    double gb = (double)TURN_SLICES * PS_CODEC_VALUES * 4 * 2 * 1e-3;

    for (uint32_t i = 0; i <= TURNS; i++) {
        double a = turn(one, 1), b = turn(many, THREADS);

        if (i > 0) { /* the first time touches the memory */
            one_us = a < one_us ? a : one_us;
            many_us = b < many_us ? b : many_us;
        }
    }
    printf("\nthreads of a server, int8 pushes of two workers, adam\n"
           "1 thread %.1f GB/s, %d threads %.1f GB/s, ratio %.2f\n",
           gb / one_us, THREADS, gb / many_us, one_us / many_us);
}

static void compare_threads(world *w)
{
    const ps_codec *codec = ps_codec_find("int8");
    ps_params params = ps_params_default(codec->params);
    ps_slice *slices = ps_xcalloc(TURN_SLICES, sizeof *slices);
    ps_layout layout = {.slice_count = TURN_SLICES, .slices = slices};
    uint32_t one_place[PS_SHARDS], places[PS_SHARDS];
    owner one = {.w = w, .place_of = one_place}, many[THREADS];
    meeting where = {0};

    for (uint32_t s = 0; s < TURN_SLICES; s++) {
        slices[s] = (ps_slice){.index = s, .n = PS_CODEC_VALUES, .shard = s % PS_SHARDS};
    }
    ps_placement_deal(&layout, NULL, 0, 1, one_place);
    ps_placement_deal(&layout, NULL, 0, THREADS, places);
    encode(w, codec);
    one.slice_bytes = codec->size(&params, PS_CODEC_VALUES);
    one.shard = create(w, codec, "adam", 2, TURN_SLICES, one_place, 0);
    for (uint32_t t = 0; t < THREADS; t++) {
        many[t] = (owner){.w = w, .place_of = places, .place = t, .slice_bytes = one.slice_bytes};
        many[t].meeting = &where;
        many[t].shard = create(w, codec, "adam", 2, TURN_SLICES, places, t);
        if (t > 0 && pthread_create(&many[t].thread, NULL, run, &many[t]) != 0) {
            must(ps_fail(PS_RESOURCE_EXHAUSTED, "no thread"));
        }
    }
    compare(&one, many);
    for (uint32_t t = 0; t < THREADS; t++) {
        if (t > 0) {
            pthread_join(many[t].thread, NULL);
        }
        ps_store_destroy(many[t].shard);
    }
    ps_store_destroy(one.shard);
    free(slices);
}

static void measure_codec(const ps_codec *codec, void *arg)
{
    measure(arg, codec, "sgd", 1);
    measure(arg, codec, "sgd", 2);
    measure(arg, codec, "adam", 1);
}

/* With an argument: the threads alone. */
int main(int argc, char **argv)
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
    (void)argv;
    printf("GB/s of float32\n%-8s %-6s %7s %8s %8s %8s\n", "codec", "optim", "workers", "push",
           "pull", "memcpy");
    if (argc == 1) {
        ps_codec_each(measure_codec, w);
    }
    compare_threads(w);
    free(w->x);
    free(w->bytes);
    free(w->copy);
    free(w);
    return 0;
}
