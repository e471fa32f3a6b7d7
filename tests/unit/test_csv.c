/* SPDX-License-Identifier: Apache-2.0 */
/* test_csv.c - tables: quoting, kinds of columns, what is refused and how. */
#include "tests/support/close.h"
#include "tests/support/data_rig.h"

#include <math.h>
#include <stdlib.h>

static void set(ps_data_conf *conf, const char *name, double value)
{
    ps_data_column *column = &conf->columns[conf->column_count - 1];
    int at = ps_param_find(column->kind->params, name);

    assert_true(at >= 0);
    column->params.v[at] = value;
}

static void columns_become_numbers_then_ids(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("csv");
    ps_data_facts facts;
    ps_dataset *data;
    float x[4][5], y[4];
    ps_status st;

    (void)state;
    data_rig_write(&dir, "train",
                   "\xef\xbb\xbf"
                   "colour,age,skipped,size,label\r\n"
                   "red,10,!,1,yes\n"
                   "\"blue\", 20 ,\"a,b\",3,no\n"
                   "red,30,\"two\nlines\nand a third\",5,yes\n"
                   "\n"
                   "green,20,\"say \"\"x\"\"\",3,no\n");
    data_rig_write(&dir, "test", "label,size,colour,age\nno,4,black,40\n");
    data_rig_column(&conf, "colour", "vocabulary");
    data_rig_column(&conf, "label", "label");
    data_rig_column(&conf, "age", "numeric");
    data_rig_column(&conf, "size", "numeric");
    set(&conf, "scale", 2);
    data = data_rig_open(&dir, &conf);
    st = ps_data_get_facts(&conf, &facts);
    assert_string_equal(st.text, "");
    assert_int_equal(facts.features, 3);
    assert_int_equal(facts.ids, 1);
    assert_int_equal(facts.vocabulary, 4); /* red, blue, green, unknown */
    assert_int_equal(facts.classes, 2);    /* no, yes */
    assert_int_equal(conf.train_limit, 4);
    assert_int_equal(conf.test_limit, 1);
    ps_dataset_gather(data, PS_TRAIN, NULL, 0, 4, x[0], y);
    for (size_t i = 0; i < 4; i++) {
        static const double age[4] = {10, 20, 30, 20}, size[4] = {0, 0.5, 1, 0.5};
        static const double colour[4] = {0, 1, 0, 2}, label[4] = {1, 0, 1, 0};
        const float *row = x[0] + 3 * i;

        assert_true(is_close((double)row[0], (age[i] - 20) / sqrt(50), 1e-6, "age", i));
        assert_true(is_close((double)row[1], size[i], 1e-6, "size", i));
        assert_true((double)row[2] == colour[i] && (double)y[i] == label[i]);
    }
    ps_dataset_gather(data, PS_TEST, NULL, 0, 1, x[0], y);
    assert_true(is_close((double)x[0][0], 20 / sqrt(50), 1e-6, "age", 0));
    assert_true(x[0][1] == 0.75f && x[0][2] == 3.0f && y[0] == 0.0f);
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

static void ids_of_columns_do_not_overlap(void **state)
{
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("csv");
    ps_data_facts facts;
    ps_dataset *data;
    float x[5], y[2];
    ps_status st;

    (void)state;
    data_rig_write(&dir, "train", "a;b;c;t;u\nx;x;1;2.5;7\ny;x;3;-1;9\nx;z;2;0;8\n");
    data_rig_write(&dir, "test", "a;b;c;t;u\nx;x;;1;8\n");
    ps_data_set(&conf, "delimiter", ';');
    data_rig_column(&conf, "a", "hashed");
    set(&conf, "buckets", 10);
    data_rig_column(&conf, "b", "vocabulary");
    data_rig_column(&conf, "c", "numeric");
    set(&conf, "scale", 0);
    set(&conf, "blank", 1);
    data_rig_column(&conf, "t", "target");
    data_rig_column(&conf, "u", "target");
    set(&conf, "scale", 2);
    data = data_rig_open(&dir, &conf);
    st = ps_data_get_facts(&conf, &facts);
    assert_string_equal(st.text, "");
    assert_int_equal(facts.features, 3);
    assert_int_equal(facts.ids, 2);
    assert_int_equal(facts.vocabulary, 13);
    assert_int_equal(facts.classes, 0);
    assert_int_equal(facts.target_width, 2);
    ps_dataset_gather(data, PS_TRAIN, NULL, 2, 1, x, y);
    assert_true(x[0] == 2 && x[1] >= 0 && x[1] < 10 && x[2] == 11 && y[0] == 0 && y[1] == 0.5f);
    ps_dataset_gather(data, PS_TEST, NULL, 0, 1, x, y);
    assert_true(x[0] == 2 && x[2] == 10); /* blank is the mean */
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

static void one_hot_columns_are_features(void **state)
{
    static const float want[2][4] = {{0, 1, 0, 5}, {0, 0, 1, 6}};
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("csv");
    ps_data_facts facts;
    ps_dataset *data;
    float x[2][4], y[2];
    ps_status st;

    (void)state;
    data_rig_write(&dir, "train", "a,n,l\nu,1,0\nu,2,1\nv,5,10\n");
    data_rig_write(&dir, "test", "a,n,l\nv,5,10\nw,6,1\n");
    data_rig_column(&conf, "a", "vocabulary");
    set(&conf, "one_hot", 1);
    data_rig_column(&conf, "n", "numeric");
    set(&conf, "scale", 0);
    data_rig_column(&conf, "l", "label");
    data = data_rig_open(&dir, &conf);
    st = ps_data_get_facts(&conf, &facts);
    assert_string_equal(st.text, "");
    assert_int_equal(facts.features, 4);
    assert_int_equal(facts.ids, 0);
    assert_int_equal(facts.vocabulary, 0);
    assert_int_equal(facts.classes, 3);
    ps_dataset_gather(data, PS_TEST, NULL, 0, 2, x[0], y);
    assert_memory_equal(x, want, sizeof want);
    assert_true(y[0] == 2 && y[1] == 1);
    ps_dataset_destroy(data);
    temp_dir_destroy(&dir);
}

static void what_is_no_such_table_is_refused_by_line(void **state)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "train: is empty"},
        {"x,y\n", "train: line 1: no column \"n\""},
        {"n,l,n\n1,0,1\n", "train: line 1: a second column \"n\""},
        {"n,l\n1,0\n2\n", "train: line 3: 1 fields, expected 2"},
        {"n,l\n1,0\n2,1,\n", "train: line 3: 3 fields, expected 2"},
        {"n,l\n1,0\nx,1\n", "train: line 3: column n: 1 bytes that are no finite number"},
        {"n,l\n1,0\nnan,1\n", "train: line 3: column n: 3 bytes that are no finite number"},
        {"n,l\n1,0\n1e999,1\n", "column n: 5 bytes that are no finite number"},
        {"n,l\n1,0\n0x10,1\n", "column n: 4 bytes that are no finite number"},
        {"n,l\n1,0\n,1\n", "train: line 3: column n: 0 bytes that are no finite number"},
        {"n,l\n1,0\n\"2,1\n", "train: line 3: a quoted field has no closing quote"},
        {"n,l\n1,0\n\"2\"x,1\n", "train: line 3: field 1: text after a quote"},
        {"n,l\n1,0\n2,0\n", "train and 1 more: column l: 1 different labels, expected 2"},
        {"n,l\n", "train and 1 more: column l: 0 different labels"},
        {"n,l\n1,0\n2,9\n", "test: line 2: column l: a label that no training record has"},
    };
    temp_dir dir = temp_dir_create();
    ps_data_conf conf = data_rig_conf("csv");

    (void)state;
    data_rig_write(&dir, "test", "n,l\n1,1\n");
    data_rig_column(&conf, "n", "numeric");
    data_rig_column(&conf, "l", "label");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        data_rig_write(&dir, "train", bad[i].text);
        data_rig_refused(&dir, &conf, PS_INVALID_ARGUMENT, bad[i].why);
    }
    temp_dir_destroy(&dir);
}

