/* SPDX-License-Identifier: Apache-2.0 */
/* test_spec.c - a job from a file and flags. */
#include "clients/psgd/build_spec.h"

#include "common/rpc/pbjson.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/temp_dir.h"

#include <string.h>

/* Makes a file if `text` is given, builds, and compares with `want`. */
static void assert_built(const char *text, const ps_spec_flags *flags, const char *want)
{
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "job.yaml");
    Psgd__V1__JobSpec *spec = NULL;
    json_t *got, *wanted = json_loads(want, 0, NULL);
    ps_error error;
    ps_status st = text == NULL ? ps_ok() : ps_file_write(path, text, strlen(text));

    assert_non_null(wanted);
    assert_string_equal(st.text, "");
    st = ps_spec_build(text == NULL ? NULL : path, flags, &error, &spec);
    if (!ps_is_ok(&st)) {
        fail_msg("%s %s", st.text, error.violation_count > 0 ? error.violations[0].text : "");
    }
    got = ps_pb_to_json(&spec->base, PS_PB_TERSE);
    if (!json_equal(got, wanted)) {
        fail_msg("%s", json_dumps(got, 0));
    }
    json_decref(got);
    json_decref(wanted);
    psgd__v1__job_spec__free_unpacked(spec, NULL);
    temp_dir_destroy(&dir);
}

static void nothing_given_is_an_empty_spec(void **state)
{
    (void)state;
    assert_built(NULL, &(ps_spec_flags){0}, "{}");
}

static void a_file_may_be_yaml_or_json(void **state)
{
    const char *want =
        "{\"title\": \"a\", \"workers\": 3, \"codec\": {\"up\": {\"name\": \"f16\"}}}";

    (void)state;
    assert_built("title: a\nworkers: 3\ncodec: {up: {name: f16}}\n", &(ps_spec_flags){0}, want);
    assert_built(want, &(ps_spec_flags){0}, want);
}

static void flags_lie_on_top_of_the_file(void **state)
{
    ps_spec_flags flags = {.workers = "4", .epochs = "9", .codec_down = "int8", .seed = "0"};

    (void)state;
    assert_built("workers: 3\npservers: 2\nseed: 7\ncodec: {up: {name: f16}}\n", &flags,
                 "{\"workers\": 4, \"pservers\": 2, \"epochs\": 9,"
                 " \"codec\": {\"up\": {\"name\": \"f16\"}, \"down\": {\"name\": \"int8\"}}}");
}

static void every_flag_reaches_its_field(void **state)
{
    const char *const sets[] = {"timeouts.lease_ms=5000", "optimizer.rule.params.beta1=0.5"};
    ps_spec_flags flags = {
        .title = "t",
        .preset = "p",
        .workers = "2",
        .pservers = "3",
        .epochs = "4",
        .block_size = "5",
        .seed = "6",
        .model = "mlp",
        .widths = "7,8",
        .activation = "relu",
        .data = "mnist",
        .train_limit = "9",
        .test_limit = "10",
        .assignment = "duplicate",
        .redundancy = "2",
        .optimizer = "adam",
        .lr = "0.5",
        .optimizer_side = "worker",
        .update = "gradient",
        .consistency = "ssp",
        .bound = "3",
        .codec = "int8",
        .codec_down = "f16",
        .bandwidth = "1000000",
        .set = {sets, 2},
    };

    (void)state;
    assert_built(
        NULL, &flags,
        "{\"title\": \"t\", \"preset\": \"p\", \"workers\": 2, \"pservers\": 3, \"epochs\": 4,"
        " \"block_size\": 5, \"seed\": 6,"
        " \"model\": {\"preset\": \"mlp\", \"widths\": [7, 8], \"activation\": \"relu\"},"
        " \"data\": {\"name\": \"mnist\", \"train_limit\": 9, \"test_limit\": 10},"
        " \"assignment\": {\"name\": \"duplicate\", \"params\": {\"redundancy\": 2.0}},"
        " \"optimizer\": {\"rule\": {\"name\": \"adam\", \"params\": {\"lr\": 0.5,"
        " \"beta1\": 0.5}}, \"side\": \"OPTIMIZER_SIDE_WORKER\"},"
        " \"update\": {\"name\": \"gradient\"},"
        " \"consistency\": {\"name\": \"ssp\", \"params\": {\"bound\": 3.0}},"
        " \"codec\": {\"up\": {\"name\": \"int8\"}, \"down\": {\"name\": \"f16\"}},"
        " \"network_bandwidth\": 1000000, \"timeouts\": {\"lease_ms\": 5000}}");
}

