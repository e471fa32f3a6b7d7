/* SPDX-License-Identifier: Apache-2.0 */
/* test_ahead.c - blocks read by another thread are the blocks, whatever is asked for when. */
#include "common/base/xalloc.h"
#include "common/data/ahead.h"
#include "common/data/dataset_impl.h"
#include "common/data/nonzero.h"
#include "common/data/sink.h"

#include "tests/support/data_rig.h"

#include <stdlib.h>

enum { SIDE = 4, FEATURES = SIDE * SIDE, COUNT = 200, BLOCK = 10, BLOCKS = COUNT / BLOCK };
enum { CLASSES = 3 };

typedef struct rig {
    ps_dataset *data;
    ps_assignment *assignment;
    ps_feed *feed;
    uint32_t order[COUNT];
    float x[BLOCK * FEATURES], targets[BLOCK], x_plain[BLOCK * FEATURES], targets_plain[BLOCK];
} rig;

/* --- samples, in each form that may lie in a file ------------------------------------- */

/* Of sample i: its class, and byte k; some are zero. */
static uint8_t class_of(size_t i)
{
    return (uint8_t)(i % CLASSES);
}

static uint8_t byte_of(size_t i, size_t k)
{
    return (i + k) % 3 == 0 ? 0 : (uint8_t)(7 * i + 16 * k);
}

typedef ps_samples *make_fn(size_t memory);

/* More than `memory` bytes lie in a file. */
static ps_spill *spill_of(size_t memory, void (*write)(size_t i, void *row), size_t bytes)
{
    ps_spill *spill = ps_spill_create(NULL, memory);
    uint8_t *row = ps_xmalloc(bytes);
    ps_status st = ps_ok();

    for (size_t i = 0; i < COUNT && ps_is_ok(&st); i++) {
        write(i, row);
        st = ps_spill_add(spill, row, bytes);
    }
    if (ps_is_ok(&st)) {
        st = ps_spill_end(spill);
    }
    assert_string_equal(st.text, "");
    free(row);
    return spill;
}

static void write_record(size_t i, void *row)
{
    uint8_t *record = row;

    record[0] = class_of(i);
    for (size_t k = 0; k < FEATURES; k++) {
        record[1 + k] = byte_of(i, k);
    }
}

static ps_samples *make_records(size_t memory)
{
    return ps_byte_records_create(FEATURES, spill_of(memory, write_record, 1 + FEATURES));
}

static ps_samples *make_nonzero(size_t memory)
{
    ps_nonzero *images = ps_nonzero_create(FEATURES, NULL, memory);
    ps_samples *samples = NULL;
    uint8_t record[1 + FEATURES];
    ps_status st = ps_ok();

    for (size_t i = 0; i < COUNT && ps_is_ok(&st); i++) {
        write_record(i, record);
        st = ps_nonzero_add(images, record + 1, record[0]);
    }
    if (ps_is_ok(&st)) {
        st = ps_nonzero_end(images, &samples);
    }
    assert_string_equal(st.text, "");
    return samples;
}

static void write_floats(size_t i, void *row)
{
    float *values = row;

    values[0] = class_of(i);
    for (size_t k = 0; k < FEATURES; k++) {
        values[1 + k] = (float)byte_of(i, k) * 0.37f;
    }
}

static ps_samples *make_rows(size_t memory)
{
    return ps_float_records_create(1, FEATURES, NULL,
                                   spill_of(memory, write_floats, (1 + FEATURES) * sizeof(float)));
}

/* Two values, of which the second stands for FEATURES - 1 features. */
static void write_classes(size_t i, void *row)
{
    const float values[] = {class_of(i), (float)i, (float)(i % (FEATURES - 1))};

    memcpy(row, values, sizeof values);
}

static ps_samples *make_one_hot(size_t memory)
{
    static const uint32_t sizes[] = {0, FEATURES - 1};

    return ps_float_records_create(1, 2, sizes, spill_of(memory, write_classes, 3 * sizeof(float)));
}

static make_fn *const forms[] = {make_records, make_nonzero, make_rows, make_one_hot};

