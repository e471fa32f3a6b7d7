/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_tables.c - jobs whose embeddings are sparse tables on the servers: what becomes of
 * their models, and what they cannot go together with. */
#include "tests/support/plan_rig.h"

#include "common/job/plan.h"

#define JOB(model, numbers, choices)                                                               \
    "{\"workers\":2,\"data\":{\"name\":\"ngram\",\"files\":[\"a\"],\"train_limit\":2000,"          \
    "\"test_limit\":100,\"params\":{\"n\":5,\"words\":50}},\"model\":{" model                      \
    ",\"table\":{\"name\":\"sparse\",\"params\":{" numbers "}}}" choices "}"
#define NGRAM(params) "\"preset\":\"ngram\",\"params\":{" params "}"
/* 50 outputs, 24 of them out of the second table, which is the last of the variables. */
#define TABLE_LAST                                                                                 \
    "\"layers\":[{\"kind\":\"embedding\",\"params\":{\"rows\":9,\"width\":4}},"                    \
    "{\"kind\":\"dense\",\"name\":\"d\",\"params\":{\"units\":26}},"                               \
    "{\"kind\":\"embedding\",\"inputs\":[\"input\"],\"params\":{\"rows\":9,\"width\":6}},"         \
    "{\"kind\":\"flatten\",\"name\":\"f\"},{\"kind\":\"concat\",\"inputs\":[\"d\",\"f\"]}]"
#define SMALL NGRAM("\"width\":4,\"hidden\":2,\"rows\":1000")
#define WITH(choices) JOB(SMALL, "", choices)

static void a_worker_s_table_has_the_ids_of_a_batch(void **state)
{
    ps_plan *plan = plan_of(WITH(",\"block_size\":100"));

    (void)state;
    assert_int_equal(plan->table_count, 1);
    assert_int_equal(plan->table_keys, 400); /* four words a sample */
    assert_int_equal(plan->tables[0].rows, 1000);
    assert_int_equal(plan->tables[0].width, 4);
    assert_int_equal(plan->layout.variables[plan->tables[0].variable].shape.dim[0], 400);
    assert_int_equal(plan->layout.stored_count, plan->layout.variable_count - 1);
    assert_int_equal(ps_table_keys_of_message(plan), PS_TABLE_KEYS);
    ps_plan_destroy(plan);
}

/* Its rows are spread over any number of servers. */
static void a_model_may_have_nothing_but_tables(void **state)
{
    ps_plan *plan =
        plan_of("{\"workers\":2,\"pservers\":3,\"data\":{\"name\":\"skipgram\",\"files\":[\"a\"],"
                "\"train_limit\":2000,\"test_limit\":100,\"params\":{\"words\":50}},\"model\":{"
                "\"preset\":\"skipgram\",\"table\":{\"name\":\"sparse\"}}}");

    (void)state;
    assert_int_equal(plan->table_count, 2);
    assert_int_equal(plan->layout.slice_count, 0);
    ps_plan_destroy(plan);
}

static void rows_of_a_message_are_within_a_mebibyte(void **state)
{
    ps_plan *plan = plan_of(JOB(NGRAM("\"width\":4096,\"hidden\":2,\"rows\":1000"), "", ""));

    (void)state;
    assert_int_equal(ps_table_keys_of_message(plan), 62);
    ps_plan_destroy(plan);
}

static void tables_start_from_what_is_named_or_from_the_job_of_the_model(void **state)
{
    ps_plan *plan = plan_of(WITH(",\"initFrom\":\"job:a-1\""));
    char *const *from;

    (void)state;
    assert_int_equal(ps_table_inits(plan, &from), 1);
    assert_string_equal(from[0], "job:a-1");
    ps_plan_destroy(plan);
    plan = plan_of(WITH(",\"initFrom\":\"job:a-1\",\"initTables\":[\"job:b\",\"c\"]"));
    assert_int_equal(ps_table_inits(plan, &from), 2);
    assert_string_equal(from[1], "c");
    ps_plan_destroy(plan);
    plan = plan_of(WITH(""));
    assert_int_equal(ps_table_inits(plan, &from), 0);
    ps_plan_destroy(plan);
}

static void tables_go_with_every_policy(void **state)
{
    static const char *const names[] = {"ssp",    "asp",        "dssp",        "backup",
                                        "quorum", "half_async", "lag_discard", "stale_scaled"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char job[1024];
        ps_plan *plan;

        snprintf(job, sizeof job, WITH(",\"consistency\":{\"name\":\"%s\"}"), names[i]);
        plan = plan_of(job);
        assert_int_equal(plan->table_count, 1);
        ps_plan_destroy(plan);
    }
}

static void what_tables_do_not_go_with_is_refused(void **state)
{
    static const struct {
        const char *job, *field, *words;
    } cases[] = {
        {WITH(",\"exchange\":{\"name\":\"ring\"}"), "spec.exchange.name", "pserver is allowed"},
        {JOB(TABLE_LAST, "", ",\"exchange\":{\"name\":\"plain\"}"), "spec.exchange.name",
         "pserver is allowed"},
        {WITH(",\"update\":{\"name\":\"losp\"}"), "spec.update.name",
         "is \"losp\"; with sparse tables gradient, localsgd, post_local, parameter_average, delta "
         "and "
         "geo_sum_lag are allowed"},
        {WITH(",\"update\":{\"name\":\"localsgd\"},\"assignment\":{\"name\":\"uneven\",\"params\":{"
              "\"ratio_1\":2,\"ratio_2\":1}}"),
         "spec.assignment.name", "several blocks"},
        {WITH(",\"assignment\":{\"name\":\"duplicate\",\"params\":{\"redundancy\":2}}"),
         "spec.assignment.params.redundancy", "1 is allowed"},
        {WITH(",\"optimizer\":{\"side\":\"OPTIMIZER_SIDE_WORKER\"}"), "spec.optimizer.side",
         "SERVER is allowed"},
        {WITH(",\"codec\":{\"up\":{\"name\":\"int8\",\"params\":{\"error_feedback\":1}}}"),
         "spec.codec.up.params", "nothing is kept"},
        {JOB(SMALL, "\"admit_count\":2,\"admit_probability\":0.5", ""),
         "spec.model.table.params.admit_count", "one of them"},
        {JOB(SMALL, "\"decay\":2", ""), "spec.model.table.params.decay", "0 to 1"},
        {JOB("\"preset\":\"mlp\"", "", ""), "spec.model.table.name", "ids must go to embeddings"},
        /* What is too large by itself is said once. */
        {JOB(NGRAM("\"width\":4096,\"hidden\":65536,\"rows\":1000"), "", ""), "spec.model",
         "parameters"},
        {WITH(",\"initTables\":[\"../m\"]"), "spec.init_tables", "../m"},
        {WITH(",\"initTables\":[\"\"]"), "spec.init_tables", "\"job:ID\" is allowed"},
        {WITH(",\"initFrom\":\"m\""), "spec.init_tables", "is empty"},
        {WITH(",\"consistency\":{\"name\":\"backup\"},\"checkpoint\":{\"keep\":1}"),
         "spec.checkpoint", "only consistency bsp, asp, ssp"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i].job, cases[i].field, cases[i].words);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_s_table_has_the_ids_of_a_batch),
        cmocka_unit_test(a_model_may_have_nothing_but_tables),
        cmocka_unit_test(rows_of_a_message_are_within_a_mebibyte),
        cmocka_unit_test(tables_start_from_what_is_named_or_from_the_job_of_the_model),
        cmocka_unit_test(tables_go_with_every_policy),
        cmocka_unit_test(what_tables_do_not_go_with_is_refused),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
