/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard_merge.c - what a shard does for codecs beyond adding up what they decode. */
#include "tests/support/cmocka_all.h"

#include "tests/support/shard_world.h"

#include "common/codec/wrap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, VALUES = 100 };

/* Pushes of all workers to the one slice, in a turned order. */
static void push_clock(const world *w, ps_store *shard, uint64_t clock)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        uint32_t worker = (uint32_t)(i + clock + 1) % WORKERS;
        ps_store_outcome outcome;
        ps_status st = world_push(w, shard, worker, clock, worker, 0, &outcome);

        assert_int_equal(st.code, PS_OK);
    }
    assert_int_equal(ps_store_clock(shard), clock + 1);
}

static void votes_are_counted_and_the_majority_steps(void **state)
{
    const ps_codec *vote = ps_codec_find("vote");
    world w;
    ps_store *shard;
    float expected[VALUES] = {0};

    (void)state;
    world_init(&w, "bsp", WORKERS, 1);
    world_codecs(&w, "vote", "f32");
    w.conf.descent.optim = NULL;
    w.conf.merge_scale = 0.5f;
    shard = ps_store_create(&w.conf);
    for (uint64_t clock = 0; clock < 4; clock++) {
        static gift g;
        float scale = 0;
        int votes[VALUES] = {0};

        for (uint32_t k = 0; k < WORKERS; k++) {
            float x[VALUES];

            world_values(&w.slices[0], clock, k, x);
            world_gift(&w.slices[0], clock, k, &g);
            assert_ptr_equal(ps_codec_of_wire(g.head.msg.codec_case), vote);
            scale += g.head.msg.vote->scale;
            for (size_t i = 0; i < VALUES; i++) {
                votes[i] += signbit(x[i]) ? -1 : 1;
            }
        }
        push_clock(&w, shard, clock);
        for (size_t i = 0; i < VALUES; i++) {
            expected[i] -= 0.5f * (votes[i] > 0 ? scale : -scale); /* of three, no tie */
            assert_true(fabsf(ps_store_weights(shard)[i] - expected[i]) < 1e-5f);
        }
    }
    ps_store_destroy(shard);
}

static void whole_numbers_are_added_and_give_the_sum(void **state)
{
    world w;
    ps_store *undecoded;
    float expected[VALUES] = {0};

    (void)state;
    world_init(&w, "bsp", WORKERS, 1);
    world_codecs(&w, "intsum", "f32");
    w.conf.descent.optim = NULL;
    undecoded = ps_store_create(&w.conf);
    for (uint64_t clock = 0; clock < 3; clock++) {
        for (uint32_t k = 0; k < WORKERS; k++) {
            static gift g;
            float y[VALUES];
            ps_status st;

            world_gift(&w.slices[0], clock, k, &g);
            st = ps_codec_decode(w.slices[0].up, &g.head.msg, g.bytes, g.len, PS_INTO_SET, y,
                                 VALUES);
            assert_int_equal(st.code, PS_OK);
            for (size_t i = 0; i < VALUES; i++) {
                expected[i] -= y[i];
            }
        }
        push_clock(&w, undecoded, clock);
        for (size_t i = 0; i < VALUES; i++) {
            assert_true(fabsf(ps_store_weights(undecoded)[i] - expected[i]) < 1e-4f);
        }
    }
    ps_store_destroy(undecoded);
}

/* w -= the sum of everything that ever came. */
static void differences_step_on_the_standing_sum(void **state)
{
    world w;
    ps_store *shard;
    float standing[VALUES] = {0}, expected[VALUES] = {0};

    (void)state;
    world_init(&w, "bsp", WORKERS, 1);
    w.conf.descent.optim = NULL;
    w.slices[0].up_params.v[w.slices[0].up->own + PS_WRAP_DIFFERENCE] = 1;
    shard = ps_store_create(&w.conf);
    for (uint64_t clock = 0; clock < 4; clock++) {
        float sum[VALUES] = {0};

        for (uint32_t k = 0; k < WORKERS; k++) {
            float x[VALUES];

            world_values(&w.slices[0], clock, k, x);
            for (size_t i = 0; i < VALUES; i++) {
                sum[i] += x[i];
            }
        }
        push_clock(&w, shard, clock);
        for (size_t i = 0; i < VALUES; i++) {
            standing[i] += sum[i];
            expected[i] -= standing[i];
            assert_true(ps_store_weights(shard)[i] == expected[i]);
        }
    }
    ps_store_destroy(shard);
}

/* Nothing sent is nothing changed: the step is taken with what is standing. */
static void who_leaves_out_a_difference_stands_by_the_last(void **state)
{
    world w;
    ps_store *shard;
    float x[VALUES], before;
    ps_status st;

    (void)state;
    world_init(&w, "bsp", WORKERS, 1);
    w.conf.descent.optim = NULL;
    w.slices[0].up_params.v[w.slices[0].up->own + PS_WRAP_DIFFERENCE] = 1;
    shard = ps_store_create(&w.conf);
    push_clock(&w, shard, 0);
    before = ps_store_weights(shard)[7];
    world_values(&w.slices[0], 0, 0, x);
    for (uint32_t k = 0; k < WORKERS; k++) {
        st = ps_store_push_zeros(shard, k, 1, k);
        assert_int_equal(st.code, PS_OK);
    }
    assert_true(before != 0.0f && ps_store_weights(shard)[7] == 2 * before);
    ps_store_destroy(shard);
}

/* With error feedback, what workers were given is on the whole what the weights
 * were: the sums differ by what is owed, at most one encoding's error. */
