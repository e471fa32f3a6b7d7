/* SPDX-License-Identifier: Apache-2.0 */
/* test_clicks.c - lines of click logs, and sparse rows. */
#include "common/data/dataset_impl.h"

#include "tests/support/data_rig.h"

#include <stdlib.h>

/* Label, 13 counts, 26 categories: c<i> each. */
static void criteo_line(char *out, size_t cap, const char *label, const char *first)
{
    size_t n = (size_t)snprintf(out, cap, "%s\t%s", label, first);

    for (int i = 1; i < 13; i++) {
        n += (size_t)snprintf(out + n, cap - n, "\t%d", i);
    }
    for (int i = 0; i < 26; i++) {
        n += (size_t)snprintf(out + n, cap - n, "\t%s", i == 7 ? "" : "68fd1e64");
    }
    snprintf(out + n, cap - n, "\n");
}

static void criteo_lines_are_13_numbers_and_26_ids(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("criteo");
    ps_data_facts facts;
    ps_dataset *data;
    char line[1024];
    float x[2][39], y[2];
    ps_status st;

    (void)state;
    criteo_line(line, sizeof line, "1", "5");
    data_rig_write(&dir, "train", line);
    criteo_line(line, sizeof line, "0", "");
    data_rig_write(&dir, "test", line);
    data = data_rig_open(&dir, &conf);
    st = ps_data_get_facts(&conf, &facts);
    assert_string_equal(st.text, "");
    assert_int_equal(facts.features, 39);
    assert_int_equal(facts.ids, 26);
    assert_int_equal(facts.vocabulary, 1000001);
    assert_int_equal(facts.classes, 2);
    ps_dataset_gather(data, PS_TRAIN, NULL, 0, 1, x[0], &y[0]);
    ps_dataset_gather(data, PS_TEST, NULL, 0, 1, x[1], &y[1]);
    assert_true(y[0] == 1 && y[1] == 0);
    assert_true(x[0][0] == 0.25f && x[1][0] == 0.0f); /* 5 of 20; nothing */
    assert_true(x[0][1] == 4.0f / 603.0f && x[0][4] == 4.0f / 64000.0f);
    assert_memory_equal(x[0] + 13, x[1] + 13, 26 * sizeof(float));
    for (size_t i = 13; i < 39; i++) {
        assert_true(x[0][i] >= 0 && x[0][i] < 1000001);
        assert_true(i == 13 || x[0][i] != x[0][13]); /* the slot is part of the hash */
    }
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

static void damaged_criteo_lines_are_refused_by_line(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("criteo");
    char line[1024], two[2048];

    (void)state;
    criteo_line(line, sizeof line, "1", "5");
    data_rig_write(&dir, "test", line);
    snprintf(two, sizeof two, "%s0\t1\t2\n", line);
    data_rig_write(&dir, "train", two);
    data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT, "train: line 2: fewer fields");
    line[strlen(line) - 1] = '\0';
    snprintf(two, sizeof two, "%s\tx\n", line);
    data_rig_write(&dir, "train", two);
    data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT, "train: line 1: more fields");
    criteo_line(line, sizeof line, "2", "5");
    data_rig_write(&dir, "train", line);
    data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT,
                     "train: line 1: label of 1 bytes, expected 0 or 1");
    criteo_line(line, sizeof line, "1", "inf");
    data_rig_write(&dir, "train", line);
    data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT,
                     "field 2: 3 bytes that are no finite number");
    temp_dir_destroy(&dir);
}

static const char dense[] =
    "dense_feature:0.05 dense_feature:0.5 dense_feature:1 dense_feature:0 dense_feature:0 "
    "dense_feature:0 dense_feature:0 dense_feature:0 dense_feature:0 dense_feature:0 "
    "dense_feature:0 dense_feature:0 dense_feature:2";

