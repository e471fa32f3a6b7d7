/* SPDX-License-Identifier: Apache-2.0 */
/* test_inprocess.c - whole jobs in one process: their bits, their files, their ends. */
#include "tests/support/cmocka_all.h"

#include "tests/support/dataplane.h"
#include "tests/support/measured.h"
#include "tests/support/patience.h"
#include "tests/support/temp_dir.h"

#include "common/artifact/safetensors.h"
#include "common/base/sha256.h"
#include "common/inprocess/inprocess.h"
#include "common/inprocess/turns.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One job, from the text to the files in a folder of its own. */
typedef struct run {
    temp_dir folder;
    ps_plan *plan;
    ps_inprocess_job *local;
    flag over;
    ps_status made, result;
    const Psgd__V1__Job *job;
} run;

static void on_over(void *arg)
{
    run *r = arg;

    flag_raise(&r->over);
}

static ps_plan *plan_of(const char *choices)
{
    char json[1024];
    dp_job job;
    ps_plan *plan;

    snprintf(json, sizeof json,
             "{\"title\": \"t\", \"seed\": 1, \"model\": {\"widths\": [200, 16]}, \"epochs\": 2, "
             "\"block_size\": 20, "
             "\"data\": {\"name\": \"glyphs\", \"train_limit\": 1200, \"test_limit\": 300}%s}",
             choices);
    dp_job_init(&job, json);
    plan = job.plan;
    job.plan = NULL;
    dp_job_fini(&job);
    return plan;
}

static void begin(run *r, const char *choices, uint32_t threads, const char *data_path)
{
    *r = (run){.folder = temp_dir_create(), .plan = plan_of(choices)};
    flag_init(&r->over);
    r->made = ps_inprocess_job_create(&(ps_inprocess_job_conf){.plan = r->plan,
                                                               .job_id = "t-local",
                                                               .folder = r->folder.path,
                                                               .data_path = data_path,
                                                               .threads = threads,
                                                               .done = on_over,
                                                               .arg = r},
                                      &r->local);
}

static void finish(run *r)
{
    flag_wait(&r->over);
    r->result = ps_inprocess_job_finish(r->local);
    r->job = ps_inprocess_job_now(r->local);
}

static void train(run *r, const char *choices, uint32_t threads)
{
    ps_status st;

    begin(r, choices, threads, NULL);
    assert_string_equal(r->made.text, "");
    st = ps_inprocess_job_start(r->local);
    assert_string_equal(st.text, "");
    finish(r);
}

static void end(run *r)
{
    ps_inprocess_job_destroy(r->local);
    ps_plan_destroy(r->plan);
    flag_fini(&r->over);
    temp_dir_destroy(&r->folder);
}

/* SHA-256 of a file of the job, of evaluations without what was measured. */
static void sum_of(const run *r, const char *name, char hex[PS_SHA256_HEX_BYTES])
{
    ps_sha256 sha;
    char *text;
    size_t n;
    ps_status st = ps_file_read(temp_dir_file(&r->folder, name), 1 << 24, &text, &n);

    assert_string_equal(st.text, "");
    if (strncmp(name, "EV-", 3) == 0) {
        drop_measured(text);
        n = strlen(text);
    }
    ps_sha256_init(&sha);
    ps_sha256_add(&sha, text, n);
    ps_sha256_finish(&sha, hex);
    free(text);
}

static void must_be_the_same(const char *const *names, const run *one, const run *two)
{
    assert_string_equal(one->result.text, "");
    assert_string_equal(two->result.text, "");
    for (size_t i = 0; names[i] != NULL; i++) {
        char x[PS_SHA256_HEX_BYTES], y[PS_SHA256_HEX_BYTES];

        sum_of(one, names[i], x);
        sum_of(two, names[i], y);
        assert_string_equal(x, y);
    }
}

static void must_leave_the_same(const char *const *names, const char *a, uint32_t a_threads,
                                const char *b, uint32_t b_threads)
{
    run one, two;

    train(&one, a, a_threads);
    train(&two, b, b_threads);
    must_be_the_same(names, &one, &two);
    end(&one);
    end(&two);
}

