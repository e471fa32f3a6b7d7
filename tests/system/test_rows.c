/* SPDX-License-Identifier: Apache-2.0 */
/* test_rows.c - embeddings that go by rows, over real streams: the bits of training on whole
 * tables, at a cost that is that of the rows. */
#include "tests/support/cmocka_all.h"

#include "tests/support/train_world.h"
#include "tests/support/words.h"

#include "common/artifact/weights.h"
#include "common/base/xalloc.h"
#include "common/inprocess/inprocess.h"
#include "common/nn/blas.h"
#include "common/store/table_state.h"
#include "common/train/merge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 40000 };

static const char *job(uint32_t rows, const char *choices)
{
    return words_job(rows, "", choices);
}

typedef struct outcome {
    float *weights; /* (bytes) of the servers, to be freed */
    size_t bytes;
    ps_exchange_stats stats; /* of worker 0 */
    uint64_t steps;
} outcome;

static outcome train(uint32_t workers, uint32_t servers, uint32_t rows, const char *choices)
{
    train_world w;
    outcome o;

    tw_begin(&w, workers, servers, job(rows, choices));
    tw_start(&w);
    tw_join(&w);
    tw_must_be_done(&w);
    o = (outcome){.weights = tw_served(&w),
                  .bytes = w.job.plan->layout.param_count * sizeof(float),
                  .stats = w.workers[0].stats,
                  .steps = w.job.plan->total_steps};
    tw_end(&w);
    return o;
}

/* A codec with a number is taken as it is: f32, every value of every slice. */
#define DENSE ", \"codec\": {\"up\": {\"name\": \"f32\", \"params\": {\"lossless\": 1}}}"
#define ROUNDED ", \"codec\": {\"up\": {\"name\": \"qsgd\"}, \"down\": {\"name\": \"int8\"}}"
#define SGD ", \"optimizer\": {\"rule\": {\"name\": \"sgd\", \"params\": {\"lr\": 0.3}}"

static void must_be_alike(const outcome *a, const outcome *b)
{
    assert_int_equal(a->bytes, b->bytes);
    assert_memory_equal(a->weights, b->weights, a->bytes);
}

static void the_bits_are_those_of_whole_tables(void **state)
{
    static const char *const choices[] = {
        SGD "}",
        SGD ", \"side\": \"OPTIMIZER_SIDE_WORKER\"}",
        ", \"optimizer\": {\"rule\": {\"name\": \"adagrad\"}}",
        SGD "}, \"update\": {\"name\": \"gradient_average\"}",
        SGD ", \"clip\": {\"name\": \"value\", \"params\": {\"limit\": 0.01}}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        char dense[512];
        outcome a = train(2, 2, ROWS, choices[i]), b;

        snprintf(dense, sizeof dense, "%s" DENSE, choices[i]);
        b = train(2, 1, ROWS, dense);
        must_be_alike(&a, &b);
        free(a.weights);
        free(b.weights);
    }
}

static void a_lazy_rule_gives_one_model_on_either_side(void **state)
{
    outcome a = train(1, 2, ROWS, ", \"optimizer\": {\"rule\": {\"name\": \"adam\"}}");
    outcome b = train(1, 1, ROWS,
                      ", \"optimizer\": {\"rule\": {\"name\": \"adam\"}, \"side\": "
                      "\"OPTIMIZER_SIDE_WORKER\"}");

    (void)state;
    must_be_alike(&a, &b);
    free(a.weights);
    free(b.weights);
}

static void what_travels_is_that_of_the_rows_met(void **state)
{
    outcome small = train(2, 2, 2000, SGD "}");
    outcome large = train(2, 2, 20 * ROWS, SGD "}");
    outcome dense = train(2, 2, ROWS, SGD "}" DENSE);

    (void)state;
    /* 400 times the table: a message more, and positions of more bits. */
    assert_true(large.stats.bytes_up * 10 < 13 * small.stats.bytes_up);
    assert_true(large.stats.bytes_down * 10 < 13 * small.stats.bytes_down);
    assert_true(large.stats.bytes_down * 10 < dense.stats.bytes_down);
    /* What it would have been is told of all of it. */
    assert_true(large.stats.bytes_up_float32 > 15 * dense.stats.bytes_up_float32);
    free(small.weights);
    free(large.weights);
    free(dense.weights);
}

