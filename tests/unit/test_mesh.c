/* SPDX-License-Identifier: Apache-2.0 */
/* test_mesh.c - exchanges among workers: every exchange with every codec, over a
 * network that shuffles, loses and repeats. */
#include "tests/support/cmocka_all.h"

#include "tests/support/mesh_world.h"
#include "tests/support/seed.h"

#include "common/base/draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed; /* of this run */

typedef struct shape {
    const char *assign;
    uint32_t nodes, redundancy;
    size_t n;
} shape;

static const shape shapes[] = {
    {"iid", 1, 1, 10},        {"iid", 2, 1, 1},        {"iid", 3, 1, 20000}, {"iid", 5, 1, 33},
    {"duplicate", 4, 2, 100}, {"iid", 4, 2, 17},       {"iid", 4, 3, 101},   {"iid", 3, 3, 12},
    {"iid", 7, 1, 3},         {"duplicate", 6, 3, 50},
};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void must_be_ok(const mesh_world *w)
{
    for (uint32_t i = 0; i < w->nodes; i++) {
        if (!w->is_dead[i]) {
            assert_string_equal(w->failure[i].text, "");
        }
    }
}

static void must_have_one_sum(const mesh_world *w)
{
    uint32_t first = 0;

    while (w->is_dead[first]) {
        first++;
    }
    for (uint32_t i = first + 1; i < w->nodes; i++) {
        if (!w->is_dead[i]) {
            assert_memory_equal(w->sum[first], w->sum[i], w->n * sizeof(float));
        }
    }
}

static void must_be_near(const mesh_world *w, double error)
{
    for (uint32_t i = 0; i < w->nodes; i++) {
        for (size_t k = 0; k < w->n && !w->is_dead[i]; k++) {
            double truth = mesh_world_true(w, k);

            if (fabs((double)w->sum[i][k] - truth) > error) {
                fail_msg("worker %u, value %zu: %.9g instead of %.9g", i, k, (double)w->sum[i][k],
                         truth);
            }
        }
    }
}

static ps_status begin(mesh_world *w, const char *mesh, const shape *s, const char *codec,
                       uint64_t draw)
{
    return mesh_world_init(w, mesh, s->assign, s->nodes, s->redundancy, s->n, codec, draw);
}

/* Where it is refused the reason is not empty. */
static bool starts(mesh_world *w, const char *mesh, const shape *s, const char *codec,
                   uint64_t draw)
{
    ps_status st = begin(w, mesh, s, codec, draw);

    if (!ps_is_ok(&st)) {
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        assert_string_not_equal(st.text, "");
        mesh_world_fini(w);
    }
    return ps_is_ok(&st);
}

/* A node's first step, with all that it brings. */
static void begin_whole(mesh_world *w, uint32_t i)
{
    ps_status st = ps_mesh_begin(w->node[i], 0, w->held[i]);

    assert_true(ps_is_ok(&st));
    for (uint32_t held = 0; held < w->assignment->held_count[i]; held++) {
        for (uint32_t p = 0; p < w->part_count; p++) {
            st = ps_mesh_ready(w->node[i], held, p, 0);
            assert_true(ps_is_ok(&st));
        }
    }
}

/* --- every exchange with every codec -------------------------------------------- */

static void try_codec(const ps_codec *codec, void *arg)
{
    const ps_mesh *mesh = arg;

    for (size_t i = 0; i < SHAPES; i++) {
        mesh_world w, again;
        bool is_plain = strcmp(codec->name, "f32") == 0;

        if (!starts(&w, mesh->name, &shapes[i], codec->name, seed + i)) {
            /* Plain numbers are refused for the assignment alone. */
            assert_true(!is_plain || strcmp(mesh->name, "ccdc") == 0);
            continue;
        }
        mesh_world_run_many(&w, 3);
        must_be_ok(&w);
        must_have_one_sum(&w);
        if (is_plain) {
            must_be_near(&w, 1e-5);
        }
        /* Another order of arrival, the same bits. */
        assert_true(starts(&again, mesh->name, &shapes[i], codec->name, seed + i));
        again.draws = 1000003;
        again.comes_twice = i % 2 == 1;
        mesh_world_run_many(&again, 3);
        must_be_ok(&again);
        assert_memory_equal(w.sum[0], again.sum[0], w.n * sizeof(float));
        mesh_world_fini(&again);
        mesh_world_fini(&w);
    }
}

