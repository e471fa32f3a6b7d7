/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels.c - every kind of kernel this processor runs gives the plain one's
 * bytes and values, and the plain ones give what kernels.h says.
 */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/codec/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 150, ROUNDS = 3000 };

/* One round's input: n values of any finite size, numbers, bytes. */
typedef struct input {
    size_t n, m; /* m = n / 5 */
    float x[MOST], small[MOST];
    uint8_t bytes[4 * MOST], trits[MOST];
    float level[MOST], edges[MOST]; /* of a grid */
    float x_small[8 * 32];
    size_t rank; /* 1 to 8 */
    uint32_t top, key, limit8, limit16, lowest, least;
    unsigned bits;
    float inverse, scale;
} input;

static void draw(uint64_t seed, uint64_t round, input *in)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, round, 0, 0);

    in->n = (size_t)ps_draw_below(key, 0, MOST) + 1;
    in->m = in->n / 5;
    in->key = (uint32_t)ps_draw_u64(key, 1);
    in->limit8 = (uint32_t)ps_draw_below(key, 2, 127) + 1;
    in->limit16 = (uint32_t)ps_draw_below(key, 3, 32767) + 1;
    in->bits = (unsigned)ps_draw_below(key, 4, 6) + 3;
    in->lowest = (uint32_t)ps_draw_below(key, 5, 127) + 1;
    in->least = (uint32_t)ps_draw_below(key, 6, 0x7ffffffe) + 1;
    in->inverse = (float)ps_draw_unit(key, 7) * 40;
    in->scale = (float)ps_draw_normal(key, 8);
    for (size_t i = 0; i < MOST; i++) {
        uint32_t bits = (uint32_t)ps_draw_u64(key, 100 + i);

        if ((bits & 0x7f800000u) == 0x7f800000u) {
            bits ^= 0x40000000u;
        }
        memcpy(&in->x[i], &bits, sizeof bits);
        in->small[i] = (float)ps_draw_normal(key, 1000 + i);
        in->trits[i] = (uint8_t)ps_draw_below(key, 2000 + i, 3);
    }
    in->rank = (size_t)ps_draw_below(key, 11, 8) + 1;
    for (size_t i = 0; i < 8 * 32; i++) {
        in->x_small[i] = (float)ps_draw_normal(key, 5000 + i);
    }
    in->top = (uint32_t)ps_draw_below(key, 10, round % 4 == 0 ? 127 : 16) + 1;
    in->level[0] = 0;
    for (size_t k = 1; k <= in->top; k++) {
        in->level[k] = in->level[k - 1] + (float)ps_draw_unit(key, 4000 + k);
        in->edges[k] = (in->level[k - 1] + in->level[k]) / 2;
    }
    in->level[in->top + 1] = in->level[in->top];
    if (round % 2 == 0) { /* one of them exactly */
        memcpy(&in->least, &in->x[ps_draw_below(key, 9, in->n)], sizeof in->least);
        in->least &= 0x7fffffffu;
        in->least += in->least == 0;
    }
    for (size_t i = 0; i < sizeof in->bytes; i++) {
        in->bytes[i] = (uint8_t)ps_draw_u64(key, 3000 + i);
    }
}

/* Everything that a table makes of an input. */
typedef struct output {
    uint8_t bf16[2 * MOST], signs[MOST], levels[MOST], nearest[MOST], powers[MOST];
    uint16_t levels16[MOST], nearest16[MOST], above[MOST];
    uint8_t trits[MOST], digits[5 * MOST], grid_nearest[MOST], grid_drawn[MOST];
    size_t count;
    double sums[3], fits[8];
    float p[MOST], q[MOST], rows[MOST];
    uint32_t counts[255];
    float y[12][MOST];
} output;

