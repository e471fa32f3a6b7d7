/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard_pull.c - what a shard answers to pulls, and when. */
#include "tests/support/cmocka_all.h"

#include "tests/support/shard_world.h"

#include "common/base/draw.h"
#include "common/codec/wrap.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 20 };

static void push_all(const world *w, ps_store *shard, uint32_t worker, uint64_t clock)
{
    for (uint32_t s = 0; s < w->conf.slice_count; s++) {
        ps_store_outcome outcome;
        ps_status st = world_push(w, shard, worker, clock, worker, s, &outcome);

        assert_int_equal(st.code, PS_OK);
    }
}

static ps_store_answer next(ps_store *shard, uint32_t worker, ps_store_piece *pieces)
{
    ps_store_answer answer;

    ps_store_pull_next(shard, worker, MAX_BYTES, pieces, WORLD_SLICES, &answer);
    return answer;
}

static ps_code begin(ps_store *shard, uint32_t worker, uint64_t clock)
{
    return ps_store_pull_begin(shard, worker, clock).code;
}

static void the_first_pull_gives_the_initial_weights(void **state)
{
    ps_store_piece pieces[WORLD_SLICES];
    float initial[138], got[100];
    ps_store_answer answer;
    world w;
    ps_store *shard;
    size_t at = 0;

    (void)state;
    world_init(&w, "bsp", 2, 3);
    w.conf.weights = initial;
    for (size_t i = 0; i < 138; i++) {
        initial[i] = (float)i;
    }
    shard = ps_store_create(&w.conf);
    assert_int_equal(next(shard, 0, pieces).count, 0); /* no pull, no answer */
    assert_int_equal(begin(shard, 0, 0), PS_OK);
    assert_true(ps_store_is_waiting(shard, 0));
    answer = next(shard, 0, pieces);
    assert_int_equal(answer.count, 3);
    assert_int_equal(answer.clock, 0);
    assert_int_equal(answer.version, 0);
    assert_int_equal(answer.bytes, 138 * 4);
    assert_true(answer.is_last);
    assert_false(ps_store_is_waiting(shard, 0));
    for (size_t i = 0; i < 3; i++) {
        ps_status st =
            ps_codec_decode(w.slices[i].down, pieces[i].head, pieces[i].buf->data + pieces[i].at,
                            pieces[i].len, PS_INTO_SET, got, w.slices[i].n);

        assert_int_equal(st.code, PS_OK);
        assert_int_equal(pieces[i].head->slice, w.slices[i].index);
        assert_memory_equal(got, initial + at, w.slices[i].n * sizeof *got);
        at += w.slices[i].n;
    }
    assert_int_equal(next(shard, 0, pieces).count, 0);
    ps_store_destroy(shard);
}

static void a_pull_waits_slice_by_slice(void **state)
{
    ps_store_piece pieces[WORLD_SLICES];
    ps_store_outcome outcome;
    ps_store_answer answer;
    ps_status st;
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 2, 3);
    shard = ps_store_create(&w.conf);
    assert_int_equal(begin(shard, 0, 1), PS_OK);
    assert_int_equal(next(shard, 0, pieces).count, 0);
    push_all(&w, shard, 0, 0);
    assert_int_equal(next(shard, 0, pieces).count, 0);
    st = world_push(&w, shard, 1, 0, 1, 1, &outcome); /* slice 1 is complete */
    assert_int_equal(st.code, PS_OK);
    answer = next(shard, 0, pieces);
    assert_int_equal(answer.count, 1);
    assert_int_equal(pieces[0].head->slice, w.slices[1].index);
    assert_int_equal(answer.version, 1);
    assert_false(answer.is_last);
    assert_int_equal(next(shard, 0, pieces).count, 0); /* once */
    push_all(&w, shard, 1, 0);
    answer = next(shard, 0, pieces);
    assert_int_equal(answer.count, 2);
    assert_int_equal(pieces[0].head->slice, w.slices[0].index);
    assert_int_equal(pieces[1].head->slice, w.slices[2].index);
    assert_true(answer.is_last);
    ps_store_destroy(shard);
}

