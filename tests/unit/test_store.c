/* SPDX-License-Identifier: Apache-2.0 */
/* test_store.c - a store that is saved and read into other stores goes on with the same bits: every
 * codec and wrapper, every optimizer and side, every policy, dense slices and rows. Beside it goes
 * a farm that is never disturbed and is given the same calls.
 *
 * PSGD_TEST_SEED gives another seed. */
#include "tests/support/cmocka_all.h"

#include "tests/support/farm.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/codec/feedback.h"
#include "common/codec/wrap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, CLOCKS = 7 };

/* How many stores there are before and after. */
static const uint32_t moves[][2] = {{1, 3}, {3, 2}, {2, 1}, {1, 1}, {2, 4}};

enum { MOVES = sizeof moves / sizeof moves[0] };

static void must(ps_status st)
{
    assert_string_equal(st.text, "");
}

static void set_wrap(ps_store_slice *slice, int which, double value)
{
    slice->up_params.v[slice->up->own + (size_t)which] = value;
}

/* Every contribution of a clock in an order that is not that of contributors. */
static void push_clock(const farm *f, uint64_t clock, uint32_t from, uint32_t to)
{
    uint32_t slices = f->job->w.conf.slice_count, all = WORKERS * slices;

    for (uint32_t i = from * all / 10; i < to * all / 10; i++) {
        uint32_t at = (i * 7 + 3) % all; /* 7 and 3 * 8 have no common divisor */
        ps_store_outcome outcome;

        must(farm_push(f, at % WORKERS, clock, at % WORKERS, at / WORKERS, &outcome));
    }
    for (uint32_t i = 0; f->job->has_rows && to == 10 && i < WORKERS; i++) {
        must(farm_push_rows(f, (i + 1) % WORKERS, clock, (i + 1) % WORKERS));
    }
}

static void compare(const farm *a, const farm *b, const char *what, uint64_t clock)
{
    for (uint32_t w = 0; w < WORKERS; w++) {
        uint64_t got_a[WORLD_SLICES], got_b[WORLD_SLICES];

        must(farm_pull(a, w, clock, got_a));
        must(farm_pull(b, w, clock, got_b));
        if (memcmp(got_a, got_b, sizeof got_a) != 0) {
            fail_msg("%s, clock %" PRIu64 ": worker %" PRIu32 " is given something else", what,
                     clock, w);
        }
    }
    if (farm_hash(a) != farm_hash(b)) {
        fail_msg("%s, clock %" PRIu64 ": the weights differ", what, clock);
    }
}

/* Trains beside an undisturbed farm; moves at the end of a clock and, a clock later, in the midst
 * of one. */
static void live(const farm_job *job, const uint32_t *move, const char *what)
{
    farm a, b;

    farm_begin(&a, job, 2);
    farm_begin(&b, job, move[0]);
    for (uint64_t clock = 0; clock < CLOCKS; clock++) {
        push_clock(&a, clock, 0, 6);
        push_clock(&b, clock, 0, 6);
        if (clock == 4) {
            must(farm_move(&b, move[0], 0));
        }
        push_clock(&a, clock, 6, 10);
        push_clock(&b, clock, 6, 10);
        if (clock % 2 == 1) {
            compare(&a, &b, what, clock + 1);
        }
        if (clock == 2) {
            must(farm_move(&b, move[1], 0));
        }
    }
    compare(&a, &b, what, CLOCKS);
    farm_end(&a);
    farm_end(&b);
}

typedef struct cursor {
    uint32_t lives;
    const ps_optim *optims[16];
    size_t optim_count;
    const ps_codec *downs[40];
    size_t down_count;
} cursor;

static void add_optim(const ps_optim *optim, void *arg)
{
    cursor *c = arg;

    c->optims[c->optim_count++] = optim;
}