static void must_leave_the_same_models(const char *a, uint32_t a_threads, const char *b,
                                       uint32_t b_threads)
{
    static const char *const names[] = {"MODEL-t-N(0).safetensors", "MODEL-t-N(ps).safetensors",
                                        "EV-t-N(0).csv", NULL};

    must_leave_the_same(names, a, a_threads, b, b_threads);
}

/* --- tests ---------------------------------------------------------------------- */

#define AMONG(name) ", \"workers\": 4, \"exchange\": {\"name\": \"" name "\"}"
#define TWICE ", \"assignment\": {\"name\": \"iid\", \"params\": {\"redundancy\": 2}}"

static void workers_among_themselves_leave_the_models_of_servers(void **state)
{
    static const char *const names[] = {"MODEL-t-N(0).safetensors", "EV-t-N(0).csv",
                                        "EV-t-N(3).csv", NULL};

    (void)state;
    must_leave_the_same(names, AMONG("plain"), 1, ", \"workers\": 4", 4);
    must_leave_the_same(names, AMONG("ndc"), 4, ", \"workers\": 4", 2);
    must_leave_the_same(names, AMONG("plain") ", \"update\": {\"name\": \"localsgd\"}", 4,
                        ", \"workers\": 4, \"update\": {\"name\": \"localsgd\"}", 1);
    must_leave_the_same(names, AMONG("plain") ", \"update\": {\"name\": \"osp\"}", 2,
                        ", \"workers\": 4, \"update\": {\"name\": \"osp\"}", 1);
}

static void threads_change_no_bit_of_an_exchange_among_workers(void **state)
{
    static const char *const names[] = {"MODEL-t-N(0).safetensors", "EV-t-N(0).csv",
                                        "EV-t-N(3).csv", NULL};
    static const char *const jobs[] = {
        AMONG("plain") TWICE,
        AMONG("ndc") TWICE ", \"codec\": {\"up\": {\"name\": \"int8\"}}",
        AMONG("ccdc") TWICE,
        AMONG("ring"),
        AMONG("ring") ", \"codec\": {\"up\": {\"name\": \"int8\"}}",
        AMONG("ring") ", \"codec\": {\"up\": {\"name\": \"topk\", \"params\": {\"error_feedback\": "
                      "1}}, "
                      "\"variables\": [{\"match\": \"dense2.*\", \"down\": {\"name\": \"f16\"}}]}",
        AMONG("tree") ", \"update\": {\"name\": \"fedavg\"}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        must_leave_the_same(names, jobs[i], 1, jobs[i], 4);
    }
}

/* When a worker took its last step, in seconds since it began. */
static double end_of(const run *r, uint32_t rank)
{
    char name[32], *text, *line;
    double time_s;
    size_t n;
    ps_status st;

    snprintf(name, sizeof name, "TR-t-N(%u).csv", rank);
    st = ps_file_read(temp_dir_file(&r->folder, name), 1 << 20, &text, &n);
    assert_string_equal(st.text, "");
    text[n - 1] = '\0'; /* the last row's newline */
    line = strrchr(text, '\n');
    assert_non_null(line);
    time_s = strtod(line + 1, NULL);
    free(text);
    return time_s;
}

/* Three steps, each of six blocks of 20 samples with two holders. */
#define THREE_STEPS                                                                                \
    ", \"epochs\": 1, \"data\": {\"name\": \"glyphs\", \"train_limit\": 360, \"test_limit\": 300}"
#define WINDOW_MS PS_TEST_PACE("250", "750") /* for each worker of the process */
#define HELD_UP_MS PS_TEST_PACE("3000", "9000")

/* Each of its blocks has another holder: the others go on after four windows, when it is held up
 * for twelve, and it comes after. Held to, they would be no more than its last step ahead. */
static void a_slow_worker_with_copies_is_left_behind_and_changes_no_bit(void **state)
{
    static const char held_up[] =
        THREE_STEPS TWICE ", \"workers\": 4, \"exchange\": {\"name\": \"plain\", \"params\": "
                          "{\"window_ms\": " WINDOW_MS "}}, \"straggler\": {\"name\": \"fixed\", "
                          "\"params\": {\"rank\": 3, \"ms\": " HELD_UP_MS "}}";
    static const char *const names[] = {"MODEL-t-N(0).safetensors", "EV-t-N(3).csv", NULL};
    run slow, even;

    (void)state;
    train(&slow, held_up, 4);
    train(&even, AMONG("plain") TWICE THREE_STEPS, 4);
    must_be_the_same(names, &slow, &even);
    assert_int_equal(slow.plan->total_steps, 3);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_true(end_of(&slow, rank) < end_of(&slow, 3) - 1.5e-3 * atoi(HELD_UP_MS));
    }
    end(&slow);
    end(&even);
}

