/* SPDX-License-Identifier: Apache-2.0 */
/* test_cifar10.c - binary batches: whichever are there, plain or packed, whole or damaged. */
#include "common/base/xalloc.h"
#include "common/data/identify.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/data_rig.h"
#include "tests/support/temp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { FEATURES = 3072, RECORD = 1 + FEATURES };

/* Record i: label i % 10, and every value (i + channel) % 256. */
static uint8_t *records(size_t first, size_t n)
{
    uint8_t *bytes = ps_xcalloc(n + 1, RECORD);

    for (size_t i = 0; i < n; i++) {
        bytes[i * RECORD] = (uint8_t)((first + i) % 10);
        for (size_t k = 0; k < FEATURES; k++) {
            bytes[i * RECORD + 1 + k] = (uint8_t)(first + i + k / 1024);
        }
    }
    return bytes;
}

static void put(const temp_dir *dir, const char *name, const uint8_t *bytes, size_t len)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", dir->path, name);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void put_packed(const temp_dir *dir, const char *name, const uint8_t *bytes, size_t len)
{
    char path[256];
    gzFile file;

    snprintf(path, sizeof path, "%s/%s.gz", dir->path, name);
    file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)len), len);
    assert_int_equal(gzclose(file), Z_OK);
}

/* 7 training samples in batch 2, packed, 5 in batch 4, and 3 test samples. */
static temp_dir small_set(void)
{
    temp_dir dir = temp_dir_create();
    uint8_t *bytes = records(0, 12);

    put_packed(&dir, "data_batch_2.bin", bytes, 7 * RECORD);
    put(&dir, "data_batch_4.bin", bytes + 7 * RECORD, 5 * RECORD);
    put(&dir, "test_batch.bin", bytes, 3 * RECORD);
    free(bytes);
    return dir;
}

static ps_status load(const temp_dir *dir, uint32_t train, uint32_t test, ps_dataset **out)
{
    return data_rig_load("cifar10", dir->path, train, test, out);
}

static void refused(const temp_dir *dir, uint32_t train, ps_code code, const char *text)
{
    ps_dataset *data = NULL;
    ps_status st = load(dir, train, 3, &data);

    if (st.code != code || strstr(st.text, text) == NULL) {
        fail_msg("wanted \"%s\", got %d: %s", text, (int)st.code, st.text);
    }
    assert_null(data);
}

static void the_batches_that_are_there_are_one_set(void **state)
{
    temp_dir dir = small_set();
    ps_dataset *data = NULL;
    float x[2 * FEATURES];
    float labels[2];
    ps_status st = load(&dir, 11, 3, &data);

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(ps_dataset_count(data, PS_TRAIN), 11);
    assert_int_equal(ps_dataset_count(data, PS_TEST), 3);
    ps_dataset_gather(data, PS_TRAIN, NULL, 6, 2, x, labels); /* one of each file */
    for (size_t s = 0; s < 2; s++) {
        assert_true(labels[s] == (float)(6 + s));
        for (size_t k = 0; k < FEATURES; k++) {
            double want = (double)(6 + s + k / 1024) / 255 - 0.5;

            assert_true(is_close((double)x[s * FEATURES + k], want, 1e-6, "x", k));
        }
    }
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

static void a_job_that_wants_more_is_told_how_many_there_are(void **state)
{
    temp_dir dir = small_set();

    (void)state;
    refused(&dir, 13, PS_INVALID_ARGUMENT, "found 12 training samples, expected 13");
    refused(&dir, 0, PS_INVALID_ARGUMENT, "train_limit to at most 12");
    temp_dir_destroy(&dir);
}

static void damaged_batches_are_refused_by_file_and_offset(void **state)
{
    temp_dir dir = small_set();
    uint8_t *bytes = records(0, 10001);

    (void)state;
    bytes[2 * RECORD] = 10;
    put(&dir, "data_batch_1.bin", bytes, 5 * RECORD);
    refused(&dir, 5, PS_INVALID_ARGUMENT, "data_batch_1.bin: offset 6146: label 10");
    bytes[2 * RECORD] = 9;
    put(&dir, "data_batch_1.bin", bytes, 5 * RECORD - 1);
    refused(&dir, 5, PS_INVALID_ARGUMENT, "data_batch_1.bin: ends at offset 15364");
    put(&dir, "data_batch_1.bin", bytes, 10001 * (size_t)RECORD);
    refused(&dir, 10013, PS_INVALID_ARGUMENT, "data_batch_1.bin: has more data at offset 30730000");
    put(&dir, "data_batch_1.bin", bytes, 0);
    refused(&dir, 13, PS_INVALID_ARGUMENT, "data_batch_1.bin: is empty");
    free(bytes);
    temp_dir_destroy(&dir);
}

static void a_set_without_tests_or_training_is_not_found(void **state)
{
    temp_dir dir = small_set();
    char path[256];

    (void)state;
    snprintf(path, sizeof path, "%s/test_batch.bin", dir.path);
    assert_int_equal(remove(path), 0);
    refused(&dir, 5, PS_NOT_FOUND, "test_batch.bin");
    snprintf(path, sizeof path, "%s/data_batch_2.bin.gz", dir.path);
    assert_int_equal(remove(path), 0);
    snprintf(path, sizeof path, "%s/data_batch_4.bin", dir.path);
    assert_int_equal(remove(path), 0);
    refused(&dir, 5, PS_NOT_FOUND, "data_batch_5.bin");
    temp_dir_destroy(&dir);
}

static void a_look_counts_what_is_there(void **state)
{
    temp_dir dir = small_set();
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("cifar10"));
    ps_status st = ps_data_look(dir.path, &conf);

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(conf.train_limit, 12);
    assert_int_equal(conf.test_limit, 3);
    conf.train_limit = 5; /* what a job asks for stays */
    st = ps_data_look(dir.path, &conf);
    assert_string_equal(st.text, "");
    assert_int_equal(conf.train_limit, 5);
    conf.test_limit = 4;
    st = ps_data_look(dir.path, &conf);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "found 3 test samples, expected 4"));
    temp_dir_destroy(&dir);
}

