/* SPDX-License-Identifier: Apache-2.0 */
/* test_tables_file.c - what a job's tables start from: files of any servers, whole and changes,
 * go on to the bits of a job that never stopped; what is missing or of something else is told. */
#include "tests/support/bytes_file.h"

#include "common/store/store.h"
#include "common/store/tables_file.h"

#include "common/base/draw.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 3, KEYS = 400, KEY_END = 1000, SERVERS = 3, CLOCKS = 40 };

typedef struct server_conf {
    const char *optim;
    uint32_t servers, rank; /* 0 servers: all virtual shards */
    uint64_t key_end;
    bool values_only;
    uint32_t admit_count;
} server_conf;

static const server_conf whole_conf = {"adagrad", 0, 0, KEY_END, false, 1};

static ps_store *make(const server_conf *of)
{
    bool owned[PS_SHARDS];
    ps_table_conf tables[2];
    ps_tables_conf conf = {.table_count = 2, .tables = tables, .keys_max = KEYS, .tick = 5};
    ps_store_conf job = {
        .workers = 1, .contributors = 1, .policy = ps_consistency_find("bsp"), .merge_scale = 1};

    for (uint32_t s = 0; s < PS_SHARDS; s++) {
        owned[s] = of->servers == 0 || s % of->servers == of->rank;
    }
    job.descent.optim = ps_optim_find(of->optim);
    job.descent.params = ps_params_default(job.descent.optim->params);
    for (uint32_t i = 0; i < 2; i++) {
        tables[i] = ps_table_conf_default(WIDTH, job.descent.optim);
        tables[i].table = i;
        tables[i].seed = 5;
        tables[i].least_score = 0.19f;
        tables[i].unseen_max = 3;
        tables[i].key_end = of->key_end;
        tables[i].values_only = of->values_only;
        tables[i].saves_changes = true;
        tables[i].owned = owned;
        tables[i].admission = of->admit_count > 1 ? PS_ADMIT_COUNT : PS_ADMIT_ALL;
        tables[i].admit_count = of->admit_count;
    }
    job.tables = ps_tables_create(&conf);
    return ps_store_create(&job);
}

/* Clock `clock` of the job, as the clock'th of these tables: some keys, drawn. */
static void push(ps_store *t, const server_conf *of, uint64_t clock, uint64_t number)
{
    for (uint32_t table = 0; table < 2; table++) {
        uint64_t keys[KEYS];
        uint32_t shows[KEYS], clicks[KEYS];
        float grads[KEYS * WIDTH];
        size_t n = 0;
        ps_status st;

        for (uint64_t key = 0; key < KEYS; key++) {
            uint64_t draws = ps_draw_key(7, 0, clock, table, key);
            bool is_here = of->servers == 0 || ps_table_shard_of(key) % of->servers == of->rank;

            if (!is_here || ps_draw_below(draws, 0, KEYS) > 2 + key / 8) {
                continue; /* higher ones come more often */
            }
            keys[n] = key;
            shows[n] = 1 + (uint32_t)(key % 3);
            clicks[n] = (uint32_t)ps_draw_below(draws, 1, 2);
            for (uint32_t i = 0; i < WIDTH; i++) {
                grads[n * WIDTH + i] = (float)ps_draw_unit(draws, 2 + i) - 0.5f;
            }
            n++;
        }
        st = ps_store_push_rows(t, &(ps_store_rows){.clock = number,
                                                    .part = table,
                                                    .table = table,
                                                    .is_last = table == 1,
                                                    .keys = keys,
                                                    .count = n,
                                                    .grads = grads,
                                                    .shows = shows,
                                                    .clicks = clicks});
        assert_string_equal(st.text, "");
    }
}

static bytes_file *save(ps_store *t, uint32_t table, ps_table_kind kind)
{
    bytes_file *f = calloc(1, sizeof *f);

    assert_non_null(f);
    assert_int_equal(
        ps_table_save(ps_tables_at(ps_store_tables(t), table), kind, bytes_file_add, f).code,
        PS_OK);
    return f;
}

