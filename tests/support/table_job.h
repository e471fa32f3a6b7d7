/* SPDX-License-Identifier: Apache-2.0 */
/* table_job.h - a job for a node_world whose sparse table starts from a file. */
#ifndef PS_TESTS_SUPPORT_TABLE_JOB_H
#define PS_TESTS_SUPPORT_TABLE_JOB_H

#include "tests/support/bytes_file.h"
#include "tests/support/node_job.h"

#include "common/base/files.h"
#include "common/store/table_file.h"
#include "common/train/merge.h"

#include <string.h>

enum { TABLE_JOB_LINES = 400 };

static const char words[] = "one two three four five six seven eight one two three four\n";

/* The JobSpec in JSON: two servers, and a sparse table with these numbers. */
#define TABLE_JOB(numbers)                                                                         \
    "{\"workers\":1,\"pservers\":2,\"data\":{\"name\":\"ngram\",\"files\":[\"a\"],"                \
    "\"train_limit\":2000,\"test_limit\":10,\"params\":{\"n\":5,\"words\":11}},"                   \
    "\"model\":{\"preset\":\"ngram\",\"params\":{\"width\":4,\"hidden\":2,\"rows\":1000},"         \
    "\"table\":{\"name\":\"sparse\",\"params\":{" numbers "}}},\"init_tables\":[\"a.psgdtab\"]}"

/* Writes the file of a table with rows of the ids 1 to 9. */
static inline void make_file(const ps_plan *plan, bytes_file *f)
{
    ps_tables *tables = ps_merge_tables(plan, NULL, 0);
    uint64_t keys[9];
    float grads[9 * 4];
    ps_status st;

    for (uint64_t i = 0; i < 9; i++) {
        keys[i] = i + 1;
    }
    for (size_t i = 0; i < 9 * 4; i++) {
        grads[i] = 1.0f;
    }
    st = ps_table_push_rows(ps_tables_at(tables, 0),
                            &(ps_table_push){.keys = keys, .count = 9, .grads = grads});
    assert_string_equal(st.text, "");
    f->len = 0;
    st = ps_table_save(ps_tables_at(tables, 0), PS_TABLE_WHOLE, bytes_file_add, f);
    assert_string_equal(st.text, "");
    ps_tables_destroy(tables);
}

typedef struct table_job {
    job j;
    temp_dir data;
    bytes_file f;
} table_job;

/* Makes the job with its table file, and also writes the data file that the job names, because a
 * worker may load its samples before it reads the table. */
static inline void table_job_begin(table_job *t, const char *json, Psgd__V1__NodeRole role)
{
    char text[TABLE_JOB_LINES * sizeof words];
    size_t len = 0;
    ps_status st;

    for (size_t i = 0; i < TABLE_JOB_LINES; i++) {
        memcpy(text + len, words, strlen(words));
        len += strlen(words);
    }
    t->data = temp_dir_create();
    st = ps_file_write(temp_dir_file(&t->data, "a"), text, len);
    assert_string_equal(st.text, "");
    t->j = job_for(role, json, "job-1", 1);
    t->j.packages.folder = t->data.path;
    make_file(t->j.plan, &t->f);
    nw_add_table(&t->j.packages, t->f.bytes, t->f.len);
}

static inline void table_job_end(table_job *t)
{
    job_fini(&t->j);
    temp_dir_destroy(&t->data);
}

#endif
