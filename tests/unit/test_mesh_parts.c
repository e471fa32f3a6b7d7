/* SPDX-License-Identifier: Apache-2.0 */
/* test_mesh_parts.c - parts of gradients in exchanges among workers: codecs of their own, what
 * those keep from step to step, and what is said of a part while others are not there yet. */
#include "tests/support/cmocka_all.h"

#include "tests/support/mesh_world.h"
#include "tests/support/seed.h"

#include "common/base/xalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed; /* of this run */

enum { NODES = 4, FIRST = 40000, SECOND = 300 };

/* Two parts, the first larger than a packet. */
static void begin(mesh_world *w, const char *mesh, ps_mesh_codec first, ps_mesh_codec second)
{
    ps_status st;

    *w = (mesh_world){.part_count = 2,
                      .part = {{.n = FIRST, .up = first, .down = first},
                               {.n = SECOND, .up = second, .down = second}}};
    st = mesh_world_init_parts(w, mesh, "iid", NODES, 1, seed);
    assert_string_equal(st.text, "");
}

static ps_mesh_codec f32(void)
{
    return mesh_world_codec("f32", "");
}

static void must_be_ok(const mesh_world *w)
{
    for (uint32_t i = 0; i < w->nodes; i++) {
        assert_string_equal(w->failure[i].text, "");
        assert_memory_equal(w->sum[i], w->sum[0], w->n * sizeof(float));
    }
}

/* Mean distance from the true sums of values [at, at + n). */
static double distance(const mesh_world *w, const float *sum, size_t at, size_t n)
{
    double off = 0;

    for (size_t i = at; i < at + n; i++) {
        off += fabs((double)sum[i] - mesh_world_true(w, i));
    }
    return off / (double)n;
}

static const char *const meshes[] = {"plain", "ndc", "ring", "tree"};
enum { MESHES = sizeof meshes / sizeof meshes[0] };

static void each_part_goes_through_its_own_codec(void **state)
{
    (void)state;
    for (size_t m = 0; m < MESHES; m++) {
        mesh_world w;

        begin(&w, meshes[m], mesh_world_codec("int8", ""), f32());
        mesh_world_run_many(&w, 2);
        must_be_ok(&w);
        assert_true(distance(&w, w.sum[0], 0, FIRST) > 1e-4);
        assert_true(distance(&w, w.sum[0], FIRST, SECOND) < 1e-6);
        mesh_world_fini(&w);
    }
}

/* What a codec that does several cells together was given. It refuses one of five. */
static uint32_t given;

static bool take_four(void)
{
    return ++given % 5 != 0;
}

static bool encode_ahead(const ps_params *params, uint64_t key, const float *x, size_t n,
                         float **room)
{
    (void)params, (void)key, (void)x, (void)n, (void)room;
    return take_four();
}

static bool decode_ahead(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len, size_t n)
{
    (void)head, (void)in, (void)len, (void)n;
    return take_four();
}

static void what_is_put_off_has_the_same_bits(void **state)
{
    static const ps_codec_ahead ahead = {.encode = encode_ahead, .decode = decode_ahead};
    static const char *const numbers[] = {"", "error_feedback=1"};

    (void)state;
    for (size_t i = 0; i < MESHES * 2; i++) {
        ps_mesh_codec codec = mesh_world_codec("int8", numbers[i % 2]);
        ps_codec slow = *codec.codec;
        mesh_world at_once, put_off;

        slow.ahead = &ahead;
        begin(&at_once, meshes[i / 2], codec, f32());
        begin(&put_off, meshes[i / 2], (ps_mesh_codec){&slow, codec.params}, f32());
        put_off.holds = true;
        put_off.comes_twice = true;
        assert_false(ps_mesh_may_block(at_once.node[0]));
        assert_true(ps_mesh_may_block(put_off.node[0]));
        given = 0;
        for (uint64_t step = 0; step < 4; step++) {
            mesh_world_run(&at_once, step);
            mesh_world_run(&put_off, step);
            must_be_ok(&put_off);
            assert_memory_equal(put_off.sum[0], at_once.sum[0], at_once.n * sizeof(float));
        }
        assert_true(given >= 5);
        mesh_world_fini(&at_once);
        mesh_world_fini(&put_off);
    }
}

/* Takes no cell in addition to others, so each of those put off is done for itself. */
static bool take_none(const ps_params *params, uint64_t key, const float *x, size_t n, float **room)
{
    (void)params, (void)key, (void)x, (void)n, (void)room;
    given++;
    return false;
}

