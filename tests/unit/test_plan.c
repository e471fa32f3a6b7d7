/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan.c - what a job may be, what it is refused for, and what is filled in. */
#include "common/job/plan.h"

#include "common/job/kinds.h"
#include "tests/support/plan_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void an_empty_job_gets_every_default(void **state)
{
    ps_plan *plan = plan_of("{}");
    const Psgd__V1__JobSpec *s = plan->spec;

    (void)state;
    assert_string_equal(s->title, "psgd");
    assert_int_equal(s->workers, 1);
    assert_int_equal(s->pservers, 1);
    assert_int_equal(s->epochs, 2);
    assert_int_equal(s->block_size, 64);
    assert_string_equal(s->model->preset, "mlp");
    assert_int_equal(s->model->n_widths, 2);
    assert_string_equal(s->model->activation, "tanh");
    assert_string_equal(s->model->loss, "softmax_cross_entropy");
    assert_string_equal(s->data->name, "glyphs");
    assert_string_equal(s->assignment->name, "iid");
    assert_string_equal(s->assignment->params[0]->key, "redundancy");
    assert_string_equal(s->optimizer->rule->name, "adam");
    assert_int_equal(s->optimizer->rule->n_params, 4);
    assert_int_equal(s->optimizer->side, PSGD__V1__OPTIMIZER_SIDE__OPTIMIZER_SIDE_SERVER);
    assert_string_equal(s->update->name, "gradient");
    assert_string_equal(s->consistency->name, "bsp");
    assert_string_equal(s->codec->up->name, "f32");
    assert_string_equal(s->codec->down->name, "f32");
    assert_int_equal(s->n_metrics, 1);
    assert_string_equal(s->metrics[0]->name, "accuracy");
    assert_int_equal(s->network_bandwidth, 12500000);
    assert_int_equal(s->timeouts->can_commit_ms, 5000);
    assert_int_equal(s->timeouts->pre_commit_floor_ms, 30000);
    assert_int_equal(s->timeouts->pre_commit_cap_ms, 600000);
    assert_int_equal(s->timeouts->ready_ms, 10000);
    assert_int_equal(s->timeouts->lease_ms, 10000);
    assert_int_equal(s->timeouts->step_ms, 120000);
    assert_int_equal(s->timeouts->collect_ms, 120000);
    assert_ptr_equal(plan->optim, ps_optim_find("adam"));
    assert_true(plan->optim_on_server);
    assert_ptr_equal(plan->policy, ps_consistency_find("bsp"));
    assert_ptr_equal(plan->update, ps_update_find("gradient"));
    assert_int_equal(plan->layout.param_count, 784 * 128 + 128 + 128 * 128 + 128 + 1280 + 10);
    assert_int_equal(plan->batches_per_epoch, 60000 / 64);
    assert_int_equal(plan->total_steps, 2 * (60000 / 64));
    ps_plan_destroy(plan);
}

static void the_completed_job_makes_the_same_plan_again(void **state)
{
    static const char *const jobs[] = {
        "{}", "{\"preset\":\"ssp\"}", "{\"preset\":\"int8\",\"workers\":3}",
        "{\"model\":{\"layers\":[{\"kind\":\"dense\",\"params\":{\"units\":10}}]}}"};

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        ps_plan *one = plan_of(jobs[i]), *two = NULL;
        ps_status st = ps_plan_create(one->spec, NULL, NULL, &two);
        size_t n = psgd__v1__job_spec__get_packed_size(one->spec);
        uint8_t *a = malloc(2 * n), *b = a + n;

        assert_true(ps_is_ok(&st));
        assert_int_equal(psgd__v1__job_spec__get_packed_size(two->spec), n);
        psgd__v1__job_spec__pack(one->spec, a);
        psgd__v1__job_spec__pack(two->spec, b);
        assert_memory_equal(a, b, n);
        assert_true(one->layout.hash == two->layout.hash);
        assert_int_equal(one->total_steps, two->total_steps);
        free(a);
        ps_plan_destroy(one);
        ps_plan_destroy(two);
    }
}