/* Flipped by draw, so that a sample of another epoch is another sample. */
static void begin_with(rig *r, ps_samples *train, ps_samples *test)
{
    const ps_data_facts facts = {.shape = {1, SIDE, SIDE},
                                 .features = FEATURES,
                                 .classes = CLASSES,
                                 .target_width = 1,
                                 .train_count = COUNT,
                                 .test_count = COUNT};
    const ps_assign *iid = ps_assign_find("iid");
    ps_params params = ps_params_default(iid->params);
    ps_feed_conf conf = {.seed = 9, .block_size = BLOCK, .transform_count = 1};
    ps_status st = iid->make(2, &params, &r->assignment);

    assert_string_equal(st.text, "");
    r->data = ps_dataset_create(&facts);
    r->data->split[PS_TRAIN] = train;
    r->data->split[PS_TEST] = test;
    conf.assignment = r->assignment;
    conf.transforms[0].transform = ps_transform_find("flip");
    assert_non_null(conf.transforms[0].transform);
    conf.transforms[0].params = ps_params_default(conf.transforms[0].transform->params);
    st = ps_feed_create(r->data, &conf, &r->feed);
    assert_string_equal(st.text, "");
    ps_feed_order(r->feed, 0, r->order, COUNT);
}

static void begin(rig *r, size_t memory)
{
    begin_with(r, make_records(memory), make_records(memory));
}

static void end(rig *r)
{
    ps_feed_destroy(r->feed);
    ps_dataset_destroy(r->data);
    ps_assignment_destroy(r->assignment);
}

static ps_ahead *make(rig *r)
{
    ps_ahead *ahead = NULL;
    ps_status st = ps_ahead_create(r->feed, BLOCK, &ahead);

    assert_string_equal(st.text, "");
    return ahead;
}

/* Takes the n samples from place `at` of the order, which are then what they should be. */
static bool take(rig *r, ps_ahead *ahead, uint64_t epoch, size_t at, uint32_t n)
{
    bool was_wanted = ps_ahead_take(ahead, epoch, r->order + at, n, r->x, r->targets);

    ps_feed_gather(r->feed, epoch, PS_TRAIN, r->order + at, 0, n, r->x_plain, r->targets_plain);
    assert_memory_equal(r->x, r->x_plain, n * FEATURES * sizeof(float));
    assert_memory_equal(r->targets, r->targets_plain, n * sizeof(float));
    return was_wanted;
}

static bool want(rig *r, ps_ahead *ahead, uint64_t epoch, size_t at)
{
    return ps_ahead_want(ahead, epoch, r->order + at, BLOCK);
}

/* --- the tests ------------------------------------------------------------------------ */

static void samples_in_a_file_are_far(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        rig r;

        begin_with(&r, forms[f](1 << 20), forms[f](1 << 20));
        assert_false(ps_feed_is_far(r.feed));
        end(&r);
        begin_with(&r, forms[f](1000), forms[f](1000));
        assert_true(ps_feed_is_far(r.feed));
        end(&r);
    }
}

/* A whole epoch, as many blocks wanted as there is room for. */
static void train(rig *r, ps_ahead *ahead, uint64_t epoch)
{
    size_t next = 1;

    for (size_t k = 0; k < BLOCKS; k++) {
        assert_true(take(r, ahead, epoch, k * BLOCK, BLOCK) == (k > 0));
        while (next < BLOCKS && want(r, ahead, epoch, next * BLOCK)) {
            next++;
        }
        assert_true(next > k + 1 || next == BLOCKS);
    }
}

static void blocks_wanted_before_are_those_gathered_at_once(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        for (size_t in_memory = 0; in_memory < 2; in_memory++) {
            size_t memory = in_memory << 20;
            ps_ahead *ahead;
            rig r;

            begin_with(&r, forms[f](memory), forms[f](memory));
            ahead = make(&r);
            for (uint64_t epoch = 0; epoch < 3; epoch++) {
                train(&r, ahead, epoch);
            }
            ps_ahead_destroy(ahead);
            end(&r);
        }
    }
}

static void there_is_room_for_some_blocks_and_for_one_more_when_one_is_taken(void **state)
{
    size_t room = 0;
    ps_ahead *ahead;
    rig r;

    (void)state;
    begin(&r, 0);
    ahead = make(&r);
    assert_true(ps_ahead_memory(ahead) > BLOCK * (1 + FEATURES));
    while (want(&r, ahead, 0, room * BLOCK)) {
        room++;
        assert_true(room < BLOCKS);
    }
    assert_true(room > 1);
    assert_false(want(&r, ahead, 0, room * BLOCK));
    assert_true(take(&r, ahead, 0, 0, BLOCK));
    assert_true(want(&r, ahead, 0, room * BLOCK));
    assert_false(want(&r, ahead, 0, 0));
    for (size_t k = 1; k <= room; k++) {
        assert_true(take(&r, ahead, 0, k * BLOCK, BLOCK));
    }
    ps_ahead_destroy(ahead);
    end(&r);
}

