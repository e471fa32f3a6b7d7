/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_changes.c - files of a store with the rows alone that have changed since an earlier
 * file: read in their order, into any number of stores, they give what a whole file gives, to the
 * order of the rows. Files that lack one before them are refused. */
#include "tests/support/cmocka_all.h"

#include "tests/support/farm.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS = 2, SLICES = 4, FILES = 4, STORES = 2 };

/* A checkpoint is after so many clocks. */
static const uint64_t at[FILES] = {9, 10, 14, 21};

typedef struct rig {
    farm_job job;
    farm f;
    farm_file files[FILES][STORES]; /* the first ones are whole */
    farm_file whole[STORES];        /* at the last clock */
} rig;

static void must(ps_status st)
{
    assert_string_equal(st.text, "");
}

static void must_fail(ps_status st, ps_code code, const char *text)
{
    if (st.code != code || strstr(st.text, text) == NULL) {
        fail_msg("%s: \"%s\"; should be %s and say \"%s\"", ps_code_name(st.code), st.text,
                 ps_code_name(code), text);
    }
}

static void push_clock(const farm *f, uint64_t clock)
{
    for (uint32_t k = 0; k < WORKERS; k++) {
        for (uint32_t s = 0; s < SLICES; s++) {
            ps_store_outcome outcome;

            must(farm_push(f, k, clock, k, s, &outcome));
        }
        must(farm_push_rows(f, k, clock, k));
    }
}

/* Trains, with a file of each store at each clock of `at`; each counts from the one before. A file
 * that was given up, as it was not stored, changes nothing for later ones. */
static rig *begin(const char *policy, ps_table_admission admission)
{
    rig *r = ps_xcalloc(1, sizeof *r);
    uint64_t clock = 0;

    world_init(&r->job.w, policy, WORKERS, SLICES);
    r->job.w.conf.descent.optim = ps_optim_find("adam");
    r->job.w.conf.descent.params = ps_params_default(r->job.w.conf.descent.optim->params);
    r->job.has_rows = r->job.rows_save_changes = true;
    r->job.admission = admission;
    r->job.hash = 77;
    farm_begin(&r->f, &r->job, STORES);
    for (uint32_t i = 0; i < FILES; i++) {
        uint64_t base = i > 0 ? at[i - 1] : 0;

        for (; clock < at[i]; clock++) {
            push_clock(&r->f, clock);
            for (uint32_t s = 0; s < STORES && clock == 12; s++) {
                ps_store_mark(r->f.stores[s], clock, base);
            }
        }
        for (uint32_t s = 0; s < STORES; s++) {
            must(ps_store_save_since(r->f.stores[s], at[i], base, farm_write, &r->files[i][s]));
            ps_store_mark(r->f.stores[s], at[i], base);
        }
    }
    for (uint32_t s = 0; s < STORES; s++) {
        must(ps_store_save(r->f.stores[s], farm_write, &r->whole[s]));
    }
    return r;
}

static void end(rig *r)
{
    for (uint32_t s = 0; s < STORES; s++) {
        for (uint32_t i = 0; i < FILES; i++) {
            free(r->files[i][s].bytes);
        }
        free(r->whole[s].bytes);
    }
    farm_end(&r->f);
    free(r);
}

static ps_status load_end(const farm *f, ps_status st)
{
    for (uint32_t i = 0; i < f->count && ps_is_ok(&st); i++) {
        st = ps_store_load_end(f->stores[i]);
    }
    return st;
}

/* Gives all stores a file of the checkpoint at the last clock, or of one before. */
static ps_status take(const farm *f, const farm_file *file)
{
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < f->count && ps_is_ok(&st); i++) {
        st = ps_store_load_of(f->stores[i], at[FILES - 1], file->bytes, file->len);
    }
    return st;
}

