/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoints.c - checkpoints without I/O: at which clocks a job has them, when an attempt
 * takes one, which are kept; and what is read from state.json. One test has a folder. */
#include "common/job/checkpoint_clocks.h"
#include "common/rpc/pbjson.h"
#include "services/coordinator/domain/checkpoints.h"
#include "services/coordinator/io/checkpoint_store.h"

#include "tests/support/cmocka_all.h"
#include "tests/support/temp_dir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ps_plan *plan_of(const char *json)
{
    ProtobufCMessage *message = NULL;
    ps_error error = {.status = ps_ok()};
    json_t *tree = json_loads(json, 0, NULL);
    ps_plan *plan = NULL;
    ps_status st = ps_pb_from_json(&psgd__v1__job_spec__descriptor, tree, "spec", &error, &message);

    assert_string_equal(st.text, "");
    st = ps_plan_create((Psgd__V1__JobSpec *)message, NULL, NULL, &plan);
    assert_string_equal(st.text, "");
    protobuf_c_message_free_unpacked(message, NULL);
    json_decref(tree);
    return plan;
}

/* 320 samples in blocks of 32: 10 steps an epoch. */
#define SAMPLES                                                                                    \
    "\"data\": {\"name\": \"glyphs\", \"train_limit\": 320}, \"block_size\": 32, \"epochs\": 2"

static void steps_become_clocks(void **state)
{
    ps_plan *plan = plan_of("{" SAMPLES ", \"checkpoint\": {\"every_steps\": 7}}");

    (void)state;
    assert_int_equal(plan->spec->checkpoint->keep, 3);
    assert_int_equal(ps_checkpoint_next(plan, 0), 7);
    assert_int_equal(ps_checkpoint_next(plan, 6), 7);
    assert_int_equal(ps_checkpoint_next(plan, 7), 14);
    assert_int_equal(ps_checkpoint_next(plan, 14), 0); /* 21 is behind the end */
    assert_int_equal(ps_checkpoint_last(plan, 6), 0);
    assert_int_equal(ps_checkpoint_last(plan, 7), 7);
    assert_int_equal(ps_checkpoint_last(plan, 16), 14);
    ps_plan_destroy(plan);
    plan = plan_of("{" SAMPLES ", \"checkpoint\": {\"every_steps\": 10}}");
    assert_int_equal(ps_checkpoint_next(plan, 10), 0); /* 20 is the end */
    ps_plan_destroy(plan);
    plan = plan_of("{" SAMPLES "}");
    assert_int_equal(ps_checkpoint_next(plan, 0), 0);
    assert_int_equal(ps_checkpoint_last(plan, 9), 0);
    ps_plan_destroy(plan);
}

static void rounds_of_several_steps_become_clocks(void **state)
{
    ps_plan *plan = plan_of("{" SAMPLES ", \"update\": {\"name\": \"localsgd\", \"params\": "
                            "{\"steps\": 4}}, \"checkpoint\": {\"every_steps\": 6}}");

    (void)state;
    assert_int_equal(plan->total_clocks, 5);
    assert_int_equal(ps_checkpoint_next(plan, 0), 2); /* after 8 steps */
    assert_int_equal(ps_checkpoint_next(plan, 2), 3); /* 12 */
    assert_int_equal(ps_checkpoint_next(plan, 3), 0); /* 18: the round to 20 is the last */
    assert_int_equal(ps_checkpoint_last(plan, 1), 0);
    assert_int_equal(ps_checkpoint_last(plan, 2), 2);
    assert_int_equal(ps_checkpoint_step(plan, 2), 8);
    assert_int_equal(ps_checkpoint_step(plan, 5), 20);
    assert_int_equal(ps_checkpoint_clock(plan, 9), 3);
    ps_plan_destroy(plan);
}

static void the_name_of_a_checkpoint_is_a_job_and_a_step(void **state)
{
    char job[PS_CHECKPOINT_JOB_MAX];
    uint64_t step;
    static const char *const wrong[] = {
        "checkpoint:",     "checkpoint:a",    "checkpoint:@3",
        "checkpoint:a@",   "checkpoint:a@-1", "checkpoint:a@12345678901234",
        "checkpoint:a@3x",
    };

    (void)state;
    assert_true(ps_init_from_checkpoint("checkpoint:small-1a2b@1200", job, &step));
    assert_string_equal(job, "small-1a2b");
    assert_int_equal(step, 1200);
    assert_false(ps_init_from_checkpoint("job:small-1a2b", job, &step));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_true(ps_init_from_checkpoint(wrong[i], job, &step));
        assert_string_equal(job, "");
        assert_true(step == UINT64_MAX);
    }
}

