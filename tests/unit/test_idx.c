/* SPDX-License-Identifier: Apache-2.0 */
/* test_idx.c - IDX files load exactly or are refused with the place; the real
 * set is read where PSGD_DATA says it is. */
#include "common/data/idx.h"
#include "common/data/nonzero.h"

#include "common/base/draw.h"
#include "common/data/dataset_impl.h"
#include "common/data/spread.h"

#include "tests/support/data_rig.h"
#include "tests/support/temp_dir.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char *const names[4] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                     "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

/* A set of 3 + 2 samples: pixels count up from 0 and from 100. */
static const uint8_t train_images[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0,  0,
                                       0, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255};
static const uint8_t train_labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9};
static const uint8_t test_images[] = {0, 0, 8, 3, 0,   0,   0,   2,   0,   0,   0,   2,
                                      0, 0, 0, 2, 100, 101, 102, 103, 104, 105, 106, 107};
static const uint8_t test_labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 5, 6};

static void write_plain(const temp_dir *dir, size_t file, const void *bytes, size_t n)
{
    ps_status st = ps_file_write(temp_dir_file(dir, names[file]), bytes, n);

    assert_string_equal(st.text, "");
}

static void write_packed(const temp_dir *dir, size_t file, const void *bytes, size_t n)
{
    char path[256];
    gzFile gz;

    snprintf(path, sizeof path, "%s/%s.gz", dir->path, names[file]);
    gz = gzopen(path, "wb");
    assert_non_null(gz);
    assert_int_equal(gzwrite(gz, bytes, (unsigned)n), n);
    assert_int_equal(gzclose(gz), Z_OK);
}

static temp_dir small_set(void)
{
    temp_dir dir = temp_dir_create();

    write_plain(&dir, 0, train_images, sizeof train_images);
    write_packed(&dir, 1, train_labels, sizeof train_labels);
    write_packed(&dir, 2, test_images, sizeof test_images);
    write_plain(&dir, 3, test_labels, sizeof test_labels);
    return dir;
}

/* The small set as a job that knows it names it. */
static ps_data_conf small_conf(void)
{
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("mnist"));

    ps_data_set(&conf, "rows", 2);
    ps_data_set(&conf, "columns", 2);
    ps_data_set(&conf, "classes", 10);
    conf.train_limit = 3;
    conf.test_limit = 2;
    return conf;
}

/* A look at the set and a load must fail so. */
static void expect_refusal(const temp_dir *dir, const ps_data_conf *conf, ps_code code,
                           const char *text)
{
    data_rig_refused(dir, conf, code, text);
    temp_dir_destroy(dir);
}

static void expect_failure(const temp_dir *dir, ps_code code, const char *text)
{
    ps_data_conf conf = small_conf();

    expect_refusal(dir, &conf, code, text);
}

static void plain_and_packed_files_mix(void **state)
{
    temp_dir dir = small_set();
    ps_data_conf conf = small_conf();
    ps_dataset *data = data_rig_open(&dir, &conf);
    uint32_t index[2] = {2, 0};
    float x[12], labels[3];

    (void)state;
    assert_int_equal(ps_dataset_count(data, PS_TRAIN), 3);
    assert_int_equal(ps_dataset_count(data, PS_TEST), 2);
    ps_dataset_gather(data, PS_TRAIN, index, 0, 2, x, labels);
    assert_true(labels[0] == 9.0f && labels[1] == 7.0f);
    assert_true(x[3] == 0.5f);  /* 255 */
    assert_true(x[4] == -0.5f); /* 0 */
    ps_dataset_gather(data, PS_TEST, NULL, 1, 1, x, labels);
    assert_true(labels[0] == 6.0f);
    for (size_t i = 0; i < 4; i++) {
        assert_true(fabs((double)x[i] - ((104.0 + (double)i) / 255 - 0.5)) < 1e-7);
    }
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

static void every_byte_becomes_its_value(void **state)
{
    uint8_t images[16 + 256] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0, 16};
    static const uint8_t one_label[] = {0, 0, 8, 1, 0, 0, 0, 1, 5};
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("mnist"));
    ps_dataset *data;
    float x[256], label;

    (void)state;
    for (size_t i = 0; i < 256; i++) {
        images[16 + i] = (uint8_t)i;
    }
    for (size_t f = 0; f < 4; f += 2) {
        write_plain(&dir, f, images, sizeof images);
        write_plain(&dir, f + 1, one_label, sizeof one_label);
    }
    data = data_rig_open(&dir, &conf);
    ps_dataset_gather(data, PS_TEST, NULL, 0, 1, x, &label);
    for (size_t i = 0; i < 256; i++) {
        assert_true(fabs((double)x[i] - ((double)i / 255 - 0.5)) < 1e-7);
    }
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