static void a_message_holds_no_more_than_is_asked_for(void **state)
{
    ps_store_piece pieces[WORLD_SLICES];
    ps_store_answer answer;
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 1, 3);
    for (uint32_t s = 0; s < 3; s++) {
        w.slices[s].n = PS_CODEC_VALUES - s;
    }
    shard = ps_store_create(&w.conf);
    assert_int_equal(begin(shard, 0, 0), PS_OK);
    ps_store_pull_next(shard, 0, 2 * 4 * PS_CODEC_VALUES - 4, pieces, WORLD_SLICES, &answer);
    assert_int_equal(answer.count, 2); /* exactly full */
    assert_false(answer.is_last);
    ps_store_pull_next(shard, 0, 4 * PS_CODEC_VALUES, pieces, 0, &answer);
    assert_int_equal(answer.count, 0);
    ps_store_pull_next(shard, 0, 4 * PS_CODEC_VALUES, pieces, WORLD_SLICES, &answer);
    assert_int_equal(answer.count, 1);
    assert_int_equal(pieces[0].head->slice, w.slices[2].index);
    assert_true(answer.is_last);
    ps_store_destroy(shard);
}

static void the_same_clock_again_starts_anew_and_an_earlier_one_is_refused(void **state)
{
    ps_store_piece pieces[WORLD_SLICES];
    ps_store_answer answer;
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 1, 3);
    shard = ps_store_create(&w.conf);
    push_all(&w, shard, 0, 0);
    assert_int_equal(begin(shard, 0, 1), PS_OK);
    ps_store_pull_next(shard, 0, MAX_BYTES, pieces, 1, &answer); /* this one is lost */
    assert_int_equal(answer.count, 1);
    assert_int_equal(begin(shard, 0, 2), PS_FAILED_PRECONDITION); /* 1 is not answered */
    assert_int_equal(begin(shard, 0, 0), PS_OUT_OF_RANGE);
    assert_int_equal(begin(shard, 0, 1), PS_OK);
    assert_int_equal(next(shard, 0, pieces).count, 3);
    assert_int_equal(begin(shard, 0, 1), PS_OK); /* answered, and lost again */
    assert_int_equal(next(shard, 0, pieces).count, 3);
    assert_int_equal(begin(shard, 0, 2), PS_OK);
    assert_int_equal(next(shard, 0, pieces).count, 0);
    ps_store_pull_cancel(shard, 0);
    assert_false(ps_store_is_waiting(shard, 0));
    push_all(&w, shard, 0, 1);
    assert_int_equal(next(shard, 0, pieces).count, 0);
    assert_int_equal(begin(shard, 0, 1), PS_OUT_OF_RANGE);
    assert_int_equal(begin(shard, 0, 3), PS_OK);
    assert_int_equal(begin(shard, 1, 0), PS_INVALID_ARGUMENT);
    ps_store_destroy(shard);
}

static void a_snapshot_is_encoded_once_for_all_workers(void **state)
{
    ps_store_piece first[WORLD_SLICES], pieces[WORLD_SLICES];
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 4, 3);
    world_codecs(&w, "f32", "int8");
    shard = ps_store_create(&w.conf);
    for (uint32_t worker = 0; worker < 4; worker++) {
        assert_int_equal(begin(shard, worker, 0), PS_OK);
        assert_int_equal(next(shard, worker, worker == 0 ? first : pieces).count, 3);
        assert_true(worker == 0 || pieces[2].buf == first[2].buf);
    }
    assert_int_equal(ps_store_counters_of(shard)->encoded, 3);
    assert_int_equal(ps_store_counters_of(shard)->given, 12);
    assert_int_equal(ps_store_counters_of(shard)->bytes_out, 4 * 138);
    assert_int_equal(ps_store_counters_of(shard)->f32_bytes_out, 4 * 4 * 138);
    ps_store_destroy(shard);
}