/* Weights go by codecs that are not sparse, as the checks of a job want it. */
static void add_down(const ps_codec *codec, void *arg)
{
    cursor *c = arg;
    ps_params params = ps_params_default(codec->params);

    if (!ps_codec_facts_of(codec, &params).is_sparse && strcmp(codec->name, "powersgd") != 0) {
        c->downs[c->down_count++] = codec;
    }
}

/* One life: `up` with a wrapper, and the next of the optimizers, codecs down and moves. */
static void live_with(cursor *c, const ps_codec *up, int wrap, double value, bool broadcasts)
{
    uint32_t i = c->lives++;
    const ps_optim *optim = i % (c->optim_count + 1) < c->optim_count
                                ? c->optims[i % (c->optim_count + 1)]
                                : NULL; /* workers have it */
    const ps_codec *down = c->downs[i * 5 % c->down_count];
    farm_job *job = ps_xcalloc(1, sizeof *job);
    char what[120];

    world_init(&job->w, "bsp", WORKERS, WORLD_SLICES);
    world_codecs(&job->w, up->name, down->name);
    job->w.conf.merge_scale = 1.0f / WORKERS;
    job->w.conf.descent.optim = optim;
    if (optim != NULL) {
        job->w.conf.descent.params = ps_params_default(optim->params);
    }
    job->w.conf.broadcasts = broadcasts;
    for (uint32_t s = 0; s < WORLD_SLICES; s++) {
        ps_store_slice *slice = &job->w.slices[s];

        if (wrap >= 0) {
            set_wrap(slice, wrap, value);
        }
        slice->down_params.v[down->own + PS_WRAP_FEEDBACK] = i % 2;
        slice->down_params.v[down->own + PS_WRAP_LOSSLESS] = i % 3;
        slice->is_state = s == 3;
    }
    (void)snprintf(what, sizeof what, "life %" PRIu32 ": up %s wrap %d, down %s, %s%s", i, up->name,
                   wrap, down->name, optim == NULL ? "no optimizer" : optim->name,
                   broadcasts ? ", broadcast" : "");
    live(job, moves[i % MOVES], what);
    free(job);
}

static void live_with_each_wrap(const ps_codec *up, void *arg)
{
    static const struct {
        int which;
        double value;
    } wraps[] = {{-1, 0}, {PS_WRAP_LOSSLESS, 1}, {PS_WRAP_FEEDBACK, 1}, {PS_WRAP_DIFFERENCE, 1}};
    cursor *c = arg;

    for (size_t w = 0; w < sizeof wraps / sizeof wraps[0]; w++) {
        if (strcmp(up->name, "powersgd") == 0 ||
            (wraps[w].which == PS_WRAP_DIFFERENCE && up->sum_is_vote)) {
            continue; /* a matrix comes as f32; a vote of differences is refused */
        }
        for (size_t o = 0; o <= c->optim_count; o++) { /* all optimizers, as lives go round them */
            live_with(c, up, wraps[w].which, wraps[w].value, false);
        }
        live_with(c, up, wraps[w].which, wraps[w].value, true);
    }
}

static void each_codec_wrapper_and_optimizer_goes_on_with_the_same_bits(void **state)
{
    cursor c = {0};

    (void)state;
    ps_optim_each(add_optim, &c);
    ps_codec_each(add_down, &c);
    assert_true(c.optim_count > 5 && c.down_count > 8);
    ps_codec_each(live_with_each_wrap, &c);
    assert_true(c.lives > 500);
}

/* ---- Rows ---- */

static void rows_go_on_with_the_same_bits(const ps_optim *optim, void *arg)
{
    cursor *c = arg;

    for (int admission = PS_ADMIT_ALL; admission <= PS_ADMIT_COUNT; admission++) {
        farm_job *job = ps_xcalloc(1, sizeof *job);

        world_init(&job->w, "bsp", WORKERS, WORLD_SLICES);
        job->w.conf.descent.optim = optim;
        job->w.conf.descent.params = ps_params_default(optim->params);
        job->has_rows = true;
        job->rows_save_changes = admission == PS_ADMIT_ALL;
        job->admission = (ps_table_admission)admission;
        live(job, moves[c->lives++ % MOVES], optim->name);
        free(job);
    }
}