static void it_is_described_by_the_files_that_are_there(void **state)
{
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("cifar10"));
    temp_dir dir = small_set(), empty = temp_dir_create();
    ps_data_files files;
    ps_status st = ps_data_describe(&conf, dir.path, &files);

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(files.count, 3);
    assert_string_equal(files.at[0].name, "data_batch_2.bin");
    assert_int_equal(files.at[0].size, 7 * RECORD);
    assert_string_equal(files.at[1].name, "data_batch_4.bin");
    assert_string_equal(files.at[2].name, "test_batch.bin");
    ps_data_files_free(&files);
    st = ps_data_describe(&conf, empty.path, &files);
    assert_int_equal(st.code, PS_NOT_FOUND);
    assert_string_equal(ps_data_folder(&conf), "cifar-10-batches-bin");
    conf = ps_data_conf_of(ps_data_source_find("mnist"));
    assert_string_equal(ps_data_folder(&conf), "mnist");
    temp_dir_destroy(&dir);
    temp_dir_destroy(&empty);
}

static void the_real_batches_load(void **state)
{
    const char *root = getenv("PSGD_DATA");
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("cifar10"));
    char folder[4096];
    uint32_t counts[10] = {0};
    ps_dataset *data = NULL;
    static float x[FEATURES];
    ps_status st;

    (void)state;
    if (root == NULL || root[0] == '\0') {
        print_message("PSGD_DATA is not set: the real CIFAR-10 is not tested\n");
        skip();
    }
    snprintf(folder, sizeof folder, "%s/cifar-10-batches-bin", root);
    st = ps_data_look(folder, &conf);
    assert_string_equal(st.text, "");
    assert_int_equal(conf.train_limit, 10000);
    assert_int_equal(conf.test_limit, 2000);
    st = ps_data_load(&conf, folder, NULL, &data);
    assert_string_equal(st.text, "");
    for (uint32_t i = 0; i < 10000; i++) {
        float label;

        ps_dataset_gather(data, PS_TRAIN, NULL, i, 1, x, &label);
        counts[(size_t)label]++;
    }
    for (size_t c = 0; c < 10; c++) { /* any tenth of the set has about a tenth of each */
        assert_true(counts[c] > 900 && counts[c] < 1100);
    }
    ps_dataset_destroy(data);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_batches_that_are_there_are_one_set),
        cmocka_unit_test(a_job_that_wants_more_is_told_how_many_there_are),
        cmocka_unit_test(damaged_batches_are_refused_by_file_and_offset),
        cmocka_unit_test(a_set_without_tests_or_training_is_not_found),
        cmocka_unit_test(a_look_counts_what_is_there),
        cmocka_unit_test(it_is_described_by_the_files_that_are_there),
        cmocka_unit_test(the_real_batches_load),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