static void slot_lines_are_the_same_shape(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("slots");
    ps_dataset *data;
    char line[1024];
    float x[39], y;

    (void)state;
    snprintf(line, sizeof line, "click:1 %s 1:737395 26:1000003\n", dense);
    data_rig_write(&dir, "train", line);
    data_rig_write(&dir, "test", line);
    data = data_rig_open(&dir, &conf);
    ps_dataset_gather(data, PS_TRAIN, NULL, 0, 1, x, &y);
    assert_true(y == 1 && x[0] == 0.05f && x[1] == 0.5f && x[12] == 2);
    assert_true(x[13] == 737395 && x[14] == 0 && x[38] == 2); /* modulo 1,000,001 */
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

static void damaged_slot_lines_are_refused_by_line(void **state)
{
    static const struct {
        const char *front, *behind, *why;
    } bad[] = {
        {"", "1:2", "line 1: no click and 13 dense"},
        {"click:1", "27:2", "expected click, dense_feature or a slot 1 to 26"},
        {"click:1", "0:2", "expected click, dense_feature or a slot"},
        {"click:1", "1.5:2", "expected click, dense_feature or a slot"},
        {"click:1", "1:-2", "expected click, dense_feature or a slot"},
        {"click:1", "1:nan", "character 224: expected a finite number after the colon"},
        {"click:1", "one", "expected name:value"},
        {"click:yes", "1:2", "label of 3 bytes"},
        {"click:1 dense_feature:7", "1:2", "more dense features, expected 13"},
    };
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("slots");
    char line[1024];

    (void)state;
    snprintf(line, sizeof line, "click:1 %s\n", dense);
    data_rig_write(&dir, "test", line);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(line, sizeof line, "%s %s %s\n", bad[i].front, dense, bad[i].behind);
        data_rig_write(&dir, "train", line);
        data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT, bad[i].why);
    }
    temp_dir_destroy(&dir);
}

static void sparse_rows_become_dense(void **state)
{
    static const float want[3][5] = {{0.5f, 0, 0, 0, -2}, {0, 0, 0, 0, 0}, {0, 1, 1, 0, 0}};
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("libsvm");
    ps_data_facts facts;
    ps_dataset *data;
    float x[3][5], y[3];
    ps_status st;

    (void)state;
    data_rig_write(&dir, "train", "+1 1:0.5 5:-2 # said so\n-1\n 1\t2:1 3:1e0\n");
    data_rig_write(&dir, "test", "1.0 1:1\n");
    data = data_rig_open(&dir, &conf);
    st = ps_data_get_facts(&conf, &facts);
    assert_string_equal(st.text, "");
    assert_int_equal(facts.features, 5);
    assert_int_equal(facts.classes, 2);
    ps_dataset_gather(data, PS_TRAIN, NULL, 0, 3, x[0], y);
    assert_memory_equal(x, want, sizeof want);
    assert_true(y[0] == 1 && y[1] == 0 && y[2] == 1);
    ps_dataset_gather(data, PS_TEST, NULL, 0, 1, x[0], y);
    assert_true(y[0] == 1 && x[0][0] == 1);
    ps_dataset_destroy(data);

    conf = data_rig_conf("libsvm"); /* labels as values */
    ps_data_set(&conf, "values", 1);
    ps_data_set(&conf, "features", 5);
    data = data_rig_open(&dir, &conf);
    st = ps_data_get_facts(&conf, &facts);
    assert_string_equal(st.text, "");
    assert_int_equal(facts.classes, 0);
    ps_dataset_gather(data, PS_TRAIN, NULL, 1, 1, x[0], y);
    assert_true(y[0] == -1);
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

static void damaged_sparse_rows_are_refused_by_line(void **state)
{
    static const struct {
        const char *line, *why;
    } bad[] = {
        {"1 2:1 2:3", "train: line 2: character 7: expected index:value"},
        {"1 0:1", "character 3: expected index:value"},
        {"1 1:", "expected index:value"},
        {"1 1:nan", "expected index:value"},
        {"1 1048577:1", "expected index:value"},
        {"1 1.5:1", "expected index:value"},
        {"1 -1:1", "expected index:value"},
        {"1 1e300:1", "expected index:value"},
        {"1 3:1 2:1", "expected index:value with a finite value and an index above 3"},
        {"x 1:1", "train: line 2: label of 1 bytes that are no finite"},
        {"1 qid", "expected index:value"},
        {"# nothing", "train: line 2: label of 0 bytes"},
    };
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("libsvm");
    char text[256];

    (void)state;
    data_rig_write(&dir, "test", "1 1:1\n");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "-1 1:1\n%s\n", bad[i].line);
        data_rig_write(&dir, "train", text);
        data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT, bad[i].why);
    }
    data_rig_write(&dir, "train", "1 1:1\n1 2:1\n");
    data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT, "train and 1 more: 1 different labels");
    data_rig_write(&dir, "train", "-1 1:1\n1 2:1\n");
    data_rig_write(&dir, "test", "2 1:1\n");
    data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT,
                     "test: line 1: a label that no training line has");
    ps_data_set(&conf, "features", 1);
    data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT,
                     "train and 1 more: the greatest index is 2, expected 1 to 1");
    temp_dir_destroy(&dir);
}