static void a_snapshot_in_flight_is_not_written_again(void **state)
{
    ps_store_piece pieces[WORLD_SLICES];
    ps_buf *held, *free_again;
    uint8_t before[400];
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 1, 1);
    shard = ps_store_create(&w.conf);
    assert_int_equal(begin(shard, 0, 0), PS_OK);
    assert_int_equal(next(shard, 0, pieces).count, 1);
    held = ps_buf_ref(pieces[0].buf);
    memcpy(before, held->data, sizeof before);
    push_all(&w, shard, 0, 0);
    assert_int_equal(begin(shard, 0, 1), PS_OK);
    assert_int_equal(next(shard, 0, pieces).count, 1);
    assert_ptr_not_equal(pieces[0].buf, held);
    free_again = pieces[0].buf;
    assert_memory_equal(held->data, before, sizeof before);
    push_all(&w, shard, 0, 1);
    assert_int_equal(begin(shard, 0, 2), PS_OK);
    assert_int_equal(next(shard, 0, pieces).count, 1);
    assert_ptr_equal(pieces[0].buf, free_again); /* nobody had a reference */
    ps_store_destroy(shard);
    assert_memory_equal(held->data, before, sizeof before); /* outlives the shard */
    ps_buf_unref(held);
}

static void rounding_of_snapshots_depends_on_seed_slice_and_version_only(void **state)
{
    ps_store_piece a[WORLD_SLICES], b[WORLD_SLICES];
    world w, alone;
    ps_store *both, *one;

    (void)state;
    world_init(&w, "bsp", 1, 3);
    world_codecs(&w, "f32", "int8");
    alone = w;
    alone.conf.slices = &alone.slices[2]; /* slice 2 on a server of its own */
    alone.conf.slice_count = 1;
    both = ps_store_create(&w.conf);
    one = ps_store_create(&alone.conf);
    for (uint64_t clock = 0; clock < 2; clock++) {
        push_all(&w, both, 0, clock);
        alone.slices[0] = alone.slices[2];
        push_all(&alone, one, 0, clock);
    }
    assert_int_equal(begin(both, 0, 2), PS_OK);
    assert_int_equal(begin(one, 0, 2), PS_OK);
    assert_int_equal(next(both, 0, a).count, 3);
    assert_int_equal(next(one, 0, b).count, 1);
    assert_int_equal(a[2].len, b[0].len);
    assert_memory_equal(a[2].buf->data, b[0].buf->data, b[0].len);
    ps_store_destroy(both);
    ps_store_destroy(one);
}

static void ssp_holds_the_fast_worker_back(void **state)
{
    ps_store_piece pieces[WORLD_SLICES];
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "ssp", 2, 2);
    w.conf.policy_params.v[0] = 1;
    shard = ps_store_create(&w.conf);
    push_all(&w, shard, 0, 0);
    assert_int_equal(begin(shard, 0, 1), PS_OK);
    assert_int_equal(next(shard, 0, pieces).count, 2);
    assert_int_equal(begin(shard, 0, 2), PS_OK);
    assert_int_equal(next(shard, 0, pieces).count, 0);
    push_all(&w, shard, 1, 0);
    assert_int_equal(next(shard, 0, pieces).count, 0); /* its own push of clock 1 is missing */
    push_all(&w, shard, 0, 1);
    assert_int_equal(next(shard, 0, pieces).count, 2);
    ps_store_destroy(shard);
}

static void asp_answers_at_once_and_a_loss_ends_the_pull(void **state)
{
    ps_store_piece pieces[WORLD_SLICES];
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "asp", 2, 2);
    shard = ps_store_create(&w.conf);
    assert_int_equal(begin(shard, 0, 7), PS_OK);
    assert_int_equal(next(shard, 0, pieces).count, 2);
    assert_int_equal(begin(shard, 0, 8), PS_OK);
    assert_int_equal(ps_store_lose_worker(shard, 0).code, PS_OK);
    assert_false(ps_store_is_waiting(shard, 0));
    assert_int_equal(next(shard, 0, pieces).count, 0);
    ps_store_destroy(shard);
}