static void rows_travel_with_the_slices_that_are_due_with_them(void **state)
{
    outcome o = train(1, 1, 2000, SGD "}");

    (void)state;
    /* In a step a push and a request, an acknowledgement and an answer. */
    assert_in_range(o.stats.messages_up, 2 * o.steps, 2 * o.steps + 2);
    assert_in_range(o.stats.messages_down, 2 * o.steps, 2 * o.steps + 2);
    free(o.weights);
}

static void broken_streams_leave_no_row_behind(void **state)
{
    outcome a = train(2, 2, ROWS, SGD "}"), b;
    train_world w;

    (void)state;
    tw_begin(&w, 2, 2, job(ROWS, SGD "}"));
    tw_start(&w);
    for (uint32_t i = 0; i < 6; i++) {
        dp_server_break(&w.servers[i % 2]);
        dp_server_resume(&w.servers[i % 2]);
    }
    tw_join(&w);
    tw_must_be_done(&w);
    b = (outcome){.weights = tw_served(&w), .bytes = a.bytes};
    must_be_alike(&a, &b);
    for (uint32_t i = 0; i < 2; i++) { /* and the workers have what the servers have */
        assert_memory_equal(w.workers[i].session.weights, b.weights, b.bytes);
    }
    tw_end(&w);
    free(a.weights);
    free(b.weights);
}

static void policies_that_apply_give_a_worker_what_servers_have(void **state)
{
    static const char *const names[] = {"asp", "ssp", "stale_scaled"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char choices[256];
        train_world w;
        float *served;

        snprintf(choices, sizeof choices, SGD "}, \"consistency\": {\"name\": \"%s\"}", names[i]);
        tw_begin(&w, 1, 2, job(ROWS, choices));
        tw_start(&w);
        tw_join(&w);
        tw_must_be_done(&w);
        served = tw_served(&w);
        assert_memory_equal(w.workers[0].session.weights, served,
                            w.job.plan->layout.param_count * sizeof(float));
        free(served);
        tw_end(&w);
    }
}

/* ---- Sparse tables ---- */

#define SPARSE ", \"table\": {\"name\": \"sparse\"}"

/* What a job with a sparse table leaves. */
typedef struct left {
    float *weights; /* (count) of the servers; to be freed */
    size_t count;
    float rows[WORDS_MAX][10]; /* ids that the text has, in order */
    uint64_t made, applied;    /* rows, and steps of them, on all servers */
    double loss;               /* on the test set, of worker 0 */
    ps_exchange_stats stats;
} left;

static void take_left(train_world *w, left *l)
{
    const ps_plan *plan = w->job.plan;

    *l = (left){.weights = tw_served(w),
                .count = plan->layout.param_count,
                .loss = w->workers[0].progress.eval_loss,
                .stats = w->workers[0].stats};
    for (uint32_t s = 0; s < w->server_count; s++) {
        ps_table_counters c = ps_table_count(ps_tables_at(ps_store_tables(w->servers[s].store), 0));

        l->made += c.rows;
        l->applied += c.applied;
    }
    for (uint64_t id = 0; id < words_count; id++) {
        uint32_t server = ps_merge_part_of(plan, &w->job.placement, 0, id);
        ps_status st =
            ps_tables_pull(ps_store_tables(w->servers[server].store), &id, 1, l->rows[id]);

        assert_string_equal(st.text, "");
    }
}

/* With the servers broken so often meanwhile. */
static left *train_sparse(uint32_t workers, uint32_t servers, const char *table,
                          const char *choices, uint32_t breaks)
{
    left *l = ps_xcalloc(1, sizeof *l);
    train_world w;

    tw_begin(&w, workers, servers, words_job(ROWS, table, choices));
    tw_start(&w);
    for (uint32_t i = 0; i < breaks; i++) {
        dp_server_break(&w.servers[i % servers]);
        dp_server_resume(&w.servers[i % servers]);
    }
    tw_join(&w);
    tw_must_be_done(&w);
    take_left(&w, l);
    tw_end(&w);
    return l;
}

static void drop_left(left *l)
{
    free(l->weights);
    free(l);
}

