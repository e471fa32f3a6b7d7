/* SPDX-License-Identifier: Apache-2.0 */
/* test_team.c - products by several threads have the bits of one. */
#include "common/nn/blas.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include "tests/support/cmocka_all.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

static atomic_uint shared_runs;

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
    static const size_t shapes[][3] = {{64, 128, 784},  {128, 784, 64},   {64, 784, 128},
                                       {32, 5003, 256}, {5003, 256, 32},  {32, 256, 5003},
                                       {333, 515, 777}, {777, 333, 515},  {1, 4096, 2048},
                                       {200, 200, 200}, {2048, 1024, 65}, {65, 1024, 2048}};

    (void)state;
    for (uint32_t threads = 2; threads <= 5; threads++) {
        ps_team *team = ps_team_create(threads);

        assert_non_null(team);
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            check(team, shapes[i][0], shapes[i][1], shapes[i][2], (float)(i % 2));
        }
        ps_team_destroy(team);
    }
}

static void count_run(void *arg, uint32_t part)
{
    unsigned *by_part = arg;

    by_part[part]++;
    atomic_fetch_add(&shared_runs, 1);
}

static void every_part_is_run_once(void **state)
{
    ps_team *team = ps_team_create(4);
    unsigned by_part[4] = {0};

    (void)state;
    assert_int_equal(ps_team_threads(NULL), 1);
    assert_int_equal(ps_team_threads(team), 4);
    for (uint32_t i = 0; i < 3000; i++) {
        ps_team_run(team, 1 + i % 4, count_run, by_part);
    }
    assert_int_equal(by_part[0], 3000);
    assert_int_equal(by_part[1], 2250);
    assert_int_equal(by_part[2], 1500);
    assert_int_equal(by_part[3], 750);
    assert_int_equal(atomic_load(&shared_runs), 7500);
    ps_team_destroy(team);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_the_number_of_threads),
        cmocka_unit_test(every_part_is_run_once),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
