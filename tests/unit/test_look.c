/* SPDX-License-Identifier: Apache-2.0 */
/* test_look.c - the data set of a job: what it may say, and what its files add to that. */
#include "common/job/look.h"

#include "tests/support/data_rig.h"
#include "tests/support/plan_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void assert_data_refused(const char *data, const char *field, const char *words)
{
    char json[2048];

    snprintf(json, sizeof json, "{\"data\": %s}", data);
    assert_refused(json, field, words);
}

static void wrong_data_specs_are_refused_by_field(void **state)
{
    (void)state;
    assert_data_refused("{\"name\": \"simlin\", \"params\": {\"features\": 0}}",
                        "spec.data.params.features", "1 to 1048576");
    assert_data_refused("{\"name\": \"mnist\", \"params\": {\"x\": 1}}", "spec.data.params.x",
                        "is not one of its numbers");
    assert_data_refused("{\"name\": \"glyphs\", \"folder\": \"x\"}", "spec.data.folder",
                        "glyphs has no files");
    assert_data_refused("{\"name\": \"mnist\", \"folder\": \"../x\"}", "spec.data.folder",
                        "\"../x\"; names");
    assert_data_refused("{\"name\": \"mnist\", \"files\": [\"x\"]}", "spec.data.files",
                        "takes none");
    assert_data_refused("{\"name\": \"ngram\"}", "spec.data.files", "has 0 names");
    assert_data_refused("{\"name\": \"ngram\", \"files\": [\"a/b/c\"]}", "spec.data.files[0]",
                        "\"a/b/c\"");
    assert_data_refused("{\"name\": \"ngram\", \"files\": [\"../part-*\"]}", "spec.data.files[0]",
                        "* and ? in a pattern");
    assert_data_refused("{\"name\": \"ngram\", \"files\": [\"a\"], \"test_files\": [\"a\"]}",
                        "spec.data.test_files[0]", "another entry has that name");
    assert_data_refused(
        "{\"name\": \"ngram\", \"files\": [\"a\"], \"columns\": [{\"name\": \"x\"}]}",
        "spec.data.columns", "ngram takes none");
    assert_data_refused("{\"name\": \"ngram\", \"files\": [\"a\"], \"vocabulary\": \"w*\"}",
                        "spec.data.vocabulary", "the name of a file");
    assert_data_refused("{\"name\": \"mnist\", \"vocabulary\": \"w\"}", "spec.data.vocabulary",
                        "mnist takes none");
    assert_data_refused("{\"name\": \"csv\", \"files\": [\"a\"]}", "spec.data.columns",
                        "csv takes 1 to 128");
    assert_data_refused("{\"name\": \"csv\", \"files\": [\"a\"], \"columns\": [{\"name\": \"x\", "
                        "\"kind\": \"colour\"}]}",
                        "spec.data.columns[0].kind", "allowed: numeric, hashed, vocabulary, label");
    assert_data_refused("{\"name\": \"csv\", \"files\": [\"a\"], \"columns\": [{\"name\": \"x\"}, "
                        "{\"name\": \"x\", \"kind\": \"label\"}]}",
                        "spec.data.columns[1].name", "another entry has that name");
    assert_data_refused("{\"name\": \"csv\", \"files\": [\"a\"], \"columns\": [{\"name\": \"x\", "
                        "\"params\": {\"scale\": 3}}]}",
                        "spec.data.columns[0].params.scale", "0 to 2");
    assert_data_refused("{\"name\": \"ngram\", \"files\": [\"a\"]}", "spec.data",
                        "known only from its files");
}

