/* SPDX-License-Identifier: Apache-2.0 */
/* test_codec_uses.c - which codecs a job may use for what, and what clients are told
 * about them. */
#include "common/codec/wrap.h"
#include "common/job/kinds.h"
#include "common/job/plan.h"
#include "common/rpc/pbjson.h"
#include "common/wire/coder.h"
#include "tests/support/plan_rig.h"

#include <stdio.h>
#include <string.h>

static ps_status planned(const char *json, ps_plan **plan)
{
    Psgd__V1__JobSpec *spec = spec_of(json);
    ps_status st = ps_plan_create(spec, NULL, NULL, plan);

    free_spec(spec);
    return st;
}

/* What is wrong with the job, "" if nothing is. */
static const char *wrong(const char *json)
{
    static char text[1024];
    ps_plan *plan = NULL;
    ps_status st = planned(json, &plan);

    snprintf(text, sizeof text, "%s", st.text);
    ps_plan_destroy(plan);
    return text;
}

static void must_be_wrong(const char *json, const char *field)
{
    const char *text = wrong(json);

    if (strncmp(text, field, strlen(field)) != 0) {
        fail_msg("%s: \"%s\"", json, text);
    }
}

#define FED "{\"name\":\"sign\",\"params\":{\"error_feedback\":1}}"
#define TWICE "\"workers\":2,\"assignment\":{\"name\":\"iid\",\"params\":{\"redundancy\":2}}"

static void weights_need_a_codec_that_keeps_them(void **state)
{
    (void)state;
    assert_string_equal(wrong("{\"codec\":{\"up\":{\"name\":\"topk\"}}}"), "");
    must_be_wrong("{\"codec\":{\"down\":{\"name\":\"topk\"}}}", "spec.codec.down.name");
    must_be_wrong("{\"codec\":{\"down\":{\"name\":\"randomk\"}}}", "spec.codec.down.name");
    must_be_wrong("{\"codec\":{\"variables\":[{\"match\":\"*\",\"down\":{\"name\":\"threelc\"}}]}}",
                  "spec.codec.variables[0].down.name");
    assert_string_equal(wrong("{\"codec\":{\"down\":{\"name\":\"intn\"}}}"), "");
}

static void error_feedback_is_for_both_ways(void **state)
{
    (void)state;
    assert_string_equal(wrong("{\"codec\":{\"up\":" FED "}}"), "");
    assert_string_equal(wrong("{\"codec\":{\"down\":" FED "}}"), "");
    must_be_wrong("{\"codec\":{\"down\":{\"name\":\"topk\",\"params\":{\"error_feedback\":1}}}}",
                  "spec.codec.down.name");
}

static void error_feedback_is_not_for_blocks_that_several_bring(void **state)
{
    (void)state;
    must_be_wrong("{" TWICE ",\"codec\":{\"up\":" FED "}}", "spec.codec.up.params.error_feedback");
    must_be_wrong("{" TWICE ",\"codec\":{\"variables\":[{\"match\":\"*\",\"up\":" FED "}]}}",
                  "spec.codec.variables[0].up.params.error_feedback");
    assert_string_equal(wrong("{" TWICE ",\"update\":{\"name\":\"gradient_average\"},"
                              "\"codec\":{\"up\":" FED "}}"),
                        "");
}

static void rows_of_1_are_the_variable_s_own(void **state)
{
    ps_plan *plan = NULL;
    ps_status st = planned("{\"codec\":{\"up\":{\"name\":\"int8\",\"params\":{\"rows\":1}},"
                           "\"down\":{\"name\":\"f32\",\"params\":{\"rows\":5}}}}",
                           &plan);

    (void)state;
    assert_int_equal(st.code, PS_OK);
    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        const ps_shape *shape = &plan->layout.variables[v].shape;
        double own = shape->rank > 1 ? (double)shape->dim[shape->rank - 1] : 0;

        assert_true(ps_wrap_of(plan->up[v].codec, &plan->up[v].params, PS_WRAP_ROWS) == own);
        assert_true(ps_wrap_of(plan->down[v].codec, &plan->down[v].params, PS_WRAP_ROWS) == 5);
    }
    ps_plan_destroy(plan);
}

#define NORMALISED                                                                                 \
    "{\"model\":{\"layers\":[{\"kind\":\"dense\",\"params\":{\"units\":20}},"                      \
    "{\"kind\":\"batch_norm\"},{\"kind\":\"dense\",\"params\":{\"units\":10}}]},\"codec\":"

/* What the codecs of a plan's state are called, those of its first variable beside
 * them: "up down, up down". */
static void codecs_are(const char *codec, const char *expected)
{
    char json[1024], text[128] = "";
    ps_plan *plan = NULL;
    ps_status st;
    uint32_t states = 0;

    snprintf(json, sizeof json, NORMALISED "%s}", codec);
    st = planned(json, &plan);
    if (!ps_is_ok(&st)) {
        fail_msg("%s", st.text);
    }
    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        if (!plan->layout.variables[v].is_state) {
            continue;
        }
        states++;
        snprintf(text, sizeof text, "%s %s, %s %s", plan->up[v].codec->name,
                 plan->down[v].codec->name, plan->up[0].codec->name, plan->down[0].codec->name);
        assert_string_equal(text, expected);
    }
    assert_int_equal(states, 2);
    ps_plan_destroy(plan);
}