/* What is said is what is heard. */
static void bytes_among_workers_are_those_of_the_packets(void **state)
{
    const Psgd__V1__Progress *p;
    uint64_t plain;
    run r;

    (void)state;
    train(
        &r,
        AMONG("ring") ", \"codec\": {\"up\": {\"name\": \"int8\"}, \"down\": {\"name\": \"int8\"}}",
        4);
    assert_string_equal(r.result.text, "");
    p = r.job->progress;
    plain = r.plan->total_steps * 2 * 3 * r.plan->layout.param_count * sizeof(float);
    assert_int_equal(p->bytes_up_float32, plain);
    assert_int_equal(p->bytes_down_float32, plain);
    assert_int_equal(p->bytes_up, p->bytes_down);
    assert_in_range(p->bytes_up, plain / 4, plain / 4 + plain / 100);
    end(&r);
}

static void threads_change_no_bit(void **state)
{
    static const char *const jobs[] = {
        ", \"workers\": 3",
        ", \"workers\": 3, \"codec\": {\"up\": {\"name\": \"int8\"}, \"down\": {\"name\": "
        "\"int8\"}}",
        ", \"workers\": 3, \"codec\": {\"up\": {\"name\": \"sign\", \"params\": "
        "{\"error_feedback\": 1}}}",
        ", \"workers\": 3, \"optimizer\": {\"side\": \"OPTIMIZER_SIDE_WORKER\"}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        must_leave_the_same_models(jobs[i], 1, jobs[i], 3);
        must_leave_the_same_models(jobs[i], 2, jobs[i], 3);
    }
}

static void the_number_of_servers_changes_no_bit(void **state)
{
    (void)state;
    must_leave_the_same_models(", \"workers\": 2, \"pservers\": 1", 2,
                               ", \"workers\": 2, \"pservers\": 3", 2);
}

static void holders_of_one_block_leave_one_model(void **state)
{
    static const char job[] =
        ", \"workers\": 4, \"assignment\": {\"name\": \"iid\", \"params\": {\"redundancy\": 2}}";
    char a[PS_SHA256_HEX_BYTES], b[PS_SHA256_HEX_BYTES];
    run one, two;

    (void)state;
    /* Who is overtaken depends on threads; what the servers hold does not. */
    train(&one, job, 1);
    train(&two, job, 4);
    assert_string_equal(one.result.text, "");
    assert_string_equal(two.result.text, "");
    sum_of(&one, "MODEL-t-N(ps).safetensors", a);
    sum_of(&two, "MODEL-t-N(ps).safetensors", b);
    assert_string_equal(a, b);
    end(&one);
    end(&two);
}

static void other_policies_learn_on_any_number_of_threads(void **state)
{
    static const char *const policies[] = {
        ", \"workers\": 4, \"epochs\": 10, \"model\": {\"widths\": [16]}, \"consistency\": "
        "{\"name\": \"asp\"}",
        ", \"workers\": 4, \"epochs\": 10, \"model\": {\"widths\": [16]}, \"consistency\": "
        "{\"name\": \"ssp\", \"params\": "
        "{\"bound\": 2}}"};

    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            run r;

            train(&r, policies[i], threads);
            assert_string_equal(r.result.text, "");
            assert_int_equal(r.job->state, PSGD__V1__JOB_STATE__JOB_STATE_DONE);
            assert_int_equal(r.job->n_result, 2);
            assert_string_equal(r.job->result[1]->key, "accuracy");
            assert_true(r.job->result[1]->value > 0.3);
            end(&r);
        }
    }
}