static void another_plugin_does_not_inherit_the_numbers_of_the_one_before(void **state)
{
    const char *file = "optimizer: {rule: {name: adam, params: {lr: 0.1, beta1: 0.5}}}\n";

    (void)state;
    assert_built(file, &(ps_spec_flags){.optimizer = "sgd", .lr = "0.2"},
                 "{\"optimizer\": {\"rule\": {\"name\": \"sgd\", \"params\": {\"lr\": 0.2}}}}");
    assert_built(file, &(ps_spec_flags){.optimizer = "adam", .lr = "0.2"},
                 "{\"optimizer\": {\"rule\": {\"name\": \"adam\", \"params\": {\"lr\": 0.2,"
                 " \"beta1\": 0.5}}}}");
}

/* Where workers step by themselves, their rule is the one that learns. */
static void the_learning_rate_is_that_of_the_rule_that_learns(void **state)
{
    const char *const sets[] = {"update.name=losp"};

    (void)state;
    assert_built(NULL, &(ps_spec_flags){.preset = "losp", .lr = "0.0004"},
                 "{\"preset\": \"losp\","
                 " \"optimizer\": {\"local\": {\"params\": {\"lr\": 0.0004}}}}");
    assert_built("optimizer: {local: {name: adam, params: {beta1: 0.5}}}\n",
                 &(ps_spec_flags){.optimizer = "sgd", .lr = "0.1", .set = {sets, 1}},
                 "{\"update\": {\"name\": \"losp\"}, \"optimizer\": {\"local\":"
                 " {\"name\": \"sgd\", \"params\": {\"lr\": 0.1}}}}");
    assert_built(NULL, &(ps_spec_flags){.preset = "losp", .update = "gradient", .lr = "0.1"},
                 "{\"preset\": \"losp\", \"update\": {\"name\": \"gradient\"},"
                 " \"optimizer\": {\"rule\": {\"params\": {\"lr\": 0.1}}}}");
    assert_built(NULL, &(ps_spec_flags){.update = "double_buffering", .lr = "0.1"},
                 "{\"update\": {\"name\": \"double_buffering\"},"
                 " \"optimizer\": {\"rule\": {\"params\": {\"lr\": 0.1}}}}");
}

static void the_servers_rule_and_the_round_have_flags_of_their_own(void **state)
{
    (void)state;
    assert_built(NULL,
                 &(ps_spec_flags){.update = "losp",
                                  .local_steps = "8",
                                  .compensation = "1.5",
                                  .server_optimizer = "sgd",
                                  .server_lr = "0.5"},
                 "{\"update\": {\"name\": \"losp\", \"params\":"
                 " {\"steps\": 8.0, \"compensation\": 1.5}}, \"optimizer\":"
                 " {\"rule\": {\"name\": \"sgd\", \"params\": {\"lr\": 0.5}}}}");
}

static void copies_of_a_block_stay_when_the_assignment_changes(void **state)
{
    const char *file = "assignment: {name: iid, params: {redundancy: 2}}\n";

    (void)state;
    assert_built(file, &(ps_spec_flags){.assignment = "duplicate"},
                 "{\"assignment\": {\"name\": \"duplicate\", \"params\": {\"redundancy\": 2.0}}}");
    assert_built(file, &(ps_spec_flags){.assignment = "modulo"},
                 "{\"assignment\": {\"name\": \"modulo\"}}");
}

