/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_file.c - files of a store's state that are not what they should be: cut, damaged, of
 * another job, of too few or too many shards. Each is refused, and the reason says what is wrong.
 */
#include "tests/support/cmocka_all.h"

#include "tests/support/farm.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, SLICES = 4 };

typedef struct rig {
    farm_job job;
    farm_file file; /* of a store that has all, after two clocks */
} rig;

static void must(ps_status st)
{
    assert_string_equal(st.text, "");
}

static void job_init(farm_job *job)
{
    world_init(&job->w, "ssp", WORKERS, SLICES);
    job->w.conf.descent.optim = ps_optim_find("adam");
    job->w.conf.descent.params = ps_params_default(job->w.conf.descent.optim->params);
    job->has_rows = true;
    job->hash = 77;
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

static rig *begin(void)
{
    rig *r = ps_xcalloc(1, sizeof *r);
    farm f;

    job_init(&r->job);
    farm_begin(&f, &r->job, 1);
    push_clock(&f, 0);
    push_clock(&f, 1);
    must(ps_store_save(f.stores[0], farm_write, &r->file));
    farm_end(&f);
    return r;
}

static void end(rig *r)
{
    free(r->file.bytes);
    free(r);
}

/* What a store of this job says of a file. */
static ps_status load(const farm_job *job, const uint8_t *bytes, size_t len)
{
    uint8_t *copy = ps_xmalloc(len + 1); /* so that a sanitizer sees its end */
    ps_status st;
    farm f;

    memcpy(copy, bytes, len);
    copy = ps_xrealloc(copy, len > 0 ? len : 1);
    farm_begin(&f, job, 1);
    st = ps_store_load(f.stores[0], copy, len);
    if (ps_is_ok(&st)) {
        st = ps_store_load_end(f.stores[0]);
    }
    farm_end(&f);
    free(copy);
    return st;
}

static void must_fail(ps_status st, ps_code code, const char *text)
{
    if (st.code != code || strstr(st.text, text) == NULL) {
        fail_msg("%s: \"%s\"; should be %s and say \"%s\"", ps_code_name(st.code), st.text,
                 ps_code_name(code), text);
    }
}

static void a_whole_file_is_taken(void **state)
{
    rig *r = begin();

    (void)state;
    must(load(&r->job, r->file.bytes, r->file.len));
    end(r);
}

static void a_file_that_is_cut_is_refused_wherever_it_is_cut(void **state)
{
    rig *r = begin();
    ps_status st;

    (void)state;
    for (size_t len = 0; len < r->file.len; len += len < 400 || len + 400 > r->file.len ? 1 : 37) {
        st = load(&r->job, r->file.bytes, len);
        if (st.code != PS_DATA_LOSS) {
            fail_msg("%zu of %zu bytes: %s", len, r->file.len, st.text);
        }
    }
    r->file.bytes = ps_xrealloc(r->file.bytes, r->file.len + 1);
    r->file.bytes[r->file.len] = 0;
    must_fail(load(&r->job, r->file.bytes, r->file.len + 1), PS_DATA_LOSS, "the file ends behind");
    end(r);
}

static void each_byte_counts(void **state)
{
    rig *r = begin();

    (void)state;
    for (size_t at = 0; at < r->file.len; at += at < 400 ? 1 : 23) {
        ps_status st;

        r->file.bytes[at] ^= 0x41;
        st = load(&r->job, r->file.bytes, r->file.len);
        if (ps_is_ok(&st)) {
            fail_msg("byte %zu of %zu may be another one", at, r->file.len);
        }
        r->file.bytes[at] ^= 0x41;
    }
    end(r);
}

static void a_file_of_another_job_is_refused(void **state)
{
    rig *r = begin();
    farm_job other;

    (void)state;
    job_init(&other);
    other.hash = 78;
    must_fail(load(&other, r->file.bytes, r->file.len), PS_FAILED_PRECONDITION,
              "job: 000000000000004d; this one computes 000000000000004e");
    job_init(&other);
    other.w.conf.policy = ps_consistency_find("asp");
    must_fail(load(&other, r->file.bytes, r->file.len), PS_FAILED_PRECONDITION,
              "policy: \"ssp\"; this job has \"asp\"");
    job_init(&other);
    other.w.conf.descent.optim = ps_optim_find("sgd");
    must_fail(load(&other, r->file.bytes, r->file.len), PS_FAILED_PRECONDITION,
              "optimizer: \"adam\"; this job has \"sgd\"");
    job_init(&other);
    other.w.conf.workers = other.w.conf.contributors = 2;
    must_fail(load(&other, r->file.bytes, r->file.len), PS_FAILED_PRECONDITION,
              "workers: 3; this job has 2");
    job_init(&other);
    other.w.slices[1].n = 2;
    must_fail(load(&other, r->file.bytes, r->file.len), PS_DATA_LOSS, "slice 13 of 1 values");
    job_init(&other);
    other.w.slices[1].index += 1;
    must_fail(load(&other, r->file.bytes, r->file.len), PS_FAILED_PRECONDITION,
              "no file has the slices of virtual shard 14");
    job_init(&other);
    other.w.conf.delay.lambda = 0.5;
    must_fail(load(&other, r->file.bytes, r->file.len), PS_DATA_LOSS, "slice 10: parts");
    end(r);
}

static void each_virtual_shard_comes_once(void **state)
{
    farm_file files[2] = {{0}};
    ps_status st;
    rig *r = begin();
    farm f, g;

    (void)state;
    farm_begin(&f, &r->job, 2);
    push_clock(&f, 0);
    must(ps_store_save(f.stores[0], farm_write, &files[0]));
    must(ps_store_save(f.stores[1], farm_write, &files[1]));
    must_fail(load(&r->job, files[0].bytes, files[0].len), PS_FAILED_PRECONDITION,
              "no file has the rows of virtual shard 3");
    farm_begin(&g, &r->job, 1);
    must(ps_store_load(g.stores[0], files[0].bytes, files[0].len));
    st = ps_store_load(g.stores[0], files[0].bytes, files[0].len);
    must_fail(st, PS_FAILED_PRECONDITION, "virtual shard 0 has come before");
    farm_end(&g);
    farm_end(&f);
    free(files[0].bytes);
    free(files[1].bytes);
    end(r);
}

/* Trains two stores: saves the first one after clock `first`, and the second one after `second` and
 * a contribution more. `to` gets both files. */
static void save_apart(const farm_job *job, uint64_t first, uint64_t second, farm_file to[2])
{
    farm f;

    farm_begin(&f, job, 2);
    for (uint64_t clock = 0; clock <= second; clock++) {
        push_clock(&f, clock);
        if (clock == first) {
            must(ps_store_save(f.stores[0], farm_write, &to[0]));
        }
    }
    must(farm_push_rows(&f, 1, second + 1, 1));
    must(ps_store_save(f.stores[1], farm_write, &to[1]));
    farm_end(&f);
}

/* Gives both files to each store. */
static void take_both(const farm *f, const farm_file files[2])
{
    for (uint32_t i = 0; i < f->count; i++) {
        must(ps_store_load(f->stores[i], files[0].bytes, files[0].len));
        must(ps_store_load(f->stores[i], files[1].bytes, files[1].len));
        must(ps_store_load_end(f->stores[i]));
    }
}

/* Where sums are formed, all rows are of one clock. */
static void sums_of_rows_are_of_one_clock(void **state)
{
    farm_file files[2] = {{0}};
    farm_job job = {0};
    farm f;

    (void)state;
    job_init(&job);
    world_init(&job.w, "bsp", WORKERS, SLICES);
    save_apart(&job, 1, 2, files);
    farm_begin(&f, &job, 1);
    must(ps_store_load(f.stores[0], files[0].bytes, files[0].len));
    must_fail(ps_store_load(f.stores[0], files[1].bytes, files[1].len), PS_DATA_LOSS,
              "rows of virtual shard 3 are of another clock");
    farm_end(&f);
    free(files[0].bytes);
    free(files[1].bytes);
}

/* Returns a hash of all weights and of all rows that the contributions to so many clocks touch. */
static uint64_t hash_of(const farm *f, uint64_t clocks)
{
    uint64_t sum = farm_hash(f);

    for (uint64_t clock = 0; clock < clocks; clock++) {
        for (uint32_t w = 0; w < WORKERS; w++) {
            uint64_t rows = farm_pull_rows(f, w, clock);

            assert_true(rows != 0);
            sum = sum * 31 + rows;
        }
    }
    return sum;
}

/* Where each contribution is a step, servers save themselves at clocks of their own. On any number
 * of stores, and saved once more meanwhile, each row then gets each contribution once. */
static void rows_of_servers_at_clocks_of_their_own_get_each_contribution_once(void **state)
{
    enum { END = 12, TICK = 3 };
    static const uint64_t clocks[][2] = {{6, 7}, {6, 6}, {5, 10}}; /* the last across ticks */
    farm_job job = {0};
    farm straight;
    uint64_t hash;

    (void)state;
    job_init(&job);
    farm_begin(&straight, &job, 1);
    for (uint64_t clock = 0; clock < END; clock++) {
        push_clock(&straight, clock);
    }
    hash = hash_of(&straight, END);
    farm_end(&straight);
    for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
        for (uint32_t count = 1; count <= 3; count++) {
            farm_file files[2] = {{0}};
            farm f;

            save_apart(&job, clocks[i][0], clocks[i][1], files);
            farm_begin(&f, &job, count);
            take_both(&f, files);
            must(farm_move(&f, 4 - count, 0));
            for (uint64_t clock = clocks[i][0] - 1; clock < END; clock++) {
                push_clock(&f, clock);
            }
            for (uint32_t s = 0; s < f.count; s++) {
                bool is_first = true;
                ps_ledger ledger;

                assert_int_equal(ps_store_ledger(f.stores[s], &is_first, &ledger), 0);
                assert_int_equal(ledger.count, END * WORKERS);
                assert_int_equal(ps_store_clock(f.stores[s]), END);
            }
            if (clocks[i][0] / TICK == clocks[i][1] / TICK) {
                assert_true(hash_of(&f, END) == hash);
            }
            farm_end(&f);
            free(files[0].bytes);
            free(files[1].bytes);
        }
    }
}