/* Of sgd the increments of parts add up to the increment of the sum. */
static void gradients_of_rounds_are_stepped_on_either_side(void **state)
{
    static const char job[] = ", \"workers\": 2, \"update\": {\"name\": \"double_buffering\"}, "
                              "\"optimizer\": {\"side\": \"%s\", \"l2\": 0.01, \"rule\": "
                              "{\"name\": \"sgd\", \"params\": {\"lr\": 0.1}}}";
    char choices[2][320];
    run on[2];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        snprintf(choices[i], sizeof choices[i], job, i == 0 ? "SERVER" : "WORKER");
        train(&on[i], choices[i], 2);
        assert_string_equal(on[i].result.text, "");
    }
    assert_true(fabs(on[0].job->result[0]->value - on[1].job->result[0]->value) < 1e-4);
    end(&on[0]);
    end(&on[1]);
}

/* Two batches of the test set: with three workers one has no share. */
static void shares_of_an_evaluation_make_the_result_of_the_whole(void **state)
{
    (void)state;
    for (uint32_t workers = 2; workers <= 3; workers++) {
        char whole[256], split[320];
        run one, two;

        snprintf(whole, sizeof whole,
                 ", \"workers\": %u, \"metrics\": [{\"name\": \"accuracy\"}, {\"name\": \"auc\"}, "
                 "{\"name\": \"perplexity\"}]",
                 workers);
        snprintf(split, sizeof split, "%s, \"split_evaluation\": true", whole);
        train(&one, whole, 2);
        train(&two, split, 2);
        assert_string_equal(two.result.text, "");
        assert_int_equal(one.job->n_result, 4);
        assert_int_equal(two.job->n_result, 4);
        for (size_t i = 0; i < 4; i++) {
            double a = one.job->result[i]->value, b = two.job->result[i]->value;

            assert_string_equal(one.job->result[i]->key, two.job->result[i]->key);
            /* The one is a mean over workers: of two of them without rounding. */
            assert_true(workers == 2 ? a == b : fabs(a - b) < 1e-12);
        }
        end(&one);
        end(&two);
    }
}

static void the_files_are_those_of_a_job(void **state)
{
    static const char *const names[] = {"TR-t-N(0).csv", "TR-t-N(1).csv",        "EV-t-N(0).csv",
                                        "EV-t-N(1).csv", "LOG-t-N(local).jsonl", "summary.json",
                                        "manifest.json"};
    char *manifest = NULL, *summary = NULL, *log = NULL;
    size_t n;
    ps_status st;
    run r;

    (void)state;
    train(&r, ", \"workers\": 2", 2);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(access(temp_dir_file(&r.folder, names[i]), F_OK), 0);
    }
    st = ps_file_read(temp_dir_file(&r.folder, "manifest.json"), 1 << 20, &manifest, &n);
    assert_string_equal(st.text, "");
    for (size_t i = 0; i < r.job->n_artifacts; i++) { /* it cannot name itself */
        const Psgd__V1__Artifact *a = r.job->artifacts[i];

        assert_true(strstr(manifest, a->name) != NULL || strcmp(a->name, "manifest.json") == 0);
        assert_true(strstr(manifest, a->sha256) != NULL || strcmp(a->name, "manifest.json") == 0);
    }
    st = ps_file_read(temp_dir_file(&r.folder, "summary.json"), 1 << 20, &summary, &n);
    assert_string_equal(st.text, "");
    assert_non_null(strstr(summary, "\"JOB_STATE_DONE\""));
    st = ps_file_read(temp_dir_file(&r.folder, "LOG-t-N(local).jsonl"), 1 << 20, &log, &n);
    assert_string_equal(st.text, "");
    assert_non_null(strstr(log, "test loss"));
    free(manifest);
    free(summary);
    free(log);
    end(&r);
}

static void bytes_are_those_of_the_encodings(void **state)
{
    run plain, packed;
    const Psgd__V1__Progress *p;

    (void)state;
    train(&plain, ", \"workers\": 2", 2);
    p = plain.job->progress;
    assert_int_equal(p->bytes_up_float32,
                     2 * plain.plan->total_steps * plain.plan->layout.param_count * 4);
    assert_true(p->bytes_up > p->bytes_up_float32);
    assert_true((double)p->bytes_up < 1.01 * (double)p->bytes_up_float32);
    train(&packed, ", \"workers\": 2, \"codec\": {\"up\": {\"name\": \"sign\"}}", 2);
    p = packed.job->progress;
    assert_true(32.0 * (double)p->bytes_up / (double)p->bytes_up_float32 < 1.1);
    assert_true(p->bytes_down > p->bytes_down_float32);
    end(&plain);
    end(&packed);
}

