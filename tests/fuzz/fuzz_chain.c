/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_chain.c - files of a store with the rows that changed since the one before, with bytes that
 * are others, under checksums that are right, in any order: the store refuses a file and says why,
 * or goes on from what they say. The first byte of the input chooses a job, two bits of the second
 * one each choose the file that comes next (3: none). Each four bytes behind them are a file, a
 * place in it and what stands there. */
#include "tests/fuzz/state_fuzz.h"
#include "tests/support/farm.h"

#include <stdlib.h>
#include <string.h>

enum { JOBS = 3, FILES = 3, TURNS = 4, WORKERS = 2, SLICES = 2, STEPS = 9 };

/* Clocks of the files; each file counts from the one before. */
static const uint64_t at[FILES] = {3, 4, 6};

static void make_job(farm_job *job, uint32_t which)
{
    static const char *const policies[JOBS] = {"bsp", "asp", "bsp"};

    world_init(&job->w, policies[which], WORKERS, SLICES);
    job->w.conf.descent.optim = ps_optim_find("momentum");
    job->w.conf.descent.params = ps_params_default(job->w.conf.descent.optim->params);
    job->has_rows = true;
    job->rows_save_changes = which == 0;
    job->admission = which == 2 ? PS_ADMIT_COUNT : PS_ADMIT_ALL;
}

/* Contributions to a clock, whatever becomes of them. */
static void push_clock(const farm *f, uint64_t clock)
{
    for (uint32_t k = 0; k < WORKERS; k++) {
        ps_store_outcome outcome;
        ps_status st;

        for (uint32_t s = 0; s < SLICES; s++) {
            st = farm_push(f, k, clock, k, s, &outcome);
            (void)st;
        }
        st = farm_push_rows(f, k, clock, k);
        (void)st;
    }
}

/* The files of a job: the first one has all rows. */
static void make_files(const farm_job *job, farm_file files[FILES])
{
    uint64_t clock = 0;
    farm f;

    farm_begin(&f, job, 1);
    for (uint32_t i = 0; i < FILES; i++) {
        uint64_t base = i > 0 ? at[i - 1] : 0;
        ps_status st;

        for (; clock < at[i]; clock++) {
            push_clock(&f, clock);
        }
        st = ps_store_save_since(f.stores[0], at[i], base, farm_write, &files[i]);
        if (!ps_is_ok(&st)) {
            abort();
        }
        ps_store_mark(f.stores[0], at[i], base);
    }
    farm_end(&f);
}

/* Changes the bytes of file number `i`, which are a copy. */
static void change(uint8_t *bytes, size_t len, uint32_t i, const uint8_t *data, size_t size)
{
    for (size_t at_byte = 0; at_byte + 3 < size; at_byte += 4) {
        const uint8_t *x = data + at_byte;

        if (x[0] % FILES == i) {
            bytes[(x[1] | (size_t)x[2] << 8) % len] = x[3];
        }
    }
    state_fuzz_mend(bytes, len);
}

/* What is loaded can be trained on, saved, and saved as what changes. */
static void go_on(const farm *f)
{
    farm_file again = {0}, changes = {0};
    ps_status st;

    for (uint64_t clock = 0; clock < STEPS; clock++) {
        push_clock(f, clock);
        if (clock == STEPS - 2) {
            st = ps_store_save_since(f->stores[0], clock, 0, farm_write, &again);
            if (!ps_is_ok(&st)) {
                abort();
            }
            ps_store_mark(f->stores[0], clock, 0);
        }
    }
    st = ps_store_save_since(f->stores[0], STEPS, STEPS - 2, farm_write, &changes);
    if (!ps_is_ok(&st)) {
        abort();
    }
    free(again.bytes);
    free(changes.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static farm_job jobs[JOBS];
    static farm_file files[JOBS][FILES];
    static bool has_files;
    uint32_t which = size > 0 ? data[0] % JOBS : 0, order = size > 1 ? data[1] : 0xe4 /* all */;
    uint8_t *bytes[FILES];
    ps_status st = ps_ok();
    farm f;

    for (uint32_t i = 0; !has_files && i < JOBS; i++) {
        make_job(&jobs[i], i);
        make_files(&jobs[i], files[i]);
    }
    has_files = true;
    farm_begin(&f, &jobs[which], 1);
    for (uint32_t i = 0; i < FILES; i++) {
        size_t len = files[which][i].len;
        uint64_t clock, base;

        bytes[i] = malloc(len);
        if (bytes[i] == NULL) {
            abort();
        }
        memcpy(bytes[i], files[which][i].bytes, len);
        change(bytes[i], len, i, size > 2 ? data + 2 : NULL, size > 2 ? size - 2 : 0);
        st = ps_store_file_clocks(bytes[i], len, &clock, &base);
        (void)st;
    }
    st = ps_ok();
    for (uint32_t turn = 0; turn < TURNS && ps_is_ok(&st); turn++) {
        uint32_t next = order >> (2 * turn) & 3;

        if (next < FILES) {
            st = ps_store_load_of(f.stores[0], at[FILES - 1], bytes[next], files[which][next].len);
        }
    }
    if (ps_is_ok(&st)) {
        st = ps_store_load_end(f.stores[0]);
    }
    if (ps_is_ok(&st)) {
        go_on(&f);
    } else if (st.text[0] == '\0') {
        abort();
    }
    farm_end(&f);
    for (uint32_t i = 0; i < FILES; i++) {
        free(bytes[i]);
    }
    return 0;
}