static void transforms_and_files_have_to_go_together(void **state)
{
    (void)state;
    assert_refused("{\"data\": {\"transforms\": [{\"name\": \"blur\"}]}}",
                   "spec.data.transforms[0].name", "allowed: normalise");
    assert_refused("{\"data\": {\"name\": \"simlin\", \"transforms\": [{\"name\": "
                   "\"normalise\"}, {\"name\": \"crop\"}]}, \"model\": {\"loss\": \"mse\"}}",
                   "spec.data.transforms[1]", "does not go with simlin: crop: samples are");
    assert_refused("{\"assignment\": {\"name\": \"modulo\"}}", "spec.assignment.name",
                   "glyphs does not read files by name");
    assert_refused("{\"data\": {\"name\": \"slots\", \"train_limit\": 100, \"test_limit\": 1, "
                   "\"files\": [\"a1\", \"b\"]}, \"assignment\": {\"name\": \"modulo\"}}",
                   "spec.data.files[1]", "is \"b\"; with assignment modulo");
    assert_refused("{\"data\": {\"name\": \"slots\", \"train_limit\": 999, \"test_limit\": 1, "
                   "\"files\": [\"a1\", \"a3\"]}, \"workers\": 2, \"assignment\": {\"name\": "
                   "\"modulo\"}}",
                   "spec.data.files",
                   "has none for worker 0 of the 2 of spec.workers: a number that is 0 modulo 2");
}

static void a_look_makes_a_job_whole(void **state)
{
    temp_dir dir = temp_dir_create();
    Psgd__V1__JobSpec *spec = spec_of(
        "{\"block_size\": 2, \"data\": {\"name\": \"csv\", \"folder\": \"a/b\", \"files\": "
        "[\"t.csv\"], \"test_files\": [\"u.csv\"], \"columns\": [{\"name\": \"n\"}, {\"name\": "
        "\"c\", \"kind\": \"vocabulary\"}, {\"name\": \"l\", \"kind\": \"label\"}]}}");
    Psgd__V1__JobSpec *full = NULL;
    ps_plan *plan = NULL;
    ps_status st;

    (void)state;
    assert_true(ps_look_is_needed(spec));
    st = ps_look(spec, NULL, &full);
    assert_int_equal(st.code, PS_NOT_FOUND);
    assert_non_null(strstr(st.text, "--data-path"));
    st = ps_dir_make(temp_dir_file(&dir, "a/b"));
    assert_string_equal(st.text, "");
    data_rig_write(&dir, "a/b/t.csv", "n,c,l\n1,x,A\n2,y,B\n3,z,C\n4,x,A\n");
    st = ps_look(spec, dir.path, &full);
    assert_int_equal(st.code, PS_NOT_FOUND);
    assert_non_null(strstr(st.text, "u.csv"));
    data_rig_write(&dir, "a/b/u.csv", "n,c,l\n1,x,A\n");
    st = ps_look(spec, dir.path, &full);
    assert_string_equal(st.text, "");
    assert_int_equal(full->data->train_limit, 4);
    assert_int_equal(full->data->test_limit, 1);
    st = ps_plan_create(full, NULL, NULL, &plan);
    assert_string_equal(st.text, "");
    assert_int_equal(plan->facts.classes, 3);
    assert_int_equal(plan->facts.vocabulary, 4);
    assert_int_equal(plan->facts.features, 2);
    assert_int_equal(plan->batches_per_epoch, 2);
    { /* what a plan says is whole: another plan of it is the same, without files */
        ps_plan *again = NULL;

        st = ps_plan_create(plan->spec, NULL, NULL, &again);
        assert_string_equal(st.text, "");
        assert_true(ps_plan_is_data(again, plan->spec->data));
        assert_true(ps_data_conf_same(&again->data_conf, &plan->data_conf));
        again->spec->data->train_limit--;
        assert_false(ps_plan_is_data(plan, again->spec->data));
        ps_plan_destroy(again);
    }
    ps_plan_destroy(plan);
    free_spec(full);
    free_spec(spec);
    temp_dir_destroy(&dir);
}