/* The dense part's bits and every row's. */
static void must_leave_the_same(const left *a, const left *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->weights, b->weights, a->count * sizeof *a->weights);
    assert_memory_equal(a->rows, b->rows, sizeof a->rows);
    assert_int_equal(a->made, b->made);
    assert_int_equal(a->applied, b->applied);
}

static void a_sparse_table_ends_in_the_same_bits_however_it_is_served(void **state)
{
    static const char *const choices[] = {SGD "}", SGD "}" ROUNDED};

    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        left *a = train_sparse(2, 1, SPARSE, choices[i], 0);
        left *b = train_sparse(2, 3, SPARSE, choices[i], 0);
        left *c = train_sparse(2, 2, SPARSE, choices[i], 6); /* streams break */

        must_leave_the_same(a, b);
        must_leave_the_same(a, c);
        assert_true(a->made > 300 && a->made <= words_count); /* and no row that nobody has met */
        drop_left(a);
        drop_left(b);
        drop_left(c);
    }
}

static void raise_flag(void *arg)
{
    flag_raise(arg);
}

/* Puts the files where a job looks for them. */
static void share_text(const temp_dir *data)
{
    static const char *const names[] = {"train", "test"};

    assert_int_equal(mkdir(temp_dir_file(data, "text"), 0700), 0);
    for (size_t i = 0; i < 2; i++) {
        char from[512], to[32];

        snprintf(from, sizeof from, "%s", temp_dir_file(&words_folder, names[i]));
        snprintf(to, sizeof to, "text/%s", names[i]);
        assert_int_equal(link(from, temp_dir_file(data, to)), 0);
    }
}

/* Runs a plan in one process on two threads; the weights that it leaves into block (param_count).
 */
static void train_in_one_process(const ps_plan *plan, float *block)
{
    temp_dir out = temp_dir_create(), data = temp_dir_create();
    ps_inprocess_job_conf conf = {
        .plan = plan, .job_id = "t", .folder = out.path, .data_path = data.path, .threads = 2};
    ps_inprocess_job *job;
    flag over;
    ps_status st;
    char name[64];

    share_text(&data);
    flag_init(&over);
    conf.done = raise_flag;
    conf.arg = &over;
    st = ps_inprocess_job_create(&conf, &job);
    assert_string_equal(st.text, "");
    st = ps_inprocess_job_start(job);
    assert_string_equal(st.text, "");
    flag_wait(&over);
    st = ps_inprocess_job_finish(job);
    assert_string_equal(st.text, "");
    snprintf(name, sizeof name, "MODEL-%s-N(ps).safetensors", plan->spec->title);
    st = ps_weights_read(temp_dir_file(&out, name), plan->layout.stored, plan->layout.stored_count,
                         block);
    assert_string_equal(st.text, "");
    ps_inprocess_job_destroy(job);
    flag_fini(&over);
    temp_dir_destroy(&out);
    temp_dir_destroy(&data);
}

static void one_process_leaves_the_bits_of_servers(void **state)
{
    static const char *const tables[] = {SPARSE, ""};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        train_world w;
        float *served, *local;
        size_t n;

        tw_begin(&w, 2, 2, words_job(ROWS, tables[i], SGD "}"));
        tw_start(&w);
        tw_join(&w);
        tw_must_be_done(&w);
        n = w.job.plan->layout.param_count;
        served = tw_served(&w);
        local = ps_xcalloc(n, sizeof *local);
        train_in_one_process(w.job.plan, local);
        for (uint32_t s = 0; s < w.job.plan->layout.slice_count; s++) {
            const ps_slice *at = &w.job.plan->layout.slices[s];

            assert_memory_equal(served + at->at, local + at->at, at->n * sizeof *local);
        }
        free(served);
        free(local);
        tw_end(&w);
    }
}

/* Rows asked for ahead, of samples read further ahead, or when their block's turn comes. */
static void samples_that_are_read_ahead_end_in_the_same_bits(void **state)
{
    static const char choices[] =
        SGD "}, \"eval_every_steps\": 5, \"assignment\": {\"name\": \"uneven\", \"params\": "
            "{\"ratio_1\": 2}}";
    static const char never[] =
        ", \"table\": {\"name\": \"sparse\", \"params\": {\"prefetch\": 0}}";
    left *near = train_sparse(2, 2, SPARSE, choices, 0), *asked, *pulled;

    (void)state;
    tw_put_far(tw_other, true);
    asked = train_sparse(2, 2, SPARSE, choices, 0);
    pulled = train_sparse(2, 2, never, choices, 0);
    tw_put_far(tw_other, false);
    must_leave_the_same(near, asked);
    must_leave_the_same(near, pulled);
    drop_left(near);
    drop_left(asked);
    drop_left(pulled);
}