static void run(const ps_kernels *k, const input *in, output *out)
{
    uint16_t wide[MOST];
    size_t n = in->n;

    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < 12; i++) {
        memcpy(out->y[i], in->small, sizeof in->small);
    }
    memcpy(wide, in->bytes, sizeof wide);
    k->bf16_encode(in->x, out->bf16, n);
    k->bf16_set(out->bf16, out->y[0], n);
    k->bf16_add(out->bf16, out->y[1], n);
    out->sums[0] = k->sum_abs(in->x, n);
    out->sums[1] = k->sum_square(in->x, n);
    out->sums[2] = k->sum_negative(in->x, n);
    k->signs_pack(in->x, out->signs, n);
    k->signs_set(in->bytes, in->scale, in->inverse, out->y[2], n);
    k->signs_add(in->bytes, in->scale, in->inverse, out->y[3], n);
    k->levels8(in->small, in->inverse, in->limit8, in->key, 7, out->levels, n);
    k->nearest8(in->small, in->inverse, in->limit8, out->nearest, n);
    k->values8_set(in->bytes, in->limit8, in->scale, out->y[4], n);
    k->values8_add(in->bytes, in->limit8, in->scale, out->y[5], n);
    k->levels16(in->small, in->inverse * 1000, in->limit16, in->key, 7, out->levels16, n);
    k->nearest16(in->small, in->inverse * 1000, in->limit16, out->nearest16, n);
    k->values16_set(wide, in->limit16, in->scale, out->y[6], n);
    k->values16_add(wide, in->limit16, in->scale, out->y[7], n);
    k->powers(in->x, in->lowest, in->bits, in->key, out->powers, n);
    k->power_set(out->powers, in->lowest, in->bits, out->y[8], n);
    k->power_add(out->powers, in->lowest, in->bits, out->y[9], n);
    k->fit(in->small, NULL, in->inverse, (float)in->limit8, 64, out->fits, n);
    k->fit(in->small, in->edges + 1, in->inverse, (float)in->limit16, 128, out->fits + 2, n);
    k->soft_fit(in->small, in->inverse, 64, out->fits + 4, n);
    k->grid_fit(in->small, in->inverse, in->edges, in->level, in->top, 64, out->fits + 6, n);
    k->grid_nearest(in->small, in->inverse, in->edges, in->top, out->grid_nearest, n);
    k->grid_drawn(in->small, in->inverse, in->level, in->top, in->key, out->grid_drawn, n);
    k->count8(out->grid_drawn, 2 * in->top + 1, out->counts, n);
    for (size_t i = 0; i < n; i++) {
        assert_true(out->counts[out->grid_drawn[i]]-- > 0);
    }
    for (size_t s = 0; s < 2u * in->top + 1; s++) {
        assert_int_equal(out->counts[s], 0);
    }
    k->lookup8_set(out->grid_drawn, in->small, 2 * in->top + 1, out->y[10], n);
    k->lookup8_add(out->grid_drawn, in->small, 2 * in->top + 1, out->y[11], n);
    k->rank_rows(in->small, 3, 32, in->x_small, in->rank, out->p);
    k->rank_columns(in->small, 3, 16, out->p, in->rank, out->q);
    for (size_t i = 0; i < 3; i++) {
        k->rank_product(out->p + i, 3, out->q, 16, in->rank, out->rows + 16 * i);
    }
    k->trits_pack(in->trits, out->trits, in->m);
    k->trits_unpack(out->trits, out->digits, in->m);
    out->count = k->above(in->x, in->least, out->above, n);
    memset(out->above + out->count, 0, (MOST - out->count) * sizeof *out->above); /* scratch */
}

static void compare(const ps_kernels *k, uint64_t seed)
{
    for (uint64_t round = 0; round < ROUNDS; round++) {
        static input in;
        static output plain, other;

        draw(seed, round, &in);
        run(&ps_kernels_plain, &in, &plain);
        run(k, &in, &other);
        if (memcmp(&plain, &other, sizeof plain) != 0) {
            fail_msg("%s: round %llu", k->name, (unsigned long long)round);
        }
    }
}

static void every_table_gives_the_plain_one_s_results(void **state)
{
    const char *given = getenv("PSGD_TEST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 21;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (ps_cpu l = PS_CPU_BASELINE; l <= ps_cpu_level(); l++) {
        compare(ps_kernels_of(l), seed);
    }
}

static int clamp(double v, uint32_t limit)
{
    return (int)(v > limit ? limit : v < -(double)limit ? -(double)limit : v);
}

