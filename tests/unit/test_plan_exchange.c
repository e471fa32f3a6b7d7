/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_exchange.c - jobs whose workers exchange without a server: what they are
 * completed to, and what they cannot go together with. */
#include "tests/support/plan_rig.h"

#include <stdio.h>
#include <string.h>

#define MESH(name) "{\"workers\":4,\"exchange\":{\"name\":\"" name "\"}"
#define IID(r) ",\"assignment\":{\"name\":\"iid\",\"params\":{\"redundancy\":" #r "}}"
#define TWICE ",\"assignment\":{\"name\":\"duplicate\",\"params\":{\"redundancy\":2}}"
#define DOWN(name, params) ",\"codec\":{\"down\":{\"name\":\"" name "\",\"params\":{" params "}}}"
#define UP(name, params) ",\"codec\":{\"up\":{\"name\":\"" name "\",\"params\":{" params "}}}"

static void without_a_word_the_exchange_is_through_servers(void **state)
{
    ps_plan *plan = plan_of("{\"workers\":2}");

    (void)state;
    assert_null(plan->mesh);
    assert_string_equal(plan->spec->exchange->name, "pserver");
    assert_int_equal(plan->spec->pservers, 1);
    ps_plan_destroy(plan);
}

static void an_exchange_among_workers_has_no_servers(void **state)
{
    static const char *const jobs[] = {
        MESH("plain") "}",
        MESH("ndc") ",\"pservers\":3" IID(2) "}",
        MESH("ring") ",\"preset\":\"bsp\"}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        ps_plan *plan = plan_of(jobs[i]), *again = NULL;
        ps_status st = ps_plan_create(plan->spec, NULL, NULL, &again);

        assert_non_null(plan->mesh);
        assert_int_equal(plan->spec->pservers, 0);
        assert_int_equal(plan->spec->pservers, 0);
        assert_true(plan->layout.slice_count > 1);
        assert_true(ps_is_ok(&st)); /* a node makes it again of the completed spec */
        assert_ptr_equal(again->mesh, plan->mesh);
        assert_int_equal(again->layout.hash, plan->layout.hash);
        ps_plan_destroy(again);
        ps_plan_destroy(plan);
    }
}

static void the_window_is_half_of_a_step_s_time_or_what_the_job_says(void **state)
{
    ps_plan *plan = plan_of(MESH("plain") ",\"timeouts\":{\"step_ms\":5000}}");

    (void)state;
    assert_int_equal(ps_plan_mesh(plan, 0).window_us, 2500000);
    ps_plan_destroy(plan);
    plan = plan_of("{\"workers\":2,\"exchange\":{\"name\":\"tree\",\"params\":"
                   "{\"window_ms\":700}}}");
    assert_int_equal(ps_plan_mesh(plan, 1).window_us, 700000);
    assert_int_equal(ps_plan_mesh(plan, 1).self, 1);
    ps_plan_destroy(plan);
}

static void contributions_are_of_blocks_or_of_workers(void **state)
{
    ps_plan *plan = plan_of(MESH("plain") IID(2) "}");
    ps_mesh_conf conf = ps_plan_mesh(plan, 0);

    (void)state;
    assert_ptr_equal(conf.assignment, plan->assignment);
    assert_int_equal(conf.assignment->block_count, 6);
    ps_plan_destroy(plan);
    plan = plan_of(MESH("plain") ",\"update\":{\"name\":\"localsgd\"}}");
    conf = ps_plan_mesh(plan, 3);
    assert_int_equal(conf.assignment->block_count, 4);
    assert_int_equal(conf.assignment->held_count[3], 1);
    assert_int_equal(conf.assignment->held[3][0], 3);
    ps_plan_destroy(plan);
}

static void what_an_exchange_among_workers_does_not_go_with_is_refused(void **state)
{
    static const struct {
        const char *job, *field, *words;
    } cases[] = {
        {"{\"exchange\":{\"name\":\"star\"}}", "spec.exchange.name",
         "pserver, plain, ndc, ccdc, ring, tree"},
        {"{\"exchange\":{\"name\":\"pserver\",\"params\":{\"window_ms\":5}}}",
         "spec.exchange.params.window_ms", "none"},
        {"{\"exchange\":{\"name\":\"ring\",\"params\":{\"window_ms\":200000}}}",
         "spec.exchange.params.window_ms", "step_ms, 120000"},
        {MESH("plain") ",\"consistency\":{\"name\":\"asp\"}}", "spec.consistency.name",
         "bsp is allowed"},
        {MESH("ring") ",\"consistency\":{\"name\":\"backup\",\"params\":{\"backups\":1}}}",
         "spec.consistency.name", "bsp is allowed"},
        {MESH("plain") ",\"update\":{\"name\":\"dqlosp\"}}", "spec.update.name",
         "only sum are allowed"},
        {MESH("plain") IID(2) ",\"update\":{\"name\":\"gradient_average\"}}",
         "spec.assignment.params.redundancy", "1 is allowed"},
        {MESH("ccdc") TWICE "}", "spec.exchange.name", "assignment iid is allowed"},
        {"{\"workers\":60,\"exchange\":{\"name\":\"ccdc\"},\"block_size\":1" IID(3) "}",
         "spec.exchange.name", "multicasts"},
        {MESH("ccdc") UP("int8", "") "}", "spec.exchange.name", "f32 is allowed"},
        {MESH("ccdc") ",\"codec\":{\"variables\":[{\"match\":\"dense2.*\",\"up\":"
                      "{\"name\":\"f16\"}}]}}",
         "spec.exchange.name", "codec f16 of dense2."},
        {MESH("ccdc") UP("f32", "\"momentum\":0.9") "}", "spec.exchange.name",
         "momentum 0.9 of codec f32 of dense0.weight"},
        {MESH("ccdc") UP("f32", "\"error_feedback\":1") "}", "spec.exchange.name",
         "error_feedback 1 of codec f32 of dense0.weight"},
        {MESH("ring") UP("topk", "\"error_feedback\":0") "}", "spec.exchange.name",
         "topk of dense0.weight bends sums"},
        {MESH("ring") UP("sign", "\"error_feedback\":0") "}", "spec.exchange.name", "unbiased"},
        {MESH("tree") UP("sign", "\"error_feedback\":0") "}", "spec.exchange.name", "unbiased"},
        {MESH("tree") UP("vote", "\"error_feedback\":1") "}", "spec.exchange.name", "unbiased"},
        {MESH("ring") DOWN("sign", "\"error_feedback\":0") "}", "spec.exchange.name", "sign of"},
        {MESH("ring") UP("int8", "\"difference\":1") "}", "spec.exchange.name", "not of sums"},
        {MESH("tree") UP("int8", "\"momentum\":0.9") "}", "spec.exchange.name", "not of sums"},
        {MESH("ring") UP("powersgd", "") "}", "spec.exchange.name", "without are allowed"},
        {MESH("ndc") IID(2) UP("int8", "\"error_feedback\":1") "}",
         "spec.codec.up.params.error_feedback", "copies would differ"},
        {MESH("plain") IID(2) UP("int8", "\"difference\":1") "}", "spec.codec.up.params.difference",
         "0 is allowed"},
        {MESH("plain") DOWN("f16", "") "}", "spec.codec.down.name", "nothing comes down"},
        {MESH("ndc") ",\"codec\":{\"variables\":[{\"match\":\"dense2.*\",\"down\":"
                     "{\"name\":\"f16\"}}]}}",
         "spec.codec.down.name", "for dense2."},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i].job, cases[i].field, cases[i].words);
    }
}

