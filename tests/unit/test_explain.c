/* SPDX-License-Identifier: Apache-2.0 */
/* test_explain.c - from what ranks measured to what bounds a job. */
#include "common/explain/explain_answer.h"
#include "common/explain/explain_ranks.h"

#include "tests/support/cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 1000 };

/* Returns a rank whose steps take so many milliseconds. */
static ps_explain_rank rank(double step, double compute, double wait)
{
    return (ps_explain_rank){.steps = STEPS, .seconds = step, .compute_s = compute, .wait_s = wait};
}

static void must_sum_to_one(const ps_explanation *e)
{
    double sum = 0;

    for (int c = 0; c < PS_EXPLAIN_CAUSES; c++) {
        assert_true(e->shares[c] >= 0);
        sum += e->shares[c];
    }
    assert_true(fabs(sum - 1) < 1e-9);
}

static void names_the_cause(void **state)
{
    static const struct {
        struct {
            uint64_t steps;
            double seconds, compute_s, wait_s, read_s, disk_s;
        } ranks[3];
        size_t n, slowest;
        ps_explain_cause cause;
        ps_explain_surety surety;
        double share;
    } cases[] = {
        /* all compute */
        {{{STEPS, 10, 9.5, 0.4, 0, 0}, {STEPS, 10, 9.4, 0.5, 0, 0}, {STEPS, 10, 9.3, 0.6, 0, 0}},
         3,
         0,
         PS_EXPLAIN_COMPUTE,
         PS_EXPLAIN_SURE,
         0.93},
        /* rank 1 takes four times as long; the others wait for it */
        {{{STEPS, 10, 2, 7.9, 0, 0}, {STEPS, 10, 8, 1.9, 0, 0}, {STEPS, 10, 2, 7.9, 0, 0}},
         3,
         1,
         PS_EXPLAIN_STRAGGLER,
         PS_EXPLAIN_SURE,
         0.6},
        /* of two as well */
        {{{STEPS, 10, 2, 7.9, 0, 0}, {STEPS, 10, 8, 1.9, 0, 0}},
         2,
         1,
         PS_EXPLAIN_STRAGGLER,
         PS_EXPLAIN_SURE,
         0.6},
        /* rank 1 is slower, but nobody waits for it, as in asynchronous jobs */
        {{{STEPS, 5, 4.5, 0.4, 0, 0}, {STEPS, 10, 9.5, 0.4, 0, 0}, {STEPS, 5, 4.5, 0.4, 0, 0}},
         3,
         1,
         PS_EXPLAIN_COMPUTE,
         PS_EXPLAIN_SURE,
         0.95},
        /* all wait */
        {{{STEPS, 10, 2, 8, 0, 0}, {STEPS, 10, 2.1, 7.9, 0, 0}, {STEPS, 10, 2, 8, 0, 0}},
         3,
         1,
         PS_EXPLAIN_EXCHANGE,
         PS_EXPLAIN_SURE,
         0.79},
        /* a slower rank, but all wait longer still */
        {{{STEPS, 10, 1, 8.9, 0, 0}, {STEPS, 10, 3, 6.9, 0, 0}, {STEPS, 10, 1, 8.9, 0, 0}},
         3,
         1,
         PS_EXPLAIN_EXCHANGE,
         PS_EXPLAIN_SURE,
         0.69},
        /* neither computes nor waits */
        {{{STEPS, 10, 3, 1, 0, 0}}, 1, 0, PS_EXPLAIN_OTHER, PS_EXPLAIN_SURE, 0.6},
        /* less than half */
        {{{STEPS, 10, 6, 3.9, 0, 0}, {STEPS, 10, 6, 3.9, 0, 0}},
         2,
         0,
         PS_EXPLAIN_EXCHANGE,
         PS_EXPLAIN_LIKELY,
         0.39},
        /* just above what is named */
        {{{STEPS, 10, 7.5, 2.5, 0, 0}, {STEPS, 10, 7.5, 2.5, 0, 0}},
         2,
         0,
         PS_EXPLAIN_EXCHANGE,
         PS_EXPLAIN_UNSURE,
         0.25},
        /* all stand still for their samples */
        {{{STEPS, 10, 8, 1.9, 6, 6}, {STEPS, 10, 7.9, 2, 6, 6}},
         2,
         0,
         PS_EXPLAIN_DATA,
         PS_EXPLAIN_SURE,
         0.59},
        /* all disks take as long, but one rank is a little ahead: its disk is read while it waits
         */
        {{{STEPS, 10, 10, 0, 7, 9.5}, {STEPS, 10, 6, 4, 3, 9.4}},
         2,
         0,
         PS_EXPLAIN_DATA,
         PS_EXPLAIN_SURE,
         0.64},
        /* one does, and the others wait for it */
        {{{STEPS, 10, 2, 7.9, 0, 0}, {STEPS, 10, 8, 1.9, 6, 6}, {STEPS, 10, 2, 7.9, 0, 0}},
         3,
         1,
         PS_EXPLAIN_STRAGGLER,
         PS_EXPLAIN_SURE,
         0.6},
        /* reads, but computes for much longer */
        {{{STEPS, 10, 9.5, 0.4, 1, 1}}, 1, 0, PS_EXPLAIN_COMPUTE, PS_EXPLAIN_SURE, 0.85},
        /* too few steps for a verdict */
        {{{5, 10, 1, 9, 0, 0}, {5, 10, 1, 9, 0, 0}},
         2,
         0,
         PS_EXPLAIN_EXCHANGE,
         PS_EXPLAIN_UNSURE,
         0.9},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ps_explain_rank ranks[3];
        ps_explanation e;

        for (size_t r = 0; r < cases[i].n; r++) {
            ranks[r] = rank(cases[i].ranks[r].seconds, cases[i].ranks[r].compute_s,
                            cases[i].ranks[r].wait_s);
            ranks[r].steps = cases[i].ranks[r].steps;
            ranks[r].read_s = cases[i].ranks[r].read_s;
            ranks[r].disk_s = cases[i].ranks[r].disk_s;
        }
        e = ps_explain(ranks, cases[i].n);
        assert_int_equal(e.cause, cases[i].cause);
        assert_int_equal(e.surety, cases[i].surety);
        assert_int_equal(e.slowest, cases[i].slowest);
        assert_true(fabs(e.shares[e.cause] - cases[i].share) < 0.02);
        must_sum_to_one(&e);
    }
}