static void a_stop_ends_it_with_the_rows_so_far(void **state)
{
    char *summary = NULL;
    size_t n;
    ps_status st;
    run r;

    (void)state;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        begin(&r, ", \"workers\": 2, \"title\": \"stopped\", \"epochs\": 100000", threads, NULL);
        assert_string_equal(r.made.text, "");
        st = ps_inprocess_job_start(r.local);
        assert_string_equal(st.text, "");
        while (ps_inprocess_job_now(r.local)->progress->step < 5) {
        }
        ps_inprocess_job_stop(r.local);
        finish(&r);
        assert_int_equal(r.result.code, PS_CANCELLED);
        assert_int_equal(r.job->state, PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED);
        st = ps_file_read(temp_dir_file(&r.folder, "summary.json"), 1 << 20, &summary, &n);
        assert_string_equal(st.text, "");
        assert_non_null(strstr(summary, "JOB_STATE_CANCELLED"));
        assert_int_equal(access(temp_dir_file(&r.folder, "TR-stopped-N(1).csv"), F_OK), 0);
        assert_int_equal(access(temp_dir_file(&r.folder, "MODEL-stopped-N(0).safetensors"), F_OK),
                         -1);
        free(summary);
        end(&r);
    }
}

static void a_worker_that_fails_ends_the_job_with_its_reason(void **state)
{
    run r;

    (void)state;
    train(&r,
          ", \"workers\": 2, \"optimizer\": {\"rule\": {\"name\": \"sgd\", \"params\": "
          "{\"lr\": 1000}}}, \"model\": {\"layers\": [{\"kind\": \"dense\", \"params\": "
          "{\"units\": 10}}], \"loss\": \"mse\"}",
          2);
    assert_int_equal(r.result.code, PS_INTERNAL);
    assert_non_null(strstr(r.result.text, "the loss is not finite: layer 0 (dense0)"));
    assert_int_equal(r.job->state, PSGD__V1__JOB_STATE__JOB_STATE_FAILED);
    end(&r);
}

/* A folder is where a file should be, so the file cannot be written. */
static void files_that_cannot_be_written_are_the_reason(void **state)
{
    static const char *const names[] = {"MODEL-t-N(ps).safetensors", "summary.json",
                                        "manifest.json"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        run r;
        ps_status st;

        begin(&r, ", \"epochs\": 1", 1, NULL);
        assert_string_equal(r.made.text, "");
        assert_int_equal(mkdir(temp_dir_file(&r.folder, names[i]), 0700), 0);
        st = ps_inprocess_job_start(r.local);
        assert_string_equal(st.text, "");
        finish(&r);
        assert_non_null(strstr(r.result.text, names[i]));
        assert_int_equal(r.job->state, PSGD__V1__JOB_STATE__JOB_STATE_FAILED);
        assert_string_equal(r.job->reason, "STORE_FAILED");
        assert_string_equal(r.job->message, r.result.text);
        assert_int_equal(rmdir(temp_dir_file(&r.folder, names[i])), 0);
        end(&r);
    }
}

static void data_that_is_not_there_is_named(void **state)
{
    run r;

    (void)state;
    begin(&r, ", \"data\": {\"name\": \"mnist\"}", 1, NULL);
    assert_int_equal(r.made.code, PS_NOT_FOUND);
    assert_non_null(strstr(r.made.text, "--data-path"));
    end(&r);
    begin(&r, ", \"data\": {\"name\": \"mnist\"}", 1, "/nonexistent");
    assert_int_equal(r.made.code, PS_NOT_FOUND);
    end(&r);
    begin(&r, ", \"init_from\": \"job:t-1234\"", 1, NULL);
    assert_int_equal(r.made.code, PS_FAILED_PRECONDITION);
    end(&r);
}