static void each_optimizer_of_rows_goes_on_with_the_same_bits(void **state)
{
    cursor c = {0};

    (void)state;
    ps_optim_each(rows_go_on_with_the_same_bits, &c);
    assert_true(c.lives > 20);
}

/* What is a change, and what was removed, is still so: the next file of changes is the same. */
static void the_next_file_of_changes_is_the_same(void **state)
{
    farm_job *job = ps_xcalloc(1, sizeof *job);
    farm f;
    farm_file nothing = {0}, before = {0}, after = {0};

    (void)state;
    world_init(&job->w, "bsp", WORKERS, WORLD_SLICES);
    job->has_rows = job->rows_save_changes = true;
    farm_begin(&f, job, 1);
    push_clock(&f, 0, 0, 10);
    must(ps_table_save(ps_tables_at(ps_store_tables(f.stores[0]), 0), PS_TABLE_CHANGES, farm_write,
                       &nothing));
    for (uint64_t clock = 1; clock < 40; clock++) {
        push_clock(&f, clock, 0, 10);
    }
    assert_true(ps_table_count(ps_tables_at(ps_store_tables(f.stores[0]), 0)).removed > 0);
    must(farm_move(&f, 1, 0));
    must(ps_table_save(ps_tables_at(ps_store_tables(f.stores[0]), 0), PS_TABLE_CHANGES, farm_write,
                       &after));
    farm_end(&f);
    farm_begin(&f, job, 1); /* the same life without a move */
    push_clock(&f, 0, 0, 10);
    free(nothing.bytes);
    nothing = (farm_file){0};
    must(ps_table_save(ps_tables_at(ps_store_tables(f.stores[0]), 0), PS_TABLE_CHANGES, farm_write,
                       &nothing));
    for (uint64_t clock = 1; clock < 40; clock++) {
        push_clock(&f, clock, 0, 10);
    }
    must(ps_table_save(ps_tables_at(ps_store_tables(f.stores[0]), 0), PS_TABLE_CHANGES, farm_write,
                       &before));
    assert_int_equal(before.len, after.len);
    assert_memory_equal(before.bytes, after.bytes, before.len);
    farm_end(&f);
    free(nothing.bytes);
    free(before.bytes);
    free(after.bytes);
    free(job);
}

/* ---- Policies ---- */

enum { EVENTS = 500 };

typedef struct life {
    farm a, b; /* b moves now and then */
    uint64_t seed, drawn;
    uint64_t next[WORKERS][WORLD_SLICES], next_rows[WORKERS], asked[WORKERS];
    bool lost[WORKERS];
    int64_t now_us;
} life;

static uint64_t draw(life *l, uint64_t n)
{
    return ps_draw_below(l->seed, l->drawn++, n);
}

static void must_agree(const life *l, ps_status a, ps_status b, const char *what)
{
    if (a.code != b.code || strcmp(a.text, b.text) != 0) {
        fail_msg("%s, draw %" PRIu64 ", %s: \"%s\", and moved \"%s\"",
                 l->a.job->w.conf.policy->name, l->drawn, what, a.text, b.text);
    }
}

static void event_push(life *l)
{
    uint32_t w = (uint32_t)draw(l, WORKERS), s = (uint32_t)draw(l, WORLD_SLICES);
    ps_store_outcome oa = 0, ob = 0;
    ps_status a = farm_push(&l->a, w, l->next[w][s], w, s, &oa);
    ps_status b = farm_push(&l->b, w, l->next[w][s], w, s, &ob);

    must_agree(l, a, b, "a push");
    assert_int_equal(oa, ob);
    if (ps_is_ok(&a)) {
        l->next[w][s]++;
    }
}