/* Both have the same rows, counts and ages: as files they are the same, but for the order of
 * rows, so each row is asked for; then both are trained on, and stay the same. */
static void agree(ps_store *a, ps_store *b)
{
    for (uint64_t key = 0; key < KEYS; key++) {
        float x[2 * WIDTH], y[2 * WIDTH], show[2] = {0}, click[2] = {0};
        ps_status st = ps_tables_pull(ps_store_tables(a), &key, 1, x);

        assert_string_equal(st.text, "");
        st = ps_tables_pull(ps_store_tables(b), &key, 1, y);
        assert_string_equal(st.text, "");
        assert_memory_equal(x, y, sizeof x);
        for (uint32_t t = 0; t < 2; t++) {
            bool is = ps_table_shown(ps_tables_at(ps_store_tables(a), t), key, &show[0], &click[0]);

            assert_int_equal(
                ps_table_shown(ps_tables_at(ps_store_tables(b), t), key, &show[1], &click[1]), is);
            assert_memory_equal(&show[0], &show[1], sizeof show[0]);
            assert_memory_equal(&click[0], &click[1], sizeof click[0]);
        }
    }
    for (uint32_t t = 0; t < 2; t++) {
        ps_table_counters x = ps_table_count(ps_tables_at(ps_store_tables(a), t)),
                          y = ps_table_count(ps_tables_at(ps_store_tables(b), t));

        assert_int_equal(x.rows, y.rows);
        assert_int_equal(x.candidates, y.candidates);
        assert_int_equal(x.ticks, y.ticks);
    }
}

static void take(ps_tables_files *files, const bytes_file *f)
{
    ps_status st = ps_tables_files_take(files, f->bytes, f->len);

    assert_string_equal(st.text, "");
}

static void train(ps_store *t, const server_conf *of, uint64_t from, uint64_t to, uint64_t first)
{
    for (uint64_t clock = from; clock < to; clock++) {
        push(t, of, clock, clock - first);
    }
}

/* Half the clocks on three servers, whose files one server goes on from. */
static void go_on(uint32_t admit_count)
{
    server_conf all = whole_conf;
    ps_store *never, *again;
    ps_tables_files *files;
    ps_status st;

    all.admit_count = admit_count;
    never = make(&all);
    again = make(&all);
    files = ps_tables_files_create(ps_store_tables(again));
    train(never, &all, 0, CLOCKS / 2, 0);
    for (uint32_t s = 0; s < SERVERS; s++) {
        server_conf one = all;
        ps_store *part;

        one.servers = SERVERS;
        one.rank = s;
        part = make(&one);
        train(part, &one, 0, CLOCKS / 2, 0);
        for (uint32_t t = 0; t < 2; t++) {
            bytes_file *f = save(part, t, PS_TABLE_WHOLE);

            st = ps_tables_files_end(files); /* there is more to come */
            assert_int_equal(st.code, PS_FAILED_PRECONDITION);
            take(files, f);
            free(f);
        }
        ps_store_destroy(part);
    }
    st = ps_tables_files_end(files);
    assert_string_equal(st.text, "");
    agree(never, again);
    train(never, &all, CLOCKS / 2, CLOCKS, 0);
    train(again, &all, CLOCKS / 2, CLOCKS, CLOCKS / 2);
    agree(never, again);
    assert_true(ps_table_count(ps_tables_at(ps_store_tables(never), 0)).removed >
                0); /* rows did age */
    ps_tables_files_destroy(files);
    ps_store_destroy(never);
    ps_store_destroy(again);
}

static void a_job_goes_on_from_files_to_the_bits_of_one_that_never_stopped(void **state)
{
    (void)state;
    go_on(1);
    go_on(3);
}