static uint32_t wanted; /* how often the exchange says that it is wanted */

static bool is_wanted(void *arg)
{
    (void)arg;
    return wanted > 0 && wanted-- > 0;
}

/* Has a node put off all of its first step, and releases it with `st`. Returns what comes of it. */
static ps_status release_one(const char *mesh, ps_mesh_codec codec, ps_status st)
{
    mesh_world w = {.part_count = 2,
                    .part = {{.n = FIRST, .up = codec, .down = codec},
                             {.n = SECOND, .up = codec, .down = codec}},
                    .is_wanted = is_wanted};
    ps_status failure = mesh_world_init_parts(&w, mesh, "iid", NODES, 1, seed);

    assert_string_equal(failure.text, "");
    given = 0;
    ps_mesh_hold(w.node[0]);
    failure = ps_mesh_begin(w.node[0], 0, w.held[0]);
    for (uint32_t p = 0; p < w.part_count && ps_is_ok(&failure); p++) {
        failure = ps_mesh_ready(w.node[0], 0, p, 0);
    }
    assert_string_equal(failure.text, "");
    assert_int_equal(given, 0);
    st = ps_mesh_release(w.node[0], st);
    mesh_world_fini(&w);
    return st;
}

static void what_is_put_off_is_not_done_when_nobody_wants_it(void **state)
{
    static const ps_codec_ahead ahead = {.encode = take_none, .decode = decode_ahead};
    ps_mesh_codec codec = mesh_world_codec("int8", "");
    ps_codec slow = *codec.codec;
    uint32_t most = 0;

    (void)state;
    slow.ahead = &ahead;
    codec.codec = &slow;
    for (size_t m = 0; m < MESHES; m++) {
        uint32_t all;

        wanted = UINT32_MAX;
        assert_int_equal(release_one(meshes[m], codec, ps_ok()).code, PS_OK);
        all = UINT32_MAX - wanted; /* asked before each that is encoded or decoded */
        most = given > most ? given : most;
        assert_true(all >= given);
        for (uint32_t n = 0; n < all; n++) {
            wanted = n;
            assert_int_equal(release_one(meshes[m], codec, ps_ok()).code, PS_CANCELLED);
            assert_true(given <= n);
        }
        wanted = UINT32_MAX;
        assert_int_equal(release_one(meshes[m], codec, ps_fail(PS_DATA_LOSS, "before")).code,
                         PS_DATA_LOSS);
        assert_int_equal(given, 0);
    }
    assert_true(most > 1);
}

static void the_way_down_has_codecs_of_its_own(void **state)
{
    (void)state;
    for (size_t m = 2; m < MESHES; m++) {
        mesh_world w = {.part_count = 1,
                        .part = {{.n = FIRST, .up = f32(), .down = mesh_world_codec("f16", "")}}};
        ps_status st = mesh_world_init_parts(&w, meshes[m], "iid", NODES, 1, seed);
        uint64_t whole = 2 * (NODES - 1) * (uint64_t)FIRST * 4;

        assert_true(ps_is_ok(&st));
        mesh_world_run_many(&w, 1);
        must_be_ok(&w);
        assert_int_equal(mesh_world_counters(&w).bytes_copied, whole / 2 + whole / 4);
        for (size_t i = 0; i < w.n; i++) { /* rounded once: 2^-11, where that is not too small */
            double truth = mesh_world_true(&w, i);

            assert_true(fabs((double)w.sum[0][i] - truth) <= fabs(truth) / 2048 + 1e-6);
        }
        mesh_world_fini(&w);
    }
}

/* The gradients are the same in every step, so what the sums come to on the average is the
 * true one, but for what is kept at the end. */
static double apart_after(const char *mesh, ps_mesh_codec codec, uint64_t steps)
{
    float *mean;
    mesh_world w;
    double apart;

    begin(&w, mesh, codec, f32());
    mean = ps_xcalloc(w.n, sizeof *mean);
    for (uint64_t step = 0; step < steps; step++) {
        mesh_world_run(&w, step);
        must_be_ok(&w);
        for (size_t i = 0; i < w.n; i++) {
            mean[i] += w.sum[0][i] / (float)steps;
        }
    }
    apart = distance(&w, mean, 0, FIRST);
    free(mean);
    mesh_world_fini(&w);
    return apart;
}