static void weights_given_make_up_for_what_was_left_out(void **state)
{
    enum { CLOCKS = 50 };
    double off[2] = {0};

    (void)state;
    for (int feeds = 0; feeds < 2; feeds++) {
        double sum[VALUES] = {0}, given[VALUES] = {0};
        world w;
        ps_store *shard;

        world_init(&w, "bsp", WORKERS, 1);
        world_codecs(&w, "f32", "sign");
        w.slices[0].down_params.v[w.slices[0].down->own + PS_WRAP_FEEDBACK] = feeds;
        w.conf.merge_scale = 0.01f;
        shard = ps_store_create(&w.conf);
        for (uint64_t clock = 0; clock < CLOCKS; clock++) {
            ps_store_piece piece;
            ps_store_answer answer;
            float y[VALUES];
            ps_status st;

            push_clock(&w, shard, clock);
            for (uint32_t k = 0; k < WORKERS; k++) { /* one encoding for all */
                st = ps_store_pull_begin(shard, k, clock + 1);
                assert_int_equal(st.code, PS_OK);
                ps_store_pull_next(shard, k, 1 << 20, &piece, 1, &answer);
                assert_true(answer.is_last && answer.count == 1);
            }
            st = ps_codec_decode(w.slices[0].down, piece.head, piece.buf->data + piece.at,
                                 piece.len, PS_INTO_SET, y, VALUES);
            assert_int_equal(st.code, PS_OK);
            for (size_t i = 0; i < VALUES; i++) {
                sum[i] += (double)ps_store_weights(shard)[i];
                given[i] += (double)y[i];
            }
        }
        assert_int_equal(ps_store_counters_of(shard)->encoded, CLOCKS);
        for (size_t i = 0; i < VALUES; i++) {
            off[feeds] += fabs(sum[i] - given[i]);
        }
        ps_store_destroy(shard);
    }
    assert_true(off[1] < off[0] / 5);
}

/* The linker puts these in the place of the two libraries'. */
static size_t decompressions;
int __real_LZ4_decompress_safe(const char *in, char *out, int len, int cap);    // NOLINT
int __wrap_LZ4_decompress_safe(const char *in, char *out, int len, int cap);    // NOLINT
size_t __real_ZSTD_decompress(void *out, size_t cap, const void *in, size_t n); // NOLINT
size_t __wrap_ZSTD_decompress(void *out, size_t cap, const void *in, size_t n); // NOLINT

int __wrap_LZ4_decompress_safe(const char *in, char *out, int len, int cap) // NOLINT
{
    decompressions++;
    return __real_LZ4_decompress_safe(in, out, len, cap);
}

size_t __wrap_ZSTD_decompress(void *out, size_t cap, const void *in, size_t n) // NOLINT
{
    decompressions++;
    return __real_ZSTD_decompress(out, cap, in, n);
}

/* Of pushes of few different values, that of worker 0 last, so that others are parked. */
static void push_compressed(const char *codec, double lossless, float *weights)
{
    uint64_t bytes = 0;
    world w;
    ps_store *shard;

    world_init(&w, "bsp", WORKERS, 1);
    world_codecs(&w, codec, "f32");
    w.conf.descent.optim = NULL;
    w.slices[0].up_params.v[w.slices[0].up->own + PS_WRAP_LOSSLESS] = lossless;
    shard = ps_store_create(&w.conf);
    for (uint32_t worker = WORKERS; worker-- > 0;) {
        float x[VALUES];
        static gift g;
        ps_store_outcome outcome;
        ps_status st;

        for (size_t i = 0; i < VALUES; i++) {
            x[i] = (float)(1 + worker) * (i < VALUES / 2 ? 1.0f : -0.5f);
        }
        g.len = ps_codec_encode(w.slices[0].up, &w.slices[0].up_params, worker, w.slices[0].index,
                                x, VALUES, g.bytes, &g.head);
        assert_int_equal(g.head.msg.lossless, (int)lossless);
        bytes += g.len;
        st = ps_store_push(shard, worker, 0, worker, &g.head.msg, g.bytes, g.len, &outcome);
        assert_int_equal(st.code, PS_OK);
    }
    assert_int_equal(ps_store_clock(shard), 1);
    assert_int_equal(ps_store_counters_of(shard)->bytes_in, bytes);
    memcpy(weights, ps_store_weights(shard), VALUES * sizeof *weights);
    ps_store_destroy(shard);
}

static void what_is_compressed_is_decompressed_once(void **state)
{
    static const char *const codecs[] = {"f32", "int8", "intsum", "bf16"};

    (void)state;
    for (size_t c = 0; c < sizeof codecs / sizeof codecs[0]; c++) {
        float plain[VALUES], compressed[VALUES];

        push_compressed(codecs[c], 0, plain);
        for (int lossless = 1; lossless <= 2; lossless++) {
            decompressions = 0;
            push_compressed(codecs[c], lossless, compressed);
            assert_int_equal(decompressions, WORKERS);
            assert_memory_equal(plain, compressed, sizeof plain);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(votes_are_counted_and_the_majority_steps),
        cmocka_unit_test(whole_numbers_are_added_and_give_the_sum),
        cmocka_unit_test(differences_step_on_the_standing_sum),
        cmocka_unit_test(who_leaves_out_a_difference_stands_by_the_last),
        cmocka_unit_test(weights_given_make_up_for_what_was_left_out),
        cmocka_unit_test(what_is_compressed_is_decompressed_once),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
