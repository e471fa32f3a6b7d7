/* SPDX-License-Identifier: Apache-2.0 */
/* test_ahead.c - blocks read by another thread are the blocks, whatever is asked for when. */
#include "common/base/xalloc.h"
#include "common/data/ahead.h"
#include "common/data/samples.h"
#include "common/data/spill.h"

#include "tests/support/data_rig.h"

#include <stdlib.h>

enum { SIDE = 4, FEATURES = SIDE * SIDE, COUNT = 200, BLOCK = 10, CLASSES = 3 };

typedef struct rig {
    ps_dataset *data;
    ps_assignment *assignment;
    ps_feed *feed;
    uint32_t order[COUNT];
    float *x, *targets; /* change places */
    float x_plain[BLOCK * FEATURES], targets_plain[BLOCK];
} rig;

/* Sample i: class i % CLASSES, pixel k of it 7 i + 16 k; more than `memory` bytes in a file. */
static ps_dataset *images(size_t memory)
{
    const ps_data_facts facts = {.shape = {1, SIDE, SIDE},
                                 .features = FEATURES,
                                 .classes = CLASSES,
                                 .target_width = 1,
                                 .train_count = COUNT,
                                 .test_count = COUNT};
    ps_dataset *data = ps_dataset_create(&facts);

    for (size_t s = 0; s < 2; s++) {
        ps_spill *spill = ps_spill_create(NULL, memory);
        uint8_t record[1 + FEATURES];
        ps_status st;

        for (size_t i = 0; i < COUNT; i++) {
            record[0] = (uint8_t)(i % CLASSES);
            for (size_t k = 0; k < FEATURES; k++) {
                record[1 + k] = (uint8_t)(7 * i + 16 * k);
            }
            st = ps_spill_add(spill, record, sizeof record);
            assert_string_equal(st.text, "");
        }
        st = ps_spill_end(spill);
        assert_string_equal(st.text, "");
        data->split[s] = ps_records_create(FEATURES, spill);
    }
    return data;
}

/* Flipped by draw, so that a sample of another epoch is another sample. */
static void begin(rig *r, size_t memory)
{
    const ps_assign *iid = ps_assign_find("iid");
    ps_params params = ps_params_default(iid->params);
    ps_feed_conf conf = {.seed = 9, .block_size = BLOCK, .transform_count = 1};
    ps_status st = iid->make(2, &params, &r->assignment);

    assert_string_equal(st.text, "");
    r->data = images(memory);
    conf.assignment = r->assignment;
    conf.transforms[0].transform = ps_transform_find("flip");
    assert_non_null(conf.transforms[0].transform);
    conf.transforms[0].params = ps_params_default(conf.transforms[0].transform->params);
    st = ps_feed_create(r->data, &conf, &r->feed);
    assert_string_equal(st.text, "");
    ps_feed_order(r->feed, 0, r->order);
    r->x = ps_xcalloc(BLOCK * FEATURES, sizeof *r->x);
    r->targets = ps_xcalloc(BLOCK, sizeof *r->targets);
}

static void end(rig *r)
{
    free(r->x);
    free(r->targets);
    ps_feed_destroy(r->feed);
    ps_dataset_destroy(r->data);
    ps_assignment_destroy(r->assignment);
}

/* Takes the n samples from place `at` of the order, which are then what they should be. */
static bool take(rig *r, ps_ahead *ahead, uint64_t epoch, size_t at, uint32_t n)
{
    bool was_wanted = ps_ahead_take(ahead, epoch, r->order + at, n, &r->x, &r->targets);

    ps_feed_gather(r->feed, epoch, PS_TRAIN, r->order + at, 0, n, r->x_plain, r->targets_plain);
    assert_memory_equal(r->x, r->x_plain, n * FEATURES * sizeof(float));
    assert_memory_equal(r->targets, r->targets_plain, n * sizeof(float));
    return was_wanted;
}

static ps_ahead *make(rig *r)
{
    ps_ahead *ahead = NULL;
    ps_status st = ps_ahead_create(r->feed, BLOCK, &ahead);

    assert_string_equal(st.text, "");
    return ahead;
}

static void samples_in_a_file_are_far(void **state)
{
    rig r;

    (void)state;
    begin(&r, 1 << 20);
    assert_false(ps_feed_is_far(r.feed));
    end(&r);
    begin(&r, 1000);
    assert_true(ps_feed_is_far(r.feed));
    end(&r);
}

static void blocks_wanted_before_are_those_gathered_at_once(void **state)
{
    rig r;
    ps_ahead *ahead;

    (void)state;
    begin(&r, 0);
    ahead = make(&r);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        assert_false(take(&r, ahead, epoch, 0, BLOCK));
        for (size_t at = BLOCK; at < COUNT; at += BLOCK) {
            ps_ahead_want(ahead, epoch, r.order + at, BLOCK);
            assert_true(take(&r, ahead, epoch, at, BLOCK));
        }
    }
    ps_ahead_destroy(ahead);
    end(&r);
}

static void another_block_than_was_wanted_is_right_too(void **state)
{
    rig r;
    ps_ahead *ahead;

    (void)state;
    begin(&r, 0);
    ahead = make(&r);
    ps_ahead_want(ahead, 0, r.order, BLOCK);
    assert_false(take(&r, ahead, 0, BLOCK, BLOCK)); /* another place */
    assert_false(take(&r, ahead, 0, 0, BLOCK));     /* it is not kept */
    ps_ahead_want(ahead, 0, r.order, BLOCK);
    assert_false(take(&r, ahead, 1, 0, BLOCK)); /* another epoch */
    ps_ahead_want(ahead, 0, r.order, BLOCK);
    assert_false(take(&r, ahead, 0, 0, BLOCK - 1)); /* fewer */
    ps_ahead_want(ahead, 1, r.order, 1);
    assert_true(take(&r, ahead, 1, 0, 1));
    ps_ahead_destroy(ahead);
    end(&r);
}

static void what_nobody_takes_is_left(void **state)
{
    rig r;

    (void)state;
    begin(&r, 0);
    for (int i = 0; i < 20; i++) {
        ps_ahead *ahead = make(&r);

        if (i % 2 == 0) {
            ps_ahead_want(ahead, 0, r.order, BLOCK);
        }
        ps_ahead_destroy(ahead);
    }
    ps_ahead_destroy(NULL);
    end(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_in_a_file_are_far),
        cmocka_unit_test(blocks_wanted_before_are_those_gathered_at_once),
        cmocka_unit_test(another_block_than_was_wanted_is_right_too),
        cmocka_unit_test(what_nobody_takes_is_left),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