/* Worker 0 and 1 hold the same block; worker 0 goes on while 1 is answered. */
static void an_answer_under_bsp_has_one_version(void **state)
{
    ps_store_piece pieces[WORLD_SLICES];
    ps_store_outcome outcome;
    ps_store_answer answer;
    ps_status st;
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 2, 3);
    world_blocks(&w, 1);
    world_hold(&w, 0, 0);
    world_hold(&w, 1, 0);
    shard = ps_store_create(&w.conf);
    st = world_push(&w, shard, 0, 0, 0, 1, &outcome);
    assert_int_equal(st.code, PS_OK);
    assert_int_equal(begin(shard, 1, 0), PS_OK);
    answer = next(shard, 1, pieces);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.version, 0);
    answer = next(shard, 1, pieces);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.version, 1); /* the step went on without worker 1 */
    assert_int_equal(pieces[0].head->slice, w.slices[1].index);
    answer = next(shard, 1, pieces);
    assert_int_equal(answer.version, 0);
    assert_true(answer.is_last);
    ps_store_destroy(shard);
}

static void a_shard_without_slices_has_no_pull_to_answer(void **state)
{
    ps_store_answer answer;
    world w;
    ps_store *shard;

    (void)state;
    world_init(&w, "bsp", 2, 0);
    shard = ps_store_create(&w.conf);
    assert_int_equal(begin(shard, 0, 5), PS_OK);
    assert_false(ps_store_is_waiting(shard, 0));
    answer = next(shard, 0, NULL);
    assert_true(answer.count == 0 && !answer.is_last);
    assert_int_equal(ps_store_push_zeros(shard, 0, 9, 0).code, PS_OK);
    assert_true(ps_store_is_in(shard, 9, 0));
    assert_int_equal(ps_store_value_count(shard), 0);
    assert_int_equal(ps_store_waits_for(shard, NULL, 0), 0);
    ps_store_destroy(shard);
}

/* More slices than a word of the bitmaps has bits. */
static void many_slices_come_once_and_in_order(void **state)
{
    enum { MANY = 200 };
    static ps_store_slice slices[MANY];
    ps_store_piece pieces[7];
    ps_store_answer answer = {0};
    world w;
    ps_store *shard;
    uint32_t seen = 0;

    (void)state;
    world_init(&w, "bsp", 1, 1);
    for (uint32_t s = 0; s < MANY; s++) {
        slices[s] = w.slices[0];
        slices[s].index = 2 * s;
        slices[s].n = 1 + s % 5;
    }
    w.conf.slices = slices;
    w.conf.slice_count = MANY;
    shard = ps_store_create(&w.conf);
    assert_int_equal(begin(shard, 0, 0), PS_OK);
    while (!answer.is_last) {
        ps_store_pull_next(shard, 0, MAX_BYTES, pieces, 7, &answer);
        assert_true(answer.count > 0);
        for (size_t i = 0; i < answer.count; i++) {
            assert_int_equal(pieces[i].head->slice, 2 * seen);
            seen++;
        }
    }
    assert_int_equal(seen, MANY);
    ps_store_destroy(shard);
}

/* ---- A codec that encodes several slices at a time ---- */

enum { TOGETHER = 3 };

static struct {
    const float *x[TOGETHER];
    uint64_t key[TOGETHER];
    float first[TOGETHER];
    size_t count, runs, alone;
    bool is_run;
} together;

static bool add_slice(const ps_params *params, uint64_t key, const float *x, size_t n, float **room)
{
    (void)params, (void)room;
    if (together.is_run || together.count == TOGETHER || n == 0) {
        return false;
    }
    together.x[together.count] = x;
    together.key[together.count] = key;
    together.first[together.count++] = x[0];
    return true;
}

static void run_slices(void)
{
    together.is_run = together.count > 0;
    together.runs += together.is_run;
}

static void end_slices(void)
{
    together.count = 0;
    together.is_run = false;
}

static size_t encode_one(const ps_params *params, uint64_t key, const float *x, size_t n,
                         uint8_t *out, ps_encoding *head)
{
    size_t i = 0;

    while (i < together.count && (together.x[i] != x || together.key[i] != key)) {
        i++;
    }
    if (i < together.count && together.is_run) {
        assert_true(together.first[i] == x[0]);
    } else {
        together.alone++;
    }
    return ps_codec_find("int8")->encode(params, key, x, n, out, head);
}