static void all_nodes_have_it_before_files_are_collected(void **state)
{
    ps_cuts c;

    (void)state;
    ps_cuts_init(&c, 3, 10, 0);
    assert_int_equal(c.stage, PS_CUT_NAMED);
    assert_false(ps_cuts_told(&c, 0, 10, 0, 1));
    assert_false(ps_cuts_told(&c, 0, 10, 0, 2)); /* again */
    assert_false(ps_cuts_told(&c, 1, 9, 0, 2));  /* an older one */
    assert_false(ps_cuts_told(&c, 2, 10, 0, 2));
    assert_true(ps_cuts_told(&c, 1, 10, 0, 3));
    assert_true(ps_cuts_collected(&c));
    assert_true(ps_cuts_collected(&c));
    assert_int_equal(c.at, 2);
    assert_int_equal(c.done, 0); /* nodes keep it until it is stored */
    assert_false(ps_cuts_collected(&c));
    ps_cuts_stored(&c, 50);
    assert_int_equal(c.done, 10);
    assert_int_equal(c.stage, PS_CUT_NONE);
    assert_false(ps_cuts_is_due(&c, 100, 149));
    assert_true(ps_cuts_is_due(&c, 100, 150));
    assert_false(ps_cuts_is_due(&c, 0, 1000));
    ps_cuts_fini(&c);
}

static void nobody_waits_for_a_node_that_has_left(void **state)
{
    ps_cuts c;

    (void)state;
    ps_cuts_init(&c, 3, 10, 0);
    ps_cuts_leave(&c, 0);
    assert_false(ps_cuts_told(&c, 1, 10, 0, 1));
    assert_true(ps_cuts_told(&c, 2, 10, 0, 2));
    assert_int_equal(c.at, 1); /* the first that has it */
    assert_true(ps_cuts_collected(&c));
    assert_int_equal(c.at, 2);
    assert_false(ps_cuts_collected(&c));
    ps_cuts_stored(&c, 3);
    ps_cuts_name(&c, 20);
    ps_cuts_leave(&c, 1);
    ps_cuts_leave(&c, 2);
    assert_false(ps_cuts_told(&c, 2, 0, 0, 4)); /* nobody has it */
    ps_cuts_fini(&c);
}

static void one_that_a_node_missed_is_named_later(void **state)
{
    ps_cuts c;

    (void)state;
    ps_cuts_init(&c, 2, 0, 0);
    assert_int_equal(ps_cuts_want(&c, false), 0);
    assert_true(ps_cuts_is_due(&c, 0, 0));
    assert_int_equal(ps_cuts_ahead(&c, 10, 1000000), 32);
    ps_cuts_name(&c, 100);
    assert_false(ps_cuts_told(&c, 0, 100, 0, 1));
    assert_false(ps_cuts_told(&c, 1, 0, 100, 1));
    assert_int_equal(c.stage, PS_CUT_NONE);
    assert_int_equal(c.done, 100); /* node 0 forgets its own */
    assert_true(ps_cuts_is_due(&c, 0, 1));
    assert_int_equal(ps_cuts_ahead(&c, 10, 1000000), 64);
    ps_cuts_name(&c, 400);
    ps_cuts_name(&c, 300); /* a nearer one instead */
    assert_false(ps_cuts_told(&c, 0, 300, 0, 2));
    assert_true(ps_cuts_told(&c, 1, 300, 100, 2)); /* what it missed before does not count */
    ps_cuts_give_up(&c, 3);
    assert_int_equal(c.done, 300);
    assert_false(ps_cuts_is_due(&c, 0, 3)); /* the user is told; nobody tries again */
    ps_cuts_fini(&c);
}

static void one_that_is_collected_is_too_old_for_a_later_wish(void **state)
{
    ps_cuts c;

    (void)state;
    ps_cuts_init(&c, 1, 10, 0);
    assert_int_equal(ps_cuts_want(&c, false), 0); /* the one that is named will do */
    assert_true(ps_cuts_told(&c, 0, 10, 0, 1));
    assert_int_equal(ps_cuts_want(&c, false), 10);
    assert_false(ps_cuts_collected(&c));
    ps_cuts_stored(&c, 2);
    assert_true(ps_cuts_is_due(&c, 0, 2));
    ps_cuts_name(&c, 20);
    assert_true(ps_cuts_told(&c, 0, 20, 0, 3));
    ps_cuts_give_up(&c, 3);
    assert_false(ps_cuts_is_due(&c, 0, 4));
    ps_cuts_fini(&c);
}

