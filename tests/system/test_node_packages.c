/* SPDX-License-Identifier: Apache-2.0 */
/* test_node_packages.c - PreCommit at a node: what fits, what does not, and data
 * sets that travel or need not. */
#include "tests/support/node_job.h"

#include <string.h>
#include <unistd.h>

/* The packages are refused so, and the node is idle with nothing left. */
static void assert_spoilt(node_world *w, nw_packages packages, ps_code code, const char *reason)
{
    nw_precommit_result result;

    reserve(w, packages.job_id, packages.attempt);
    nw_precommit(w, &packages, &result);
    assert_false(result.sealed);
    if (result.error.status.code != code || strcmp(result.error.reason, reason) != 0) {
        fail_msg("wanted %s, got %s: %s", reason, result.error.reason, result.error.status.text);
    }
    nw_await_idle(w);
    assert_false(has_folder(w, "sessions/job-1-1"));
}

static void packages_that_do_not_fit_end_the_attempt(void **state)
{
    node_world w;
    static const uint64_t same[] = {7, 7}, many[1001];
    job j = worker_job_of(small_job, "job-1", 1);
    nw_packages p;

    (void)state;
    nw_begin(&w, &nw_worker_hooks, NULL, NULL, 0, NULL);
    p = j.packages;
    p.shrinks = same;
    p.shrink_count = 2;
    assert_spoilt(&w, p, PS_INVALID_ARGUMENT, "BAD_TABLES");
    p.shrinks = many;
    p.shrink_count = 1001;
    assert_spoilt(&w, p, PS_INVALID_ARGUMENT, "BAD_TABLES");
    p = j.packages;
    p.plan_hash++;
    assert_spoilt(&w, p, PS_FAILED_PRECONDITION, "PLAN_MISMATCH");
    p = j.packages;
    p.data_sha256 = "0123456789012345678901234567890123456789012345678901234567890123";
    assert_spoilt(&w, p, PS_FAILED_PRECONDITION, "DATA_MISMATCH");
    p = j.packages;
    p.weights_hash++;
    assert_spoilt(&w, p, PS_DATA_LOSS, "WEIGHTS_MISMATCH");
    p = j.packages;
    p.skips_weights = true;
    assert_spoilt(&w, p, PS_FAILED_PRECONDITION, "INCOMPLETE");
    p = j.packages;
    p.rank = 1;
    assert_spoilt(&w, p, PS_INVALID_ARGUMENT, "BAD_PLACEMENTS");
    assert_int_equal(w.prepared, 0);
    w.fails_prepare = true;
    assert_spoilt(&w, j.packages, PS_RESOURCE_EXHAUSTED, "CANNOT_PREPARE");
    assert_int_equal(w.released, 0);
    nw_end(&w);
    job_fini(&j);
}

static void packages_out_of_order_are_refused(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);
    nw_precommit_result result;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    j.packages.skips_settings = true;
    reserve(&w, "job-1", 1);
    nw_precommit(&w, &j.packages, &result);
    assert_string_equal(result.error.reason, "OUT_OF_ORDER");
    assert_int_equal(nw_phase(&w), PSGD__V1__NODE_PHASE__NODE_PHASE_RESERVED);
    nw_end(&w);
    job_fini(&j);
}

static void packages_of_an_attempt_not_reserved_are_refused(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);
    nw_precommit_result result;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    nw_precommit(&w, &j.packages, &result);
    assert_int_equal(result.error.status.code, PS_FAILED_PRECONDITION);
    assert_string_equal(result.error.reason, "NOT_HELD");
    reserve(&w, "job-1", 2);
    nw_precommit(&w, &j.packages, &result);
    assert_int_equal(result.error.status.code, PS_ABORTED);
    assert_string_equal(result.error.reason, "STALE_ATTEMPT");
    nw_end(&w);
    job_fini(&j);
}

static void a_broken_stream_leaves_nothing(void **state)
{
    node_world w;
    job j = worker_job_of(small_job, "job-1", 1);
    nw_precommit_result result;

    (void)state;
    nw_begin(&w, &nw_worker_hooks, NULL, NULL, 0, NULL);
    for (unsigned n = 1; n <= 4; n++) { /* after each package */
        /* What is cancelled at once may never leave: then the reservation ends. */
        reserve_for(&w, "job-1", n, 10000);
        j.packages.attempt = n;
        j.packages.stop_after = n;
        nw_precommit(&w, &j.packages, &result);
        assert_false(result.sealed);
        nw_await(&w, is_idle, "IDLE");
    }
    assert_false(has_folder(&w, "sessions/job-1-1"));
    nw_end(&w);
    job_fini(&j);
}

/* --- data sets ------------------------------------------------------------------- */