static void a_set_larger_than_its_memory_is_read_from_the_disk(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("slots");
    enum { LINES = 300000, ROW_BYTES = 40 * 4 };
    FILE *file = fopen(temp_dir_file(&dir, "train"), "w");
    ps_dataset *data;
    float x[39], y;
    char line[1024];

    (void)state;
    assert_true((size_t)LINES * ROW_BYTES > ps_split_memory(PS_TRAIN));
    assert_non_null(file);
    for (int i = 0; i < LINES; i++) {
        fprintf(file, "click:%d %s 1:%d\n", i % 2, dense, i);
    }
    assert_int_equal(fclose(file), 0);
    snprintf(line, sizeof line, "click:1 %s\n", dense);
    data_rig_write(&dir, "test", line);
    data = data_rig_open(&dir, &conf);
    assert_int_equal(conf.train_limit, LINES);
    for (uint32_t i = 0; i < LINES; i += 997) {
        ps_dataset_gather(data, PS_TRAIN, NULL, i, 1, x, &y);
        assert_true(y == (float)(i % 2) && x[13] == (float)i && x[12] == 2);
    }
    assert_true(ps_dataset_status(data).code == PS_OK);
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

/* Value k of row i is 1 + (i + k) % 7, or left out where k is i modulo 97. */
static void sparse_rows_larger_than_their_memory_are_read_from_the_disk(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("libsvm");
    enum { ROWS = 600, WIDTH = 1000, ENTRY_BYTES = 8 };
    FILE *file = fopen(temp_dir_file(&dir, "test"), "w");
    ps_dataset *data;
    float x[WIDTH], y;

    (void)state;
    assert_non_null(file);
    for (int i = 0; i < ROWS; i++) {
        fprintf(file, "%d", i % 2);
        for (int k = 0; k < WIDTH; k++) {
            if (k % 97 != i % 97) {
                fprintf(file, " %d:%d", k + 1, 1 + (i + k) % 7);
            }
        }
        fputc('\n', file);
    }
    assert_int_equal(fclose(file), 0);
    assert_true((size_t)ROWS * (WIDTH - 11) * ENTRY_BYTES > ps_split_memory(PS_TEST) / 2);
    data_rig_write(&dir, "train", "0 1:1\n1 1000:1\n");
    data = data_rig_open(&dir, &conf);
    for (uint32_t i = 0; i < ROWS; i++) {
        ps_dataset_gather(data, PS_TEST, NULL, ROWS - 1 - i, 1, x, &y);
        for (uint32_t k = 0, row = ROWS - 1 - i; k < WIDTH; k++) {
            assert_true(x[k] == (k % 97 == row % 97 ? 0.0f : (float)(1 + (row + k) % 7)));
        }
        assert_true(y == (float)((ROWS - 1 - i) % 2));
    }
    assert_true(ps_dataset_status(data).code == PS_OK);
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(criteo_lines_are_13_numbers_and_26_ids),
        cmocka_unit_test(damaged_criteo_lines_are_refused_by_line),
        cmocka_unit_test(slot_lines_are_the_same_shape),
        cmocka_unit_test(damaged_slot_lines_are_refused_by_line),
        cmocka_unit_test(sparse_rows_become_dense),
        cmocka_unit_test(damaged_sparse_rows_are_refused_by_line),
        cmocka_unit_test(a_set_larger_than_its_memory_is_read_from_the_disk),
        cmocka_unit_test(sparse_rows_larger_than_their_memory_are_read_from_the_disk),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
