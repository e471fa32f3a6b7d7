/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_cut.c - a save while the store goes on writes what the store was when it began,
 * whatever pushes, pulls, lost workers and time do to it meanwhile. */
#include "tests/support/cmocka_all.h"

#include "tests/support/farm.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/codec/wrap.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, EVENTS = 900, VALUES = 2000 };

static void must(ps_status st)
{
    assert_string_equal(st.text, "");
}

/* A store, what was drawn for it, and a cut of it. */
typedef struct life {
    const farm_job *job;
    farm f;
    uint64_t seed, drawn;
    uint64_t next[WORKERS][WORLD_SLICES], asked[WORKERS];
    int64_t now_us;
    bool is_cutting;
    farm_file then, cut; /* as ps_store_save wrote it when the cut began; by the cut */
    float weights_then[VALUES], weights[VALUES];
    uint32_t given[WORLD_SLICES]; /* how often the sink was given the weights of the slice */
    unsigned pieces, cuts;
} life;

static uint64_t draw(life *l, uint64_t below)
{
    return ps_draw_below(l->seed, l->drawn++, below);
}

static size_t offset_of(const life *l, uint32_t place)
{
    size_t at = 0;

    for (uint32_t s = 0; s < place; s++) {
        at += l->job->w.slices[s].n;
    }
    return at;
}

static ps_status take_bytes(void *arg, const void *bytes, size_t len)
{
    return farm_write(&((life *)arg)->cut, bytes, len);
}

static ps_status take_weights(void *arg, uint32_t place, const float *values, uint32_t n)
{
    life *l = arg;

    assert_int_equal(n, l->job->w.slices[place].n);
    memcpy(l->weights + offset_of(l, place), values, n * sizeof *values);
    l->given[place]++;
    return ps_ok();
}

static void watch(void *arg, bool begins)
{
    ((life *)arg)->pieces += begins;
}

static void begin_cut(life *l)
{
    const ps_store_cut_sink sink = {
        .write = take_bytes, .weights = take_weights, .watch = watch, .arg = l};
    ps_store *store = l->f.stores[0];

    l->then = l->cut = (farm_file){0};
    l->pieces = 0;
    memset(l->given, 0, sizeof l->given);
    must(ps_store_save(store, farm_write, &l->then));
    memcpy(l->weights_then, ps_store_weights(store), ps_store_value_count(store) * sizeof(float));
    ps_store_cut_begin(store, &sink);
    l->is_cutting = true;
}

/* Returns what a store that has loaded the file saves. */
static farm_file saved_again(const life *l, const farm_file *file)
{
    farm_file again = {0};
    farm g;

    farm_begin(&g, l->job, 1);
    farm_tick(&g, 5000000);
    must(ps_store_load(g.stores[0], file->bytes, file->len));
    must(ps_store_load_end(g.stores[0]));
    must(ps_store_save(g.stores[0], farm_write, &again));
    farm_end(&g);
    return again;
}

static void end_cut(life *l)
{
    farm_file a, b;

    must(ps_store_cut_end(l->f.stores[0]));
    assert_int_equal(l->cut.len, l->then.len);
    a = saved_again(l, &l->then);
    b = saved_again(l, &l->cut);
    if (a.len != b.len || memcmp(a.bytes, b.bytes, a.len) != 0) {
        fail_msg("%s, draw %llu: the cut is of another state", l->job->w.conf.policy->name,
                 (unsigned long long)l->drawn);
    }
    assert_memory_equal(l->weights, l->weights_then, offset_of(l, WORLD_SLICES) * sizeof(float));
    for (uint32_t s = 0; s < WORLD_SLICES; s++) {
        assert_int_equal(l->given[s], 1);
    }
    assert_int_equal(l->pieces, WORLD_SLICES);
    free(a.bytes);
    free(b.bytes);
    free(l->then.bytes);
    free(l->cut.bytes);
    l->is_cutting = false;
    l->cuts++;
}

static void cut_randomly(life *l)
{
    if (!l->is_cutting) {
        begin_cut(l);
    } else if (draw(l, 4) == 0) {
        end_cut(l);
    } else if (draw(l, 4) == 0) {
        (void)ps_store_cut_next(l->f.stores[0]);
    }
}

static void push(life *l)
{
    uint32_t w = (uint32_t)draw(l, WORKERS), s = (uint32_t)draw(l, WORLD_SLICES);
    ps_store_outcome outcome;
    ps_status st = farm_push(&l->f, w, l->next[w][s], w, s, &outcome);

    l->next[w][s] += ps_is_ok(&st);
}

static void push_zeros(life *l)
{
    uint32_t w = (uint32_t)draw(l, WORKERS);
    ps_status st = farm_push_zeros(&l->f, w, l->next[w][0], w);

    for (uint32_t s = 0; ps_is_ok(&st) && s < WORLD_SLICES; s++) {
        l->next[w][s] = l->next[w][0] + 1;
    }
}