static void event_push_rows(life *l)
{
    uint32_t w = (uint32_t)draw(l, WORKERS);
    ps_status a = farm_push_rows(&l->a, w, l->next_rows[w], w);
    ps_status b = farm_push_rows(&l->b, w, l->next_rows[w], w);

    must_agree(l, a, b, "rows");
    if (ps_is_ok(&a)) {
        l->next_rows[w]++;
    }
}

static uint64_t oldest_clock(const farm *f)
{
    uint64_t least = UINT64_MAX - 1;

    for (uint32_t i = 0; i < f->count; i++) {
        uint64_t clock = ps_store_clock(f->stores[i]);

        least = clock < least ? clock : least;
    }
    return least;
}

static void event_pull(life *l)
{
    uint64_t got_a[WORLD_SLICES], got_b[WORLD_SLICES], clock;
    uint32_t w = (uint32_t)draw(l, WORKERS);
    ps_status a, b;

    clock = l->next[w][draw(l, WORLD_SLICES)];
    if (l->a.job->w.conf.policy->leaves_behind && clock > oldest_clock(&l->a) + 1) {
        clock = oldest_clock(&l->a) + 1; /* or some stores accept the pull and some do not */
    }
    l->asked[w] = clock = clock > l->asked[w] ? clock : l->asked[w];
    a = farm_pull(&l->a, w, clock, got_a);
    b = farm_pull(&l->b, w, clock, got_b);
    must_agree(l, a, b, "a pull");
    for (uint32_t s = 0; s < WORLD_SLICES; s++) {
        if (got_a[s] != got_b[s]) {
            fail_msg("%s, draw %" PRIu64 ": worker %" PRIu32
                     " is given something else of slice %" PRIu32,
                     l->a.job->w.conf.policy->name, l->drawn, w, s);
        }
    }
    if (l->a.job->has_rows) {
        assert_true(farm_pull_rows(&l->a, w, clock) == farm_pull_rows(&l->b, w, clock));
    }
}

static void event_tick(life *l, int64_t shift_us)
{
    l->now_us += (int64_t)draw(l, 9000);
    farm_tick(&l->a, l->now_us);
    farm_tick(&l->b, l->now_us + shift_us);
}

static void event_lose(life *l)
{
    uint32_t w = (uint32_t)draw(l, WORKERS);

    if (draw(l, 40) == 0) {
        must_agree(l, farm_lose(&l->a, w), farm_lose(&l->b, w), "a loss");
        l->lost[w] = true;
    }
}

/* Both farms live through the same events; b is moved every 60 of them, to a process whose clock
 * stands elsewhere. */
static void live_randomly(const farm_job *job, uint64_t seed)
{
    life *l = ps_xcalloc(1, sizeof *l);
    int64_t shift_us = 0;

    l->seed = ps_draw_key(seed, PS_DRAW_TEST, 0, 0, 0);
    farm_begin(&l->a, job, 2);
    farm_begin(&l->b, job, 2);
    for (uint32_t i = 1; i < EVENTS; i++) {
        switch (draw(l, 8)) {
        case 0:
        case 1:
            event_pull(l);
            break;
        case 2:
            event_tick(l, shift_us);
            break;
        case 3:
            event_lose(l);
            break;
        case 4:
            if (job->has_rows) {
                event_push_rows(l);
            }
            break;
        default:
            event_push(l);
        }
        if (i % 60 == 0) {
            shift_us = (int64_t)draw(l, 2000000) - 1000000;
            must(farm_move(&l->b, 1 + (uint32_t)draw(l, FARM_STORES), l->now_us + shift_us));
        }
        if (farm_hash(&l->a) != farm_hash(&l->b)) {
            fail_msg("%s, seed %" PRIu64 ", event %" PRIu32 ": the weights differ",
                     job->w.conf.policy->name, seed, i);
        }
    }
    farm_end(&l->a);
    farm_end(&l->b);
    free(l);
}