static void levels_are_the_nearest_after_the_draw(void **state)
{
    static input in;
    static output out;

    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        draw(5, round, &in);
        run(&ps_kernels_plain, &in, &out);
        for (size_t i = 0; i < in.n; i++) {
            uint32_t h = ps_draw_u32(in.key, (uint32_t)(7 + i)) >> 16;
            float u = (float)((h + 0.5) / 65536 - 0.5);
            float v = in.small[i] * in.inverse;

            assert_int_equal(out.levels[i] - (int)in.limit8,
                             clamp(nearbyint((double)(v + u)), in.limit8));
            assert_int_equal(out.nearest[i] - (int)in.limit8,
                             clamp(nearbyint((double)v), in.limit8));
            v = in.small[i] * (in.inverse * 1000);
            assert_int_equal(out.levels16[i] - (int)in.limit16,
                             clamp(nearbyint((double)(v + u)), in.limit16));
            assert_int_equal(out.nearest16[i] - (int)in.limit16,
                             clamp(nearbyint((double)v), in.limit16));
        }
    }
}

/* Between the power below and the one above, or 0 and the lowest. */
static void powers_are_neighbours(void **state)
{
    static input in;
    static output out;

    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        draw(6, round, &in);
        run(&ps_kernels_plain, &in, &out);
        for (size_t i = 0; i < in.n; i++) {
            double most = ldexp(1, (int)in.lowest - 127 + (1 << (in.bits - 1)) - 2);
            double x = fabs((double)in.x[i]), y = fabs((double)out.y[8][i]);

            assert_true(y == 0 || (y > x / 2 && y < 2 * x) || y == ldexp(1, (int)in.lowest - 127) ||
                        (y == most && x > most));
            assert_true(y > 0 || x < ldexp(1, (int)in.lowest - 127));
            assert_true(y == 0 || signbit(in.x[i]) == signbit(out.y[8][i]));
        }
    }
}

static void bf16_is_the_nearest_upper_half(void **state)
{
    static const struct {
        uint32_t from;
        uint16_t to;
    } cases[] = {{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81},
                 {0x3f818000, 0x3f82}, {0xbf818000, 0xbf82}, {0x7f7fffff, 0x7f80},
                 {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x7f800001, 0x7fc0},
                 {0x00000001, 0x0000}, {0x00008001, 0x0001}, {0x80000000, 0x8000}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t out[2];
        uint16_t half;
        float x;

        memcpy(&x, &cases[i].from, sizeof x);
        ps_kernels_best()->bf16_encode(&x, out, 1);
        memcpy(&half, out, sizeof half);
        assert_int_equal(half, cases[i].to);
    }
}

static void the_rest_is_as_plain_arithmetic_has_it(void **state)
{
    static input in;
    static output out;

    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        double sum = 0, negative = 0;
        size_t count = 0;

        draw(7, round, &in);
        run(&ps_kernels_plain, &in, &out);
        for (size_t i = 0; i < in.n; i++) {
            uint32_t bits;

            memcpy(&bits, &in.x[i], sizeof bits);
            sum += fabs((double)in.x[i]);
            negative += signbit(in.x[i]) ? fabs((double)in.x[i]) : 0;
            assert_int_equal(out.signs[i / 8] >> i % 8 & 1, signbit(in.x[i]) != 0);
            if ((bits & 0x7fffffffu) >= in.least) {
                assert_int_equal(out.above[count++], i);
            }
        }
        assert_int_equal(out.count, count);
        assert_true(fabs(out.sums[0] - sum) <= 1e-12 * sum);
        assert_true(fabs(out.sums[2] - negative) <= 1e-12 * sum);
        assert_memory_equal(out.digits, in.trits, 5 * in.m);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_gives_the_plain_one_s_results),
        cmocka_unit_test(levels_are_the_nearest_after_the_draw),
        cmocka_unit_test(powers_are_neighbours),
        cmocka_unit_test(bf16_is_the_nearest_upper_half),
        cmocka_unit_test(the_rest_is_as_plain_arithmetic_has_it),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