static void metrics_of_flags_replace_those_of_the_file(void **state)
{
    const char *const names[] = {"auc", "rmse"};

    (void)state;
    assert_built("metrics: [{name: accuracy}]\n", &(ps_spec_flags){.metrics = {names, 2}},
                 "{\"metrics\": [{\"name\": \"auc\"}, {\"name\": \"rmse\"}]}");
}

static void no_servers_are_for_an_exchange_among_workers(void **state)
{
    (void)state;
    assert_built(NULL, &(ps_spec_flags){.preset = "plain", .pservers = "0"},
                 "{\"preset\": \"plain\"}");
    assert_built("pservers: 2\nexchange: {name: ring}\n", &(ps_spec_flags){.pservers = "0"},
                 "{\"exchange\": {\"name\": \"ring\"}}");
}

static void node_count_is_the_number_of_workers(void **state)
{
    (void)state;
    assert_built(NULL, &(ps_spec_flags){.node_count = "4"}, "{\"workers\": 4}");
}

static void workers_may_be_a_file_of_addresses(void **state)
{
    static const char text[] = "{\"PS\": \"p\", \"Worker\": [\"a\", \"b\", \"c\"]}";
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "worker.json");
    ps_status st = ps_file_write(path, text, sizeof text - 1);

    (void)state;
    assert_string_equal(st.text, "");
    assert_built("workers: 9\n", &(ps_spec_flags){.workers = path, .node_count = "2"},
                 "{\"workers\": 2, \"pservers\": 1, \"nodes\": ["
                 "{\"role\": \"NODE_ROLE_WORKER\", \"address\": \"a:15387\"},"
                 "{\"role\": \"NODE_ROLE_WORKER\", \"address\": \"b:15387\"},"
                 "{\"role\": \"NODE_ROLE_PSERVER\", \"address\": \"p:15388\"}]}");
    temp_dir_destroy(&dir);
}

static void every_wrong_flag_is_named_at_once(void **state)
{
    const char *const sets[] = {"nonsense=1", "epochs"};
    ps_spec_flags flags = {
        .epochs = "many", .lr = "fast", .workers = "/nonexistent/worker.json", .set = {sets, 2}};
    Psgd__V1__JobSpec *spec = NULL;
    ps_error error;
    ps_status st = ps_spec_build(NULL, &flags, &error, &spec);

    (void)state;
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_int_equal(error.violation_count, 5);
    assert_string_equal(error.violations[0].field, "--epochs");
    assert_string_equal(error.violations[1].field, "--lr");
    assert_string_equal(error.violations[2].field, "nonsense=1");
    assert_string_equal(error.violations[3].field, "--set");
    assert_string_equal(error.violations[4].field, "--workers");
    assert_null(spec);
}

static void who_says_none_does_not_get_the_default(void **state)
{
    ps_spec_flags flags = {
        .workers = "0", .pservers = "00", .epochs = "0", .block_size = "0", .seed = "0"};
    Psgd__V1__JobSpec *spec = NULL;
    ps_error error;
    ps_status st = ps_spec_build(NULL, &flags, &error, &spec);

    (void)state;
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_int_equal(error.violation_count, 4); /* flags are not looked at yet */
    assert_string_equal(error.violations[2].field, "--pservers");
    assert_non_null(strstr(error.violations[2].text, "--exchange ring"));
    assert_string_equal(error.violations[3].field, "--workers");
    assert_string_equal(error.violations[3].text, "is '0'; allowed: a whole number from 1 on");
}

/* A job file in a folder of its own, and what comes of it. */
typedef struct built {
    temp_dir dir;
    const char *path;
    Psgd__V1__JobSpec *spec;
    ps_error error;
    ps_status st;
} built;