static void try_mesh(const ps_mesh *mesh, void *arg)
{
    (void)arg;
    ps_codec_each(try_codec, (void *)mesh);
}

static void all_nodes_have_the_same_bits_whatever_the_order(void **state)
{
    (void)state;
    ps_mesh_each(try_mesh, NULL);
}

/* A codec that is unbiased is so on the average over steps' draws. */
static void a_lossy_sum_is_near_the_true_one(void **state)
{
    static const char *const names[] = {"plain", "ndc", "ring", "tree"};
    const shape s = {"iid", 4, 1, 1000};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        mesh_world w;
        double most = 0;

        assert_true(starts(&w, names[i], &s, "int8", seed));
        for (size_t k = 0; k < w.n; k++) {
            for (uint32_t b = 0; b < w.assignment->block_count; b++) {
                most = fmax(most, fabs((double)w.block[b][k]));
            }
        }
        mesh_world_run(&w, 0);
        must_be_ok(&w);
        /* A step of an int8 is max / 127; there are at most n encodings of sums of
         * at most n blocks, and one at the end. */
        must_be_near(&w, (4 + 1) * 4 * most / 127);
        mesh_world_fini(&w);
    }
}

/* --- ccdc ----------------------------------------------------------------------- */

static void ccdc_is_plain_to_a_ten_millionth_with_few_multicasts(void **state)
{
    static const struct {
        uint32_t n, r;
        uint64_t multicasts;
    } cases[] = {{4, 1, 12}, {4, 2, 12}, {4, 3, 4}, {5, 3, 20}, {6, 3, 60}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t n = 59; n <= 61; n++) { /* 60 can be divided by r, the others not */
            const shape s = {"iid", cases[i].n, cases[i].r, n};
            mesh_world coded, plain;
            ps_mesh_counters c;

            assert_true(starts(&coded, "ccdc", &s, "f32", seed));
            assert_true(starts(&plain, "plain", &s, "f32", seed));
            mesh_world_run(&coded, 0);
            mesh_world_run(&plain, 0);
            must_be_ok(&coded);
            must_have_one_sum(&coded);
            for (size_t k = 0; k < n; k++) {
                double mean = coded.assignment->block_count;

                assert_true(fabs((double)coded.sum[0][k] - (double)plain.sum[0][k]) / mean < 1e-7);
            }
            c = mesh_world_counters(&coded);
            assert_int_equal(c.packets, cases[i].multicasts);
            assert_int_equal(c.copies, cases[i].multicasts * cases[i].r);
            /* |w| / r each, rounded up */
            assert_int_equal(c.bytes,
                             cases[i].multicasts * ((n + s.redundancy - 1) / s.redundancy) * 4);
            mesh_world_fini(&coded);
            mesh_world_fini(&plain);
        }
    }
}

static void ccdc_says_an_rth_of_ndc(void **state)
{
    const shape s = {"iid", 6, 3, 60};
    mesh_world coded, naive;

    (void)state;
    assert_true(starts(&coded, "ccdc", &s, "f32", seed));
    assert_true(starts(&naive, "ndc", &s, "f32", seed));
    mesh_world_run(&coded, 0);
    mesh_world_run(&naive, 0);
    assert_int_equal(3 * mesh_world_counters(&coded).bytes,
                     mesh_world_counters(&naive).bytes_copied);
    mesh_world_fini(&coded);
    mesh_world_fini(&naive);
}

static void ccdc_does_not_wrap(void **state)
{
    static const float wrong[] = {21.48f, -22.0f, INFINITY, NAN};
    const shape s = {"iid", 4, 2, 10};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        mesh_world w;

        assert_true(starts(&w, "ccdc", &s, "f32", seed));
        w.block[0][9] = wrong[i];
        mesh_world_run(&w, 0);
        assert_int_equal(w.failure[0].code, PS_OUT_OF_RANGE);
        assert_non_null(strstr(w.failure[0].text, "value 9 of block 0"));
        mesh_world_fini(&w);
    }
}