static void links_do_not_lead_out_of_the_data_path(void **state)
{
    static const char secret[] = "root:x:0:0\nuser:y:1:1\n";
    static const char *const places[][2] = {{"away", "t.csv"}, {"here", "away.csv"}};
    temp_dir dir = temp_dir_create();
    char top[512];

    (void)state;
    assert_true(snprintf(top, sizeof top, "%s", temp_dir_file(&dir, "top")) < (int)sizeof top);
    assert_int_equal(ps_dir_make(temp_dir_file(&dir, "top/here")).code, PS_OK);
    assert_int_equal(ps_dir_make(temp_dir_file(&dir, "out")).code, PS_OK);
    data_rig_write(&dir, "out/t.csv", secret);
    assert_int_equal(symlink("../out", temp_dir_file(&dir, "top/away")), 0);
    assert_int_equal(symlink("../../out/t.csv", temp_dir_file(&dir, "top/here/away.csv")), 0);
    for (size_t i = 0; i < 2; i++) {
        Psgd__V1__JobSpec *full = NULL, *spec;
        char json[300];
        ps_status st;

        snprintf(json, sizeof json,
                 "{\"data\": {\"name\": \"csv\", \"folder\": \"%s\", \"files\": [\"%s\"], "
                 "\"columns\": [{\"name\": \"n\"}, {\"name\": \"l\", \"kind\": \"label\"}]}}",
                 places[i][0], places[i][1]);
        spec = spec_of(json);
        st = ps_look(spec, top, &full);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        assert_non_null(strstr(st.text, "leads out of its folder"));
        free_spec(spec);
    }
    temp_dir_destroy(&dir);
}

static void what_needs_no_look_is_only_copied(void **state)
{
    Psgd__V1__JobSpec *drawn = spec_of("{\"data\": {\"name\": \"glyphs\"}}");
    Psgd__V1__JobSpec *wrong = spec_of("{\"data\": {\"name\": \"ngram\"}}"), *copy = NULL;
    ps_status st;

    (void)state;
    assert_false(ps_look_is_needed(drawn));
    assert_false(ps_look_is_needed(wrong)); /* the plan says what is missing */
    st = ps_look(drawn, NULL, &copy);
    assert_string_equal(st.text, "");
    assert_string_equal(copy->data->name, "glyphs");
    assert_int_equal(copy->data->train_limit, 0);
    free_spec(copy);
    free_spec(drawn);
    free_spec(wrong);
}

static void a_usual_set_that_is_not_here_is_taken_for_granted(void **state)
{
    static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 5, 6};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 3, 1};
    Psgd__V1__JobSpec *spec = spec_of("{\"data\": {\"name\": \"mnist\"}, \"block_size\": 1}");
    Psgd__V1__JobSpec *full = NULL;
    temp_dir dir = temp_dir_create();
    ps_plan *plan = NULL;
    ps_status st = ps_look(spec, NULL, &full);

    (void)state;
    assert_string_equal(st.text, "");
    st = ps_plan_create(full, NULL, NULL, &plan);
    assert_string_equal(st.text, "");
    assert_true(plan->train_count == 60000 && plan->facts.features == 784);
    ps_plan_destroy(plan);
    free_spec(full);

    st = ps_dir_make(temp_dir_file(&dir, "mnist"));
    assert_string_equal(st.text, "");
    for (size_t i = 0; i < 4; i++) {
        static const char *const names[] = {
            "mnist/train-images-idx3-ubyte", "mnist/train-labels-idx1-ubyte",
            "mnist/t10k-images-idx3-ubyte", "mnist/t10k-labels-idx1-ubyte"};

        st = i % 2 == 0 ? ps_file_write(temp_dir_file(&dir, names[i]), images, sizeof images)
                        : ps_file_write(temp_dir_file(&dir, names[i]), labels, sizeof labels);
        assert_string_equal(st.text, "");
    }
    st = ps_look(spec, dir.path, &full);
    assert_string_equal(st.text, "");
    st = ps_plan_create(full, NULL, NULL, &plan);
    assert_string_equal(st.text, "");
    assert_true(plan->train_count == 2 && plan->facts.features == 1 && plan->facts.classes == 4);
    ps_plan_destroy(plan);
    free_spec(full);
    free_spec(spec);
    temp_dir_destroy(&dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_data_specs_are_refused_by_field),
        cmocka_unit_test(transforms_and_files_have_to_go_together),
        cmocka_unit_test(a_look_makes_a_job_whole),
        cmocka_unit_test(links_do_not_lead_out_of_the_data_path),
        cmocka_unit_test(what_needs_no_look_is_only_copied),
        cmocka_unit_test(a_usual_set_that_is_not_here_is_taken_for_granted),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