static void a_sparse_table_learns_what_a_dense_one_does(void **state)
{
    static const char *const policies[] = {"bsp", "asp"};
    static const char adagrad[] = ", \"epochs\": 3, \"optimizer\": {\"rule\": {\"name\": "
                                  "\"adagrad\", \"params\": {\"lr\": 0.1}}}";

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char choices[256], dense[512];
        left *sparse;
        train_world w;

        snprintf(choices, sizeof choices, "%s, \"consistency\": {\"name\": \"%s\"}", adagrad,
                 policies[i]);
        snprintf(dense, sizeof dense, "%s" DENSE, choices);
        sparse = train_sparse(2, 2, SPARSE, choices, 0);
        tw_begin(&w, 2, 2, job(ROWS, dense));
        tw_start(&w);
        tw_join(&w);
        tw_must_be_done(&w);
        print_message("%s: loss %.3f, dense %.3f; %llu and %llu bytes down\n", policies[i],
                      sparse->loss, w.workers[0].progress.eval_loss,
                      (unsigned long long)sparse->stats.bytes_down,
                      (unsigned long long)w.workers[0].stats.bytes_down);
        assert_true(fabs(sparse->loss / w.workers[0].progress.eval_loss - 1) < 0.03);
        assert_true(sparse->loss < 6.2); /* 6.3 when it has learnt next to nothing */
        assert_true(sparse->stats.bytes_down * 10 < w.workers[0].stats.bytes_down);
        tw_end(&w);
        drop_left(sparse);
    }
}

static void ids_that_are_not_let_in_have_no_rows(void **state)
{
    left *all = train_sparse(2, 2, SPARSE, SGD "}", 0);
    left *half = train_sparse(2, 2,
                              ", \"table\": {\"name\": \"sparse\", \"params\": "
                              "{\"admit_probability\": 0.5}}",
                              SGD "}", 0);
    left *often = train_sparse(2, 2,
                               ", \"table\": {\"name\": \"sparse\", \"params\": "
                               "{\"admit_count\": 4}}",
                               SGD "}", 0);

    (void)state;
    assert_in_range(half->made, all->made * 4 / 10, all->made * 6 / 10);
    assert_in_range(often->made, 10, all->made * 8 / 10);
    drop_left(all);
    drop_left(half);
    drop_left(often);
}

/* ---- Copies ---- */

static ps_store *store_of(const train_world *w, uint32_t part)
{
    const ps_placement *placement = &w->job.placement;
    const dp_server *s = &w->servers[placement->parts[part].server];

    for (uint32_t i = 0; i < s->more_count; i++) {
        if (s->more[i].number == part) {
            return s->more[i].parts.part[0].store;
        }
    }
    return s->store;
}

/* The rows of a part with all that the file of its state has of them, as they are or as they were
 * before the last step; and the weights of its slices. */
static ps_strbuf state_of(const train_world *w, uint32_t part, bool is_before)
{
    const ps_part *at = &w->job.placement.parts[part];
    uint64_t end = w->job.plan->total_clocks;
    ps_store *store = store_of(w, part);
    ps_tables *tables = ps_store_tables(store);
    float values[PS_CODEC_VALUES];
    ps_state_out out = {0};

    assert_true(ps_store_has_at(store, end - is_before));
    ps_state_begin(&out, 1, 0);
    for (uint32_t t = 0; tables != NULL && t < tables->table_count; t++) {
        for (uint32_t s = 0; s < PS_SHARDS; s++) {
            ps_table_put_shard(ps_tables_at(tables, t), s, is_before, 0, &out);
        }
    }
    for (uint32_t i = 0; i < at->owned_count; i++) {
        ps_store_copy_slice_at(store, i, end - is_before, values);
        ps_state_put(&out, values, w->job.plan->layout.slices[at->owned[i]].n * sizeof *values);
    }
    return out.section;
}

static void do_nothing(void *arg)
{
    (void)arg;
}