static void ccdc_sees_holders_that_differ_where_it_can(void **state)
{
    const shape s = {"iid", 4, 3, 7}; /* segments of 3, 3, 1 and two zeros */
    mesh_world w;
    ps_packet *packet = ps_packet_create(12);
    ps_status st;

    (void)state;
    assert_true(starts(&w, "ccdc", &s, "f32", seed));
    begin_whole(&w, 0);
    packet->from = 3; /* whose segments are the last of every block */
    packet->len = 12;
    memset(packet->bytes, 0x5a, 12);
    st = ps_mesh_take(w.node[0], packet);
    assert_int_equal(st.code, PS_DATA_LOSS);
    assert_non_null(strstr(st.text, "worker 3"));
    ps_packet_unref(packet);
    mesh_world_fini(&w);
}

static void what_cannot_work_is_refused_with_the_reason(void **state)
{
    static const struct {
        const char *mesh, *assign, *codec, *why;
    } cases[] = {
        {"ccdc", "iid", "int8", "f32 is allowed"}, {"ccdc", "duplicate", "f32", "assignment iid"},
        {"ring", "iid", "topk", "topk"},           {"ring", "iid", "sign", "sign"},
        {"tree", "iid", "onebit", "onebit"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mesh_world w;
        ps_status st =
            mesh_world_init(&w, cases[i].mesh, cases[i].assign, 4, 2, 10, cases[i].codec, seed);

        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        assert_non_null(strstr(st.text, cases[i].why));
        mesh_world_fini(&w);
    }
}

/* --- traffic -------------------------------------------------------------------- */

static void traffic_is_what_the_formulas_say(void **state)
{
    enum { N = 6 * 7 * 100 };
    const shape s = {"iid", 6, 1, N}, twice = {"iid", 4, 2, N};
    mesh_world w;

    (void)state;
    assert_true(starts(&w, "ring", &s, "f32", seed));
    mesh_world_run(&w, 0);
    for (uint32_t i = 0; i < 6; i++) { /* 2 (n - 1) / n |w| from each */
        assert_int_equal(ps_mesh_counters_of(w.node[i])->bytes_copied, 2 * 5 * N / 6 * 4);
    }
    mesh_world_fini(&w);
    assert_true(starts(&w, "tree", &s, "f32", seed));
    mesh_world_run(&w, 0); /* up and down each of n - 1 edges */
    assert_int_equal(mesh_world_counters(&w).bytes_copied, 2 * 5 * N * 4);
    mesh_world_fini(&w);
    for (int i = 0; i < 2; i++) { /* C(4, 2) (4 - 2) |w| */
        assert_true(starts(&w, i == 0 ? "plain" : "ndc", &twice, "f32", seed));
        mesh_world_run(&w, 0);
        assert_int_equal(mesh_world_counters(&w).bytes_copied, 6 * 2 * N * 4);
        mesh_world_fini(&w);
    }
}

/* --- losses --------------------------------------------------------------------- */

static void try_losses(const ps_mesh *mesh, void *arg)
{
    const shape s = {"iid", 4, 2, 40};

    (void)arg;
    for (uint64_t k = 0; k < 20; k++) {
        mesh_world w;

        assert_true(starts(&w, mesh->name, &s, "f32", seed + k));
        for (uint64_t step = 0; step < 3; step++) {
            w.loss = 0.3;
            mesh_world_run(&w, step);
            must_be_ok(&w);
            must_have_one_sum(&w);
            must_be_near(&w, 1e-5);
        }
        assert_true(mesh_world_counters(&w).repairs > 0);
        mesh_world_fini(&w);
    }
}

/* Losses end with the first time-out: what is said again arrives. */
static void what_was_lost_is_said_again(void **state)
{
    (void)state;
    ps_mesh_each(try_losses, NULL);
}

static void a_silent_worker_is_named_after_the_second_time_out(void **state)
{
    static const char *const names[] = {"plain", "ndc", "ccdc"};
    const shape s = {"iid", 4, 1, 40};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        mesh_world w;

        assert_true(starts(&w, names[i], &s, "f32", seed));
        w.is_dead[2] = true;
        mesh_world_run(&w, 0);
        assert_int_equal(w.now_us, 2 * MESH_WINDOW_US);
        for (uint32_t k = 0; k < 4; k++) {
            if (k != 2) {
                assert_int_equal(w.failure[k].code, PS_DEADLINE_EXCEEDED);
                assert_string_equal(w.failure[k].text,
                                    "step 0: nothing for 2 x 1000 ms from worker 2");
                assert_int_equal(ps_mesh_counters_of(w.node[k])->repairs, 1);
            }
        }
        mesh_world_fini(&w);
    }
}