static void a_limit_keeps_the_front(void **state)
{
    temp_dir dir = small_set();
    ps_data_conf conf = small_conf();
    ps_dataset *data;
    float x[4], label;

    (void)state;
    conf.train_limit = 2;
    conf.test_limit = 0;
    data = data_rig_open(&dir, &conf);
    assert_int_equal(ps_dataset_count(data, PS_TRAIN), 2);
    assert_int_equal(ps_dataset_count(data, PS_TEST), 2);
    ps_dataset_gather(data, PS_TRAIN, NULL, 1, 1, x, &label);
    assert_true(label == 0.0f && fabs((double)x[3] - (7.0 / 255 - 0.5)) < 1e-7);
    ps_dataset_destroy(data);
    conf.train_limit = 4;
    expect_refusal(&dir, &conf, PS_INVALID_ARGUMENT, "3");
}

static void a_set_says_how_large_it_is(void **state)
{
    temp_dir dir = small_set();
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("mnist"));
    ps_data_facts facts;
    ps_status st = ps_data_get_facts(&conf, &facts); /* without files: MNIST */

    (void)state;
    assert_string_equal(st.text, "");
    assert_true(facts.train_count == 60000 && facts.features == 784 && facts.classes == 10);
    st = ps_data_look(dir.path, &conf);
    assert_string_equal(st.text, "");
    st = ps_data_get_facts(&conf, &facts);
    assert_string_equal(st.text, "");
    assert_int_equal(facts.train_count, 3);
    assert_int_equal(facts.test_count, 2);
    assert_int_equal(facts.shape[1], 2);
    assert_int_equal(facts.shape[2], 2);
    assert_int_equal(facts.classes, 10); /* the greatest label is 9 */
    conf = ps_data_conf_of(ps_data_source_find("mnist"));
    ps_data_set(&conf, "rows", 2);
    ps_data_set(&conf, "columns", 28);
    expect_refusal(&dir, &conf, PS_INVALID_ARGUMENT,
                   "train-images-idx3-ubyte: offset 12: dimension 2 is 2, expected 28");
}

static void a_missing_file_is_named_with_its_folder(void **state)
{
    temp_dir dir = small_set();

    (void)state;
    assert_int_equal(remove(temp_dir_file(&dir, names[3])), 0);
    expect_failure(&dir, PS_NOT_FOUND, "no t10k-labels-idx1-ubyte (or .gz) in /tmp/psgd-test-");
}

static void an_empty_file_is_refused(void **state)
{
    temp_dir dir = small_set();

    (void)state;
    write_plain(&dir, 0, "", 0);
    expect_failure(&dir, PS_INVALID_ARGUMENT,
                   "train-images-idx3-ubyte: ends at offset 0, expected a header of 16 bytes");
}

static void a_file_of_another_kind_is_refused(void **state)
{
    temp_dir dir = small_set();

    (void)state;
    write_plain(&dir, 0, train_labels, sizeof train_labels);
    expect_failure(&dir, PS_INVALID_ARGUMENT, "train-images-idx3-ubyte: ends at offset 11");
    dir = small_set();
    write_plain(&dir, 3, test_images, sizeof test_images);
    expect_failure(&dir, PS_INVALID_ARGUMENT,
                   "t10k-labels-idx1-ubyte: offset 0: 0x00000803, expected 0x00000801");
}

