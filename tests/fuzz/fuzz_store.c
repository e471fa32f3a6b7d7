/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_store.c - the file of a store with bytes that are others, under checksums that are right:
 * the store refuses it with the offset, or goes on from what it says. The first byte of the input
 * chooses a job; each three bytes behind it are a place in the file and what stands there. */
#include "tests/fuzz/state_fuzz.h"
#include "tests/support/farm.h"

#include "common/codec/wrap.h"

#include <stdlib.h>
#include <string.h>

enum { JOBS = 7, WORKERS = 3, SLICES = 3, STEPS = 4 };
enum { REPEATS = 6 }; /* the job whose stores can go back to the beginning of a clock */

static void make_job(farm_job *job, uint32_t which)
{
    static const char *const policies[JOBS] = {"bsp",  "asp", "half_async", "backup",
                                               "dssp", "bsp", "bsp"};
    static const char *const ups[JOBS] = {"int8", "f32", "intsum", "vote", "f16", "f32", "f32"};
    static const char *const downs[JOBS] = {"int8", "f32", "f16", "f32", "f32", "int8", "f32"};

    world_init(&job->w, policies[which], WORKERS, SLICES);
    world_codecs(&job->w, ups[which], downs[which]);
    job->w.conf.descent.optim = ps_optim_find("momentum");
    job->w.conf.descent.params = ps_params_default(job->w.conf.descent.optim->params);
    job->w.conf.broadcasts = which == 5;
    job->has_rows = which != 3 && which != REPEATS;
    job->rows_save_changes = which == 0;
    job->admission = which == 0 ? PS_ADMIT_COUNT : PS_ADMIT_ALL;
    if (which == 1) {
        job->w.conf.delay = (ps_delay){.lambda = 0.1, .decay = 0.9};
    }
    for (uint32_t s = 0; s < SLICES; s++) {
        ps_store_slice *slice = &job->w.slices[s];

        slice->down_params.v[slice->down->own + PS_WRAP_FEEDBACK] = which == 0;
        if (which == 2 && s == 0) { /* 100 values */
            slice->up = slice->down = ps_codec_find("f32");
            slice->up_params = slice->down_params = ps_params_default(slice->up->params);
            slice->up_params.v[slice->up->own + PS_WRAP_ROWS] = 4;
        }
    }
}

static void begin(farm *f, const farm_job *jobs, uint32_t which)
{
    farm_begin(f, &jobs[which], 1);
    if (which == REPEATS) {
        ps_store_keep_before(f->stores[0]);
    }
}

/* Contributions to the first slices of a clock, whatever becomes of them. */
static void push_slices(const farm *f, uint64_t clock, uint32_t from, uint32_t slices)
{
    for (uint32_t k = from; k < WORKERS; k++) {
        ps_store_outcome outcome;
        ps_status st;

        for (uint32_t s = 0; s < slices; s++) {
            st = farm_push(f, k, clock, k, s, &outcome);
            (void)st;
        }
        if (f->job->has_rows) {
            st = farm_push_rows(f, k, clock, k);
            (void)st;
        }
    }
}

static void push_some(const farm *f, uint64_t clock, uint32_t from)
{
    push_slices(f, clock, from, SLICES);
}

static farm_file save(const farm *f, bool at_beginning, uint64_t clock)
{
    farm_file file = {0};
    ps_status st = at_beginning ? ps_store_save_at(f->stores[0], clock, farm_write, &file)
                                : ps_store_save(f->stores[0], farm_write, &file);

    if (!ps_is_ok(&st)) {
        abort();
    }
    return file;
}

/* A store in the midst of a clock, as a file. */
static const farm_file *file_of(const farm_job *jobs, uint32_t which)
{
    static farm_file files[JOBS];

    if (files[which].bytes == NULL) {
        uint64_t got[WORLD_SLICES];
        farm f;
        ps_status st;

        begin(&f, jobs, which);
        farm_tick(&f, 1000);
        push_some(&f, 0, 0);
        push_some(&f, 1, 0);
        st = farm_pull(&f, 1, 1, got);
        (void)st;
        push_some(&f, 2, 1);
        push_slices(&f, 2, 0, which == REPEATS ? 1 : 0); /* one slice is ahead of the others */
        files[which] = save(&f, which == REPEATS, 2);
        farm_end(&f);
    }
    return &files[which];
}

static void go_on(const farm *f)
{
    uint64_t got[WORLD_SLICES];
    farm_file again;

    farm_tick(f, 2000);
    for (uint64_t clock = 0; clock < STEPS; clock++) {
        push_some(f, clock, 0);
        for (uint32_t w = 0; w < WORKERS; w++) {
            ps_status st = farm_pull(f, w, clock, got);

            (void)st;
        }
    }
    again = save(f, false, 0);
    free(again.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static farm_job jobs[JOBS];
    static bool has_jobs;
    const farm_file *file;
    uint32_t which = size == 0 ? 0 : data[0] % JOBS;
    uint8_t *bytes;
    ps_status st;
    farm f;

    for (uint32_t i = 0; !has_jobs && i < JOBS; i++) {
        make_job(&jobs[i], i);
    }
    has_jobs = true;
    file = file_of(jobs, which);
    bytes = malloc(file->len);
    if (bytes == NULL) {
        return 0;
    }
    memcpy(bytes, file->bytes, file->len);
    if (size > 0) {
        state_fuzz_change(bytes, file->len, data + 1, size - 1);
    }
    begin(&f, jobs, which);
    farm_tick(&f, 500);
    st = ps_store_load(f.stores[0], bytes, file->len);
    if (ps_is_ok(&st)) {
        st = ps_store_load_end(f.stores[0]);
    }
    if (ps_is_ok(&st)) {
        go_on(&f);
    } else if (st.text[0] == '\0') {
        abort();
    }
    farm_end(&f);
    free(bytes);
    return 0;
}