static void each_wrong_field_is_named_with_what_is_allowed(void **state)
{
    (void)state;
    assert_refused("{\"title\":\".x\"}", "spec.title", "A-Z");
    assert_refused("{\"title\":\"a/b\"}", "spec.title", "A-Z");
    assert_refused("{\"preset\":\"nope\"}", "spec.preset", "\"nope\"; allowed: ");
    assert_refused("{\"preset\":\"nope\"}", "spec.preset", "tutorial");
    assert_refused("{\"workers\":257}", "spec.workers", "is 257; 1 to 256");
    assert_refused("{\"pservers\":65}", "spec.pservers", "1 to 64");
    assert_refused("{\"epochs\":100001}", "spec.epochs", "1 to 100000");
    assert_refused("{\"network_bandwidth\":999}", "spec.network_bandwidth", "1000 to");
    assert_refused("{\"model\":{\"preset\":\"vgg\"}}", "spec.model.preset",
                   "allowed: mlp, linear, cnn, alexnet");
    assert_refused("{\"model\":{\"preset\":\"cnn\",\"widths\":[3]}}", "spec.model.widths",
                   "only mlp takes it");
    assert_refused("{\"model\":{\"preset\":\"cnn\",\"activation\":\"relu\"}}",
                   "spec.model.activation", "only mlp takes it");
    assert_refused("{\"model\":{\"widths\":[70000]}}", "spec.model.widths[0]", "1 to 65536");
    assert_refused("{\"model\":{\"activation\":\"dense\"}}", "spec.model.activation", "relu");
    assert_refused("{\"model\":{\"loss\":\"hinge\"}}", "spec.model.loss", "softmax_cross_entropy");
    assert_refused("{\"data\":{\"name\":\"cifar\"}}", "spec.data.name", "mnist");
    assert_refused("{\"data\":{\"name\":\"/srv/data\"}}", "spec.data.name", "--data-path");
    assert_refused("{\"data\":{\"train_limit\":60001}}", "spec.data.train_limit", "1 to 60000");
    assert_refused("{\"data\":{\"test_limit\":10001}}", "spec.data.test_limit", "1 to 10000");
    assert_refused("{\"assignment\":{\"name\":\"nobody\"}}", "spec.assignment.name", "duplicate");
    assert_refused("{\"optimizer\":{\"rule\":{\"name\":\"lion\"}}}", "spec.optimizer.rule.name",
                   "adam");
    assert_refused("{\"optimizer\":{\"rule\":{\"name\":\"sgd\",\"params\":{\"beta1\":0.5}}}}",
                   "spec.optimizer.rule.params.beta1", "allowed: lr");
    assert_refused("{\"optimizer\":{\"rule\":{\"params\":{\"lr\":-1}}}}",
                   "spec.optimizer.rule.params.lr", "is -1");
    assert_refused("{\"optimizer\":{\"rule\":{\"params\":{\"lr\":\"NaN\"}}}}",
                   "spec.optimizer.rule.params.lr", "nan");
    assert_refused("{\"update\":{\"name\":\"median\"}}", "spec.update.name", "gradient_average");
    assert_refused("{\"consistency\":{\"name\":\"essp\"}}", "spec.consistency.name", "ssp");
    assert_refused("{\"workers\":2,\"consistency\":{\"name\":\"backup\",\"params\":"
                   "{\"backups\":2}}}",
                   "spec.consistency.params", "must be less than 2");
    assert_refused("{\"workers\":2,\"update\":{\"name\":\"localsgd\"},\"consistency\":{\"name\":"
                   "\"backup\"}}",
                   "spec.consistency.name", "would be lost");
    assert_refused("{\"straggler\":{\"name\":\"lazy\"}}", "spec.straggler.name", "slow");
    assert_refused("{\"workers\":2,\"straggler\":{\"name\":\"slow\",\"params\":{\"rank\":2}}}",
                   "spec.straggler.params", "-1 (all) to 1");
    assert_refused("{\"workers\":2,\"consistency\":{\"name\":\"quorum\",\"params\":"
                   "{\"quorum\":3}}}",
                   "spec.consistency.params", "may be at most 2");
    assert_refused("{\"consistency\":{\"name\":\"dssp\",\"params\":{\"lower\":16}}}",
                   "spec.consistency.params", "16 (lower) to");
    assert_refused("{\"consistency\":{\"name\":\"ssp\",\"params\":{\"bound\":1.5}}}",
                   "spec.consistency.params.bound", "whole numbers");
    assert_refused("{\"codec\":{\"up\":{\"name\":\"zip\"}}}", "spec.codec.up.name", "int8");
    assert_refused("{\"codec\":{\"down\":{\"name\":\"zip\"}}}", "spec.codec.down.name", "int8");
    assert_refused("{\"codec\":{\"variables\":[{\"match\":\"conv*\"}]}}",
                   "spec.codec.variables[0].match", "dense0.weight");
    assert_refused("{\"codec\":{\"variables\":[{\"match\":\"d*e\"}]}}",
                   "spec.codec.variables[0].match", "prefix");
    assert_refused("{\"codec\":{\"variables\":[{\"match\":\"*\",\"up\":{\"name\":\"zip\"}}]}}",
                   "spec.codec.variables[0].up.name", "int8");
    assert_refused("{\"timeouts\":{\"can_commit_ms\":99}}", "spec.timeouts.can_commit_ms", "100");
    assert_refused("{\"timeouts\":{\"pre_commit_floor_ms\":99}}",
                   "spec.timeouts.pre_commit_floor_ms", "100 to 600000");
    assert_refused("{\"timeouts\":{\"pre_commit_cap_ms\":200}}",
                   "spec.timeouts.pre_commit_floor_ms", "at most");
    assert_refused("{\"timeouts\":{\"ready_ms\":1}}", "spec.timeouts.ready_ms", "100");
    assert_refused("{\"timeouts\":{\"lease_ms\":1}}", "spec.timeouts.lease_ms", "500");
    assert_refused("{\"timeouts\":{\"step_ms\":1}}", "spec.timeouts.step_ms", "1000");
    assert_refused("{\"timeouts\":{\"collect_ms\":1}}", "spec.timeouts.collect_ms", "1000");
}