static const ps_codec_ahead some_ahead = {
    .encode = add_slice, .run = run_slices, .end = end_slices};

/* Pulls all slices of a clock for both workers, `cap` an answer, and appends the bytes to `got`.
 * Returns their number. */
static size_t pull_all(ps_store *shard, uint64_t clock, size_t cap, uint8_t *got)
{
    size_t len = 0;

    for (uint32_t worker = 0; worker < 2; worker++) {
        ps_store_answer answer = {0};
        ps_store_piece pieces[WORLD_SLICES];

        assert_int_equal(begin(shard, worker, clock), PS_OK);
        while (!answer.is_last) {
            ps_store_pull_next(shard, worker, MAX_BYTES, pieces, cap, &answer);
            for (size_t i = 0; i < answer.count; i++) {
                memcpy(got + len, pieces[i].buf->data + pieces[i].at, pieces[i].len);
                len += pieces[i].len;
            }
        }
    }
    return len;
}

/* The bytes are those of slices that are encoded one by one, with and without feedback, however few
 * slices an answer holds; each version of a slice is encoded once. */
static void slices_that_are_encoded_together_have_the_same_bytes(void **state)
{
    static uint8_t bytes[2][1 << 14];
    ps_codec codec = *ps_codec_find("int8");
    enum { CLOCKS = 3 };

    (void)state;
    codec.encode = encode_one;
    codec.ahead = &some_ahead;
    ps_codec_know_scripts(&codec);
    for (size_t c = 0; c < 4; c++) {
        size_t cap = c % 2 == 0 ? WORLD_SLICES : 1, len[2];

        for (size_t way = 0; way < 2; way++) {
            ps_store *shard;
            world w;

            world_init(&w, "bsp", 2, WORLD_SLICES);
            world_codecs(&w, "f32", "int8");
            for (uint32_t s = 0; s < WORLD_SLICES; s++) {
                w.slices[s].down_params.v[codec.own + PS_WRAP_FEEDBACK] = c < 2;
                w.slices[s].down = way == 0 ? w.slices[s].down : &codec;
            }
            shard = ps_store_create(&w.conf);
            memset(&together, 0, sizeof together);
            len[way] = 0;
            for (uint64_t clock = 0; clock < CLOCKS; clock++) {
                push_all(&w, shard, 0, clock);
                push_all(&w, shard, 1, clock);
                len[way] += pull_all(shard, clock + 1, cap, bytes[way] + len[way]);
            }
            assert_int_equal(ps_store_counters_of(shard)->encoded, CLOCKS * WORLD_SLICES);
            ps_store_destroy(shard);
        }
        assert_int_equal(together.alone, 0);
        assert_int_equal(together.runs, CLOCKS * ((WORLD_SLICES + TOGETHER - 1) / TOGETHER));
        assert_int_equal(len[0], len[1]);
        assert_memory_equal(bytes[0], bytes[1], len[0]);
    }
    ps_codec_know_scripts(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_pull_gives_the_initial_weights),
        cmocka_unit_test(a_pull_waits_slice_by_slice),
        cmocka_unit_test(a_message_holds_no_more_than_is_asked_for),
        cmocka_unit_test(the_same_clock_again_starts_anew_and_an_earlier_one_is_refused),
        cmocka_unit_test(a_snapshot_is_encoded_once_for_all_workers),
        cmocka_unit_test(a_snapshot_in_flight_is_not_written_again),
        cmocka_unit_test(rounding_of_snapshots_depends_on_seed_slice_and_version_only),
        cmocka_unit_test(ssp_holds_the_fast_worker_back),
        cmocka_unit_test(asp_answers_at_once_and_a_loss_ends_the_pull),
        cmocka_unit_test(an_answer_under_bsp_has_one_version),
        cmocka_unit_test(a_shard_without_slices_has_no_pull_to_answer),
        cmocka_unit_test(many_slices_come_once_and_in_order),
        cmocka_unit_test(slices_that_are_encoded_together_have_the_same_bytes),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
