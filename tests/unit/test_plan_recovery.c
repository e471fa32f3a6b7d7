/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_recovery.c - what a job does after the loss of a process, and if it diverges. */
#include "common/job/plan.h"

#include "tests/support/plan_rig.h"

#include <math.h>

#define NGRAM                                                                                      \
    "{\"data\":{\"name\":\"ngram\",\"files\":[\"a\"],\"train_limit\":2000,\"test_limit\":100,"     \
    "\"params\":{\"words\":50}},\"model\":{\"preset\":\"ngram\","

#define PAIRS                                                                                      \
    "{\"data\":{\"name\":\"skipgram\",\"files\":[\"a\"],\"train_limit\":2000,"                     \
    "\"test_limit\":100,\"params\":{\"words\":50}},\"model\":{\"preset\":\"skipgram\","            \
    "\"table\":{\"name\":\"sparse\"}}"

#define TWICE "\"workers\":4,\"assignment\":{\"params\":{\"redundancy\":2}}"

/* Ranks with the same block skip steps that others have completed: their files have no weights. */
static void ranks_with_blocks_in_common_have_checkpoints_if_they_keep_nothing(void **state)
{
    static const struct {
        const char *job;
        bool may;
    } jobs[] = {
        {"{" TWICE "}", true},
        {"{\"codec\":{\"up\":{\"name\":\"int8\"}}," TWICE "}", true},
        {"{\"codec\":{\"down\":{\"name\":\"int8\"}}," TWICE "}", true},
        {"{\"codec\":{\"down\":{\"name\":\"int8\",\"params\":{\"error_feedback\":1}}}," TWICE "}",
         true},
        {NGRAM "\"params\":{\"hidden\":4}},\"codec\":{\"down\":{\"name\":\"int8\"}}," TWICE "}",
         false},
        {"{\"optimizer\":{\"side\":\"OPTIMIZER_SIDE_WORKER\",\"rule\":{\"name\":\"sgd\"}}," TWICE
         "}",
         false},
    };
    ps_plan *plan;

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        plan = plan_of(jobs[i].job);

        if ((ps_plan_checkpoint_lacks(plan) == NULL) != jobs[i].may) {
            fail_msg("%s", jobs[i].job);
        }
        assert_true(!jobs[i].may || (!ps_plan_ranks_have_state(plan) && !ps_plan_rescues(plan) &&
                                     ps_plan_kept_bytes(plan) == 0));
        ps_plan_destroy(plan);
    }
    plan = plan_of("{\"exchange\":{\"name\":\"plain\"}," TWICE "}"); /* they skip none */
    assert_null(ps_plan_checkpoint_lacks(plan));
    assert_true(ps_plan_ranks_have_state(plan) && !ps_plan_rescues(plan));
    ps_plan_destroy(plan);
    assert_refused("{\"recovery\":{\"replicas\":2},\"pservers\":2," TWICE "}",
                   "spec.recovery.replicas", "redundancy 1");
}

/* They go back to their last checkpoint, whatever is lost. */
static void rounds_with_sparse_tables_have_checkpoints(void **state)
{
    static const char *const updates[] = {"localsgd", "post_local", "parameter_average", "delta",
                                          "geo_sum_lag"};

    (void)state;
    for (size_t i = 0; i < sizeof updates / sizeof updates[0]; i++) {
        char job[1024];
        ps_plan *plan;

        snprintf(job, sizeof job,
                 NGRAM "\"table\":{\"name\":\"sparse\"}},\"update\":{\"name\":\"%s\"},"
                       "\"checkpoint\":{\"every_steps\":4},\"pservers\":2}",
                 updates[i]);
        plan = plan_of(job);
        assert_true(plan->table_keys > 0);
        assert_null(ps_plan_checkpoint_lacks(plan));
        assert_null(ps_plan_move_lacks(plan));
        assert_true(ps_plan_ranks_have_state(plan) && !ps_plan_rescues(plan));
        assert_int_equal(ps_plan_kept_bytes(plan), 0);
        assert_non_null(strstr(ps_plan_copy_lacks(plan), "together with embeddings by rows"));
        ps_plan_destroy(plan);
    }
}

static bool rescues(const char *job)
{
    ps_plan *plan = plan_of(job);
    bool does = ps_plan_rescues(plan);

    ps_plan_destroy(plan);
    return does;
}