static void a_side_that_is_none_is_refused(void **state)
{
    Psgd__V1__JobSpec spec = PSGD__V1__JOB_SPEC__INIT;
    Psgd__V1__OptimizerSpec optimizer = PSGD__V1__OPTIMIZER_SPEC__INIT;
    ps_plan *plan = NULL;
    found f = {0};
    ps_status st;

    (void)state;
    optimizer.side = (Psgd__V1__OptimizerSide)7;
    spec.optimizer = &optimizer;
    st = ps_plan_create(&spec, note, &f, &plan);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_string_equal(f.text, "spec.optimizer.side: is 7; allowed: SERVER, WORKER\n");
}

static void layers_are_checked_one_by_one(void **state)
{
    (void)state;
    assert_refused("{\"model\":{\"layers\":[{\"kind\":\"conv\"}]}}", "spec.model.layers[0].kind",
                   "sigmoid");
    assert_refused("{\"model\":{\"layers\":[{\"kind\":\"dense\",\"params\":{\"units\":0}}]}}",
                   "spec.model.layers[0].params.units", "is 0");
    assert_refused("{\"model\":{\"layers\":[{\"kind\":\"dense\",\"params\":{\"units\":9}}]}}",
                   "spec.model.layers", "10 classes");
    assert_refused("{\"model\":{\"preset\":\"mlp\",\"layers\":[{\"kind\":\"dense\","
                   "\"params\":{\"units\":10}}]}}",
                   "spec.model.layers", "together with preset");
    assert_refused("{\"model\":{\"layers\":[{\"kind\":\"relu\",\"name\":\"a b\"},"
                   "{\"kind\":\"dense\",\"params\":{\"units\":10}}]}}",
                   "spec.model.layers[0].name", "A-Z");
    assert_refused("{\"model\":{\"layers\":[{\"kind\":\"relu\",\"name\":\"x\"},"
                   "{\"kind\":\"dense\",\"name\":\"x\",\"params\":{\"units\":10}}]}}",
                   "spec.model.layers[1].name", "another layer");
    assert_refused("{\"model\":{\"layers\":[{\"kind\":\"relu\"}]}}", "spec.model",
                   "has 0 parameters");
}

static void networks_take_their_numbers_and_the_loss_they_are_made_for(void **state)
{
    ps_plan *plan = plan_of("{\"model\":{\"preset\":\"resnet20\"},\"data\":{\"name\":\"cifar10\","
                            "\"train_limit\":1000,\"test_limit\":100}}");

    (void)state;
    assert_string_equal(plan->spec->model->loss, "softmax_cross_entropy");
    assert_int_equal(plan->spec->model->n_params, 0);
    ps_plan_destroy(plan);
    plan = plan_of("{\"data\":{\"name\":\"simlin\"},\"model\":{\"widths\":[4]}}");
    assert_string_equal(plan->spec->model->loss, "mse"); /* its targets are values */
    ps_plan_destroy(plan);
    assert_refused(
        "{\"data\":{\"name\":\"simlin\"},\"model\":{\"loss\":\"softmax_cross_entropy\"}}",
        "spec.model.loss", "softmax_cross_entropy needs classes");
    assert_refused("{\"model\":{\"preset\":\"ngram\"}}", "spec.model.preset",
                   "does not fit the data set glyphs: ngram: needs ids");
    assert_refused(
        "{\"model\":{\"preset\":\"linear\"},\"data\":{\"name\":\"slots\",\"files\":[\"a\"],"
        "\"test_files\":[\"b\"],\"train_limit\":64,\"test_limit\":1}}",
        "spec.model.preset", "the data set slots: linear: needs numbers");
    assert_refused("{\"model\":{\"preset\":\"resnet\",\"params\":{\"depth\":21}}}",
                   "spec.model.preset", "depth is 21; 14, 18, 20, 26");
    assert_refused("{\"model\":{\"preset\":\"wide_deep\",\"params\":{\"depth\":3}}}",
                   "spec.model.params.depth", "allowed: width, hidden, layers, rows");
    assert_refused("{\"model\":{\"preset\":\"skipgram\",\"params\":{\"width\":0}}}",
                   "spec.model.params.width", "whole numbers 1 to 4096");
    assert_refused("{\"model\":{\"preset\":\"mlp\",\"params\":{\"width\":3}}}", "spec.model.params",
                   "mlp, which has none");
    assert_refused("{\"model\":{\"params\":{\"width\":3},\"layers\":[{\"kind\":\"dense\","
                   "\"params\":{\"units\":10}}]}}",
                   "spec.model.layers", "together with preset, params");
    assert_refused("{\"model\":{\"layers\":[{\"kind\":\"embedding\",\"params\":{\"width\":2000}},"
                   "{\"kind\":\"dense\",\"params\":{\"units\":1000000}}]}}",
                   "spec.model", "layer 1");
}