/* Clocks of threads differ a little: sums above the whole time are cut. */
static void shares_sum_to_one(void **state)
{
    (void)state;
    for (double compute = 0; compute <= 12; compute += 0.5) {
        for (double wait = 0; wait <= 12; wait += 0.5) {
            for (double read = 0; read <= 12; read += 3) {
                ps_explain_rank ranks[] = {rank(10, compute, wait), rank(10, wait, compute)};
                ps_explanation e;

                ranks[0].read_s = read;
                e = ps_explain(ranks, 2);
                must_sum_to_one(&e);
            }
        }
    }
}

/* Without the time that a straggler costs, steps take what the other ranks need. */
static void a_share_that_is_gone_makes_steps_faster(void **state)
{
    ps_explain_rank ranks[] = {rank(10, 2, 7.5), rank(10, 8, 1.5), rank(10, 2, 7.5)};
    ps_explanation e = ps_explain(ranks, 3);

    (void)state;
    assert_true(fabs(e.steps_per_s - 100) < 1e-9);
    assert_true(fabs(ps_explain_without(&e, e.shares[PS_EXPLAIN_STRAGGLER]) - 250) <
                1e-6); /* 2 + 1.5 + 0.5 ms */
    assert_true(fabs(ps_explain_without(&e, 0) - 100) < 1e-9);
    assert_true(isinf(ps_explain_without(&e, 1)));
}

/* A straggler that reads from its disk is told from one that computes. */
static void a_straggler_that_reads_is_said(void **state)
{
    ps_explain_rank ranks[] = {rank(10, 2, 7.9), rank(10, 8, 1.9)};

    (void)state;
    for (int reads = 0; reads < 2; reads++) {
        ps_explained all = {.ranks = ranks, .n = 2};
        Psgd__V1__ExplainJobResponse *said;

        ranks[1].number = 7;
        ranks[1].read_s = reads ? 5 : 1;
        all.found = ps_explain(ranks, 2);
        said = ps_explain_answer(&all);
        assert_string_equal(said->cause, "straggler");
        assert_int_equal(said->slowest_rank, 7);
        assert_string_equal(said->sentences[0], "A straggler bounds this job: worker 7.");
        assert_int_equal(strstr(said->sentences[1], "reading samples from its disk") != NULL,
                         reads);
        assert_int_equal(said->n_sentences, 5);
        assert_null(said->exchange);
        psgd__v1__explain_job_response__free_unpacked(said, NULL);
    }
}