static void it_goes_on_from_a_model(void **state)
{
    char from[PS_SHA256_HEX_BYTES], to[PS_SHA256_HEX_BYTES];
    run first, r;
    ps_status st;

    (void)state;
    train(&first, ", \"workers\": 1", 1);
    begin(&r,
          ", \"init_from\": \"MODEL-t-N(ps).safetensors\", \"epochs\": 1, \"optimizer\": "
          "{\"rule\": {\"name\": \"sgd\", \"params\": {\"lr\": 1e-30}}}",
          1, first.folder.path);
    assert_string_equal(r.made.text, "");
    st = ps_inprocess_job_start(r.local);
    assert_string_equal(st.text, "");
    finish(&r);
    assert_string_equal(r.result.text, "");
    sum_of(&first, "MODEL-t-N(ps).safetensors", from); /* such steps change nothing */
    sum_of(&r, "MODEL-t-N(ps).safetensors", to);
    assert_string_equal(from, to);
    end(&first);
    end(&r);
}

/* --- turns ---------------------------------------------------------------------- */

typedef struct turn_user {
    ps_turns *turns;
    atomic_int *inside;
    atomic_bool *was_crowded;
} turn_user;

static void *use_turns(void *arg)
{
    turn_user *u = arg;

    ps_turns_take(u->turns);
    for (int i = 0; i < 200; i++) {
        if (atomic_fetch_add(u->inside, 1) >= 2) {
            atomic_store(u->was_crowded, true);
        }
        atomic_fetch_sub(u->inside, 1);
        ps_turns_pass(u->turns);
    }
    ps_turns_give(u->turns);
    return NULL;
}

static void no_more_have_a_turn_than_may(void **state)
{
    enum { USERS = 5 };
    pthread_t threads[USERS];
    atomic_int inside = 0;
    atomic_bool was_crowded = false;
    ps_turns turns;
    turn_user user = {&turns, &inside, &was_crowded};

    (void)state;
    ps_turns_init(&turns, 2);
    for (int i = 0; i < USERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_turns, &user), 0);
    }
    for (int i = 0; i < USERS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_false(was_crowded);
    assert_int_equal(turns.asked + 2, turns.allowed); /* all are back */
    ps_turns_fini(&turns);
}

static void train_under(const ps_consistency *policy, void *arg)
{
    char choices[400];
    run r;

    (void)arg;
    snprintf(choices, sizeof choices,
             ", \"workers\": 3, \"consistency\": {\"name\": \"%s\"}, \"straggler\": {\"name\": "
             "\"fixed\", \"params\": {\"rank\": 2, \"ms\": 3}}",
             policy->name);
    train(&r, choices, 1);
    assert_string_equal(r.result.text, "");
    assert_int_equal(access(temp_dir_file(&r.folder, "MODEL-t-N(ps).safetensors"), F_OK), 0);
    end(&r);
}

/* Who is held up gives its turn away, and rounds that close by time are looked after. */
static void every_policy_trains_with_somebody_slow_on_one_thread(void **state)
{
    (void)state;
    ps_consistency_each(train_under, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(the_number_of_servers_changes_no_bit),
        cmocka_unit_test(workers_among_themselves_leave_the_models_of_servers),
        cmocka_unit_test(threads_change_no_bit_of_an_exchange_among_workers),
        cmocka_unit_test(a_slow_worker_with_copies_is_left_behind_and_changes_no_bit),
        cmocka_unit_test(bytes_among_workers_are_those_of_the_packets),
        cmocka_unit_test(holders_of_one_block_leave_one_model),
        cmocka_unit_test(other_policies_learn_on_any_number_of_threads),
        cmocka_unit_test(gradients_of_rounds_are_stepped_on_either_side),
        cmocka_unit_test(shares_of_an_evaluation_make_the_result_of_the_whole),
        cmocka_unit_test(the_files_are_those_of_a_job),
        cmocka_unit_test(bytes_are_those_of_the_encodings),
        cmocka_unit_test(a_stop_ends_it_with_the_rows_so_far),
        cmocka_unit_test(a_worker_that_fails_ends_the_job_with_its_reason),
        cmocka_unit_test(files_that_cannot_be_written_are_the_reason),
        cmocka_unit_test(data_that_is_not_there_is_named),
        cmocka_unit_test(it_goes_on_from_a_model),
        cmocka_unit_test(every_policy_trains_with_somebody_slow_on_one_thread),
        cmocka_unit_test(no_more_have_a_turn_than_may),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