static void columns_that_do_not_go_together_are_refused(void **state)
{
    ps_data_conf conf = data_rig_conf("csv");
    ps_data_facts facts;
    ps_status st;

    (void)state;
    conf.train_limit = conf.test_limit = 1;
    data_rig_column(&conf, "a", "numeric");
    st = ps_data_get_facts(&conf, &facts);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "0 labels, 0 targets"));
    data_rig_column(&conf, "b", "label");
    st = ps_data_get_facts(&conf, &facts);
    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    set(&conf, "classes", 3);
    st = ps_data_get_facts(&conf, &facts);
    assert_string_equal(st.text, "");
    data_rig_column(&conf, "c", "target");
    st = ps_data_get_facts(&conf, &facts);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
}

static void the_real_table_loads(void **state)
{
    static const char *const numeric[] = {"age",          "fnlwgt",       "education_num",
                                          "capital_gain", "capital_loss", "hr_per_week"};
    static const char *const categories[] = {"type_employer", "education", "marital", "occupation",
                                             "relationship",  "race",      "sex",     "country"};
    const char *root = getenv("PSGD_DATA");
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("csv"));
    temp_dir scratch = temp_dir_create();
    ps_dataset *data = NULL;
    ps_data_facts facts;
    char folder[4096];
    double sums[6] = {0}, rich = 0;
    float x[14], y;
    ps_status st;

    (void)state;
    if (root == NULL || root[0] == '\0') {
        print_message("PSGD_DATA is not set: the real table is not tested\n");
        temp_dir_destroy(&scratch);
        skip();
    }
    snprintf(folder, sizeof folder, "%s/ctr", root);
    strcpy(conf.files[0], "adult.csv");
    conf.train_files = 1;
    for (size_t i = 0; i < 6; i++) {
        data_rig_column(&conf, numeric[i], "numeric");
    }
    for (size_t i = 0; i < 8; i++) {
        data_rig_column(&conf, categories[i], "vocabulary");
    }
    data_rig_column(&conf, "income", "label");
    st = ps_data_look(folder, &conf);
    assert_string_equal(st.text, "");
    st = ps_data_load(&conf, folder, scratch.path, &data);
    assert_string_equal(st.text, "");
    st = ps_data_get_facts(&conf, &facts);
    assert_string_equal(st.text, "");
    assert_int_equal(conf.train_limit + conf.test_limit, 30162);
    assert_in_range(conf.test_limit, 5750, 6310); /* a fifth; deviation 69 */
    assert_int_equal(facts.features, 14);
    assert_int_equal(facts.ids, 8);
    assert_int_equal(facts.classes, 2);
    for (uint32_t i = 0; i < conf.train_limit; i++) {
        ps_dataset_gather(data, PS_TRAIN, NULL, i, 1, x, &y);
        for (size_t k = 0; k < 6; k++) {
            sums[k] += (double)x[k];
        }
        for (size_t k = 6; k < 14; k++) {
            assert_true(x[k] >= 0 && x[k] < (float)facts.vocabulary);
        }
        rich += (double)y;
    }
    for (size_t k = 0; k < 6; k++) {
        assert_true(fabs(sums[k] / conf.train_limit) < 1e-4);
    }
    assert_true(fabs(rich / conf.train_limit - 0.2489) < 0.01); /* 7508 of 30162 */
    ps_dataset_destroy(data);
    temp_dir_destroy(&scratch);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_become_numbers_then_ids),
        cmocka_unit_test(ids_of_columns_do_not_overlap),
        cmocka_unit_test(one_hot_columns_are_features),
        cmocka_unit_test(what_is_no_such_table_is_refused_by_line),
        cmocka_unit_test(columns_that_do_not_go_together_are_refused),
        cmocka_unit_test(the_real_table_loads),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
