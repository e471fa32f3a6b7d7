/* SPDX-License-Identifier: Apache-2.0 */
/* test_team.c - a team computes each item once, and products by several threads have the bits of
 * one. test_threads.c has whole models. */
#include "common/nn/blas.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include "tests/support/cmocka_all.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void product_fn(ps_team *team, size_t m, size_t n, size_t k, const float *a, const float *b,
                        float keep, float *c);

static float *fill(size_t n, uint32_t which)
{
    uint32_t key = (uint32_t)ps_draw_key(5, PS_DRAW_TEST, which, 0, 0);
    float *x = ps_xmalloc(n * sizeof *x);

    for (size_t i = 0; i < n; i++) {
        x[i] = (float)ps_draw_u32(key, (uint32_t)i) * 0x1p-31f - 1.0f;
    }
    return x;
}

static void check(ps_team *team, size_t m, size_t n, size_t k, float keep)
{
    static product_fn *const products[] = {ps_gemm_nt, ps_gemm_nn, ps_gemm_tn};
    float *a = fill(m * k, 1), *b = fill(n * k, 2);

    for (size_t i = 0; i < 3; i++) {
        float *alone = fill(m * n, 3), *together = fill(m * n, 3);

        products[i](NULL, m, n, k, a, b, keep, alone);
        products[i](team, m, n, k, a, b, keep, together);
        for (size_t at = 0; at < m * n; at++) {
            if (memcmp(&alone[at], &together[at], sizeof alone[at]) != 0) {
                fail_msg("product %zu of (%zu, %zu, %zu) by %u threads: c[%zu] is %.9g, not %.9g",
                         i, m, n, k, ps_team_threads(team), at, (double)together[at],
                         (double)alone[at]);
            }
        }
        free(alone);
        free(together);
    }
    free(a);
    free(b);
}

/* Shapes of layers: batches of 1 to 333 samples, narrow and wide layers, and operands within and
 * beyond the caches that decide on kernels. */
static void bits_do_not_depend_on_the_number_of_threads(void **state)
{
    static const size_t shapes[][3] = {
        {64, 128, 784},   {128, 784, 64},   {64, 784, 128},  {32, 5003, 256}, {5003, 256, 32},
        {32, 256, 5003},  {333, 515, 777},  {777, 333, 515}, {1, 4096, 2048}, {200, 200, 200},
        {2048, 1024, 65}, {65, 1024, 2048}, {16, 2051, 515}, {515, 2051, 31}, {2051, 515, 16}};

    (void)state;
    for (uint32_t threads = 2; threads <= 5; threads++) {
        ps_team *team = ps_team_create(threads, 0);

        assert_non_null(team);
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            check(team, shapes[i][0], shapes[i][1], shapes[i][2], (float)(i % 2));
        }
        ps_team_destroy(team);
    }
}

enum { ITEMS = 50, RUNS = 3000 };

typedef struct counts {
    atomic_uint by_item[ITEMS];
    uint32_t threads;
    atomic_uint foreign; /* calls with a number that no thread of the team has */
} counts;

static void count_item(void *arg, uint32_t item, uint32_t thread)
{
    counts *of = arg;

    atomic_fetch_add(&of->by_item[item], 1);
    if (thread >= of->threads) {
        atomic_fetch_add(&of->foreign, 1);
    }
}

/* A run has returned when all of its items are computed, and no thread that comes late takes one of
 * a run that is over. */
static void every_item_is_computed_once(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 4; threads++) {
        ps_team *team = threads == 1 ? NULL : ps_team_create(threads, 0);
        counts of = {.threads = threads};

        assert_int_equal(ps_team_threads(team), threads);
        for (unsigned run = 1; run <= RUNS; run++) {
            uint32_t items = run % (ITEMS + 1);

            ps_team_run(team, items, count_item, &of);
            for (uint32_t i = 0; i < items; i++) {
                assert_int_equal(atomic_exchange(&of.by_item[i], 0), 1);
            }
        }
        assert_int_equal(atomic_load(&of.foreign), 0);
        ps_team_destroy(team);
    }
}

/* Items that wait for each other end only if several threads compute. */
static void wait_for_others(void *arg, uint32_t item, uint32_t thread)
{
    counts *of = arg;

    (void)item;
    (void)thread;
    atomic_fetch_add(&of->by_item[0], 1);
    while (atomic_load(&of->by_item[0]) < of->threads) {
        sched_yield();
    }
}

static void each_thread_has_a_part_in_the_work(void **state)
{
    ps_team *team = ps_team_create(3, 0);
    counts of = {.threads = 3};

    (void)state;
    alarm(60); /* without the helpers the first item waits forever */
    ps_team_run(team, 3, wait_for_others, &of);
    alarm(0);
    ps_team_destroy(team);
}

static void count_values(void *arg, size_t from, size_t to)
{
    atomic_uint *by_value = arg;

    for (size_t i = from; i < to; i++) {
        atomic_fetch_add(&by_value[i], 1);
    }
}

static void ranges_cover_every_value_once(void **state)
{
    ps_team *team = ps_team_create(3, 0);
    atomic_uint by_value[ITEMS] = {0};

    (void)state;
    for (size_t size = 0; size <= ITEMS; size++) {
        for (size_t align = 1; align <= 16; align *= 4) {
            ps_team_ranges(team, size, align, count_values, by_value);
            for (size_t i = 0; i < ITEMS; i++) {
                assert_int_equal(atomic_exchange(&by_value[i], 0), i < size);
            }
        }
    }
    assert_int_equal(ps_part_at(50, 16, 3, 1), 16);
    assert_int_equal(ps_part_at(50, 16, 3, 2), 32);
    assert_int_equal(ps_part_at(50, 16, 3, 3), 50);
    ps_team_destroy(team);
}

static void every_thread_has_scratch_memory(void **state)
{
    enum { FLOATS = 33 };
    ps_team *team = ps_team_create(3, FLOATS);
    float own[FLOATS];

    (void)state;
    assert_int_equal(ps_team_memory(NULL), 0);
    assert_int_equal(ps_team_memory(team), 2 * 48 * sizeof(float)); /* whole cache lines */
    assert_ptr_equal(ps_team_scratch(NULL, 0, own), own);
    assert_ptr_equal(ps_team_scratch(team, 0, own), own);
    memset(ps_team_scratch(team, 1, own), 1, FLOATS * sizeof(float));
    memset(ps_team_scratch(team, 2, own), 2, FLOATS * sizeof(float));
    assert_int_equal(*(unsigned char *)ps_team_scratch(team, 1, own), 1);
    ps_team_destroy(team);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_the_number_of_threads),
        cmocka_unit_test(every_item_is_computed_once),
        cmocka_unit_test(each_thread_has_a_part_in_the_work),
        cmocka_unit_test(ranges_cover_every_value_once),
        cmocka_unit_test(every_thread_has_scratch_memory),
    };

    ps_nn_init_process(); /* else OpenBLAS has threads of its own */
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