/* Each copy has the state of its original, after all steps and as it was before the last one. */
static void copies_must_be_alike(train_world *w)
{
    const ps_placement *placement = &w->job.placement;
    size_t bytes = 0;

    side_run(&w->serving, do_nothing, NULL); /* what the servers' thread has done can be read now */
    for (uint32_t i = 0; i < placement->part_count; i++) {
        uint32_t p = i / 2;
        ps_strbuf of = state_of(w, p, i % 2 == 1);
        ps_strbuf copy = state_of(w, ps_placement_copy_of(placement, p), i % 2 == 1);

        assert_int_equal(of.len, copy.len);
        assert_memory_equal(ps_strbuf_text(&of), ps_strbuf_text(&copy), of.len);
        bytes += of.len;
        ps_strbuf_fini(&of);
        ps_strbuf_fini(&copy);
    }
    assert_true(bytes > ((size_t)1 << 16));
}

/* Where the two servers have as many threads and where they do not; with codecs whose rounding
 * depends on which rows a message has; streams break meanwhile. */
static void copies_of_rows_have_the_bits_of_the_rows(void **state)
{
    static const uint32_t threads[][2] = {{1, 1}, {2, 1}, {1, 3}};
    static const char *const tables[] = {
        "", SPARSE,
        ", \"table\": {\"name\": \"sparse\", \"params\": {\"admit_count\": 2, \"tick\": 3, "
        "\"decay\": 0.9, \"unseen_max\": 4}}"};
    static const char choices[] =
        ", \"recovery\": {\"replicas\": 2}, \"codec\": {\"up\": {\"name\": \"int8\"}, "
        "\"down\": {\"name\": \"int8\"}}";

    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (size_t k = 0; k < sizeof threads / sizeof threads[0]; k++) {
            train_world w;

            tw_begin_threads(&w, 2, 2, threads[k], words_job(ROWS, tables[i], choices));
            assert_true(w.job.placement.has_copies);
            tw_start(&w);
            for (uint32_t b = 0; k == 1 && b < 4; b++) {
                dp_server_break(&w.servers[b % 2]);
                dp_server_resume(&w.servers[b % 2]);
            }
            tw_join(&w);
            tw_must_be_done(&w);
            copies_must_be_alike(&w);
            tw_end(&w);
        }
    }
}

/* Copies change nothing of what is trained, nor of what is pulled. */
static void copies_of_rows_leave_the_bits_of_a_job_as_they_are(void **state)
{
    left *a = train_sparse(2, 2, SPARSE, SGD "}", 0);
    left *b = train_sparse(2, 2, SPARSE, SGD "}, \"recovery\": {\"replicas\": 2}", 0);

    (void)state;
    must_leave_the_same(a, b);
    assert_int_equal(a->stats.bytes_up_float32, b->stats.bytes_up_float32);
    assert_true(b->stats.bytes_up > a->stats.bytes_up + a->stats.bytes_up / 2);
    assert_in_range(b->stats.bytes_down, a->stats.bytes_down,
                    a->stats.bytes_down + a->stats.bytes_down / 5);
    drop_left(a);
    drop_left(b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_those_of_whole_tables),
        cmocka_unit_test(a_lazy_rule_gives_one_model_on_either_side),
        cmocka_unit_test(what_travels_is_that_of_the_rows_met),
        cmocka_unit_test(rows_travel_with_the_slices_that_are_due_with_them),
        cmocka_unit_test(broken_streams_leave_no_row_behind),
        cmocka_unit_test(policies_that_apply_give_a_worker_what_servers_have),
        cmocka_unit_test(a_sparse_table_ends_in_the_same_bits_however_it_is_served),
        cmocka_unit_test(one_process_leaves_the_bits_of_servers),
        cmocka_unit_test(samples_that_are_read_ahead_end_in_the_same_bits),
        cmocka_unit_test(a_sparse_table_learns_what_a_dense_one_does),
        cmocka_unit_test(ids_that_are_not_let_in_have_no_rows),
        cmocka_unit_test(copies_of_rows_have_the_bits_of_the_rows),
        cmocka_unit_test(copies_of_rows_leave_the_bits_of_a_job_as_they_are),
    };

    ps_nn_init_process();
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, words_write, words_drop);
}