static void blocks_that_are_passed_over_are_not_wanted_any_more(void **state)
{
    ps_ahead *ahead;
    rig r;

    (void)state;
    begin(&r, 0);
    ahead = make(&r);
    for (size_t k = 0; k < 6; k++) {
        assert_true(want(&r, ahead, 0, k * BLOCK));
    }
    assert_true(take(&r, ahead, 0, 3 * BLOCK, BLOCK));
    assert_true(take(&r, ahead, 0, 4 * BLOCK, BLOCK));
    assert_false(take(&r, ahead, 0, 2 * BLOCK, BLOCK)); /* it came before */
    assert_false(take(&r, ahead, 0, 5 * BLOCK, BLOCK)); /* what came after was given up with it */
    ps_ahead_destroy(ahead);
    end(&r);
}

static void another_block_than_was_wanted_is_right_too(void **state)
{
    ps_ahead *ahead;
    rig r;

    (void)state;
    begin(&r, 0);
    ahead = make(&r);
    assert_true(want(&r, ahead, 0, 0));
    assert_false(take(&r, ahead, 0, BLOCK, BLOCK)); /* another place */
    assert_false(take(&r, ahead, 0, 0, BLOCK));     /* it is not kept */
    assert_true(want(&r, ahead, 0, 0));
    assert_false(take(&r, ahead, 1, 0, BLOCK)); /* another epoch */
    assert_true(want(&r, ahead, 0, 0));
    assert_false(take(&r, ahead, 0, 0, BLOCK - 1)); /* fewer */
    assert_true(ps_ahead_want(ahead, 1, r.order, 1));
    assert_true(take(&r, ahead, 1, 0, 1));
    ps_ahead_destroy(ahead);
    end(&r);
}

/* Every third sample does not come back. */
static ps_stored stored_but_a_third(const ps_samples *samples, uint32_t at, void *room)
{
    (void)samples;
    memset(room, 1, sizeof(float));
    return (ps_stored){at % 3 == 0 ? NULL : room, sizeof(float)};
}

static void row_of_ones(const ps_samples *samples, const void *stored, uint64_t key, float *x,
                        float *targets)
{
    (void)samples;
    (void)stored;
    (void)key;
    for (size_t k = 0; k < FEATURES; k++) {
        x[k] = 1;
    }
    targets[0] = 1;
}

static void keep(ps_samples *samples)
{
    (void)samples;
}

static void a_sample_that_does_not_come_back_is_told_of(void **state)
{
    ps_samples some = {.stored = stored_but_a_third,
                       .room = sizeof(float),
                       .make = row_of_ones,
                       .destroy = keep,
                       .is_far = true};
    ps_ahead *ahead;
    ps_status st;
    rig r;

    (void)state;
    begin_with(&r, &some, &some);
    ahead = make(&r);
    assert_true(want(&r, ahead, 0, 0));
    assert_int_equal(ps_feed_status(r.feed).code, PS_OK);
    assert_true(ps_ahead_take(ahead, 0, r.order, BLOCK, r.x, r.targets));
    st = ps_feed_status(r.feed);
    assert_int_equal(st.code, PS_DATA_LOSS);
    for (size_t i = 0; i < BLOCK; i++) {
        float want = r.order[i] % 3 == 0 ? 0.0f : 1.0f;

        assert_true(r.x[i * FEATURES] == want && r.targets[i] == want);
    }
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

        for (int k = 0; k < i % 4; k++) {
            assert_true(want(&r, ahead, 0, 0));
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
        cmocka_unit_test(there_is_room_for_some_blocks_and_for_one_more_when_one_is_taken),
        cmocka_unit_test(blocks_that_are_passed_over_are_not_wanted_any_more),
        cmocka_unit_test(another_block_than_was_wanted_is_right_too),
        cmocka_unit_test(a_sample_that_does_not_come_back_is_told_of),
        cmocka_unit_test(what_nobody_takes_is_left),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