static void layers_name_what_they_read(void **state)
{
    static const char layers[] =
        "{\"model\":{\"layers\":[{\"kind\":\"dense\",\"name\":\"a\",\"params\":{\"units\":10}},"
        "{\"kind\":\"tanh\",\"name\":\"b\"},"
        "{\"kind\":\"%s\",\"name\":\"%s\",\"inputs\":[%s]}]}}";
    static const struct {
        const char *kind, *name, *inputs, *field, *text;
    } wrong[] = {
        {"add", "c", "\"a\",\"d\"", "spec.model.layers[2].inputs[1]",
         "is \"d\"; names of layers before it and \"input\" are allowed"},
        {"add", "c", "\"a\",\"c\"", "spec.model.layers[2].inputs[1]", "is \"c\"; names of"},
        {"tanh", "c", "\"a\",\"b\"", "spec.model.layers[2].inputs",
         "has 2 names; tanh reads at most 1"},
        {"add", "input", "\"a\",\"b\"", "spec.model.layers[2].name", "is \"input\", which is"},
        {"add", "c", "\"a\",\"input\"", "spec.model", "add: input 1 has another shape"},
        {"tanh", "c", "\"a\"", "spec.model", "layer 1 (b): no layer behind it reads its output"},
    };
    char text[512];
    ps_plan *plan;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, layers, wrong[i].kind, wrong[i].name, wrong[i].inputs);
        assert_refused(text, wrong[i].field, wrong[i].text);
    }
    snprintf(text, sizeof text, layers, "add", "c", "\"b\",\"a\"");
    plan = plan_of(text);
    assert_int_equal(plan->layers[0].input_count, 0);
    assert_int_equal(plan->layers[2].input_count, 2);
    assert_int_equal(plan->layers[2].inputs[0], 2);
    assert_int_equal(plan->layers[2].inputs[1], 1);
    ps_plan_destroy(plan);
}

static void a_network_is_resolved_by_its_name(void **state)
{
    ps_plan *plan = plan_of("{\"model\":{\"preset\":\"cnn\"}}");

    (void)state;
    assert_int_equal(plan->layout.param_count, 1199882);
    assert_string_equal(plan->layout.variables[0].name, "conv1.weight");
    assert_string_equal(plan->layout.variables[7].name, "fc2.bias");
    ps_plan_destroy(plan);
}

static void a_list_of_layers_is_named_by_kind_and_position(void **state)
{
    ps_plan *plan =
        plan_of("{\"model\":{\"layers\":[{\"kind\":\"dense\",\"params\":{\"units\":20}},"
                "{\"kind\":\"relu\"},{\"kind\":\"dense\",\"name\":\"head\","
                "\"params\":{\"units\":10}}]}}");

    (void)state;
    assert_int_equal(plan->layer_count, 3);
    assert_string_equal(plan->layout.variables[0].name, "dense0.weight");
    assert_string_equal(plan->layout.variables[2].name, "head.weight");
    assert_string_equal(plan->spec->model->layers[1]->name, "relu1");
    assert_string_equal(plan->spec->model->preset, "");
    ps_plan_destroy(plan);
}

static void keep_name(const ps_plugin *plugin, void *arg)
{
    snprintf(arg, 64, ", %s\n", plugin->name);
}

static void a_wrong_name_is_answered_with_all_names_there_are(void **state)
{
    static const struct {
        const ps_kind *kind;
        const char *json, *field;
    } wrong[] = {
        {&ps_kind_codec, "{\"codec\":{\"up\":{\"name\":\"z\"}}}", "spec.codec.up.name"},
        {&ps_kind_update, "{\"update\":{\"name\":\"z\"}}", "spec.update.name"},
        {&ps_kind_metric, "{\"metrics\":[{\"name\":\"z\"}]}", "spec.metrics[0].name"},
        {&ps_kind_network, "{\"model\":{\"preset\":\"z\"}}", "spec.model.preset"},
        {&ps_kind_layer, "{\"model\":{\"layers\":[{\"kind\":\"z\"}]}}",
         "spec.model.layers[0].kind"},
    };
    char last[64];

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        wrong[i].kind->each(keep_name, last);
        assert_refused(wrong[i].json, wrong[i].field, last);
    }
}

static void everything_wrong_is_told_at_once(void **state)
{
    Psgd__V1__JobSpec *spec =
        spec_of("{\"title\":\"?\",\"workers\":1000,\"epochs\":200000,\"data\":{\"name\":\"x\"},"
                "\"update\":{\"name\":\"y\"},\"codec\":{\"up\":{\"name\":\"z\"}},"
                "\"timeouts\":{\"step_ms\":1},\"model\":{\"activation\":\"q\"}}");
    ps_plan *plan = NULL;
    found f = {0};
    ps_status st = ps_plan_create(spec, note, &f, &plan), silent;

    (void)state;
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    if (f.count != 8) {
        fail_msg("%zu:\n%s", f.count, f.text);
    }
    assert_non_null(strstr(st.text, "8 fields are wrong, first spec.title"));
    silent = ps_plan_create(spec, NULL, NULL, &plan); /* nobody has to listen */
    assert_int_equal(silent.code, PS_INVALID_ARGUMENT);
    free_spec(spec);
}