/* Worker 2 sends its part of step 0 to worker 0 alone, and dies. So worker 0 is a step ahead of
 * the others, who wait for worker 2 as well. */
static void who_waits_itself_is_not_named(void **state)
{
    static const char *const names[] = {"plain", "ndc"};
    const shape s = {"iid", 4, 1, 40};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        mesh_world w;
        ps_mesh_out out;

        assert_true(starts(&w, names[i], &s, "f32", seed));
        begin_whole(&w, 2);
        while (ps_mesh_next(w.node[2], &out)) {
            ps_status st = ps_mesh_take(w.node[0], out.packet);

            assert_true(ps_is_ok(&st));
            ps_packet_unref(out.packet);
        }
        w.is_dead[2] = true;
        mesh_world_run(&w, 1);
        assert_int_equal(w.step[0], 1);
        assert_string_equal(w.failure[0].text, "step 1: nothing for 2 x 1000 ms from worker 2");
        assert_string_equal(w.failure[1].text, "step 0: nothing for 2 x 1000 ms from worker 2");
        assert_string_equal(w.failure[3].text, "step 0: nothing for 2 x 1000 ms from worker 2");
        mesh_world_fini(&w);
    }
}

static void who_was_away_itself_listens_before_it_blames(void **state)
{
    const int64_t window = MESH_WINDOW_US;
    const shape s = {"iid", 4, 1, 40};
    mesh_world w;
    ps_status st;

    (void)state;
    assert_true(starts(&w, "plain", &s, "f32", seed));
    begin_whole(&w, 0); /* and hears nothing */
    st = ps_mesh_tick(w.node[0], window);
    assert_string_equal(st.text, "");
    assert_int_equal(ps_mesh_counters_of(w.node[0])->repairs, 1);
    assert_int_equal(ps_mesh_deadline(w.node[0]), 2 * window);
    st = ps_mesh_tick(w.node[0], 5 * window / 2);
    assert_string_equal(st.text, "");
    assert_int_equal(ps_mesh_deadline(w.node[0]), 7 * window / 2);
    st = ps_mesh_tick(w.node[0], 9 * window); /* away again, but nothing may last for ever */
    assert_int_equal(st.code, PS_DEADLINE_EXCEEDED);
    mesh_world_fini(&w);
}

static void in_a_ring_or_tree_neighbours_are_named(void **state)
{
    const shape s = {"iid", 4, 1, 40};
    mesh_world w;

    (void)state;
    assert_true(starts(&w, "ring", &s, "f32", seed));
    w.is_dead[2] = true;
    mesh_world_run(&w, 0);
    assert_non_null(strstr(w.failure[3].text, "worker 2"));
    mesh_world_fini(&w);
    assert_true(starts(&w, "tree", &s, "f32", seed));
    w.is_dead[3] = true; /* a leaf below 1 */
    mesh_world_run(&w, 0);
    assert_non_null(strstr(w.failure[1].text, "from worker 3"));
    assert_non_null(strstr(w.failure[0].text, "from worker 1"));
    mesh_world_fini(&w);
}

static void a_copy_speaks_for_a_silent_worker(void **state)
{
    static const char *const names[] = {"plain", "ndc", "ccdc"};
    static const shape all[] = {{"iid", 4, 2, 40}, {"iid", 6, 3, 41}, {"iid", 3, 2, 20001}};

    (void)state;
    for (size_t i = 0; i < 18; i++) {
        const shape s = all[i / 3 % 3];
        mesh_world w;

        assert_true(starts(&w, names[i % 3], &s, "f32", seed));
        w.is_dead[2] = true;
        w.is_dead[4] = s.redundancy > 2;
        w.ticks_alone = i >= 9;
        mesh_world_run(&w, 0);
        assert_int_equal(w.now_us, MESH_WINDOW_US); /* the repair was enough */
        must_be_ok(&w);
        must_have_one_sum(&w);
        must_be_near(&w, 1e-5);
        mesh_world_fini(&w);
    }
}