static const char *const good =
    "{\"nodes\": [{\"node_id\": \"ps-0\"}, {\"node_id\": \"worker-1\", \"ranks\": [{\"rank\": 1, "
    "\"timed_steps\": 20, \"seconds_training\": 4, \"seconds_computing\": 3, "
    "\"seconds_waiting\": 1, \"seconds_reading\": 2, \"seconds_disk\": 3, \"bytes_up\": 10, "
    "\"bytes_down\": 20, "
    "\"bytes_up_float32\": 30, \"bytes_down_float32\": 40}, {\"rank\": 0, \"timed_steps\": 21, "
    "\"seconds_training\": 4, \"seconds_computing\": 3, \"seconds_waiting\": 1, "
    "\"seconds_reading\": 0, \"seconds_disk\": 0, \"bytes_up\": 10, \"bytes_down\": 20, "
    "\"bytes_up_float32\": 30, "
    "\"bytes_down_float32\": 40}]}]}";

static void a_summary_is_read(void **state)
{
    ps_explain_rank *ranks = calloc(PS_EXPLAIN_RANKS_MAX, sizeof *ranks);
    json_t *summary = json_loads(good, 0, NULL);
    ps_status st;
    size_t n;

    (void)state;
    st = ps_explain_ranks_read(summary, ranks, &n);
    assert_true(ps_is_ok(&st));
    assert_int_equal(n, 2);
    assert_int_equal(ranks[0].steps, 21);
    assert_int_equal(ranks[1].number, 1);
    assert_string_equal(ranks[1].node_id, "worker-1");
    assert_true(ranks[1].read_s == 2 && ranks[1].float32_down == 40);
    json_decref(summary);
    free(ranks);
}

/* Each number that is missing, or is none, is refused: nothing else may reach ps_explain. */
static void a_summary_without_times_is_refused(void **state)
{
    static const char *const members[] = {
        "timed_steps",       "seconds_training", "seconds_waiting",
        "seconds_computing", "seconds_reading",  "seconds_disk",
        "bytes_up",          "bytes_down",       "bytes_up_float32"};
    static const char *const wrong[] = {"null", "-1", "\"1\"", "[]"};
    ps_explain_rank *ranks = calloc(PS_EXPLAIN_RANKS_MAX, sizeof *ranks);
    size_t n;
    ps_status st = ps_explain_ranks_read(NULL, ranks, &n);

    (void)state;
    assert_int_equal(st.code, PS_NOT_FOUND);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
            json_t *summary = json_loads(good, 0, NULL);
            json_t *rank = json_array_get(
                json_object_get(json_array_get(json_object_get(summary, "nodes"), 1), "ranks"), 0);

            json_object_set_new(rank, members[i], json_loads(wrong[k], JSON_DECODE_ANY, NULL));
            st = ps_explain_ranks_read(summary, ranks, &n);
            assert_int_equal(st.code, PS_NOT_FOUND);
            assert_non_null(strstr(st.text, "worker 1"));
            json_decref(summary);
        }
    }
    free(ranks);
}

static void what_ranks_did_between_two_reports(void **state)
{
    ps_explain_rank before = rank(10, 5, 4), now = rank(14, 7, 5);
    ps_status st;

    (void)state;
    now.steps = STEPS + 10;
    st = ps_explain_ranks_since(&now, &before, 1);
    assert_true(ps_is_ok(&st));
    assert_true(now.steps == 10 && now.seconds == 4 && now.compute_s == 2 && now.wait_s == 1);
    now = before;
    st = ps_explain_ranks_since(&now, &before, 1);
    assert_int_equal(st.code, PS_DEADLINE_EXCEEDED);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_cause),
        cmocka_unit_test(shares_sum_to_one),
        cmocka_unit_test(a_share_that_is_gone_makes_steps_faster),
        cmocka_unit_test(a_straggler_that_reads_is_said),
        cmocka_unit_test(a_summary_is_read),
        cmocka_unit_test(a_summary_without_times_is_refused),
        cmocka_unit_test(what_ranks_did_between_two_reports),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