static void what_cannot_work_together_is_refused(void **state)
{
    (void)state;
    assert_refused("{\"workers\":4,\"assignment\":{\"params\":{\"redundancy\":2}},"
                   "\"consistency\":{\"name\":\"asp\"}}",
                   "spec.consistency.name", "only bsp");
    assert_refused("{\"workers\":4,\"assignment\":{\"params\":{\"redundancy\":2}},"
                   "\"consistency\":{\"name\":\"ssp\"}}",
                   "spec.consistency.name", "only bsp");
    assert_refused("{\"workers\":4,\"assignment\":{\"params\":{\"redundancy\":2}},"
                   "\"optimizer\":{\"side\":\"WORKER\"}}",
                   "spec.optimizer.side", "SERVER is allowed");
    assert_refused("{\"workers\":3,\"assignment\":{\"name\":\"duplicate\","
                   "\"params\":{\"redundancy\":2}}}",
                   "spec.assignment.params.redundancy", "multiple");
    assert_refused("{\"workers\":2,\"assignment\":{\"params\":{\"redundancy\":3}}}",
                   "spec.assignment.params.redundancy", "redundancy");
    assert_refused("{\"assignment\":{\"name\":\"uneven\",\"params\":{\"ratio_3\":2}}}",
                   "spec.assignment.params", "ratio_3 is given but ratio_2 is not");
    assert_refused("{\"workers\":4,\"data\":{\"train_limit\":255}}", "spec.block_size",
                   "256 samples, and the training set has 255");
    assert_refused("{\"pservers\":13}", "spec.pservers", "at most 12");
    assert_refused("{\"block_size\":60000,\"model\":{\"widths\":[2048,2048,2048,2048,2048,2048]}}",
                   "spec.block_size", "GiB");
    assert_refused("{\"model\":{\"widths\":[65536,8192]}}", "spec.model", "parameters");
}

static void what_can_work_together_is_allowed(void **state)
{
    static const char *const jobs[] = {
        "{\"workers\":4,\"assignment\":{\"params\":{\"redundancy\":2}},"
        "\"update\":{\"name\":\"gradient_average\"},\"consistency\":{\"name\":\"asp\"}}",
        "{\"workers\":4,\"assignment\":{\"params\":{\"redundancy\":2}},"
        "\"optimizer\":{\"rule\":{\"name\":\"sgd\"},\"side\":\"WORKER\"}}",
        "{\"workers\":4,\"optimizer\":{\"side\":\"WORKER\"}}",
        "{\"workers\":4,\"assignment\":{\"name\":\"duplicate\",\"params\":{\"redundancy\":2}}}",
        "{\"workers\":4,\"data\":{\"train_limit\":256}}",
        "{\"pservers\":12}",
        "{\"workers\":256}"};

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        ps_plan_destroy(plan_of(jobs[i]));
    }
}

static void nodes_must_be_enough_and_reachable_by_name(void **state)
{
    ps_plan *plan;

    (void)state;
    assert_refused("{\"workers\":2,\"nodes\":[{\"role\":\"WORKER\",\"address\":\"a:1\"},"
                   "{\"role\":\"PSERVER\",\"address\":\"b:1\"}]}",
                   "spec.nodes", "names 1 workers; the job needs 2");
    assert_refused("{\"nodes\":[{\"role\":\"WORKER\",\"address\":\"a:1\"}]}", "spec.nodes",
                   "names no server");
    assert_refused("{\"nodes\":[{\"role\":\"WORKER\",\"address\":\"a:1\"},"
                   "{\"role\":\"PSERVER\",\"address\":\"a:1\"}]}",
                   "spec.nodes[1].address", "nodes[0] has it too");
    assert_refused("{\"nodes\":[{\"role\":\"WORKER\",\"address\":\"a\"},"
                   "{\"role\":\"PSERVER\",\"address\":\"b:1\"}]}",
                   "spec.nodes[0].address", "host:port");
    assert_refused("{\"nodes\":[{\"role\":\"WORKER\",\"address\":\"a:1\"},{\"address\":\"c:1\"},"
                   "{\"role\":\"PSERVER\",\"address\":\"b:1\"}]}",
                   "spec.nodes[1].role", "WORKER, PSERVER");
    plan = plan_of("{\"nodes\":[{\"role\":\"WORKER\",\"address\":\"a:1\"},"
                   "{\"role\":\"PSERVER\",\"address\":\"[::1]:7\"}]}");
    assert_int_equal(plan->spec->n_nodes, 2);
    ps_plan_destroy(plan);
}

static void exceptions_choose_codecs_by_variable(void **state)
{
    ps_plan *plan = plan_of(
        "{\"codec\":{\"up\":{\"name\":\"f16\"},\"variables\":["
        "{\"match\":\"dense0.bias\",\"up\":{\"name\":\"f32\"}},"
        "{\"match\":\"dense0.*\",\"up\":{\"name\":\"int8\"},\"down\":{\"name\":\"int8\"}}]}}");

    (void)state;
    assert_string_equal(plan->layout.variables[0].name, "dense0.weight");
    assert_string_equal(plan->up[0].codec->name, "int8");
    assert_string_equal(plan->down[0].codec->name, "int8");
    assert_string_equal(plan->up[1].codec->name, "f32"); /* the first match counts */
    assert_string_equal(plan->down[1].codec->name, "f32");
    assert_string_equal(plan->up[2].codec->name, "f16");
    assert_string_equal(plan->down[2].codec->name, "f32");
    ps_plan_destroy(plan);
}