static void what_codecs_lose_comes_later_with_error_feedback(void **state)
{
    static const char *const codecs[] = {"onebit", "topk", "intn"};

    (void)state;
    for (size_t m = 0; m < MESHES; m++) {
        for (size_t k = 0; k < sizeof codecs / sizeof codecs[0]; k++) {
            ps_mesh_codec codec = mesh_world_codec(
                codecs[k], k == 1 ? "error_feedback=1,fraction=0.2" : "error_feedback=1");
            double first = apart_after(meshes[m], codec, 1),
                   later = apart_after(meshes[m], codec, 20);

            if (later > first / 4) {
                fail_msg("%s, %s: %g apart after a step, %g after 20", meshes[m], codecs[k], first,
                         later);
            }
        }
    }
}

/* What is said again after a time-out is what was said: nothing is kept twice. */
static void packets_that_get_lost_change_no_bit_of_what_is_kept(void **state)
{
    ps_mesh_codec codec = mesh_world_codec("onebit", "error_feedback=1");

    (void)state;
    for (size_t m = 0; m < MESHES; m++) {
        mesh_world w, lossy;

        begin(&w, meshes[m], codec, f32());
        begin(&lossy, meshes[m], codec, f32());
        for (uint64_t step = 0; step < 5; step++) {
            lossy.loss = 0.3;
            lossy.ticks_alone = step % 2 == 1;
            mesh_world_run(&w, step);
            mesh_world_run(&lossy, step);
        }
        must_be_ok(&w);
        must_be_ok(&lossy);
        assert_true(mesh_world_counters(&lossy).repairs > 0);
        assert_memory_equal(w.sum[0], lossy.sum[0], w.n * sizeof(float));
        mesh_world_fini(&w);
        mesh_world_fini(&lossy);
    }
}

static void without_it_what_is_lost_stays_lost(void **state)
{
    ps_mesh_codec codec = mesh_world_codec("topk", "error_feedback=0,fraction=0.2");

    (void)state;
    assert_true(apart_after("plain", codec, 20) > 0.9 * apart_after("plain", codec, 1));
}

/* EF21: the standing sum of changes comes near the gradients, which stay the same. */
static void differences_add_up_to_the_gradient(void **state)
{
    ps_mesh_codec codec = mesh_world_codec("topk", "error_feedback=0,fraction=0.2,difference=1");

    (void)state;
    for (size_t m = 0; m < 2; m++) {
        mesh_world w;
        double first;

        begin(&w, meshes[m], codec, f32());
        mesh_world_run(&w, 0);
        must_be_ok(&w);
        first = distance(&w, w.sum[0], 0, FIRST);
        for (uint64_t step = 1; step < 8; step++) {
            mesh_world_run(&w, step);
        }
        must_be_ok(&w);
        assert_true(first > 0.01);
        assert_true(distance(&w, w.sum[0], 0, FIRST) < 1e-6);
        assert_true(distance(&w, w.sum[0], FIRST, SECOND) < 1e-6);
        mesh_world_fini(&w);
    }
}

static void a_vote_is_of_all_workers(void **state)
{
    mesh_world w;

    (void)state;
    begin(&w, "plain", mesh_world_codec("vote", "error_feedback=0"), f32());
    mesh_world_run_many(&w, 1);
    must_be_ok(&w);
    for (size_t i = 0; i < FIRST; i++) {
        int votes = 0;

        for (uint32_t b = 0; b < NODES; b++) {
            votes += w.block[b][i] > 0 ? 1 : w.block[b][i] < 0 ? -1 : 0;
        }
        if (i % 7 != 3 && votes != 0) { /* what zeros vote is the codec's business */
            assert_true((votes > 0) == (w.sum[0][i] > 0));
        }
    }
    mesh_world_fini(&w);
}

/* --- while the rest is being computed ------------------------------------------- */

/* All that node i has to say to j now, which takes it; how many packets. */
static uint32_t hand_over(mesh_world *w, uint32_t i, uint32_t j)
{
    uint32_t count = 0;
    ps_mesh_out out;

    while (ps_mesh_next(w->node[i], &out)) {
        for (uint32_t t = 0; t < out.count; t++) {
            if (out.targets[t] == j) {
                ps_status st = ps_mesh_take(w->node[j], out.packet);

                assert_string_equal(st.text, "");
                count++;
            }
        }
        ps_packet_unref(out.packet);
    }
    return count;
}