static void changes_over_the_whole_are_the_whole(void **state)
{
    ps_store *t = make(&whole_conf), *again = make(&whole_conf);
    ps_tables_files *files = ps_tables_files_create(ps_store_tables(again));
    ps_status st;
    bytes_file *f[4];

    (void)state;
    train(t, &whole_conf, 0, 15, 0);
    f[0] = save(t, 0, PS_TABLE_WHOLE);
    f[1] = save(t, 1, PS_TABLE_WHOLE);
    train(t, &whole_conf, 15, CLOCKS, 0);
    f[2] = save(t, 0, PS_TABLE_CHANGES);
    f[3] = save(t, 1, PS_TABLE_CHANGES);
    assert_true(f[2]->len > PS_TABLE_HEAD_BYTES);
    st = ps_tables_files_take(files, f[2]->bytes, f[2]->len);
    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    assert_non_null(strstr(st.text, "without a whole file"));
    for (uint32_t i = 0; i < 4; i++) {
        take(files, f[i]);
        free(f[i]);
    }
    st = ps_tables_files_end(files);
    assert_string_equal(st.text, "");
    agree(t, again);
    f[0] = save(again, 0, PS_TABLE_CHANGES); /* what was loaded is no change */
    assert_int_equal(f[0]->len, PS_TABLE_HEAD_BYTES);
    free(f[0]);
    ps_tables_files_destroy(files);
    ps_store_destroy(t);
    ps_store_destroy(again);
}

static void refuse(const server_conf *to, const bytes_file *f, ps_code code, const char *text)
{
    ps_store *t = make(to);
    ps_tables_files *files = ps_tables_files_create(ps_store_tables(t));
    ps_status st = ps_tables_files_take(files, f->bytes, f->len);

    if (st.code != code || strstr(st.text, text) == NULL) {
        fail_msg("%s: %s; should say %s", ps_code_name(st.code), st.text, text);
    }
    assert_int_equal(ps_table_count(ps_tables_at(ps_store_tables(t), 0)).rows, 0);
    ps_tables_files_destroy(files);
    ps_store_destroy(t);
}

static void files_of_something_else_are_refused_with_the_reason(void **state)
{
    ps_store *t = make(&whole_conf);
    server_conf other = whole_conf;
    bytes_file *f;

    (void)state;
    train(t, &whole_conf, 0, 5, 0);
    f = save(t, 0, PS_TABLE_WHOLE);
    other.optim = "momentum"; /* which has as much state as adagrad */
    refuse(&other, f, PS_FAILED_PRECONDITION, "of another optimizer; momentum");
    other.optim = "adam";
    refuse(&other, f, PS_FAILED_PRECONDITION, "adam is expected");
    other = whole_conf;
    other.key_end = 100;
    refuse(&other, f, PS_FAILED_PRECONDITION, "0 to 99 are ids");
    f->bytes[0] ^= 1;
    refuse(&whole_conf, f, PS_DATA_LOSS, "offset 0: not the file of a table");
    f->bytes[0] ^= 1;
    f->len = PS_TABLE_HEAD_BYTES - 1;
    refuse(&whole_conf, f, PS_DATA_LOSS, "the head of a table's file has 80");
    free(f);
    ps_store_destroy(t);
}

static void values_alone_can_be_taken_by_another_optimizer(void **state)
{
    ps_store *t = make(&whole_conf), *to;
    server_conf other = whole_conf;
    ps_tables_files *files;

    (void)state;
    other.optim = "adam";
    other.values_only = true;
    to = make(&other);
    files = ps_tables_files_create(ps_store_tables(to));
    train(t, &whole_conf, 0, 5, 0);
    for (uint32_t i = 0; i < 2; i++) {
        bytes_file *f = save(t, i, PS_TABLE_WHOLE);

        take(files, f);
        free(f);
    }
    agree(t, to);
    train(to, &other, 5, 10, 5); /* its state is there to step with */
    ps_tables_files_destroy(files);
    ps_store_destroy(t);
    ps_store_destroy(to);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_goes_on_from_files_to_the_bits_of_one_that_never_stopped),
        cmocka_unit_test(changes_over_the_whole_are_the_whole),
        cmocka_unit_test(files_of_something_else_are_refused_with_the_reason),
        cmocka_unit_test(values_alone_can_be_taken_by_another_optimizer),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