/* A worker that was lost is lost, unless the attempt that goes on has all workers again; a policy
 * that does not bear it has no such file. */
static void losses_are_in_the_file(void **state)
{
    rig *r = begin();
    farm_file file = {0};
    farm f;

    (void)state;
    farm_begin(&f, &r->job, 1);
    push_clock(&f, 0);
    must(farm_lose(&f, 1));
    must(ps_store_save(f.stores[0], farm_write, &file));
    farm_end(&f);
    farm_begin(&f, &r->job, 1);
    must(ps_store_load(f.stores[0], file.bytes, file.len));
    assert_false(ps_store_is_lost(f.stores[0], 1));
    must(ps_store_load_end(f.stores[0]));
    assert_true(ps_store_is_lost(f.stores[0], 1) && !ps_store_is_lost(f.stores[0], 0));
    assert_int_equal(ps_store_clock(f.stores[0]), 1);
    farm_end(&f);
    farm_begin(&f, &r->job, 1);
    must(ps_store_load(f.stores[0], file.bytes, file.len));
    ps_store_find_workers(f.stores[0]);
    must(ps_store_load_end(f.stores[0]));
    assert_false(ps_store_is_lost(f.stores[0], 1));
    push_clock(&f, 1);
    assert_int_equal(ps_store_clock(f.stores[0]), 2);
    farm_end(&f);
    free(file.bytes);
    end(r);
}