/* The small set with one byte of a file's header another. */
static void expect_header_refused(size_t file, size_t at, uint8_t byte, const char *text)
{
    uint8_t images[sizeof train_images], tests[sizeof test_images], labels[sizeof train_labels];
    temp_dir dir = small_set();

    memcpy(images, train_images, sizeof images);
    memcpy(tests, test_images, sizeof tests);
    memcpy(labels, train_labels, sizeof labels);
    (file == 0 ? images : file == 1 ? labels : tests)[at] = byte;
    write_plain(&dir, 0, images, sizeof images); /* the plain ones come first */
    write_plain(&dir, 1, labels, sizeof labels);
    write_plain(&dir, 2, tests, sizeof tests);
    expect_failure(&dir, PS_INVALID_ARGUMENT, text);
}

static void another_count_or_shape_is_refused(void **state)
{
    (void)state;
    /* 4,278,190,083 images: nothing of that size is allocated */
    expect_header_refused(
        0, 4, 0xff, "train-images-idx3-ubyte: offset 4: dimension 0 is 4278190083, expected 3");
    expect_header_refused(0, 15, 3,
                          "train-images-idx3-ubyte: offset 12: dimension 2 is 3, expected 2");
    expect_header_refused(2, 11, 3,
                          "t10k-images-idx3-ubyte: offset 8: dimension 1 is 3, expected 2");
    expect_header_refused(1, 7, 4,
                          "train-images-idx3-ubyte: offset 4: dimension 0 is 3, expected 4");
    expect_header_refused(0, 11, 0,
                          "train-images-idx3-ubyte: offset 8: dimension 1 is 0, expected at "
                          "least");
    expect_header_refused(0, 10, 0xff,
                          "train-images-idx3-ubyte: offset 8: dimension 1 is 65282, expected 1024 "
                          "at most");
}

static void a_header_cannot_promise_more_than_there_can_be(void **state)
{
    static const uint8_t head[] = {0,    0,    8,    4,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                   0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0,    0,    0,    1};
    temp_dir dir = temp_dir_create();
    ps_idx idx;
    ps_status st;

    (void)state;
    write_plain(&dir, 0, head, sizeof head);
    st = ps_idx_open(&idx, dir.path, names[0], 4);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "offset 8: dimension 1 is 4294967295, expected less than"));
    ps_idx_close(&idx); /* nothing is open */
    temp_dir_destroy(&dir);
}

/* Images of so many bytes each, zeros in all places, kept in so much memory. */
static void check_nonzero(uint32_t features, size_t memory)
{
    enum { COUNT = 300, FEATURES_MAX = 5003 };
    temp_dir dir = temp_dir_create();
    ps_nonzero *images = ps_nonzero_create(features, dir.path, memory);
    uint8_t *bytes = calloc(COUNT, features);
    ps_samples *samples = NULL;
    void *room;
    float x[FEATURES_MAX + 1], want[FEATURES_MAX], label;
    ps_status st;

    assert_non_null(bytes);
    assert_true(features <= FEATURES_MAX);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint8_t *image = bytes + (size_t)i * features;

        for (uint32_t k = 0; k < features; k++) {
            bool is_ink = ps_draw_u32(i, k) % COUNT < i; /* the first are empty, the last full */

            image[k] = is_ink ? (uint8_t)(1 + ps_draw_u32(i + COUNT, k) % 255) : 0;
        }
        st = ps_nonzero_add(images, image, (uint8_t)i);
        assert_string_equal(st.text, "");
    }
    st = ps_nonzero_end(images, &samples);
    assert_string_equal(st.text, "");
    room = malloc(samples->room);
    x[features] = 7;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t at = (i * 7) % COUNT;
        ps_stored stored;

        samples->prefetch(samples, at);
        stored = samples->stored(samples, at, room);
        assert_non_null(stored.at);
        samples->make(samples, stored.at, 0, x, &label);
        ps_bytes_scale(bytes + (size_t)at * features, want, features);
        assert_memory_equal(x, want, features * sizeof *x);
        assert_true(label == (float)(uint8_t)at);
        assert_true(x[features] == 7); /* nothing is written behind */
    }
    samples->destroy(samples);
    free(room);
    free(bytes);
    temp_dir_destroy(&dir);
}