static void state_is_spared_what_would_bend_it(void **state)
{
    (void)state;
    codecs_are("{\"up\":{\"name\":\"sign\"}}", "f32 f32, sign f32");
    codecs_are("{\"up\":{\"name\":\"randomk\"},\"down\":{\"name\":\"bf16\"}}",
               "f32 f32, randomk bf16");
    codecs_are("{\"up\":{\"name\":\"int8\"},\"down\":{\"name\":\"intn\"}}", "int8 intn, int8 intn");
    codecs_are("{\"up\":{\"name\":\"int8\",\"params\":{\"momentum\":0.9}}}", "f32 f32, int8 f32");
    codecs_are("{\"up\":{\"name\":\"sign\"},\"variables\":[{\"match\":\"batch_norm1.*\","
               "\"up\":{\"name\":\"topk\"}}]}",
               "topk f32, sign f32");
}

static void what_is_standing_needs_every_contribution_once(void **state)
{
    (void)state;
#define DIFFERS(more) "{\"name\":\"sign\",\"params\":{\"difference\":1" more "}}"
    assert_string_equal(wrong("{\"codec\":{\"up\":" DIFFERS("") "}}"), "");
    assert_string_equal(wrong("{\"codec\":{\"up\":" DIFFERS(",\"lazy\":0.1") "}}"), "");
    must_be_wrong("{\"codec\":{\"up\":{\"name\":\"vote\",\"params\":{\"difference\":1}}}}",
                  "spec.codec.up.params.difference");
    must_be_wrong("{\"codec\":{\"up\":" DIFFERS(",\"error_feedback\":1") "}}",
                  "spec.codec.up.params.difference");
    must_be_wrong("{\"consistency\":{\"name\":\"asp\"},\"codec\":{\"up\":" DIFFERS("") "}}",
                  "spec.codec.up.params.difference");
    must_be_wrong("{" TWICE ",\"codec\":{\"up\":" DIFFERS("") "}}",
                  "spec.codec.up.params.difference");
    must_be_wrong("{\"codec\":{\"up\":{\"name\":\"sign\",\"params\":{\"lazy\":0.1}}}}",
                  "spec.codec.up.params.lazy");
    must_be_wrong("{" TWICE
                  ",\"codec\":{\"up\":{\"name\":\"int8\",\"params\":{\"momentum\":0.9}}}}",
                  "spec.codec.up.params.momentum");
    must_be_wrong("{\"codec\":{\"down\":{\"name\":\"int8\",\"params\":{\"momentum\":0.9}}}}",
                  "spec.codec.down.params.momentum");
}

/* Whoever brings a block first, its bytes are the same: no history of one's own. */
static void no_state_is_kept_of_blocks_that_several_bring(void **state)
{
    static const char *const jobs[] = {
        "{\"workers\":2,\"codec\":{\"up\":{\"name\":\"laq\"}}}",
        "{" TWICE ",\"codec\":{\"up\":{\"name\":\"laq\"}}}",
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        ps_plan *plan = NULL;
        ps_status st = planned(jobs[i], &plan);
        ps_placement placement;
        ps_coder coder;

        assert_int_equal(st.code, PS_OK);
        ps_placement_init(&placement, &plan->layout, plan->spec->pservers, plan->spec->workers);
        ps_coder_init(&coder, plan, &placement, 0);
        assert_true((coder.kept != NULL) == (i == 0));
        ps_coder_fini(&coder);
        ps_placement_fini(&placement);
        ps_plan_destroy(plan);
    }
}

static void look(const ps_plugin *plugin, void *arg)
{
    size_t *seen = arg;

    assert_true(strlen(plugin->summary) < 250); /* whole */
    if (strcmp(plugin->name, "intn") == 0) {
        assert_non_null(
            strstr(plugin->summary, "; 4 bits a value, unbiased, not summable, no state"));
        ++*seen;
    }
    if (strcmp(plugin->name, "threshold") == 0) {
        assert_non_null(strstr(plugin->summary, "; at most 32 bits a value, biased"));
        assert_non_null(strstr(plugin->summary, "for gradients only"));
        ++*seen;
    }
    if (strcmp(plugin->name, "dgc") == 0) { /* of error feedback */
        assert_non_null(strstr(plugin->summary, ", state 1 float a value, for gradients only"));
        ++*seen;
    }
    if (strcmp(plugin->name, "vote") == 0) {
        assert_non_null(strstr(plugin->summary, "; 1 bit a value, biased, summable, no state"));
        ++*seen;
    }
}

static void a_codec_s_summary_ends_with_its_facts(void **state)
{
    size_t seen = 0;

    (void)state;
    ps_kind_codec.each(look, &seen);
    assert_int_equal(seen, 4);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_need_a_codec_that_keeps_them),
        cmocka_unit_test(error_feedback_is_for_both_ways),
        cmocka_unit_test(error_feedback_is_not_for_blocks_that_several_bring),
        cmocka_unit_test(rows_of_1_are_the_variable_s_own),
        cmocka_unit_test(state_is_spared_what_would_bend_it),
        cmocka_unit_test(what_is_standing_needs_every_contribution_once),
        cmocka_unit_test(no_state_is_kept_of_blocks_that_several_bring),
        cmocka_unit_test(a_codec_s_summary_ends_with_its_facts),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