static void live_by_policy(const ps_consistency *policy, void *arg)
{
    const uint64_t *seed = arg;

    for (uint32_t i = 0; i < 6; i++) {
        farm_job *job = ps_xcalloc(1, sizeof *job);

        world_init(&job->w, policy->name, WORKERS, WORLD_SLICES);
        world_codecs(&job->w, i % 2 == 0 ? "int8" : "f32", i % 3 == 0 ? "int8" : "f16");
        job->w.conf.descent.optim = ps_optim_find(i % 2 == 0 ? "adam" : "momentum");
        job->w.conf.descent.params = ps_params_default(job->w.conf.descent.optim->params);
        job->has_rows = i % 2 == 0;
        job->w.conf.broadcasts = policy->closes != NULL && i % 3 == 1;
        if (policy->closes == NULL && i % 3 == 2) {
            job->w.conf.delay = (ps_delay){.lambda = 0.1, .decay = i == 2 ? 0.9 : 0};
        }
        for (uint32_t s = 0; s < WORLD_SLICES; s++) {
            job->w.slices[s].down_params.v[job->w.slices[s].down->own + PS_WRAP_FEEDBACK] =
                i % 3 == 0;
        }
        live_randomly(job, *seed * 100 + i);
        free(job);
    }
}

static void each_policy_goes_on_in_the_midst_of_things(void **state)
{
    const char *text = getenv("PSGD_TEST_SEED");
    uint64_t seed = text == NULL ? 1 : strtoull(text, NULL, 10);

    (void)state;
    print_message("seed %" PRIu64 "\n", seed);
    ps_consistency_each(live_by_policy, &seed);
}

/* Several workers hold a block: who brings what is in the file. */
static void blocks_with_redundancy_go_on(void **state)
{
    farm_job *job = ps_xcalloc(1, sizeof *job);
    ps_store_outcome outcome;
    farm a, b;

    (void)state;
    world_init(&job->w, "bsp", WORKERS, WORLD_SLICES);
    world_blocks(&job->w, 4);
    for (uint32_t k = 0; k < 4; k++) {
        world_hold(&job->w, k % WORKERS, k);
    }
    world_hold(&job->w, 2, 3); /* also worker 0's */
    farm_begin(&a, job, 1);
    farm_begin(&b, job, 3);
    for (uint64_t clock = 0; clock < 6; clock++) {
        for (uint32_t i = 0; i < 4 * WORLD_SLICES; i++) {
            uint32_t k = 3 - i % 4, s = i / 4, w = k == 3 && clock % 2 == 1 ? 2 : k % WORKERS;

            must(farm_push(&a, w, clock, k, s, &outcome));
            must(farm_push(&b, w, clock, k, s, &outcome));
            if (clock == 3 && i == 17) {
                must(farm_move(&b, 2, 0));
                must(farm_push(&b, 0, clock, 3, 0, &outcome));
                assert_int_equal(outcome, PS_STORE_DUPLICATE);
            }
        }
        assert_true(farm_hash(&a) == farm_hash(&b));
    }
    farm_end(&a);
    farm_end(&b);
    free(job);
}

/* A farm whose stores keep what their slices were before the last step. */
static void begin_keeping(farm *f, const farm_job *job, uint32_t count)
{
    farm_begin(f, job, count);
    for (uint32_t i = 0; i < count; i++) {
        ps_store_keep_before(f->stores[i]);
    }
}