static void images_come_back_as_they_were_from_memory_and_disk(void **state)
{
    static const uint32_t sizes[] = {1, 7, 8, 9, 63, 64, 65, 120, 784, 5003};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_nonzero(sizes[i], 32 << 20);
        check_nonzero(sizes[i], 100);
    }
}

/* n bytes of which about every `every`th is zero, by each kind of this processor's. */
static void check_spread(size_t n, uint32_t every)
{
    enum { MOST = 300 };
    const ps_affine affine = {.mean = 0.125f, .inverse = 3.0f};
    uint8_t bytes[MOST], bits[MOST] = {0}, kept[MOST + PS_SPREAD_BLOCK] = {0}, *to = kept;
    ps_spread_places places;
    float want[MOST], x[MOST + 1];

    assert_true(n <= MOST);
    ps_spread_fill(&places);
    for (size_t k = 0; k < n; k++) {
        uint32_t drawn = ps_draw_u32(every, (uint32_t)k);

        bytes[k] = drawn % every == 0 ? 0 : (uint8_t)(1 + drawn % 255);
        bits[k / PS_SPREAD_GROUP] |= (uint8_t)((bytes[k] != 0) << k % PS_SPREAD_GROUP);
        *to = bytes[k];
        to += bytes[k] != 0;
    }
    ps_bytes_scale(bytes, want, n);
    for (size_t k = 0; k < n; k++) {
        want[k] = (want[k] - affine.mean) * affine.inverse;
    }
    for (ps_cpu l = PS_CPU_BASELINE; l <= ps_cpu_level(); l++) {
        x[n] = 7;
        ps_spread_of(l)(&places, bits, kept, n, &affine, x);
        assert_memory_equal(x, want, n * sizeof *x);
        assert_true(x[n] == 7);
    }
}

static void every_kind_of_processor_makes_the_same_floats(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 300; n++) {
        check_spread(n, 1 + (uint32_t)n % 5);
    }
}

static void a_cut_file_is_refused_wherever_it_is_cut(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof train_images; n++) {
        temp_dir dir = small_set();

        write_plain(&dir, 0, train_images, n);
        expect_failure(&dir, PS_INVALID_ARGUMENT, "train-images-idx3-ubyte: ends at offset ");
    }
}

static void a_file_that_goes_on_is_refused(void **state)
{
    uint8_t longer[sizeof train_images + 1] = {0};
    temp_dir dir = small_set();

    (void)state;
    memcpy(longer, train_images, sizeof train_images);
    write_plain(&dir, 0, longer, sizeof longer);
    expect_failure(&dir, PS_INVALID_ARGUMENT,
                   "train-images-idx3-ubyte: has more data at offset 28, expected its end");
}

static void a_label_out_of_range_is_refused_with_its_offset(void **state)
{
    uint8_t labels[sizeof train_labels];
    temp_dir dir = small_set();

    (void)state;
    memcpy(labels, train_labels, sizeof labels);
    labels[9] = 10;
    write_plain(&dir, 1, labels, sizeof labels); /* the plain one comes first */
    expect_failure(&dir, PS_INVALID_ARGUMENT,
                   "train-labels-idx1-ubyte: offset 9: label 10, expected 0 to 9");
}