static void a_preset_fills_what_is_left_out_and_nothing_else(void **state)
{
    ps_plan *plan = plan_of("{\"preset\":\"ssp\",\"workers\":3,\"epochs\":1}");

    (void)state;
    assert_int_equal(plan->spec->workers, 3);
    assert_int_equal(plan->spec->pservers, 2);
    assert_int_equal(plan->spec->epochs, 1);
    assert_string_equal(plan->policy->name, "ssp");
    assert_int_equal(plan->policy_params.v[0], 3);
    ps_plan_destroy(plan);

    plan = plan_of("{\"preset\":\"ssp\",\"consistency\":{\"params\":{\"bound\":7}}}");
    assert_string_equal(plan->policy->name, "ssp");
    assert_int_equal(plan->policy_params.v[0], 7);
    ps_plan_destroy(plan);

    /* Another plugin: the preset's numbers are not its. */
    plan = plan_of("{\"preset\":\"ssp\",\"consistency\":{\"name\":\"bsp\"},"
                   "\"optimizer\":{\"rule\":{\"name\":\"sgd\"}}}");
    assert_string_equal(plan->policy->name, "bsp");
    assert_string_equal(plan->optim->name, "sgd");
    ps_plan_destroy(plan);

    plan = plan_of("{\"preset\":\"tutorial\",\"data\":{\"name\":\"glyphs\"},\"model\":"
                   "{\"layers\":[{\"kind\":\"dense\",\"params\":{\"units\":10}}]}}");
    assert_int_equal(plan->layer_count, 1);
    ps_plan_destroy(plan);

    plan = plan_of("{\"preset\":\"tutorial\",\"model\":{\"widths\":[32]}}");
    assert_int_equal(plan->layer_count, 3);
    assert_string_equal(plan->spec->model->activation, "tanh");
    ps_plan_destroy(plan);
}

static void the_last_of_two_values_for_one_number_counts(void **state)
{
    Psgd__V1__JobSpec spec = PSGD__V1__JOB_SPEC__INIT;
    Psgd__V1__OptimizerSpec optimizer = PSGD__V1__OPTIMIZER_SPEC__INIT;
    Psgd__V1__Choice rule = PSGD__V1__CHOICE__INIT;
    Psgd__V1__Choice__ParamsEntry one = PSGD__V1__CHOICE__PARAMS_ENTRY__INIT, two = one;
    Psgd__V1__Choice__ParamsEntry *both[] = {&one, &two};
    ps_plan *plan = NULL;
    ps_status st;

    (void)state;
    one.key = two.key = (char[]){"lr"};
    one.value = 0.5;
    two.value = 0.25;
    rule.n_params = 2;
    rule.params = both;
    optimizer.rule = &rule;
    spec.optimizer = &optimizer;
    st = ps_plan_create(&spec, NULL, NULL, &plan);
    assert_true(ps_is_ok(&st));
    assert_true(plan->optim_params.v[0] == 0.25);
    ps_plan_destroy(plan);
}

static void the_deadline_follows_the_bytes_between_floor_and_cap(void **state)
{
    ps_plan *plan = plan_of("{\"network_bandwidth\":1000000,\"timeouts\":"
                            "{\"pre_commit_floor_ms\":2000,\"pre_commit_cap_ms\":30000}}");

    (void)state;
    assert_int_equal(ps_plan_pre_commit_us(plan, 0), 2000000);
    assert_int_equal(ps_plan_pre_commit_us(plan, 2000000), 5000000);
    assert_int_equal(ps_plan_pre_commit_us(plan, UINT64_MAX), 30000000);
    ps_plan_destroy(plan);
}

static void packages_are_as_big_as_what_the_node_is_sent(void **state)
{
    ps_plan *plan = plan_of("{\"pservers\":3}");
    uint64_t weights = plan->layout.param_count * sizeof(float);
    uint64_t all = ps_plan_package_bytes(plan, plan->layout.slice_count, plan->layout.param_count);
    uint64_t none = ps_plan_package_bytes(plan, 0, 0);

    (void)state;
    assert_true(all > weights && all < weights + 16384);
    assert_true(none < 16384 && all - none >= weights);
    ps_plan_destroy(plan);
}

static uint64_t hash_of(const char *json)
{
    ps_plan *plan = plan_of(json);
    uint64_t hash = ps_plan_hash(plan);

    ps_plan_destroy(plan);
    return hash;
}

static void the_hash_differs_with_everything_that_changes_bits(void **state)
{
    static const char *const jobs[] = {
        "{}",
        "{\"seed\":2}",
        "{\"workers\":2}",
        "{\"epochs\":3}",
        "{\"block_size\":32}",
        "{\"model\":{\"widths\":[30]}}",
        "{\"model\":{\"widths\":[30],\"activation\":\"relu\"}}",
        "{\"optimizer\":{\"rule\":{\"name\":\"sgd\"}}}",
        "{\"optimizer\":{\"rule\":{\"name\":\"sgd\",\"params\":{\"lr\":0.25}}}}",
        "{\"optimizer\":{\"rule\":{\"name\":\"sgd\"},\"side\":\"WORKER\"}}",
        "{\"optimizer\":{\"rule\":{\"name\":\"sgd\"},\"l2\":0.5}}",
        "{\"optimizer\":{\"rule\":{\"name\":\"sgd\"},\"clip\":{\"name\":\"norm\"}}}",
        "{\"codec\":{\"up\":{\"name\":\"int8\"}}}",
        "{\"codec\":{\"down\":{\"name\":\"int8\"}}}",
        "{\"codec\":{\"up\":{\"name\":\"topk\",\"params\":{\"fraction\":0.5}}}}",
        "{\"codec\":{\"up\":{\"name\":\"topk\",\"params\":{\"fraction\":0.25}}}}",
        "{\"consistency\":{\"name\":\"ssp\"}}",
        "{\"data\":{\"name\":\"glyphs\",\"train_limit\":1000}}",
    };
    enum { COUNT = sizeof jobs / sizeof jobs[0] };
    uint64_t hashes[COUNT];

    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        hashes[i] = hash_of(jobs[i]);
        assert_true(hashes[i] == hash_of(jobs[i]));
        for (size_t k = 0; k < i; k++) {
            if (hashes[i] == hashes[k]) {
                fail_msg("%s and %s have one hash", jobs[i], jobs[k]);
            }
        }
    }
    /* Where servers are does not change a bit. */
    assert_true(hash_of("{\"pservers\":2}") == hashes[0]);
}