/* Replaces the stores by `count` ones as they were when `clock` began. */
static void go_back(farm *f, const farm_job *job, uint64_t clock, uint32_t count)
{
    farm_file files[FARM_STORES] = {{0}};
    uint32_t had = f->count;

    for (uint32_t i = 0; i < had; i++) {
        assert_false(ps_store_has_at(f->stores[i], clock + 2));
        assert_true(ps_store_has_at(f->stores[i], clock));
        must(ps_store_save_at(f->stores[i], clock, farm_write, &files[i]));
    }
    farm_end(f);
    begin_keeping(f, job, count);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < had; k++) {
            must(ps_store_load(f->stores[i], files[k].bytes, files[k].len));
        }
        must(ps_store_load_end(f->stores[i]));
    }
    for (uint32_t i = 0; i < had; i++) {
        free(files[i].bytes);
    }
}

/* Asks for all slices as they are for `clock`, for each worker. */
static void pull_all(const farm *f, uint64_t clock, uint64_t got[WORKERS][WORLD_SLICES])
{
    for (uint32_t w = 0; w < WORKERS; w++) {
        must(farm_pull(f, w, clock, got[w]));
        for (uint32_t s = 0; s < f->job->w.conf.slice_count; s++) {
            assert_true(got[w][s] != 0); /* each was given */
        }
    }
}

static uint64_t row_count(const farm *f)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < f->count; i++) {
        count += ps_store_table_counters(f->stores[i]).rows;
    }
    return count;
}

/* Pushes the rows of the first `count` workers, the last first. */
static void push_rows(const farm *f, uint64_t clock, uint32_t count)
{
    for (uint32_t w = count; f->job->has_rows && w-- > 0;) {
        must(farm_push_rows(f, w, clock, w));
    }
}

/* Returns a hash of the rows that each worker is given for `clock`. */
static uint64_t rows_of(const farm *f, uint64_t clock)
{
    uint64_t hash = 1;

    for (uint32_t w = 0; f->job->has_rows && w < WORKERS; w++) {
        uint64_t got = farm_pull_rows(f, w, clock);

        assert_true(got != 0);
        hash = hash * 31 + got;
    }
    return hash;
}

/* A worker is lost within a clock, of which some slices have all contributions and others only a
 * part: workers are given once more what they were given for it, and the repeated clock has the
 * same bits. A copy, from which nobody pulls, has them too. */