static void a_chain_gives_what_a_whole_file_gives(void **state)
{
    static const char *const policies[] = {"bsp", "ssp"};

    (void)state;
    for (uint32_t p = 0; p < 2; p++) {
        for (uint32_t count = 1; count <= 3; count++) {
            rig *r = begin(policies[p], p == 0 ? PS_ADMIT_COUNT : PS_ADMIT_ALL);
            farm chain, whole;

            farm_begin(&chain, &r->job, count);
            farm_begin(&whole, &r->job, count);
            for (uint32_t i = 0; i < FILES; i++) {
                for (uint32_t s = 0; s < STORES; s++) {
                    must(take(&chain, &r->files[i][s]));
                }
            }
            for (uint32_t s = 0; s < STORES; s++) {
                must(take(&whole, &r->whole[s]));
            }
            must(load_end(&chain, ps_ok()));
            must(load_end(&whole, ps_ok()));
            for (uint64_t more = 0; more < 3; more++) {
                assert_true(farm_hash(&chain) == farm_hash(&r->f));
                assert_true(farm_hash(&whole) == farm_hash(&r->f));
                for (uint32_t i = 0; i < count; i++) { /* with all rows in their order */
                    farm_file a = {0}, b = {0};

                    must(ps_store_save(chain.stores[i], farm_write, &a));
                    must(ps_store_save(whole.stores[i], farm_write, &b));
                    assert_int_equal(a.len, b.len);
                    assert_memory_equal(a.bytes, b.bytes, a.len);
                    free(a.bytes);
                    free(b.bytes);
                }
                push_clock(&r->f, at[FILES - 1] + more);
                push_clock(&chain, at[FILES - 1] + more);
                push_clock(&whole, at[FILES - 1] + more);
            }
            farm_end(&chain);
            farm_end(&whole);
            end(r);
        }
    }
}

static void a_file_has_what_changed_alone_and_says_since_when(void **state)
{
    rig *r = begin("bsp", PS_ADMIT_ALL);
    uint64_t clock, base;
    farm_file again = {0};

    (void)state;
    for (uint32_t i = 0; i < FILES; i++) {
        must(ps_store_file_clocks(r->files[i][0].bytes, 4096, &clock, &base));
        assert_int_equal(clock, at[i]);
        assert_int_equal(base, i > 0 ? at[i - 1] : 0);
    }
    assert_true(r->files[1][0].len < r->files[0][0].len * 3 / 4); /* after one clock of nine */
    must_fail(ps_store_file_clocks(r->files[0][0].bytes, 60, &clock, &base), PS_DATA_LOSS, "cut");
    /* of a clock that the store does not know any more, or never did */
    must(ps_store_save_since(r->f.stores[0], 99, at[0], farm_write, &again));
    must(ps_store_file_clocks(again.bytes, again.len, &clock, &base));
    assert_int_equal(base, 0);
    assert_int_equal(again.len, r->whole[0].len);
    free(again.bytes);
    end(r);
}

static void a_file_without_those_before_it_is_refused(void **state)
{
    rig *r = begin("bsp", PS_ADMIT_ALL);
    farm f;

    (void)state;
    farm_begin(&f, &r->job, 1);
    must_fail(take(&f, &r->files[3][0]), PS_FAILED_PRECONDITION,
              "what has changed since clock 14; no file of that clock came before");
    farm_end(&f);
    farm_begin(&f, &r->job, 1);
    must(take(&f, &r->files[0][0]));
    must_fail(take(&f, &r->files[2][0]), PS_FAILED_PRECONDITION, "since clock 10");
    farm_end(&f);
    farm_begin(&f, &r->job, 1);
    must(take(&f, &r->files[0][0]));
    must(take(&f, &r->files[1][0]));
    must_fail(take(&f, &r->files[0][0]), PS_FAILED_PRECONDITION, "has come before");
    farm_end(&f);
    /* with a server's file too few there are virtual shards without rows */
    farm_begin(&f, &r->job, 1);
    for (uint32_t i = 0; i < FILES; i++) {
        must(take(&f, &r->files[i][1]));
    }
    must(take(&f, &r->files[0][0]));
    must_fail(ps_store_load_end(f.stores[0]), PS_FAILED_PRECONDITION, "no file has the");
    farm_end(&f);
    end(r);
}

static void a_file_that_has_all_rows_needs_none_before_it(void **state)
{
    rig *r = begin("bsp", PS_ADMIT_ALL);
    farm f;

    (void)state;
    farm_begin(&f, &r->job, 3);
    for (uint32_t s = 0; s < STORES; s++) { /* older rows that it replaces */
        must(take(&f, &r->files[0][s]));
        must(take(&f, &r->whole[s]));
    }
    must(load_end(&f, ps_ok()));
    assert_true(farm_hash(&f) == farm_hash(&r->f));
    farm_end(&f);
    end(r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_gives_what_a_whole_file_gives),
        cmocka_unit_test(a_file_has_what_changed_alone_and_says_since_when),
        cmocka_unit_test(a_file_without_those_before_it_is_refused),
        cmocka_unit_test(a_file_that_has_all_rows_needs_none_before_it),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