static void one_at_which_workers_stay_is_passing_unless_it_was_asked_for_too(void **state)
{
    ps_cuts c;

    (void)state;
    ps_cuts_init(&c, 1, 0, 0);
    (void)ps_cuts_want(&c, false);
    ps_cuts_name(&c, 10);
    assert_false(ps_cuts_is_passing(&c)); /* nobody stays */
    (void)ps_cuts_told(&c, 0, 0, 10, 1);
    (void)ps_cuts_want(&c, true);
    ps_cuts_name(&c, 20);
    assert_true(c.stays);
    assert_false(ps_cuts_is_passing(&c)); /* it is for both */
    ps_cuts_give_up(&c, 2);
    (void)ps_cuts_want(&c, true);
    ps_cuts_name(&c, 30);
    assert_true(ps_cuts_is_passing(&c));
    assert_true(ps_cuts_told(&c, 0, 30, 0, 3));
    (void)ps_cuts_want(&c, false);
    assert_true(ps_cuts_is_passing(&c)); /* it is too old for that */
    ps_cuts_fini(&c);
}

static void one_at_which_workers_stay_is_one_of_its_own(void **state)
{
    ps_cuts c;

    (void)state;
    ps_cuts_init(&c, 1, 10, 0);
    assert_int_equal(ps_cuts_want(&c, true), 0);
    assert_false(c.stays); /* the one that is named is not such a one, and comes first */
    assert_true(ps_cuts_told(&c, 0, 10, 0, 1));
    assert_false(ps_cuts_collected(&c));
    ps_cuts_stored(&c, 2);
    assert_true(ps_cuts_is_due(&c, 0, 2));
    ps_cuts_name(&c, 20);
    assert_true(c.stays);
    assert_true(ps_cuts_is_passing(&c));
    assert_true(ps_cuts_told(&c, 0, 20, 0, 3));
    assert_int_equal(ps_cuts_want(&c, true), 19); /* nobody is beyond it */
    assert_int_equal(ps_cuts_want(&c, false), 20);
    assert_false(ps_cuts_collected(&c));
    ps_cuts_stored(&c, 4);
    ps_cuts_name(&c, 30); /* for the second wish, at which nobody stays */
    assert_false(c.stays);
    ps_cuts_give_up(&c, 5);
    assert_int_equal(ps_cuts_want(&c, true), 30);
    ps_cuts_name(&c, 40);
    ps_cuts_give_up(&c, 6);
    assert_false(ps_cuts_is_due(&c, 0, 6));
    ps_cuts_name(&c, 50);
    assert_false(c.stays);
    ps_cuts_fini(&c);
}

static void the_newest_and_multiples_are_kept(void **state)
{
    static const uint64_t steps[] = {10, 20, 25, 30, 40};
    bool drop[5];

    (void)state;
    ps_checkpoints_choose(steps, 5, 2, 0, 5, drop);
    assert_memory_equal(drop, ((bool[]){true, true, true, false, false}), sizeof drop);
    ps_checkpoints_choose(steps, 5, 1, 20, 5, drop);
    assert_memory_equal(drop, ((bool[]){true, false, true, true, false}), sizeof drop);
    ps_checkpoints_choose(steps, 5, 9, 0, 5, drop);
    assert_memory_equal(drop, ((bool[]){false, false, false, false, false}), sizeof drop);
    ps_checkpoints_choose(steps, 5, 1, 0, 2, drop);
    assert_memory_equal(drop, ((bool[]){true, true, false, true, false}), sizeof drop);
    ps_checkpoints_choose(steps, 1, 0, 0, 1, drop);
    assert_false(drop[0]); /* never none */
}

static void what_a_kept_one_needs_is_kept(void **state)
{
    /* two chains: 0 <- 1 <- 2, and 3 <- 4 <- 5; 6 stands for none */
    static const size_t parent[] = {6, 0, 1, 6, 3, 4};
    bool drop[6] = {true, true, true, true, true, false};

    (void)state;
    ps_checkpoints_keep_parents(parent, 6, false, drop);
    assert_memory_equal(drop, ((bool[]){true, true, true, false, false, false}), sizeof drop);
    memcpy(drop, (bool[]){true, true, true, true, false, false}, sizeof drop);
    ps_checkpoints_keep_parents(parent, 6, true, drop); /* one that shares no file, and its own */
    assert_memory_equal(drop, ((bool[]){false, false, false, false, false, false}), sizeof drop);
    memcpy(drop, (bool[]){true, false, true, true, true, false}, sizeof drop);
    ps_checkpoints_keep_parents(parent, 6, true, drop); /* 1 is one already */
    assert_memory_equal(drop, ((bool[]){false, false, true, false, false, false}), sizeof drop);
    ps_checkpoints_keep_parents(parent, 0, true, drop);
}