/* Four files of the right size and shape, with little in them. */
static void write_mnist(const char *folder)
{
    static const struct {
        const char *name;
        uint32_t count;
        bool is_images;
    } files[] = {{"train-images-idx3-ubyte", 60000, true},
                 {"train-labels-idx1-ubyte", 60000, false},
                 {"t10k-images-idx3-ubyte", 10000, true},
                 {"t10k-labels-idx1-ubyte", 10000, false}};

    for (size_t i = 0; i < 4; i++) {
        uint32_t n = files[i].count;
        uint8_t head[16] = {0,
                            0,
                            8,
                            files[i].is_images ? 3 : 1,
                            0,
                            0,
                            (uint8_t)(n >> 8),
                            (uint8_t)n,
                            0,
                            0,
                            0,
                            28,
                            0,
                            0,
                            0,
                            28};
        size_t head_bytes = files[i].is_images ? 16 : 8;
        char path[256];
        FILE *file;

        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(head, 1, head_bytes, file), head_bytes);
        assert_int_equal(fflush(file), 0);
        assert_int_equal(
            ftruncate(fileno(file),
                      (off_t)(head_bytes + (size_t)n * (files[i].is_images ? 784 : 1))),
            0);
        fclose(file);
    }
}

/* A worker that has a part of the training files needs what was learned from all. */
static void a_part_of_the_files_comes_with_what_was_learned_from_all(void **state)
{
    static const char *const on_parts =
        "{\"data\":{\"name\":\"libsvm\",\"files\":[\"part-0\",\"part-1\"],\"test_files\":[\"held\"]"
        ","
        "\"train_limit\":2,\"test_limit\":1,\"params\":{\"features\":1,\"classes\":2}},"
        "\"model\":{\"widths\":[8]},\"workers\":2,\"block_size\":1,"
        "\"assignment\":{\"name\":\"modulo\"}}";
    temp_dir dir = temp_dir_create();
    node_world w;
    job j = worker_job_of(on_parts, "job-1", 1);

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"part-0", "part-1", "held"};
        ps_status st = ps_file_write(temp_dir_file(&dir, names[i]), "1 1:1\n", 6);

        assert_string_equal(st.text, "");
    }
    j.packages.folder = dir.path;
    nw_begin(&w, &nw_worker_hooks, NULL, NULL, 0, NULL);
    assert_spoilt(&w, j.packages, PS_INVALID_ARGUMENT, "BAD_DATA");
    nw_end(&w);
    job_fini(&j);
    temp_dir_destroy(&dir);
}

static void a_data_set_travels_only_when_the_node_has_none(void **state)
{
    static const char *const on_mnist =
        "{\"data\":{\"name\":\"mnist\"},\"model\":{\"widths\":[8]}}";
    temp_dir dir = temp_dir_create();
    node_world w;
    job j = worker_job_of(on_mnist, "job-1", 1);
    nw_precommit_result result;
    ps_error error;
    char path[128];

    (void)state;
    snprintf(path, sizeof path, "%s/mnist", dir.path);
    assert_int_equal(mkdir(path, 0755), 0);
    write_mnist(path);
    j.packages.folder = path;
    nw_begin(&w, &nw_worker_hooks, NULL, NULL, 0, NULL);

    j.packages.corrupts_data = true;
    reserve(&w, "job-1", 1);
    nw_precommit(&w, &j.packages, &result);
    assert_true(result.needed_data);
    assert_int_equal(result.error.status.code, PS_DATA_LOSS);
    assert_string_equal(result.error.reason, "BAD_DATA");

    j.packages.corrupts_data = false;
    reserve(&w, "job-1", 1);
    nw_precommit(&w, &j.packages, &result);
    assert_string_equal(result.error.status.text, "");
    assert_true(result.needed_data && result.sealed);
    assert_true(result.data_bytes > 54000000);
    assert_int_equal(ps_dataset_count(w.session->data, PS_TRAIN), 60000);
    nw_abort(&w, "job-1", 1, &error);

    j.packages.attempt = 2;
    reserve(&w, "job-1", 2); /* loaded still */
    nw_precommit(&w, &j.packages, &result);
    assert_true(!result.needed_data && result.sealed && result.data_bytes == 0);
    nw_abort(&w, "job-1", 2, &error);

    j.packages.attempt = 3;
    ps_plan_destroy(j.plan); /* other limits: loaded anew, from where it was stored */
    j.plan =
        nw_plan("{\"data\":{\"name\":\"mnist\",\"train_limit\":100},\"model\":{\"widths\":[8]}}");
    j.packages.plan = j.plan;
    j.packages.plan_hash = ps_plan_hash(j.plan);
    reserve(&w, "job-1", 3);
    nw_precommit(&w, &j.packages, &result);
    assert_true(!result.needed_data && result.sealed && result.data_bytes == 0);
    assert_int_equal(ps_dataset_count(w.session->data, PS_TRAIN), 100);
    nw_end(&w);

    nw_begin(&w, &nw_worker_hooks, NULL, NULL, 0,
             dir.path); /* another node, that has it by itself */
    reserve(&w, "job-1", 3);
    nw_precommit(&w, &j.packages, &result);
    assert_true(!result.needed_data && result.sealed);
    nw_end(&w);
    temp_dir_destroy(&dir);
    job_fini(&j);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packages_that_do_not_fit_end_the_attempt),
        cmocka_unit_test(packages_out_of_order_are_refused),
        cmocka_unit_test(packages_of_an_attempt_not_reserved_are_refused),
        cmocka_unit_test(a_broken_stream_leaves_nothing),
        cmocka_unit_test(a_part_of_the_files_comes_with_what_was_learned_from_all),
        cmocka_unit_test(a_data_set_travels_only_when_the_node_has_none),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