static void too_many_silent_workers_are_named_by_ccdc_too(void **state)
{
    const shape s = {"iid", 4, 2, 40};
    mesh_world w;

    (void)state;
    assert_true(starts(&w, "ccdc", &s, "f32", seed));
    w.is_dead[1] = w.is_dead[2] = true;
    mesh_world_run(&w, 0);
    assert_int_equal(w.failure[0].code, PS_DEADLINE_EXCEEDED);
    assert_non_null(strstr(w.failure[0].text, "from worker 1, worker 2"));
    mesh_world_fini(&w);
}

/* --- junk ----------------------------------------------------------------------- */

static void try_junk(const ps_mesh *mesh, void *arg)
{
    const shape s = {"iid", 4, 2, 40};
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 9, 0, 0);

    (void)arg;
    for (uint64_t k = 0; k < 400; k++) {
        ps_packet *packet;
        ps_mesh_out out;
        mesh_world w;
        ps_status st;
        uint32_t to = (uint32_t)(ps_draw_u64(key, k * 8) % 4);

        assert_true(starts(&w, mesh->name, &s, "f32", seed));
        for (uint32_t i = 0; i < 4; i++) {
            begin_whole(&w, i);
        }
        if (!ps_mesh_next(w.node[(to + 1) % 4], &out)) { /* the root of a tree hears first */
            mesh_world_fini(&w);
            continue;
        }
        packet = out.packet;
        switch (ps_draw_u64(key, k * 8 + 1) % 5) {
        case 0:
            packet->what = (uint32_t)ps_draw_u64(key, k * 8 + 2);
            break;
        case 1:
            packet->piece = 1 + (uint32_t)ps_draw_u64(key, k * 8 + 2) % 1000;
            break;
        case 2:
            packet->from = (uint32_t)ps_draw_u64(key, k * 8 + 2) % 8;
            break;
        case 3:
            packet->len = ps_draw_u64(key, k * 8 + 2) % (packet->len + 1);
            break;
        default:
            packet->clock = 1 + ps_draw_u64(key, k * 8 + 2) % 3;
        }
        st = ps_mesh_take(w.node[to], packet); /* an error, or as if it had not come */
        assert_true(ps_is_ok(&st) || st.code == PS_INVALID_ARGUMENT || st.code == PS_OUT_OF_RANGE ||
                    st.code == PS_DATA_LOSS);
        ps_packet_unref(packet);
        mesh_world_fini(&w);
    }
}

static void junk_is_refused_and_hurts_nobody(void **state)
{
    (void)state;
    ps_mesh_each(try_junk, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_nodes_have_the_same_bits_whatever_the_order),
        cmocka_unit_test(a_lossy_sum_is_near_the_true_one),
        cmocka_unit_test(ccdc_is_plain_to_a_ten_millionth_with_few_multicasts),
        cmocka_unit_test(ccdc_says_an_rth_of_ndc),
        cmocka_unit_test(ccdc_does_not_wrap),
        cmocka_unit_test(ccdc_sees_holders_that_differ_where_it_can),
        cmocka_unit_test(what_cannot_work_is_refused_with_the_reason),
        cmocka_unit_test(traffic_is_what_the_formulas_say),
        cmocka_unit_test(what_was_lost_is_said_again),
        cmocka_unit_test(a_silent_worker_is_named_after_the_second_time_out),
        cmocka_unit_test(who_waits_itself_is_not_named),
        cmocka_unit_test(who_was_away_itself_listens_before_it_blames),
        cmocka_unit_test(in_a_ring_or_tree_neighbours_are_named),
        cmocka_unit_test(a_copy_speaks_for_a_silent_worker),
        cmocka_unit_test(too_many_silent_workers_are_named_by_ccdc_too),
        cmocka_unit_test(junk_is_refused_and_hurts_nobody),
    };

    seed = test_seed();
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