static void a_chain_ends_when_it_is_long_or_large(void **state)
{
    ps_chain c = {0};

    (void)state;
    ps_chain_stored(&c, 10, true, 1000);
    assert_int_equal(c.clock, 10);
    for (uint64_t i = 1; i < PS_CHAIN_MAX; i++) {
        ps_chain_stored(&c, 10 + i, false, 20);
        assert_int_equal(c.clock, 10 + i);
    }
    ps_chain_stored(&c, 30, false, 20);
    assert_int_equal(c.clock, 0); /* long */
    ps_chain_stored(&c, 31, true, 1000);
    ps_chain_stored(&c, 32, false, 400);
    assert_int_equal(c.clock, 32);
    ps_chain_stored(&c, 33, false, 101);
    assert_int_equal(c.clock, 0); /* together large */
    ps_chain_stored(&c, 34, true, 1000);
    assert_int_equal(c.clock, 34);
    ps_chain_stored(&c, 35, false, 501); /* one alone: of no use */
    for (uint64_t i = 0; i < PS_CHAIN_MAX; i++) {
        assert_int_equal(c.clock, 0);
        ps_chain_stored(&c, 36 + i, true, 1000);
    }
    assert_int_equal(c.clock, 35 + PS_CHAIN_MAX);
}

static void the_best_is_the_first_of_equal_ones(void **state)
{
    static const double values[] = {NAN, 0.5, 0.9, 0.9, 0.2, NAN};

    (void)state;
    assert_int_equal(ps_checkpoints_best(values, 6, false), 2);
    assert_int_equal(ps_checkpoints_best(values, 6, true), 4);
    assert_int_equal(ps_checkpoints_best(values, 1, true), 1);
    assert_int_equal(ps_checkpoints_best(values, 0, true), 0);
}

#define FACTS                                                                                      \
    "{\"format\": 1, \"job\": \"a-1\", \"step\": 12, \"clock\": 6, \"plan_hash\": "                \
    "\"00000000000000ff\", \"ranks\": 4, \"seed\": \"18446744073709551615\", \"version\": "        \
    "\"0.1.0\"}"

static void facts_are_read_or_refused_by_name(void **state)
{
    ps_checkpoint_facts f;
    static const struct {
        const char *from, *to, *says;
    } wrongs[] = {
        {"\"format\": 1", "\"format\": 2", "format"},
        {"\"ranks\"", "\"data\": \"0g\", \"ranks\"", "data"},
        {"\"ranks\"", "\"metric\": \"loss\", \"value\": \"1\", \"ranks\"", "value"},
        {"\"ranks\"", "\"metric\": \"loss\", \"value\": 1, \"best\": \"no\", \"ranks\"", "best"},
        {"\"a-1\"", "\"../a\"", "job"},
        {"12", "-1", "step"},
        {"12", "1e3", "step"},
        {": 6", ": 9999999999999", "clock"},
        {"00ff", "00fg", "plan_hash"},
        {"\"ranks\": 4", "\"ranks\": 257", "ranks"},
        {"18446744073709551615", "18446744073709551616", "seed"},
        {"\"0.1.0\"", "7", "version"},
        {"\"clock\"", "\"step\"", "duplicate"},
        {"}", "", "state.json:1"},
    };
    ps_status st = ps_checkpoint_parse(FACTS, strlen(FACTS), &f);

    (void)state;
    assert_string_equal(st.text, "");
    assert_string_equal(f.job_id, "a-1");
    assert_true(f.step == 12 && f.clock == 6 && f.plan_hash == 255 && f.ranks == 4 &&
                f.seed == UINT64_MAX);
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        const char *at = strstr(FACTS, wrongs[i].from);
        char text[400];

        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - FACTS), FACTS, wrongs[i].to,
                 at + strlen(wrongs[i].from));
        st = ps_checkpoint_parse(text, strlen(text), &f);
        assert_int_equal(st.code, PS_DATA_LOSS);
        if (strstr(st.text, wrongs[i].says) == NULL) {
            fail_msg("%s does not name %s", st.text, wrongs[i].says);
        }
    }
    for (size_t n = 0; n < strlen(FACTS); n++) { /* cut anywhere */
        st = ps_checkpoint_parse(FACTS, n, &f);
        assert_int_equal(st.code, PS_DATA_LOSS);
    }
}