static void build(built *b, const char *text, const ps_spec_flags *flags)
{
    b->dir = temp_dir_create();
    b->path = temp_dir_file(&b->dir, "job.yaml");
    b->spec = NULL;
    b->st = ps_file_write(b->path, text, strlen(text));
    assert_string_equal(b->st.text, "");
    b->st = ps_spec_build(b->path, flags, &b->error, &b->spec);
}

static void wrong_fields_of_a_file_are_violations_with_their_path(void **state)
{
    static const char text[] = "epochs: many\nmodel: {widhts: [1]}\n";
    built b;

    (void)state;
    build(&b, text, &(ps_spec_flags){0});
    assert_int_equal(b.st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(b.error.status.text, "job.yaml"));
    assert_int_equal(b.error.violation_count, 2);
    assert_string_equal(b.error.violations[0].field, "epochs");
    assert_string_equal(b.error.violations[1].field, "model.widhts");
    b.st =
        ps_spec_build(temp_dir_file(&b.dir, "none.yaml"), &(ps_spec_flags){0}, &b.error, &b.spec);
    assert_int_equal(b.st.code, PS_NOT_FOUND);
    assert_null(b.spec);
    temp_dir_destroy(&b.dir);
}

static void an_empty_file_is_told_what_it_lacks(void **state)
{
    built b;

    (void)state;
    build(&b, "", &(ps_spec_flags){0});
    assert_int_equal(b.st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(b.st.text, "job.yaml: a job is a mapping"));
    assert_int_equal(b.error.violation_count, 0);
    temp_dir_destroy(&b.dir);
}

static void a_violation_says_its_line(void **state)
{
    static const char text[] = "title: a\n\nblockSize: x\nmodel:\n  widths: [1,\n    y]\n";
    built b;

    (void)state;
    build(&b, text, &(ps_spec_flags){.epochs = "z"});
    assert_int_equal(b.st.code, PS_INVALID_ARGUMENT);
    ps_error_violate(&b.error, "spec.title",
                     "is too short"); /* as a plan or a coordinator says it */
    ps_error_violate(&b.error, "spec.seed", "is not there");
    ps_spec_locate(b.path, &b.error);
    assert_int_equal(b.error.violation_count, 4); /* flags are not looked at yet */
    assert_non_null(strstr(b.error.violations[0].field, "job.yaml:3: block_size"));
    assert_non_null(strstr(b.error.violations[1].field, "job.yaml:6: model.widths[1]"));
    assert_non_null(strstr(b.error.violations[2].field, "job.yaml:1: spec.title"));
    assert_string_equal(b.error.violations[2].text, "is too short");
    assert_string_equal(b.error.violations[3].field, "spec.seed");
    temp_dir_destroy(&b.dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_given_is_an_empty_spec),
        cmocka_unit_test(a_file_may_be_yaml_or_json),
        cmocka_unit_test(flags_lie_on_top_of_the_file),
        cmocka_unit_test(every_flag_reaches_its_field),
        cmocka_unit_test(another_plugin_does_not_inherit_the_numbers_of_the_one_before),
        cmocka_unit_test(the_learning_rate_is_that_of_the_rule_that_learns),
        cmocka_unit_test(the_servers_rule_and_the_round_have_flags_of_their_own),
        cmocka_unit_test(copies_of_a_block_stay_when_the_assignment_changes),
        cmocka_unit_test(metrics_of_flags_replace_those_of_the_file),
        cmocka_unit_test(no_servers_are_for_an_exchange_among_workers),
        cmocka_unit_test(node_count_is_the_number_of_workers),
        cmocka_unit_test(workers_may_be_a_file_of_addresses),
        cmocka_unit_test(every_wrong_flag_is_named_at_once),
        cmocka_unit_test(who_says_none_does_not_get_the_default),
        cmocka_unit_test(wrong_fields_of_a_file_are_violations_with_their_path),
        cmocka_unit_test(an_empty_file_is_told_what_it_lacks),
        cmocka_unit_test(a_violation_says_its_line),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_spec a_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
