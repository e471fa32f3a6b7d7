/* SPDX-License-Identifier: Apache-2.0 */
/* data_rig.h - writes the files of small data sets, and has them looked at (ps_data_look) and
 * loaded. */
#ifndef PS_TESTS_SUPPORT_DATA_RIG_H
#define PS_TESTS_SUPPORT_DATA_RIG_H

#include "common/data/columns.h"
#include "common/data/dataset.h"

#include "tests/support/cmocka_all.h"
#include "tests/support/temp_dir.h"

#include <string.h>

/* Loads a data set of the source `source` with default numbers, and so many training and test
 * samples; 0: all. */
static inline ps_status data_rig_load(const char *source, const char *folder, uint32_t train,
                                      uint32_t test, ps_dataset **out)
{
    const ps_data_source *found = ps_data_source_find(source);
    ps_data_conf conf;

    assert_non_null(found);
    conf = ps_data_conf_of(found);
    conf.train_limit = train;
    conf.test_limit = test;
    return ps_data_load(&conf, folder, NULL, out);
}

/* Returns a configuration of the source with the training file "train" and the test file "test". */
static inline ps_data_conf data_rig_conf(const char *source)
{
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find(source));

    strcpy(conf.files[0], "train");
    strcpy(conf.files[1], "test");
    conf.train_files = conf.test_files = 1;
    return conf;
}

static inline void data_rig_column(ps_data_conf *conf, const char *name, const char *kind)
{
    ps_data_column *column = &conf->columns[conf->column_count++];

    strcpy(column->name, name);
    column->kind = ps_column_find(kind);
    assert_non_null(column->kind);
    column->params = ps_params_default(column->kind->params);
}

static inline void data_rig_write(const temp_dir *dir, const char *name, const char *text)
{
    ps_status st = ps_file_write(temp_dir_file(dir, name), text, strlen(text));

    assert_string_equal(st.text, "");
}

/* Calls ps_data_look and ps_data_load for the files in `dir`, asserts that both succeed, and
 * returns the data set. */
static inline ps_dataset *data_rig_open(const temp_dir *dir, ps_data_conf *conf)
{
    ps_dataset *data = NULL;
    ps_status st = ps_data_look(dir->path, conf);

    assert_string_equal(st.text, "");
    st = ps_data_load(conf, dir->path, dir->path, &data);
    assert_string_equal(st.text, "");
    return data;
}

/* Asserts that both ps_data_look and ps_data_load fail with this code, and with `text` in their
 * message. */
static inline void data_rig_refused(const temp_dir *dir, const ps_data_conf *conf, ps_code code,
                                    const char *text)
{
    ps_data_conf copy = *conf;
    ps_dataset *data = NULL;
    ps_status st[2] = {ps_data_look(dir->path, &copy),
                       ps_data_load(conf, dir->path, dir->path, &data)};

    for (size_t i = 0; i < 2; i++) {
        if (st[i].code != code || strstr(st[i].text, text) == NULL) {
            fail_msg("wanted \"%s\", got %d: %s", text, (int)st[i].code, st[i].text);
        }
    }
    assert_null(data);
}

#endif