static void a_damaged_or_cut_gz_is_refused(void **state)
{
    char *bytes = NULL;
    size_t n = 0;
    ps_status st;

    (void)state;
    for (size_t damage = 0; damage < 2; damage++) {
        temp_dir dir = small_set();
        const char *path = temp_dir_file(&dir, "t10k-images-idx3-ubyte.gz");

        st = ps_file_read(path, 4096, &bytes, &n);
        assert_string_equal(st.text, "");
        bytes[n - 5] ^= 1; /* the checksum */
        st = ps_file_write(path, bytes, damage == 0 ? n : n - 9);
        assert_string_equal(st.text, "");
        free(bytes);
        expect_failure(&dir, PS_DATA_LOSS, "t10k-images-idx3-ubyte.gz: damaged or truncated");
    }
}

static void a_folder_in_place_of_a_file_is_refused(void **state)
{
    temp_dir dir = small_set();
    ps_status st;

    (void)state;
    assert_int_equal(remove(temp_dir_file(&dir, names[3])), 0);
    st = ps_dir_make(temp_dir_file(&dir, names[3]));
    assert_string_equal(st.text, "");
    expect_failure(&dir, PS_INVALID_ARGUMENT, "t10k-labels-idx1-ubyte is not a regular file");
}

static void the_real_set_loads(void **state)
{
    const char *root = getenv("PSGD_DATA");
    /* The first ten labels, and how many of each digit the sets hold. */
    static const float front[10] = {5, 0, 4, 1, 9, 2, 1, 3, 1, 4};
    static const uint32_t test_counts[10] = {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009};
    uint32_t counts[10] = {0};
    float labels[10];
    char folder[4096];
    ps_dataset *data = NULL;
    double sum = 0;
    float *x;
    ps_status st;

    (void)state;
    if (root == NULL || root[0] == '\0') {
        print_message("PSGD_DATA is not set: the real MNIST is not tested\n");
        skip();
    }
    snprintf(folder, sizeof folder, "%s/mnist", root);
    st = data_rig_load("mnist", folder, 0, 0, &data);
    assert_string_equal(st.text, "");
    x = malloc(60000 * sizeof(float) * 784 / 100);
    assert_non_null(x);
    ps_dataset_gather(data, PS_TRAIN, NULL, 0, 10, x, labels);
    assert_memory_equal(labels, front, sizeof front);
    for (uint32_t at = 0; at < 10000; at++) {
        float label;

        ps_dataset_gather(data, PS_TEST, NULL, at, 1, x, &label);
        counts[(size_t)label]++;
        for (size_t i = 0; i < 784; i++) {
            sum += (double)x[i] + 0.5;
        }
    }
    assert_memory_equal(counts, test_counts, sizeof counts);
    assert_true(fabs(sum / 7840000 - 0.1325) < 0.0001); /* the well-known mean of the test images */
    free(x);
    ps_dataset_destroy(data);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_packed_files_mix),
        cmocka_unit_test(every_byte_becomes_its_value),
        cmocka_unit_test(a_limit_keeps_the_front),
        cmocka_unit_test(a_missing_file_is_named_with_its_folder),
        cmocka_unit_test(an_empty_file_is_refused),
        cmocka_unit_test(a_file_of_another_kind_is_refused),
        cmocka_unit_test(a_set_says_how_large_it_is),
        cmocka_unit_test(another_count_or_shape_is_refused),
        cmocka_unit_test(a_header_cannot_promise_more_than_there_can_be),
        cmocka_unit_test(images_come_back_as_they_were_from_memory_and_disk),
        cmocka_unit_test(every_kind_of_processor_makes_the_same_floats),
        cmocka_unit_test(a_cut_file_is_refused_wherever_it_is_cut),
        cmocka_unit_test(a_file_that_goes_on_is_refused),
        cmocka_unit_test(a_label_out_of_range_is_refused_with_its_offset),
        cmocka_unit_test(a_damaged_or_cut_gz_is_refused),
        cmocka_unit_test(a_folder_in_place_of_a_file_is_refused),
        cmocka_unit_test(the_real_set_loads),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