static void must_be_ready(mesh_world *w, uint32_t i, uint32_t part, int64_t now_us)
{
    ps_status st = ps_mesh_ready(w->node[i], 0, part, now_us);

    assert_string_equal(st.text, "");
}

static void a_part_is_said_before_the_others_are_there(void **state)
{
    (void)state;
    for (size_t m = 0; m < MESHES; m++) {
        uint32_t from = strcmp(meshes[m], "tree") == 0 ? 3 : 0; /* a leaf, and its parent */
        uint32_t to = 1;
        mesh_world w;

        begin(&w, meshes[m], f32(), f32());
        for (uint32_t i = 0; i < NODES; i++) {
            ps_status st = ps_mesh_begin(w.node[i], 0, w.held[i]);

            assert_true(ps_is_ok(&st));
        }
        assert_int_equal(hand_over(&w, from, to), 0);
        must_be_ready(&w, from, 0, 5);
        assert_true(hand_over(&w, from, to) > 0);
        assert_true(ps_mesh_counters_of(w.node[to])->values_taken > 0);
        assert_int_equal(ps_mesh_deadline(w.node[from]), INT64_MAX); /* it is not waiting yet */
        must_be_ready(&w, from, 1, 7);
        assert_int_equal(ps_mesh_deadline(w.node[from]), 7 + MESH_WINDOW_US);
        mesh_world_fini(&w);
    }
}

static void a_sum_goes_on_when_this_node_s_own_is_there(void **state)
{
    uint64_t taken;
    mesh_world w;

    (void)state;
    begin(&w, "ring", f32(), f32());
    for (uint32_t i = 0; i < NODES; i++) {
        ps_status st = ps_mesh_begin(w.node[i], 0, w.held[i]);

        assert_true(ps_is_ok(&st));
    }
    must_be_ready(&w, 0, 0, 0);
    assert_true(hand_over(&w, 0, 1) > 0);
    taken = ps_mesh_counters_of(w.node[1])->values_taken;
    assert_int_equal(hand_over(&w, 1, 2), 0); /* parked */
    must_be_ready(&w, 1, 0, 0);
    assert_true(hand_over(&w, 1, 2) > 0);
    assert_true(ps_mesh_counters_of(w.node[2])->values_taken > taken); /* and its own share */
    mesh_world_fini(&w);
}

/* ccdc's words are of several blocks: it says nothing before it has all. */
static void what_needs_all_blocks_waits_for_them(void **state)
{
    mesh_world w;

    (void)state;
    begin(&w, "ccdc", f32(), f32());
    for (uint32_t i = 0; i < 2; i++) {
        ps_status st = ps_mesh_begin(w.node[i], 0, w.held[i]);

        assert_true(ps_is_ok(&st));
    }
    must_be_ready(&w, 0, 1, 0);
    assert_int_equal(hand_over(&w, 0, 1), 0);
    must_be_ready(&w, 0, 0, 0);
    assert_true(hand_over(&w, 0, 1) > 0);
    assert_int_equal(ps_mesh_counters_of(w.node[1])->values_taken, 0); /* it waits there */
    must_be_ready(&w, 1, 0, 0);
    assert_false(ps_mesh_has_begun(w.node[1]));
    must_be_ready(&w, 1, 1, 0);
    assert_true(ps_mesh_counters_of(w.node[1])->values_taken > 0);
    mesh_world_fini(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_goes_through_its_own_codec),
        cmocka_unit_test(what_is_put_off_has_the_same_bits),
        cmocka_unit_test(what_is_put_off_is_not_done_when_nobody_wants_it),
        cmocka_unit_test(the_way_down_has_codecs_of_its_own),
        cmocka_unit_test(what_codecs_lose_comes_later_with_error_feedback),
        cmocka_unit_test(packets_that_get_lost_change_no_bit_of_what_is_kept),
        cmocka_unit_test(without_it_what_is_lost_stays_lost),
        cmocka_unit_test(differences_add_up_to_the_gradient),
        cmocka_unit_test(a_vote_is_of_all_workers),
        cmocka_unit_test(a_part_is_said_before_the_others_are_there),
        cmocka_unit_test(a_sum_goes_on_when_this_node_s_own_is_there),
        cmocka_unit_test(what_needs_all_blocks_waits_for_them),
    };

    seed = test_seed();
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