static void a_lost_worker_without_state_may_cost_one_step_only(void **state)
{
    static const struct {
        const char *job;
        bool can_rescue;
    } jobs[] = {
        {"{}", true},
        {"{\"recovery\":{\"on_worker_loss\":\"LOSS_ACTION_RESTART\"}}", false},
        {"{\"consistency\":{\"name\":\"asp\"}}", false},
        {"{\"update\":{\"name\":\"localsgd\"}}", false},
        {"{\"codec\":{\"up\":{\"name\":\"int8\"}}}", true},
        {"{\"codec\":{\"down\":{\"name\":\"int8\"}}}", true},
        {NGRAM "\"table\":{\"name\":\"sparse\"}}}", true},
        {NGRAM "\"params\":{\"hidden\":4}}}", true}, /* rows of a fixed vocabulary */
        {NGRAM "\"params\":{\"hidden\":4}},\"codec\":{\"down\":{\"name\":\"int8\"}}}",
         false},           /* rows as they were decoded */
        {PAIRS "}", true}, /* nothing but tables */
        {NGRAM "\"table\":{\"name\":\"sparse\"}},\"update\":{\"name\":\"localsgd\"}}", false},
        {"{\"codec\":{\"down\":{\"name\":\"int8\",\"params\":{\"error_feedback\":1}}}}", true},
        {"{\"codec\":{\"up\":{\"name\":\"int8\",\"params\":{\"difference\":1}}}}", false},
        {"{" TWICE "}", false}, /* a slow rank skips steps */
        {"{\"update\":{\"name\":\"gradient_average\"}," TWICE "}", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        ps_plan *plan = plan_of(jobs[i].job);

        assert_int_equal(ps_plan_can_rescue(plan), jobs[i].can_rescue);
        assert_true(ps_loss_restarts(plan->spec->recovery->on_worker_loss));
        ps_plan_destroy(plan);
    }
}

static void any_rank_of_an_exchange_can_give_the_state_of_all_if_they_are_alike(void **state)
{
#define RING "{\"exchange\":{\"name\":\"ring\"},"
    static const struct {
        const char *job;
        bool are_alike;
    } jobs[] = {
        {RING "\"workers\":4}", true},
        {RING "\"codec\":{\"up\":{\"name\":\"int8\"},\"down\":{\"name\":\"int8\"}}}", true},
        {RING "\"optimizer\":{\"rule\":{\"name\":\"adam\"}}}", true},
        {RING "\"update\":{\"name\":\"gradient_average\"}}", true},
        {"{\"exchange\":{\"name\":\"ccdc\"},\"assignment\":{\"name\":\"iid\"}}", true},
        {"{\"exchange\":{\"name\":\"plain\"},\"workers\":4,\"assignment\":{\"name\":\"duplicate\","
         "\"params\":{\"redundancy\":2}}}",
         false}, /* a rank that is left behind lacks sums */
        {RING "\"optimizer\":{\"side\":\"OPTIMIZER_SIDE_WORKER\"}}", false},
        {RING "\"update\":{\"name\":\"localsgd\"}}", false},
        {RING "\"codec\":{\"up\":{\"name\":\"topk\",\"params\":{\"error_feedback\":1}}}}", false},
        {RING "\"codec\":{\"down\":{\"name\":\"int8\",\"params\":{\"error_feedback\":1}}}}", false},
        {"{\"workers\":4}", false}, /* on servers */
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        ps_plan *plan = plan_of(jobs[i].job);

        if (ps_plan_ranks_are_alike(plan) != jobs[i].are_alike) {
            fail_msg("%s", jobs[i].job);
        }
        assert_true(ps_plan_can_rescue(plan) == (jobs[i].are_alike || plan->mesh == NULL));
        assert_int_equal(ps_plan_last_begin(plan), plan->total_clocks - !jobs[i].are_alike);
        assert_true(plan->mesh == NULL || ps_plan_kept_bytes(plan) == 0);
        ps_plan_destroy(plan);
    }
    assert_false(rescues(RING "\"recovery\":{\"on_worker_loss\":\"LOSS_ACTION_RESTART\"}}"));
    assert_refused(RING "\"recovery\":{\"replicas\":2}}", "spec.recovery.replicas", "");
#undef RING
}

static void ranks_with_state_are_carried_on_where_contributions_are_kept(void **state)
{
#define TEN "{\"max_steps\":10,"
    static const struct {
        const char *job;
        bool carries;
    } jobs[] = {
        {TEN "\"pservers\":2}", false}, /* they have none: that is ps_plan_can_rescue */
        {TEN "\"codec\":{\"up\":{\"name\":\"dgc\"}}}", true},
        {TEN "\"update\":{\"name\":\"localsgd\"}}", true},
        {TEN "\"update\":{\"name\":\"losp\"}}", true},
        {TEN "\"update\":{\"name\":\"dqlosp\"}}", true},
        {TEN "\"recovery\":{\"on_worker_loss\":\"LOSS_ACTION_RESTART\"}}", true},
        {TEN "\"codec\":{\"up\":{\"name\":\"powersgd\"}}}", true},
        {TEN "\"codec\":{\"up\":{\"name\":\"dgc\"},\"down\":{\"name\":\"int8\"}}}", true},
        {TEN "\"codec\":{\"up\":{\"name\":\"int8\",\"params\":{\"difference\":1}}}}", true},
        {TEN "\"update\":{\"name\":\"losp\"},\"recovery\":{\"on_server_loss\":"
             "\"LOSS_ACTION_RESTART\"}}",
         false},
        {"{\"max_steps\":30000,\"epochs\":10000,\"codec\":{\"up\":{\"name\":\"dgc\"}}}", false},
        {"{\"max_steps\":30000,\"epochs\":10000,\"codec\":{\"up\":{\"name\":\"dgc\"}},"
         "\"pservers\":2,\"recovery\":{\"replicas\":2}}",
         true}, /* with copies the newest suffice */
    };
#undef TEN

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        ps_plan *plan = plan_of(jobs[i].job);

        if (ps_plan_carries(plan) != jobs[i].carries) {
            fail_msg("%s", jobs[i].job);
        }
        assert_int_equal(ps_plan_rescues(plan), jobs[i].carries || ps_plan_can_rescue(plan));
        ps_plan_destroy(plan);
    }
}