static ps_status count_file(void *arg, const ps_manifest_file *file)
{
    *(uint64_t *)arg += file->size;
    return ps_ok();
}

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ENTRY(name, size, hex)                                                                     \
    "{\"name\": \"" name "\", \"kind\": \"log\", \"size\": " size ", \"sha256\": \"" hex "\"}"

static void a_manifest_is_read_or_refused_by_place(void **state)
{
    static const struct {
        const char *text, *says;
    } wrongs[] = {
        {"", "manifest:"},
        {"[]", "no object"},
        {"{\"files\": {}}", "no list"},
        {"{\"files\": [1]}", "files[0]"},
        {"{\"files\": [" ENTRY("../a", "1", HEX) "]}", "files[0]"},
        {"{\"files\": [" ENTRY("a", "-1", HEX) "]}", "files[0]"},
        {"{\"files\": [" ENTRY("a", "1", HEX) ", " ENTRY("b", "1", "0A") "]}", "files[1]"},
        {"{\"files\": [" ENTRY("a", "1", HEX) ", " ENTRY("b", "1", HEX) ", " ENTRY("c", "1",
                                                                                   HEX) "]}",
         "at most 2"},
    };
    static const char good[] = "{\"files\": [" ENTRY("a", "1", HEX) ", " ENTRY("b", "2", HEX) "]}";
    uint64_t bytes = 0;
    ps_status st = ps_manifest_parse(good, strlen(good), 2, count_file, &bytes);

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(bytes, 3);
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        st = ps_manifest_parse(wrongs[i].text, strlen(wrongs[i].text), 2, count_file, &bytes);
        assert_int_equal(st.code, PS_DATA_LOSS);
        if (strstr(st.text, wrongs[i].says) == NULL) {
            fail_msg("%s does not name %s", st.text, wrongs[i].says);
        }
    }
}

static void make_dir(const char *job_folder, const char *name)
{
    char path[128];
    ps_status st;

    snprintf(path, sizeof path, "%s/checkpoints%s", job_folder, name);
    st = ps_dir_make(path);
    assert_string_equal(st.text, "");
}

/* Otherwise the job would go on from a later one, which has the weights that led to the
 * divergence. */
static void going_back_removes_later_ones_even_if_latest_cannot_be_written(void **state)
{
    temp_dir folder = temp_dir_create();
    uint64_t *steps;

    (void)state;
    make_dir(folder.path, "");
    make_dir(folder.path, "/0000000000010");
    make_dir(folder.path, "/0000000000020");
    make_dir(folder.path, "/0000000000030");
    make_dir(folder.path, "/LATEST"); /* so that no file can have its name */
    make_dir(folder.path, "/LATEST/full");
    ps_checkpoint_go_back(folder.path, 10);
    assert_int_equal(ps_checkpoint_list(folder.path, &steps), 1);
    assert_int_equal(steps[0], 10);
    free(steps);
    temp_dir_destroy(&folder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_become_clocks),
        cmocka_unit_test(rounds_of_several_steps_become_clocks),
        cmocka_unit_test(the_name_of_a_checkpoint_is_a_job_and_a_step),
        cmocka_unit_test(all_nodes_have_it_before_files_are_collected),
        cmocka_unit_test(nobody_waits_for_a_node_that_has_left),
        cmocka_unit_test(one_that_a_node_missed_is_named_later),
        cmocka_unit_test(one_that_is_collected_is_too_old_for_a_later_wish),
        cmocka_unit_test(one_at_which_workers_stay_is_passing_unless_it_was_asked_for_too),
        cmocka_unit_test(one_at_which_workers_stay_is_one_of_its_own),
        cmocka_unit_test(the_newest_and_multiples_are_kept),
        cmocka_unit_test(what_a_kept_one_needs_is_kept),
        cmocka_unit_test(a_chain_ends_when_it_is_long_or_large),
        cmocka_unit_test(the_best_is_the_first_of_equal_ones),
        cmocka_unit_test(facts_are_read_or_refused_by_name),
        cmocka_unit_test(a_manifest_is_read_or_refused_by_place),
        cmocka_unit_test(going_back_removes_later_ones_even_if_latest_cannot_be_written),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