static void a_store_goes_back_to_the_beginning_of_a_clock(void **state)
{
    static const struct {
        const char *optim, *up, *down;
        int up_wrap, down_wrap; /* numbers that are 1; 0: none */
        bool broadcasts, has_rows;
        ps_table_admission admission;
    } jobs[] = {{NULL, "f32", "f32", 0, 0, false, false, PS_ADMIT_ALL},
                {"sgd", "f32", "f32", 0, 0, false, true, PS_ADMIT_COUNT},
                {"adam", "f32", "f32", 0, 0, false, true, PS_ADMIT_ALL},
                {"adam", "int8", "int8", 0, 0, false, false, PS_ADMIT_ALL},
                {"momentum", "intsum", "f16", 0, 0, false, true, PS_ADMIT_PROBABILITY},
                {"adam", "f32", "int8", 0, PS_WRAP_FEEDBACK, false, false, PS_ADMIT_ALL},
                {"sgd", "int8", "f32", PS_WRAP_DIFFERENCE, 0, false, false, PS_ADMIT_ALL},
                {"momentum", "intsum", "int8", PS_WRAP_DIFFERENCE, PS_WRAP_FEEDBACK, false, false,
                 PS_ADMIT_ALL},
                {"momentum", "int8", "int8", 0, PS_WRAP_FEEDBACK, true, false, PS_ADMIT_ALL}};

    (void)state;
    for (size_t o = 0; o < sizeof jobs / sizeof jobs[0]; o++) {
        for (uint32_t part = 0; part <= 10; part++) {
            farm_job *job = ps_xcalloc(1, sizeof *job);
            ps_ledger ledger = {0}, other = {0};
            bool is_first = true;
            uint64_t ends[2][WORKERS][WORLD_SLICES];
            farm a, b, copy;

            world_init(&job->w, "bsp", WORKERS, WORLD_SLICES);
            world_codecs(&job->w, jobs[o].up, jobs[o].down);
            job->w.conf.descent.optim = jobs[o].optim != NULL ? ps_optim_find(jobs[o].optim) : NULL;
            if (jobs[o].optim != NULL) {
                job->w.conf.descent.params = ps_params_default(job->w.conf.descent.optim->params);
            }
            for (uint32_t s = 0; s < WORLD_SLICES; s++) {
                if (jobs[o].up_wrap != 0) {
                    set_wrap(&job->w.slices[s], jobs[o].up_wrap, 1);
                }
                if (jobs[o].down_wrap != 0) {
                    const ps_codec *down = job->w.slices[s].down;

                    job->w.slices[s].down_params.v[down->own + (size_t)jobs[o].down_wrap] = 1;
                }
            }
            job->w.conf.broadcasts = jobs[o].broadcasts;
            job->has_rows = jobs[o].has_rows;
            job->admission = jobs[o].admission;
            job->least_score = 0.0985f; /* the ticks after clocks 2 and 5 remove rows */
            farm_begin(&a, job, 1);
            begin_keeping(&b, job, 2);
            begin_keeping(&copy, job, 1);
            for (uint64_t clock = 0; clock < CLOCKS; clock++) {
                uint64_t straight[WORKERS][WORLD_SLICES], repeated[WORKERS][WORLD_SLICES];
                uint64_t rows = rows_of(&a, clock), count = row_count(&a);

                if (clock > 0) { /* those of clock 0 are sent with the job */
                    pull_all(&a, clock, straight);
                    pull_all(&b, clock, repeated);
                    assert_memory_equal(repeated, straight, sizeof repeated);
                }
                push_clock(&a, clock, 0, 10);
                push_clock(&copy, clock, 0, 10);
                for (uint32_t lost = 0; lost < 2 && (clock == 0 || clock == 2 || clock == 5);
                     lost++) {
                    push_clock(&b, clock, 0, lost == 0 ? part : part / 2);
                    push_rows(&b, clock, part % (WORKERS + 1));
                    go_back(&b, job, clock, clock == 2 ? 3 : 2 - lost);
                    assert_true(rows_of(&b, clock) == rows);
                    assert_int_equal(row_count(&b), count);
                    if (clock > 0 && !jobs[o].broadcasts) { /* else workers have the weights */
                        pull_all(&b, clock, repeated);
                        assert_memory_equal(repeated, straight, sizeof repeated);
                    }
                }
                push_clock(&b, clock, 0, 10);
            }
            compare(&a, &b, "gone back", CLOCKS);
            if (!jobs[o].broadcasts) { /* whose changes of clocks before are only with those that
                                          gave them */
                pull_all(&a, CLOCKS, ends[0]);
                pull_all(&copy, CLOCKS, ends[1]);
                assert_memory_equal(ends[0], ends[1], sizeof ends[0]);
            }
            assert_int_equal(farm_hash(&a), farm_hash(&copy));
            assert_int_equal(farm_hash(&a), farm_hash(&b));
            assert_int_equal(ps_store_ledger(a.stores[0], &is_first, &ledger), 0);
            is_first = true;
            assert_int_equal(ps_store_ledger(b.stores[0], &is_first, &other), 0);
            assert_int_equal(other.count, ledger.count);
            assert_true(other.hash == ledger.hash);
            farm_end(&a);
            farm_end(&b);
            farm_end(&copy);
            free(job);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_goes_back_to_the_beginning_of_a_clock),
        cmocka_unit_test(each_codec_wrapper_and_optimizer_goes_on_with_the_same_bits),
        cmocka_unit_test(each_optimizer_of_rows_goes_on_with_the_same_bits),
        cmocka_unit_test(the_next_file_of_changes_is_the_same),
        cmocka_unit_test(each_policy_goes_on_in_the_midst_of_things),
        cmocka_unit_test(blocks_with_redundancy_go_on),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