static void push_slice(const farm *f, uint64_t clock, uint32_t k, uint32_t s,
                       ps_store_outcome expected)
{
    ps_store_outcome outcome;

    must(farm_push(f, k, clock, k, s, &outcome));
    assert_int_equal(outcome, expected);
}

/* A worker that has saved itself before the store has: what the store has already does not count
 * again, and of a contribution that was on its way the rest counts. */
static void a_worker_that_is_behind_the_file_repeats_what_counts_once(void **state)
{
    rig *r = begin();
    farm_file file = {0};
    bool is_first = true;
    ps_ledger ledger;
    farm f;

    (void)state;
    farm_begin(&f, &r->job, 1);
    push_clock(&f, 0);
    push_clock(&f, 1);
    push_slice(&f, 2, 0, 0, PS_STORE_APPLIED); /* worker 0, which saved itself at clock 1 */
    push_slice(&f, 2, 0, 1, PS_STORE_APPLIED);
    must(ps_store_save(f.stores[0], farm_write, &file));
    farm_end(&f);
    farm_begin(&f, &r->job, 1);
    must(ps_store_load(f.stores[0], file.bytes, file.len));
    must(ps_store_load_end(f.stores[0]));
    for (uint32_t s = 0; s < SLICES; s++) {
        push_slice(&f, 1, 0, s, PS_STORE_DUPLICATE);
    }
    must(farm_push_rows(&f, 0, 1, 0));
    assert_true(ps_store_is_in(f.stores[0], 1, 0)); /* it is acknowledged */
    for (uint32_t s = 0; s < SLICES; s++) {
        push_slice(&f, 2, 0, s, s < 2 ? PS_STORE_DUPLICATE : PS_STORE_APPLIED);
    }
    must(farm_push_rows(&f, 0, 2, 0));
    for (uint32_t k = 1; k < WORKERS; k++) {
        for (uint32_t s = 0; s < SLICES; s++) {
            push_slice(&f, 2, k, s, PS_STORE_APPLIED);
        }
        must(farm_push_rows(&f, k, 2, k));
    }
    assert_int_equal(ps_store_ledger(f.stores[0], &is_first, &ledger), 0);
    assert_int_equal(ledger.count, 3 * WORKERS);
    farm_end(&f);
    free(file.bytes);
    end(r);
}