/* Contributions are kept where those of two intervals of checkpoints fit. */
static void contributions_are_kept_where_a_replay_can_use_them(void **state)
{
    static const struct {
        const char *job;
        double mib;
    } jobs[] = {
        {"{\"max_steps\":30}", 13.58},
        {"{\"max_steps\":30,\"recovery\":{\"replay_mib\":14}}", 13.58},
        {"{\"max_steps\":30,\"recovery\":{\"replay_mib\":13}}", 0},
        {"{\"max_steps\":30000,\"epochs\":10000}", 0}, /* all steps would be kept */
        {"{\"max_steps\":30000,\"epochs\":10000,\"checkpoint\":{\"every_steps\":20}}", 64},
        {"{\"max_steps\":30000,\"epochs\":10000,\"checkpoint\":{\"every_steps\":100}}", 0},
        {"{\"max_steps\":30000,\"epochs\":10000,\"checkpoint\":{\"every_steps\":100},"
         "\"update\":{\"name\":\"localsgd\",\"params\":{\"steps\":10}}}",
         64}, /* a round of 10 steps has one contribution */
        {"{\"max_steps\":30000,\"epochs\":10000,\"checkpoint\":{\"every_steps\":100},"
         "\"update\":{\"name\":\"post_local\",\"params\":{\"steps\":10,\"start\":1000}}}",
         0}, /* the first rounds have one step */
        {"{\"max_steps\":300,\"epochs\":10000,\"checkpoint\":{\"every_steps\":200},"
         "\"update\":{\"name\":\"localsgd\",\"params\":{\"steps\":10}}}",
         13.58}, /* all of the job, which has 30 rounds */
        {"{\"max_steps\":30000,\"epochs\":10000,\"checkpoint\":{\"every_seconds\":20}}", 64},
        {"{\"max_steps\":30,\"recovery\":{\"on_server_loss\":\"LOSS_ACTION_RESTART\"}}", 0},
        {"{\"max_steps\":30,\"recovery\":{\"on_worker_loss\":\"LOSS_ACTION_RESTART\"}}", 13.58},
        {"{\"max_steps\":30,\"pservers\":2,\"recovery\":{\"replicas\":2}}", 0},
        {"{\"max_steps\":30,\"consistency\":{\"name\":\"asp\"}}", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        ps_plan *plan = plan_of(jobs[i].job);

        if (fabs((double)ps_plan_kept_bytes(plan) / (1 << 20) - jobs[i].mib) > 0.01) {
            fail_msg("%s: keeps %zu bytes", jobs[i].job, ps_plan_kept_bytes(plan));
        }
        ps_plan_destroy(plan);
    }
    assert_refused("{\"recovery\":{\"replay_mib\":65537}}", "spec.recovery.replay_mib",
                   "is 65537; 1 to 65536 are allowed");
}

static void shards_are_on_two_servers_where_a_step_is_repeated(void **state)
{
    ps_plan *plan = plan_of("{\"pservers\":2,\"recovery\":{\"replicas\":2}}");

    (void)state;
    assert_true(ps_plan_has_copies(plan));
    ps_plan_destroy(plan);
    plan = plan_of("{\"pservers\":1,\"recovery\":{\"replicas\":2}}"); /* what was left of it */
    assert_false(ps_plan_has_copies(plan));
    ps_plan_destroy(plan);
    plan = plan_of("{\"pservers\":2}");
    assert_int_equal(plan->spec->recovery->replicas, 1);
    assert_false(ps_plan_has_copies(plan));
    ps_plan_destroy(plan);
    assert_refused("{\"recovery\":{\"replicas\":3}}", "spec.recovery.replicas",
                   "is 3; 1 to 2 are allowed");
    assert_refused("{\"recovery\":{\"replicas\":2},\"consistency\":{\"name\":\"asp\"}}",
                   "spec.recovery.replicas", "copies of shards: only consistency bsp is allowed");
    assert_refused("{\"recovery\":{\"replicas\":2},\"exchange\":{\"name\":\"ring\"}}",
                   "spec.recovery.replicas", "the exchange is among workers");
    assert_refused("{\"recovery\":{\"replicas\":2,\"on_server_loss\":\"LOSS_ACTION_FAIL\"},"
                   "\"update\":{\"name\":\"losp\"}}",
                   "spec.recovery.replicas", "on_server_loss REPEAT is expected");
}

static void rows_are_on_two_servers_where_ranks_have_no_state(void **state)
{
#define COPIES "\"pservers\":2,\"recovery\":{\"replicas\":2}}"
    static const char *const jobs[] = {
        NGRAM "\"table\":{\"name\":\"sparse\"}}," COPIES,
        NGRAM "\"params\":{\"hidden\":4}}," COPIES,
        PAIRS "," COPIES,
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        ps_plan *plan = plan_of(jobs[i]);

        assert_true(plan->table_count > 0);
        assert_true(ps_plan_has_copies(plan));
        assert_int_equal(ps_plan_kept_bytes(plan), 0);
        ps_plan_destroy(plan);
    }
    assert_refused(NGRAM "\"params\":{\"hidden\":4}},\"optimizer\":{\"side\":\"OPTIMIZER_SIDE_"
                         "WORKER\"}," COPIES,
                   "spec.recovery.replicas", "not allowed together with embeddings by rows");
    assert_refused(NGRAM "\"table\":{\"name\":\"sparse\"}},\"recovery\":{\"replicas\":2,"
                         "\"on_worker_loss\":\"LOSS_ACTION_FAIL\"}}",
                   "spec.recovery.replicas", "on_worker_loss REPEAT is expected");
#undef COPIES
}

static void a_loss_ends_no_job_by_default(void **state)
{
    ps_plan *asp = plan_of("{\"consistency\":{\"name\":\"asp\"}}");

    (void)state;
    assert_true(ps_loss_restarts(asp->spec->recovery->on_worker_loss));
    assert_true(ps_loss_restarts(asp->spec->recovery->on_server_loss));
    ps_plan_destroy(asp);
}

static void a_rollback_halves_the_rate_and_goes_on_from_the_same_checkpoints(void **state)
{
    ps_plan *plan = plan_of("{\"recovery\":{\"on_divergence\":\"DIVERGENCE_ACTION_ROLLBACK\"}}");
    ps_plan *lower = plan_of("{\"recovery\":{\"halvings\":2}}");
    ps_plan *local = plan_of("{\"update\":{\"name\":\"localsgd\"},\"recovery\":{\"halvings\":2}}");

    (void)state;
    assert_int_equal(plan->spec->recovery->max_rollbacks, 3);
    assert_true(ps_descent_rate(&lower->descent, 17) == 0.001 / 4);
    assert_int_equal(ps_plan_hash(lower), ps_plan_hash(plan));
    assert_int_equal(local->local_descent.halvings, 2);
    assert_int_equal(local->descent.halvings, 0);
    ps_plan_destroy(plan);
    ps_plan_destroy(lower);
    ps_plan_destroy(local);
    assert_refused("{\"consistency\":{\"name\":\"quorum\"},"
                   "\"recovery\":{\"on_divergence\":\"DIVERGENCE_ACTION_ROLLBACK\"}}",
                   "spec.recovery.on_divergence", "only consistency bsp, asp, ssp, dssp,");
    assert_refused("{\"recovery\":{\"max_rollbacks\":31}}", "spec.recovery.max_rollbacks",
                   "is 31; 1 to 30");
    assert_refused("{\"recovery\":{\"halvings\":61}}", "spec.recovery.halvings", "is 61; 0 to 60");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_with_blocks_in_common_have_checkpoints_if_they_keep_nothing),
        cmocka_unit_test(rounds_with_sparse_tables_have_checkpoints),
        cmocka_unit_test(a_lost_worker_without_state_may_cost_one_step_only),
        cmocka_unit_test(any_rank_of_an_exchange_can_give_the_state_of_all_if_they_are_alike),
        cmocka_unit_test(ranks_with_state_are_carried_on_where_contributions_are_kept),
        cmocka_unit_test(contributions_are_kept_where_a_replay_can_use_them),
        cmocka_unit_test(shards_are_on_two_servers_where_a_step_is_repeated),
        cmocka_unit_test(rows_are_on_two_servers_where_ranks_have_no_state),
        cmocka_unit_test(a_loss_ends_no_job_by_default),
        cmocka_unit_test(a_rollback_halves_the_rate_and_goes_on_from_the_same_checkpoints),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