static void a_model_of_the_plan_has_its_parameters(void **state)
{
    ps_plan *plan = plan_of("{}");
    ps_model *model = NULL;
    ps_status st = ps_plan_model(plan, 64, &model);

    (void)state;
    assert_true(ps_is_ok(&st));
    assert_int_equal(ps_model_param_count(model), plan->layout.param_count);
    ps_model_destroy(model);
    ps_plan_destroy(plan);
}

static void count_plugin(const ps_plugin *plugin, void *arg)
{
    assert_non_null(plugin->name);
    assert_true(plugin->summary != NULL && plugin->summary[0] != '\0');
    ++*(size_t *)arg;
}

static void every_kind_lists_its_plugins(void **state)
{
    (void)state;
    assert_int_equal(ps_kind_count, 17);
    for (size_t i = 0; i < ps_kind_count; i++) {
        size_t count = 0;

        ps_kinds[i]->each(count_plugin, &count);
        assert_true(count > 0);
        assert_true(i == 0 || strcmp(ps_kinds[i - 1]->name, ps_kinds[i]->name) < 0);
    }
}

static void the_optimizer_has_a_schedule_penalties_and_clipping(void **state)
{
    ps_plan *plan =
        plan_of("{\"optimizer\":{\"schedule\":{\"name\":\"cosine\",\"params\":{\"warmup\":9}},"
                "\"l1\":0.5,\"l2\":0.25,\"clip\":{\"name\":\"norm\",\"params\":{\"limit\":2}}}}");

    (void)state;
    assert_ptr_equal(plan->descent.optim, plan->optim);
    assert_ptr_equal(plan->descent.schedule, ps_schedule_find("cosine"));
    assert_true(plan->descent.schedule_params.v[PS_WARMUP] == 9);
    assert_int_equal(plan->descent.total_steps, plan->total_steps);
    assert_true(plan->descent.l1 == 0.5 && plan->descent.l2 == 0.25);
    assert_ptr_equal(plan->clip, ps_clip_find("norm"));
    assert_true(plan->clip_params.v[PS_CLIP_LIMIT] == 2);
    ps_plan_destroy(plan);
    plan = plan_of("{}");
    assert_string_equal(plan->spec->optimizer->schedule->name, "constant");
    assert_string_equal(plan->spec->optimizer->clip->name, "none");
    assert_true(ps_descent_rate(&plan->descent, 17) == 0.001);
    ps_plan_destroy(plan);
    assert_refused("{\"optimizer\":{\"schedule\":{\"name\":\"linear\"}}}",
                   "spec.optimizer.schedule.name", "is \"linear\"; allowed: constant, step");
    assert_refused("{\"optimizer\":{\"schedule\":{\"params\":{\"warmup\":100000}}}}",
                   "spec.optimizer.schedule.params.warmup", "is 100000; the job has");
    assert_refused("{\"optimizer\":{\"clip\":{\"name\":\"value\",\"params\":{\"limit\":0}}}}",
                   "spec.optimizer.clip.params.limit", "is 0");
    assert_refused("{\"optimizer\":{\"l1\":-1}}", "spec.optimizer.l1", "is -1; 0 to 1000");
    assert_refused("{\"optimizer\":{\"l2\":\"NaN\"}}", "spec.optimizer.l2", "is nan; 0 to 1000");
}

static void where_workers_step_themselves_the_schedule_is_of_those_steps(void **state)
{
    ps_plan *plan = plan_of("{\"update\":{\"name\":\"localsgd\"},\"optimizer\":{\"l2\":0.25,"
                            "\"schedule\":{\"name\":\"cosine\"}}}");

    (void)state;
    assert_null(plan->descent.schedule);
    assert_true(plan->descent.l2 == 0);
    assert_ptr_equal(plan->local_descent.optim, plan->local_optim);
    assert_ptr_equal(plan->local_descent.schedule, ps_schedule_find("cosine"));
    assert_int_equal(plan->local_descent.total_steps, plan->total_steps);
    assert_true(plan->local_descent.l2 == 0.25);
    ps_plan_destroy(plan);
}