static ps_status write_little(void *arg, const void *bytes, size_t len)
{
    size_t *left = arg;

    (void)bytes;
    if (len > *left) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "the disk is full");
    }
    *left -= len;
    return ps_ok();
}

static void a_disk_that_is_full_is_told(void **state)
{
    rig *r = begin();
    farm f;

    (void)state;
    farm_begin(&f, &r->job, 1);
    for (size_t room = 0; room < r->file.len / 4; room += 50) {
        size_t left = room;
        ps_status st = ps_store_save(f.stores[0], write_little, &left);

        must_fail(st, PS_RESOURCE_EXHAUSTED, "the disk is full");
    }
    farm_end(&f);
    end(r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_file_is_taken),
        cmocka_unit_test(a_file_that_is_cut_is_refused_wherever_it_is_cut),
        cmocka_unit_test(each_byte_counts),
        cmocka_unit_test(a_file_of_another_job_is_refused),
        cmocka_unit_test(each_virtual_shard_comes_once),
        cmocka_unit_test(sums_of_rows_are_of_one_clock),
        cmocka_unit_test(rows_of_servers_at_clocks_of_their_own_get_each_contribution_once),
        cmocka_unit_test(losses_are_in_the_file),
        cmocka_unit_test(a_worker_that_is_behind_the_file_repeats_what_counts_once),
        cmocka_unit_test(a_disk_that_is_full_is_told),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