/* One of the machine for each variable, with its own codecs and cut as slices are. */
static void parts_are_the_variables_with_their_codecs(void **state)
{
    ps_plan *plan = plan_of(
        MESH("tree") ",\"codec\":{\"up\":{\"name\":\"int8\"},\"down\":{\"name\":\"f16\"},"
                     "\"variables\":[{\"match\":\"dense0.*\",\"up\":{\"name\":\"bf16\"}}]}}");
    ps_mesh_conf conf = ps_plan_mesh(plan, 2);

    (void)state;
    assert_int_equal(conf.part_count, plan->layout.variable_count);
    for (uint32_t v = 0; v < conf.part_count; v++) {
        const ps_mesh_part *part = &conf.parts[v];
        bool is_first = strncmp(part->name, "dense0.", 7) == 0;

        assert_string_equal(part->name, plan->layout.variables[v].name);
        assert_int_equal(part->at, plan->layout.variables[v].at);
        assert_int_equal(part->n, plan->layout.variables[v].size);
        assert_int_equal(part->step, plan->layout.slices[plan->layout.first_slice[v]].n);
        assert_string_equal(part->up.codec->name, is_first ? "bf16" : "int8");
        assert_string_equal(part->down.codec->name, "f16");
    }
    ps_plan_destroy(plan);
}

static void what_goes_together_is_taken(void **state)
{
    static const char *const jobs[] = {
        MESH("plain") TWICE "}",
        MESH("ndc") IID(3) UP("topk", "\"error_feedback\":0") "}",
        MESH("ndc") UP("topk", "\"error_feedback\":1") "}",
        MESH("plain") UP("int8", "\"difference\":1,\"lazy\":0.1") "}",
        MESH("plain") UP("int8", "\"momentum\":0.9,\"rows\":1") "}",
        MESH("plain") UP("powersgd", "") "}",
        MESH("plain") UP("vote", "") "}",
        MESH("plain") ",\"data\":{\"name\":\"cifar10\"},\"model\":{\"preset\":\"resnet20\"}" UP(
            "sign", "") "}",
        MESH("plain") ",\"codec\":{\"variables\":[{\"match\":\"dense0.*\",\"up\":"
                      "{\"name\":\"f16\"}}]}}",
        MESH("ccdc") IID(3) "}",
        MESH("ccdc") "}",
        MESH("ring") TWICE UP("int8", "\"lossless\":1") "}",
        MESH("ring") TWICE UP("onebit", "\"error_feedback\":1") "}",
        MESH("ring") UP("topk", "\"error_feedback\":1") "}",
        MESH("ring") DOWN("topk", "\"error_feedback\":1") "}",
        MESH("tree") ",\"codec\":{\"up\":{\"name\":\"f16\"},\"down\":{\"name\":\"int8\"},"
                     "\"variables\":[{\"match\":\"dense0.*\",\"down\":{\"name\":\"f32\"}}]}}",
        MESH("tree") UP("f16", "") ",\"optimizer\":{\"side\":\"OPTIMIZER_SIDE_WORKER\"}}",
        MESH("ring") ",\"update\":{\"name\":\"diloco\"}}",
        MESH("plain") ",\"split_evaluation\":true}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        ps_plan_destroy(plan_of(jobs[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_word_the_exchange_is_through_servers),
        cmocka_unit_test(an_exchange_among_workers_has_no_servers),
        cmocka_unit_test(the_window_is_half_of_a_step_s_time_or_what_the_job_says),
        cmocka_unit_test(contributions_are_of_blocks_or_of_workers),
        cmocka_unit_test(parts_are_the_variables_with_their_codecs),
        cmocka_unit_test(what_an_exchange_among_workers_does_not_go_with_is_refused),
        cmocka_unit_test(what_goes_together_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