static void metrics_are_those_that_fit_each_once(void **state)
{
    ps_plan *plan = plan_of("{\"metrics\":[{\"name\":\"top_k\",\"params\":{\"k\":3}},"
                            "{\"name\":\"auc\",\"params\":{\"positive\":9}},{}]}");

    (void)state;
    assert_int_equal(plan->metric_count, 3);
    assert_ptr_equal(plan->metrics[0].metric, ps_metric_find("top_k"));
    assert_true(plan->metrics[0].params.v[0] == 3);
    assert_true(plan->metrics[1].params.v[PS_METRIC_POSITIVE] == 9);
    assert_ptr_equal(plan->metrics[2].metric, ps_metric_find("accuracy"));
    assert_int_equal(plan->metric_facts.outputs, 10);
    assert_int_equal(plan->metric_facts.classes, 10);
    assert_int_equal(plan->metric_facts.link, PS_LINK_SOFTMAX);
    ps_plan_destroy(plan);
    assert_refused("{\"metrics\":[{\"name\":\"f1\"}]}", "spec.metrics[0].name",
                   "is \"f1\"; allowed: accuracy");
    assert_refused("{\"metrics\":[{},{\"name\":\"mse\"},{\"name\":\"accuracy\"}]}",
                   "spec.metrics[2].name", "is \"accuracy\"; spec.metrics[0] is it already");
    assert_refused("{\"metrics\":[{\"name\":\"top_k\",\"params\":{\"k\":0}}]}",
                   "spec.metrics[0].params.k", "is 0");
    assert_refused("{\"metrics\":[{\"name\":\"top_k\",\"params\":{\"k\":11}}]}", "spec.metrics[0]",
                   "1 to 10, the number of outputs");
    assert_refused("{\"metrics\":[{\"name\":\"perplexity\"}],"
                   "\"model\":{\"loss\":\"mse\"}}",
                   "spec.metrics[0]", "needs the loss softmax_cross_entropy");
    assert_refused("{\"split_evaluation\":true,\"workers\":2,\"consistency\":{\"name\":\"asp\"}}",
                   "spec.split_evaluation", "with asp each worker has weights of its own");
    assert_refused("{\"split_evaluation\":true,\"workers\":2,"
                   "\"assignment\":{\"params\":{\"redundancy\":2}}}",
                   "spec.split_evaluation", "with redundancy 2");
    ps_plan_destroy(plan_of("{\"split_evaluation\":true,\"workers\":4,"
                            "\"metrics\":[{\"name\":\"auc\"}]}"));
    assert_refused("{\"metrics\":[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]}",
                   "spec.metrics", "has 17 entries; at most 16 are allowed");
}

static void the_model_to_start_from_is_a_job_or_a_path_below(void **state)
{
    static const char *const good[] = {"job:mnist-1a2b3c4d", "job:a..b-12345678",
                                       "models/mnist.safetensors", "m"};
    static const char *const bad[] = {"job:",   "job:a/b", "job:../x", "/etc/passwd", "../m",
                                      "a/../b", "a//b",    "a/",       ".m",          "a b"};
    char json[128];

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ps_plan *plan;

        snprintf(json, sizeof json, "{\"initFrom\":\"%s\"}", good[i]);
        plan = plan_of(json);
        assert_string_equal(plan->spec->init_from, good[i]);
        ps_plan_destroy(plan);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(json, sizeof json, "{\"initFrom\":\"%s\"}", bad[i]);
        assert_refused(json, "spec.init_from", bad[i]);
    }
    assert_refused("{\"initTables\":[\"m\"]}", "spec.init_tables", "without sparse tables");
    assert_string_equal(ps_init_from_job("job:a-1"), "a-1");
    assert_null(ps_init_from_job("jobs/a"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_job_gets_every_default),
        cmocka_unit_test(the_completed_job_makes_the_same_plan_again),
        cmocka_unit_test(each_wrong_field_is_named_with_what_is_allowed),
        cmocka_unit_test(a_side_that_is_none_is_refused),
        cmocka_unit_test(layers_are_checked_one_by_one),
        cmocka_unit_test(layers_name_what_they_read),
        cmocka_unit_test(networks_take_their_numbers_and_the_loss_they_are_made_for),
        cmocka_unit_test(a_network_is_resolved_by_its_name),
        cmocka_unit_test(a_list_of_layers_is_named_by_kind_and_position),
        cmocka_unit_test(a_wrong_name_is_answered_with_all_names_there_are),
        cmocka_unit_test(everything_wrong_is_told_at_once),
        cmocka_unit_test(what_cannot_work_together_is_refused),
        cmocka_unit_test(what_can_work_together_is_allowed),
        cmocka_unit_test(nodes_must_be_enough_and_reachable_by_name),
        cmocka_unit_test(exceptions_choose_codecs_by_variable),
        cmocka_unit_test(a_preset_fills_what_is_left_out_and_nothing_else),
        cmocka_unit_test(the_last_of_two_values_for_one_number_counts),
        cmocka_unit_test(the_deadline_follows_the_bytes_between_floor_and_cap),
        cmocka_unit_test(packages_are_as_big_as_what_the_node_is_sent),
        cmocka_unit_test(the_hash_differs_with_everything_that_changes_bits),
        cmocka_unit_test(a_model_of_the_plan_has_its_parameters),
        cmocka_unit_test(every_kind_lists_its_plugins),
        cmocka_unit_test(the_optimizer_has_a_schedule_penalties_and_clipping),
        cmocka_unit_test(where_workers_step_themselves_the_schedule_is_of_those_steps),
        cmocka_unit_test(metrics_are_those_that_fit_each_once),
        cmocka_unit_test(the_model_to_start_from_is_a_job_or_a_path_below),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