static void pull(life *l)
{
    uint32_t w = (uint32_t)draw(l, WORKERS);
    uint64_t got[WORLD_SLICES], clock = l->next[w][draw(l, WORLD_SLICES)];
    ps_status st;

    l->asked[w] = clock > l->asked[w] ? clock : l->asked[w];
    st = farm_pull(&l->f, w, l->asked[w], got);
    (void)st; /* some policies refuse some clocks */
}

static void live(const farm_job *job, uint64_t seed, bool keeps_before)
{
    life *l = ps_xcalloc(1, sizeof *l);

    l->job = job;
    l->seed = ps_draw_key(seed, PS_DRAW_TEST, 0, 0, 0);
    farm_begin(&l->f, job, 1);
    if (keeps_before) {
        ps_store_keep_before(l->f.stores[0]);
    }
    for (uint32_t i = 0; i < EVENTS; i++) {
        switch (draw(l, 12)) {
        case 0:
        case 1:
            cut_randomly(l);
            break;
        case 2:
        case 3:
            pull(l);
            break;
        case 4:
            l->now_us += (int64_t)draw(l, 9000);
            farm_tick(&l->f, l->now_us);
            break;
        case 5:
            if (draw(l, 150) == 0) {
                ps_status st = farm_lose(&l->f, (uint32_t)draw(l, WORKERS));

                (void)st; /* a policy that needs all workers refuses */
            }
            break;
        case 6:
            push_zeros(l);
            break;
        default:
            push(l);
        }
    }
    if (l->is_cutting) {
        end_cut(l);
    }
    assert_true(l->cuts > 5);
    begin_cut(l);
    farm_end(&l->f); /* frees a cut that is under way */
    free(l->then.bytes);
    free(l->cut.bytes);
    free(l);
}

static void live_by_policy(const ps_consistency *policy, void *arg)
{
    (void)arg;
    for (uint32_t i = 0; i < 6; i++) {
        farm_job *job = ps_xcalloc(1, sizeof *job);

        world_init(&job->w, policy->name, WORKERS, WORLD_SLICES);
        world_codecs(&job->w, i % 2 == 0 ? "int8" : "f32", i % 3 == 0 ? "int8" : "f32");
        job->w.conf.descent.optim = ps_optim_find(i % 2 == 0 ? "adam" : "momentum");
        job->w.conf.descent.params = ps_params_default(job->w.conf.descent.optim->params);
        job->w.conf.broadcasts = policy->closes != NULL && i % 3 == 1;
        if (policy->closes == NULL && i % 3 == 2) {
            job->w.conf.delay = (ps_delay){.lambda = 0.1, .decay = i == 2 ? 0.9 : 0};
        }
        for (uint32_t s = 0; s < WORLD_SLICES; s++) {
            job->w.slices[s].down_params.v[job->w.slices[s].down->own + PS_WRAP_FEEDBACK] =
                i % 3 == 0;
        }
        live(job, i, strcmp(policy->name, "bsp") == 0 && i % 3 != 1 && i > 2);
        free(job);
    }
}

static void a_cut_is_of_the_moment_at_which_it_began(void **state)
{
    (void)state;
    ps_consistency_each(live_by_policy, NULL);
}

/* A sink that takes `left` bytes. */
static ps_status take_little(void *arg, const void *bytes, size_t len)
{
    size_t *left = arg;

    (void)bytes;
    if (len > *left) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "full");
    }
    *left -= len;
    return ps_ok();
}

static ps_status take_no_weights(void *arg, uint32_t place, const float *values, uint32_t n)
{
    (void)arg;
    (void)place;
    (void)values;
    (void)n;
    return ps_ok();
}

static void watch_nothing(void *arg, bool begins)
{
    (void)arg;
    (void)begins;
}

static void a_cut_whose_sink_is_full_fails_and_the_store_goes_on(void **state)
{
    ps_store_cut_sink sink = {
        .write = take_little, .weights = take_no_weights, .watch = watch_nothing};
    farm_job job = {0};
    ps_store_outcome outcome;
    farm f;

    (void)state;
    world_init(&job.w, "bsp", 1, WORLD_SLICES);
    farm_begin(&f, &job, 1);
    for (size_t room = 0; room < 4000; room += 97) {
        size_t left = room;

        sink.arg = &left;
        ps_store_cut_begin(f.stores[0], &sink);
        while (ps_store_cut_next(f.stores[0])) {
        }
        must(farm_push(&f, 0, room / 97, 0, 0, &outcome));
        for (uint32_t s = 1; s < WORLD_SLICES; s++) {
            must(farm_push(&f, 0, room / 97, 0, s, &outcome));
        }
        assert_int_equal(ps_store_cut_end(f.stores[0]).code, PS_RESOURCE_EXHAUSTED);
    }
    farm_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_is_of_the_moment_at_which_it_began),
        cmocka_unit_test(a_cut_whose_sink_is_full_fails_and_the_store_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
