/* SPDX-License-Identifier: Apache-2.0 */
/* test_mesh_loss.c - a worker of every exchange dies after every event of some steps, with a part
 * of what it has sent. The worker that is then furthest can go on for all: it is at most a step
 * behind, its sums have the bits of the undisturbed run, it has what everybody said of the steps
 * before, and machines that begin at its clock end with the bits of the undisturbed run. */
#include "tests/support/cmocka_all.h"

#include "tests/support/mesh_world.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, MORE = 2, VALUES = 40, PARTS = 2, NODES = 4, ORDERS = 4 };

static void begin(mesh_world *w, const char *mesh, const char *codec)
{
    static const size_t sizes[PARTS] = {VALUES, 3};
    bool sends_sums = ps_mesh_find(mesh)->sends_sums;
    ps_status st;

    *w = (mesh_world){.has_reports = true, .time_stands = true};
    for (uint32_t p = 0; p < PARTS; p++) {
        w->part[w->part_count++] =
            (ps_mesh_part){.n = sizes[p],
                           .up = mesh_world_codec(codec, ""),
                           .down = mesh_world_codec(sends_sums ? codec : "f32", "")};
    }
    st = mesh_world_init_parts(w, mesh, "iid", NODES, 1, 7);
    assert_string_equal(st.text, "");
}

static void must_be_ok(const mesh_world *w, const char *mesh)
{
    for (uint32_t i = 0; i < w->nodes; i++) {
        if (!ps_is_ok(&w->failure[i])) {
            fail_msg("%s, kill_at %llu: %s", mesh, (unsigned long long)w->kill_at,
                     w->failure[i].text);
        }
    }
    assert_int_equal(w->wrong_reports, 0);
}

/* Returns the sum that ends `clock` in a run that nothing disturbs. */
static float *undisturbed(const char *mesh, const char *codec, uint64_t clock)
{
    float *sum = ps_xcalloc(VALUES + 3, sizeof *sum);
    mesh_world w;

    begin(&w, mesh, codec);
    mesh_world_run(&w, clock);
    must_be_ok(&w, mesh);
    memcpy(sum, w.sum[0], w.n * sizeof *sum);
    mesh_world_fini(&w);
    return sum;
}

/* Begins a new world at `clock`, and compares the sums of its last step. */
static void must_go_on(const char *mesh, const char *codec, uint64_t clock, float *const *sums)
{
    mesh_world w;

    begin(&w, mesh, codec);
    w.draws = 1000003 + clock;
    for (uint32_t i = 0; i < NODES; i++) {
        ps_mesh_start_at(w.node[i], clock);
        w.step[i] = clock;
    }
    mesh_world_run_many(&w, STEPS + MORE);
    must_be_ok(&w, mesh);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_memory_equal(w.sum[i], sums[STEPS + MORE - 1], w.n * sizeof(float));
    }
    mesh_world_fini(&w);
}

/* How the survivors stood when nothing was under way any more. */
typedef struct tally {
    uint32_t runs, apart, behind; /* survivors a step apart; all of them a step behind the victim */
} tally;

/* Returns false if the job had ended before that event. */
static bool lose_one(const char *mesh, const char *codec, uint64_t order, uint64_t event,
                     uint32_t victim, float *const *sums, tally *t)
{
    uint64_t least = UINT64_MAX, most = 0;
    uint32_t furthest = 0;
    bool has_died;
    mesh_world w;

    begin(&w, mesh, codec);
    w.kill_at = event;
    w.victim = victim;
    w.draws = order * 1000003 + event * 7919; /* another order of arrival each time */
    mesh_world_run_many(&w, STEPS);
    must_be_ok(&w, mesh);
    has_died = w.is_dead[victim];
    for (uint32_t i = 0; i < NODES; i++) {
        if (i != victim) {
            least = w.step[i] < least ? w.step[i] : least;
            furthest = w.step[i] > most ? i : furthest;
            most = w.step[i] > most ? w.step[i] : most;
        }
    }
    assert_true(most - least <= 1);
    assert_true(w.step[victim] <= most + 1);
    if (has_died && most > 0) {
        assert_memory_equal(w.sum[furthest], sums[most - 1], w.n * sizeof(float));
        must_go_on(mesh, codec, most, sums);
    }
    t->runs += has_died;
    t->apart += has_died && most != least;
    t->behind += has_died && w.step[victim] > most;
    mesh_world_fini(&w);
    return has_died;
}

static void try_mesh(const ps_mesh *mesh, void *arg)
{
    const char *codec = arg;
    float *sums[STEPS + MORE];
    tally t = {0};

    if (strcmp(mesh->name, "ccdc") == 0) {
        codec = "f32"; /* the only one that it takes */
    }
    for (uint64_t i = 0; i < STEPS + MORE; i++) {
        sums[i] = undisturbed(mesh->name, codec, i);
    }
    for (uint32_t run = 0; run < ORDERS * NODES; run++) {
        uint64_t event = 1;

        while (lose_one(mesh->name, codec, run / NODES, event, run % NODES, sums, &t)) {
            event++;
        }
    }
    print_message("%s, %s: %u losses, survivors a step apart after %u, a step behind the lost one "
                  "after %u\n",
                  mesh->name, codec, t.runs, t.apart, t.behind);
    assert_true(t.runs > 100 && t.apart > 0 && t.behind > 0);
    for (uint64_t i = 0; i < STEPS + MORE; i++) {
        free(sums[i]);
    }
}

static void whoever_is_furthest_after_a_loss_goes_on_for_all(void **state)
{
    char f32[] = "f32", int8[] = "int8";

    (void)state;
    ps_mesh_each(try_mesh, f32);
    ps_mesh_each(try_mesh, int8);
}

/* A report may come twice, and be lost until it is sent again. */
static void try_losses(const ps_mesh *mesh, void *arg)
{
    (void)arg;
    for (uint64_t seed = 0; seed < 20; seed++) {
        mesh_world w;

        begin(&w, mesh->name, "f32");
        w.time_stands = false;
        w.draws = seed * 104729;
        w.loss = 0.2;
        w.comes_twice = seed % 2 == 0;
        mesh_world_run_many(&w, STEPS);
        must_be_ok(&w, mesh->name);
        mesh_world_fini(&w);
    }
}

static void reports_that_are_lost_are_sent_again(void **state)
{
    (void)state;
    ps_mesh_each(try_losses, NULL);
}

static ps_packet *report_of(uint32_t origin, uint32_t from, size_t len)
{
    ps_packet *packet = ps_packet_create(len);

    packet->from = from;
    packet->what = UINT32_MAX - 2;
    packet->piece = origin;
    packet->len = len;
    return packet;
}

static void reports_that_cannot_be_are_refused(void **state)
{
    static const struct {
        const char *mesh;
        uint32_t origin, from;
        size_t len;
        bool is_fine;
    } cases[] = {
        {"plain", 1, 1, 9, true},  {"plain", 2, 1, 9, false},
        {"plain", 0, 1, 9, false}, {"plain", 4, 1, 9, false},
        {"ring", 2, 3, 9, true},   {"ring", 1, 1, 9, false},
        {"tree", 3, 1, 9, true},   {"tree", 3, 2, 9, false},
        {"ndc", 3, 3, 0, true},    {"plain", 1, 1, PS_MESH_REPORT_MAX + 1, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ps_packet *packet = report_of(cases[i].origin, cases[i].from, cases[i].len);
        mesh_world w;
        ps_status st;

        begin(&w, cases[i].mesh, "f32");
        st = ps_mesh_begin(w.node[0], 0, w.held[0]);
        assert_true(ps_is_ok(&st));
        st = ps_mesh_take(w.node[0], packet);
        if (ps_is_ok(&st) != cases[i].is_fine) {
            fail_msg("case %zu: %s", i, st.text);
        }
        ps_packet_unref(packet);
        mesh_world_fini(&w);
    }
}

static ps_status is_even(void *arg, uint32_t worker, uint64_t clock, const uint8_t *bytes,
                         size_t len)
{
    (void)bytes;
    *(uint64_t *)arg = clock;
    return len % 2 == 0 ? ps_ok() : ps_fail(PS_INVALID_ARGUMENT, "worker %u", worker);
}

/* Also before the step has begun, as only then its sender is refused. */
static void reports_are_checked_when_they_arrive(void **state)
{
    uint64_t clock = UINT64_MAX;
    ps_packet *odd = report_of(1, 1, 9), *even = report_of(1, 1, 8);
    ps_mesh_machine *m;
    ps_mesh_conf conf;
    mesh_world w;
    ps_status st;

    (void)state;
    begin(&w, "plain", "f32");
    conf = (ps_mesh_conf){.mesh = ps_mesh_find("plain"),
                          .assignment = w.assignment,
                          .n = w.n,
                          .parts = w.part,
                          .part_count = w.part_count,
                          .has_reports = true,
                          .check_report = is_even,
                          .arg = &clock,
                          .window_us = MESH_WINDOW_US};
    st = ps_mesh_create(&conf, &m);
    assert_true(ps_is_ok(&st));
    for (int has_begun = 0; has_begun < 2; has_begun++) {
        st = ps_mesh_take(m, odd);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        assert_string_equal(st.text, "worker 1");
        assert_int_equal(clock, 0);
        st = ps_mesh_take(m, even);
        assert_true(ps_is_ok(&st));
        if (!has_begun) {
            st = ps_mesh_begin(m, 0, w.held[0]);
            assert_true(ps_is_ok(&st));
        }
    }
    ps_mesh_destroy(m);
    ps_packet_unref(odd);
    ps_packet_unref(even);
    mesh_world_fini(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_is_furthest_after_a_loss_goes_on_for_all),
        cmocka_unit_test(reports_that_are_lost_are_sent_again),
        cmocka_unit_test(reports_that_cannot_be_are_refused),
        cmocka_unit_test(reports_are_checked_when_they_arrive),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
