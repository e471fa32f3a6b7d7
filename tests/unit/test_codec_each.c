/* SPDX-License-Identifier: Apache-2.0 */
/* test_codec_each.c - what each codec alone promises, on values worked out by hand. */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/codec/codec.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Encodes and decodes x with a codec and up to two of its numbers, NULL for none.
 * Returns the bytes that were sent. */
static size_t through(const char *name, const char *one, double first, const char *two,
                      double second, const float *x, float *y, size_t n)
{
    static uint8_t bytes[4 * PS_CODEC_VALUES];
    const ps_codec *c = ps_codec_find(name);
    ps_params params = ps_params_default(c->params);
    ps_encoding head;
    ps_status st;
    size_t len;

    if (one != NULL) {
        params.v[ps_param_find(c->params, one)] = first;
    }
    if (two != NULL) {
        params.v[ps_param_find(c->params, two)] = second;
    }
    len = ps_codec_encode(c, &params, 77, 0, x, n, bytes, &head);
    st = ps_codec_decode(c, &head.msg, bytes, len, PS_INTO_SET, y, n);
    assert_int_equal(st.code, PS_OK);
    return len;
}

static void is(const float *y, const float *expected, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!(fabsf(y[i] - expected[i]) <= 1e-6f * fabsf(expected[i]))) {
            fail_msg("value %zu is %g, not %g", i, (double)y[i], (double)expected[i]);
        }
    }
}

/* A store saves a sum that is not complete, and refuses one that no contributions can give. */
static void sums_of_large_and_small_numbers_are_accepted_after_saving(void **state)
{
    static const float scales[] = {1e3f, 1e-6f, 1e-3f, 1e6f, 1e-9f, 1e9f};
    const ps_codec *c = ps_codec_find("intsum");
    ps_params params = ps_params_default(c->params);
    static int64_t sum[PS_CODEC_VALUES + 8];
    static uint8_t bytes[4 * PS_CODEC_VALUES];

    (void)state;
    params.v[ps_param_find(c->params, "bits")] = 16;
    assert_true(c->sum_bytes(2) <= sizeof sum);
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        const float x[] = {scales[i], -scales[i]};
        ps_encoding head;
        size_t len = ps_codec_encode(c, &params, 77, 0, x, 2, bytes, &head);
        ps_status st = ps_codec_sum_add(c, &head.msg, bytes, len, sum, 2);

        assert_int_equal(st.code, PS_OK);
        assert_true(c->sum_check(sum, 2));
    }
    sum[3] = INT64_MAX; /* the second value */
    assert_false(c->sum_check(sum, 2));
}

static void topk_takes_the_largest_and_of_equals_the_first(void **state)
{
    static const float x[] = {1, -1, 1, -5, 1, 3}, expected[] = {1, 0, 0, -5, 0, 3};
    float y[6];

    (void)state;
    through("topk", "fraction", 0.5, NULL, 0, x, y, 6);
    is(y, expected, 6);
}

static int by_size(const void *a, const void *b)
{
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);

    return (x < y) - (x > y);
}

static void topk_is_what_sorting_gives(void **state)
{
    enum { N = 5000 };
    static const double fractions[] = {0.0001, 0.01, 0.1, 0.5};
    static float x[N], y[N], sorted[N];

    (void)state;
    for (uint64_t round = 0; round < 40; round++) {
        size_t n = round < 4 ? N : (size_t)ps_draw_below(1, round, N) + 1;
        double fraction = fractions[round % 4];
        size_t k = (size_t)ceil(fraction * (double)n), sent = 0;

        for (size_t i = 0; i < n; i++) { /* odd rounds: few different values, long ties */
            double v = ps_draw_normal(round, i);

            x[i] = (float)(round % 2 == 0 ? v : nearbyint(2 * v));
            /* large ones where one in sixteen is looked at, and elsewhere */
            x[i] *= round % 5 == 0 && i % 16 == 0 ? 10.0f : round % 5 == 1 && i % 16 ? 10.0f : 1.0f;
        }
        memcpy(sorted, x, n * sizeof *x);
        qsort(sorted, n, sizeof *sorted, by_size);
        through("topk", "fraction", fraction, NULL, 0, x, y, n);
        for (size_t i = 0; i < n; i++) {
            float least = fabsf(sorted[k - 1]);

            assert_true(y[i] == x[i] || (y[i] == 0.0f && fabsf(x[i]) <= least));
            sent += y[i] != 0.0f;
        }
        assert_true(sent == k || sorted[k - 1] == 0.0f);
    }
}

static void threshold_sends_what_is_above_it(void **state)
{
    const float x[] = {0.5f, -0.5f, nextafterf(0.5f, 1), -0.75f, INFINITY, 0, 0.1f, 0.2f};
    const float expected[] = {0, 0, x[2], x[3], 0, 0, 0, 0};
    float y[8];

    (void)state;
    /* One byte of bitmap and three floats; three positions of 3 bits would be two. */
    assert_int_equal(through("threshold", "magnitude", 0.5, NULL, 0, x, y, 8), 13);
    assert_true(isinf(y[4]));
    y[4] = 0;
    is(y, expected, 8);
    assert_int_equal(through("threshold", "magnitude", 1e30, NULL, 0, x, y, 4), 0);
    assert_int_equal(through("threshold", "magnitude", 0, NULL, 0, x, y, 4), 16);
}

static void infinity_counts_as_the_largest_and_nan_as_nothing(void **state)
{
    static const float x[] = {INFINITY, 1, -INFINITY, NAN}, expected[] = {1, 1, -1, 0};
    float y[4];

    (void)state;
    through("intn", "bits", 8, NULL, 0, x, y, 4);
    is(y, expected, 4);
    through("intn", "bits", 12, "stochastic", 0, x, y, 4);
    is(y, expected, 4);
    through("natural", NULL, 0, NULL, 0, x, y, 4);
    is(y, expected, 4);
    through("ternary", "clip", 0, NULL, 0, x, y, 4);
    is(y, expected, 4);
    through("threelc", NULL, 0, NULL, 0, x, y, 4);
    is(y, expected, 4);
}

static void sign_has_the_mean_or_the_deviation(void **state)
{
    static const float x[] = {1, 3, -2, -4}, mean[] = {2.5f, 2.5f, -2.5f, -2.5f};
    const float d = sqrtf(7.25f), deviation[] = {d, d, -d, -d};
    float y[4];

    (void)state;
    assert_int_equal(through("sign", NULL, 0, NULL, 0, x, y, 4), 1);
    is(y, mean, 4);
    through("sign", "scale", 1, NULL, 0, x, y, 4);
    is(y, deviation, 4);
}

static void onebit_has_a_mean_for_each_sign(void **state)
{
    static const float x[] = {1, 3, -2, -4}, expected[] = {2, 2, -3, -3};
    static const float up[] = {1, 2, 3}, mean[] = {2, 2, 2};
    float y[4];

    (void)state;
    through("onebit", NULL, 0, NULL, 0, x, y, 4);
    is(y, expected, 4);
    through("onebit", NULL, 0, NULL, 0, up, y, 3);
    is(y, mean, 3);
}

static void ternary_cuts_at_so_many_root_mean_squares(void **state)
{
    float x[100] = {[0] = 100}, y[100], scale = 25.0f; /* rms 10 */

    (void)state;
    through("ternary", NULL, 0, NULL, 0, x, y, 100);
    is(y, &scale, 1);
    through("ternary", "clip", 0, NULL, 0, x, y, 100);
    is(y, x, 100);
}

static void qsgd_has_a_norm_for_each_bucket(void **state)
{
    float x[128] = {[3] = 4, [64] = -0.5f}, y[128];

    (void)state;
    /* A lone value is its bucket's norm, whatever is drawn. */
    assert_int_equal(through("qsgd", "bucket", 64, "levels", 1, x, y, 128), 8 + 32);
    is(y, x, 128);
}

static void randomk_takes_one_of_each_run(void **state)
{
    static const float x[] = {1, 2, 3, 4, 5, 6, 7};
    size_t ends[] = {2, 4, 7}, at = 0; /* 0.4 of 7 is 3: runs of 2, 2, 3 */
    float y[7], raw[7];

    (void)state;
    assert_int_equal(through("randomk", "fraction", 0.4, NULL, 0, x, y, 7), 12);
    through("randomk", "fraction", 0.4, "scaled", 0, x, raw, 7);
    for (size_t r = 0; r < 3; r++) {
        size_t start = at, sent = 0;

        for (; at < ends[r]; at++) {
            assert_true(y[at] == 0.0f || y[at] == x[at] * (float)(ends[r] - start));
            assert_true(raw[at] == (y[at] == 0.0f ? 0.0f : x[at]));
            sent += y[at] != 0.0f;
        }
        assert_int_equal(sent, 1);
    }
}

static void natural_draws_between_two_powers(void **state)
{
    static const float x[] = {1, -2, 3, 0.75f, 0};
    float y[5];

    (void)state;
    through("natural", NULL, 0, NULL, 0, x, y, 5);
    assert_true(y[0] == 1.0f && y[1] == -2.0f && y[4] == 0.0f);
    assert_true(y[2] == 2.0f || y[2] == 4.0f);
    assert_true(y[3] == 0.5f || y[3] == 1.0f);
}

static void threelc_shortens_runs_of_zeros(void **state)
{
    static float x[1000], y[1000];
    const float expected[] = {0, 0, 2.4f};

    (void)state;
    memset(x, 0, sizeof x);
    x[0] = 1.0f;
    /* One byte with the value, 199 of zeros: 14 runs of 14 and one of 3. */
    assert_int_equal(through("threelc", NULL, 0, NULL, 0, x, y, 1000), 1 + 14 + 1);
    is(y, x, 1000);
    x[0] = 0.5f;
    x[1] = 1.0f;
    x[2] = 1.6f; /* times 1.5: below 1.2 is 0 */
    through("threelc", "sparsity", 1.5, NULL, 0, x, y, 1000);
    is(y, expected, 3);
}

static void intn_rounds_to_the_nearest_step(void **state)
{
    static const float x[] = {7, 3.4f, -3.6f, 0.4f, -7}, expected[] = {7, 3, -4, 0, -7};
    float y[5];

    (void)state;
    assert_int_equal(through("intn", "stochastic", 0, NULL, 0, x, y, 5), 3); /* 5 x 4 bits */
    is(y, expected, 5);
}

/* Levels 0, +-1, +-1.7321 and +-3.7321 times a, which a fit leaves at 1. */
static void cot_has_the_levels_of_its_grid(void **state)
{
    static const float x[] = {1, -1.7321f, 3.7321f, 0, -3.7321f, 1.7321f};
    static const float off[] = {1.2f, -1.5f, 3.4f, 0.3f, -4.2f, 0};
    const float levels[] = {1, 1.7321f, 3.7321f, 0, 3.7321f, 0};
    float y[6];

    (void)state;
    through("cot", "bits", 3, "stochastic", 0, x, y, 6);
    is(y, x, 6);
    through("cot", "bits", 3, "stochastic", 1, x, y, 6); /* nothing to draw */
    is(y, x, 6);
    through("cot", "bits", 3, "stochastic", 0, off, y, 6);
    for (size_t i = 0; i < 6; i++) { /* of one scale, that of the first */
        assert_true(fabsf(fabsf(y[i]) - levels[i] * y[0]) < 1e-5f);
        assert_true(y[i] * off[i] >= 0.0f);
    }
}

static void cot_takes_fewer_bits_for_fewer_levels(void **state)
{
    static float x[4096], y[4096];
    size_t packed, coded;

    (void)state;
    for (size_t i = 0; i < 4096; i++) {
        x[i] = (float)(ps_draw_normal(1, i) * ps_draw_normal(2, i)); /* long tails */
    }
    packed = through("cot", "entropy", 0, NULL, 0, x, y, 4096);
    coded = through("cot", "entropy", 1, NULL, 0, x, y, 4096);
    assert_int_equal(packed, 2048);
    if (coded >= packed * 9 / 10) {
        fail_msg("%zu bytes of %zu", coded, packed);
    }
}

static void tqn_s_scale_is_the_mean_of_what_it_draws(void **state)
{
    /* rms 1, so 0.7 at first: p = 1, 1, 1, 1 for all. */
    static const float even[] = {1, -1, 1, -1};
    /* rms 5, 3.5 at first: p = 1 and 3 times 0. */
    static const float one[] = {0, 10, 0, 0};
    float y[4];

    (void)state;
    through("tqn", NULL, 0, NULL, 0, even, y, 4);
    is(y, even, 4);
    through("tqn", NULL, 0, NULL, 0, one, y, 4);
    is(y, one, 4);
}

/* With two bits all but 0 are one step: its weighted mean. */
static void laq_fits_its_scale_where_the_weights_are(void **state)
{
    static const float x[] = {1, 1, 1, 1, 1, 1, 1, 3};
    const ps_codec *laq = ps_codec_find("laq");
    ps_params params = ps_params_default(laq->params);
    float state_of[10] = {0}, y[8];
    uint8_t bytes[8], again[8];
    ps_encoding head;

    (void)state;
    params.v[0] = 2;
    through("laq", "bits", 2, NULL, 0, x, y, 8); /* weights |x|: (7 + 9) / (7 + 3) */
    assert_true(fabsf(y[0] - 1.6f) < 1e-5f && y[7] == y[0]);
    assert_true(ps_codec_state_floats(laq, &params, 8) == 10);
    for (size_t i = 0; i < 8; i++) { /* a history of large ones, but not the last */
        state_of[2 + i] = i < 7 ? 1e8f : 0;
    }
    ps_codec_encode_with(laq, &params, state_of, 5, 0, x, 8, bytes, &head);
    assert_true(fabsf(head.msg.laq->scale - 1) < 1e-3f);
    memcpy(y, state_of, sizeof y);
    ps_codec_encode_with(laq, &params, state_of, 5, 0, x, 8, again, &head);
    assert_memory_equal(y, state_of, sizeof y); /* the same key: the same again */
    assert_memory_equal(bytes, again, 2);
    ps_codec_encode_with(laq, &params, state_of, 6, 0, x, 8, again, &head);
    assert_true(state_of[2] < 1e8f);
}

static void norm_has_zero_among_its_levels_and_does_not_wrap(void **state)
{
    static const float one[] = {2.5f}, zeros[] = {0, 0, 0}, x[] = {3, -4, 0.1f};
    float y[3], cut[3];

    (void)state;
    through("norm", NULL, 0, NULL, 0, one, y, 1);
    is(y, one, 1);
    through("norm", NULL, 0, NULL, 0, zeros, y, 3);
    is(y, zeros, 3);
    through("norm", "bits", 2, NULL, 0, x, y, 3); /* the norm is 5.001, and the only step */
    assert_true(fabsf(y[0] - 5.001f) < 1e-3f && fabsf(y[1] + 5.001f) < 1e-3f && y[2] == 0.0f);
    through("norm", "range", 0.2, NULL, 0, x, cut, 3);
    assert_true(fabsf(cut[0] - 1.0002f) < 1e-3f && fabsf(cut[1] + 1.0002f) < 1e-3f);
    assert_true(fabsf(cut[2] - 0.1f) < 1e-4f);
}

static void vote_goes_with_the_majority(void **state)
{
    static const float x[3][4] = {{1, 1, 1, -1}, {2, 2, -2, -2}, {6, -6, -6, 6}};
    static const float all[] = {9, 9, -9, -9}, two[] = {3, 3, 0, -3};
    const ps_codec *vote = ps_codec_find("vote");
    ps_params params = ps_params_default(vote->params);
    void *sum = calloc(1, vote->sum_bytes(4));
    float y[4];

    (void)state;
    assert_non_null(sum);
    for (size_t k = 0; k < 3; k++) {
        uint8_t byte;
        ps_encoding head;
        ps_status st;

        assert_int_equal(ps_codec_encode(vote, &params, 1, 0, x[k], 4, &byte, &head), 1);
        st = ps_codec_sum_add(vote, &head.msg, &byte, 1, sum, 4);
        assert_int_equal(st.code, PS_OK);
        vote->sum_value(sum, y, 4);
        if (k == 1) {
            is(y, two, 4);
        }
    }
    is(y, all, 4);
    free(sum);
}

/* Of scales 2^40 apart the smaller is rounded, and nothing runs over. */
static void intsum_adds_what_is_far_apart(void **state)
{
    static const float large[] = {0x1p60f, -0x1p60f, 0}, small[] = {0x1p20f, 0x1p20f, 0x1p20f};
    const ps_codec *intsum = ps_codec_find("intsum");
    ps_params params = ps_params_default(intsum->params);

    (void)state;
    for (int first = 0; first < 2; first++) {
        void *sum = calloc(1, intsum->sum_bytes(3));
        float y[3];

        assert_non_null(sum);
        for (int k = 0; k < 2; k++) {
            uint8_t bytes[3];
            ps_encoding head;
            ps_status st;
            size_t len =
                ps_codec_encode(intsum, &params, 1, 0, k == first ? large : small, 3, bytes, &head);

            st = ps_codec_sum_add(intsum, &head.msg, bytes, len, sum, 3);
            assert_int_equal(st.code, PS_OK);
        }
        intsum->sum_value(sum, y, 3);
        assert_true(y[0] == 0x1p60f && y[1] == -0x1p60f && fabsf(y[2]) < 0x1p32f);
        free(sum);
    }
}

/* How many of n are sent with these parameters and state. */
static size_t count_sent(const ps_params *params, float *state, uint64_t key, const float *x,
                         size_t n)
{
    static uint8_t bytes[4 * PS_CODEC_VALUES];
    ps_encoding head;

    ps_codec_encode_with(ps_codec_find("dgc"), params, state, key, 0, x, n, bytes, &head);
    return head.msg.dgc->count;
}

static void dgc_sends_about_its_share_and_never_a_quarter_more(void **state)
{
    enum { N = 16384, ROUNDS = 50 };
    const ps_codec *dgc = ps_codec_find("dgc");
    ps_params params = ps_params_default(dgc->params);
    static float x[N];
    size_t sum = 0;

    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        size_t count;

        for (size_t i = 0; i < N; i++) { /* some rounds with few different values */
            double v = ps_draw_normal(round, i);

            x[i] = (float)(round % 5 == 0 ? nearbyint(v) : v);
        }
        count = count_sent(&params, NULL, round, x, N);
        assert_true(count <= 164 + 41);
        sum += count;
    }
    assert_true(sum > ROUNDS * 164 / 2 && sum < ROUNDS * 164 * 5 / 4);
}

static void dgc_sends_the_largest(void **state)
{
    static float x[1000], y[1000];

    (void)state;
    for (size_t i = 0; i < 1000; i++) {
        x[i] = i % 100 == 7 ? 5.0f + (float)i : 0.001f * (float)ps_draw_unit(1, i);
    }
    /* Ten of 1000; the sample sees a few of them at most, so more may come. */
    through("dgc", "fraction", 0.02, NULL, 0, x, y, 1000);
    for (size_t i = 7; i < 1000; i += 100) {
        assert_true(y[i] == x[i]);
    }
}

static void dgc_s_share_falls_while_it_warms_up(void **state)
{
    enum { N = 16384 };
    const ps_codec *dgc = ps_codec_find("dgc");
    ps_params params = ps_params_default(dgc->params);
    static float x[N];
    float kept[3] = {0};
    size_t last = N;

    (void)state;
    params.v[ps_param_find(dgc->params, "warmup")] = 4;
    assert_int_equal(ps_codec_state_floats(dgc, &params, N), 3);
    for (size_t i = 0; i < N; i++) {
        x[i] = (float)ps_draw_normal(3, i);
    }
    for (uint64_t step = 0; step < 6; step++) {
        double share = step < 4 ? 0.25 * pow(0.01 / 0.25, (double)step / 4) : 0.01;
        size_t count = count_sent(&params, kept, step, x, N);

        assert_int_equal(count_sent(&params, kept, step, x, N), count); /* sent again */
        assert_true((double)count < share * N * 1.26 && (double)count > share * N / 2.5);
        assert_true(step > 4 || count < last);
        last = count;
    }
}

/* Square error of a slice through powersgd, as a share of its square. */
static double lost_by(const ps_params *params, float *state, uint64_t key, const float *x, size_t n)
{
    static uint8_t bytes[4 * PS_CODEC_VALUES];
    static float y[PS_CODEC_VALUES];
    ps_encoding head;
    double off = 0, square = 0;
    size_t len =
        ps_codec_encode_with(ps_codec_find("powersgd"), params, state, key, 0, x, n, bytes, &head);
    ps_status st = ps_codec_decode(NULL, &head.msg, bytes, len, PS_INTO_SET, y, n);

    assert_int_equal(st.code, PS_OK);
    for (size_t i = 0; i < n; i++) {
        off += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
        square += (double)x[i] * (double)x[i];
    }
    return off / square;
}

static void powersgd_keeps_what_has_its_rank(void **state)
{
    enum { ROWS = 50, COLUMNS = 40 };
    const ps_codec *powersgd = ps_codec_find("powersgd");
    ps_params params = ps_params_default(powersgd->params);
    static float x[ROWS * COLUMNS];

    (void)state;
    params.v[ps_param_find(powersgd->params, "columns")] = COLUMNS;
    for (size_t i = 0; i < ROWS * COLUMNS; i++) { /* a sum of two products */
        x[i] = (float)(ps_draw_normal(1, i / COLUMNS) * ps_draw_normal(2, i % COLUMNS) +
                       3 * ps_draw_normal(3, i / COLUMNS) * ps_draw_normal(4, i % COLUMNS));
    }
    params.v[0] = 1;
    assert_true(lost_by(&params, NULL, 1, x, ROWS * COLUMNS) > 0.001);
    params.v[0] = 2;
    assert_true(lost_by(&params, NULL, 1, x, ROWS * COLUMNS) < 1e-10);
    params.v[0] = 4; /* two more than there are */
    assert_true(lost_by(&params, NULL, 1, x, ROWS * COLUMNS) < 1e-10);
    assert_true(lost_by(&params, NULL, 1, x, ROWS * COLUMNS - 7) < 1e-10); /* a short row */
}

static void powersgd_gets_better_with_what_it_keeps(void **state)
{
    enum { N = 4096 };
    const ps_codec *powersgd = ps_codec_find("powersgd");
    ps_params params = ps_params_default(powersgd->params);
    static float x[N], kept[2 + 2 * 4 * 64];
    double first, last = 1;

    (void)state;
    assert_int_equal(ps_codec_state_floats(powersgd, &params, N), 2 + 2 * 4 * 64);
    for (size_t i = 0; i < N; i++) { /* singular values that fall slowly, and noise */
        x[i] = (float)(0.3 * ps_draw_normal(9, i));
        for (uint64_t k = 0; k < 8; k++) {
            x[i] += (float)(ps_draw_normal(10 + k, i / 64) * ps_draw_normal(20 + k, i % 64) *
                            exp2(-(double)k / 4));
        }
    }
    first = lost_by(&params, kept, 0, x, N);
    assert_true(lost_by(&params, kept, 0, x, N) == first); /* sent again */
    for (uint64_t step = 1; step < 10; step++) {
        last = lost_by(&params, kept, step, x, N);
    }
    for (uint64_t step = 0; step < 10; step++) { /* better than any that is drawn */
        double drawn = lost_by(&params, NULL, step, x, N);

        if (!(last < 0.95 * drawn)) {
            fail_msg("%g, drawn %g", last, drawn);
        }
    }
}

static void powersgd_leaves_small_slices_as_they_are(void **state)
{
    static float x[40], y[40];

    (void)state;
    for (size_t i = 0; i < 40; i++) {
        x[i] = (float)ps_draw_normal(1, i);
    }
    assert_int_equal(through("powersgd", NULL, 0, NULL, 0, x, y, 40), 160);
    assert_memory_equal(x, y, sizeof x);
}

/* What is of several slices is for who knows which (common/wire/matrix.h). */
static void powersgd_of_several_slices_is_not_one_slice_s(void **state)
{
    const ps_codec *powersgd = ps_codec_find("powersgd");
    ps_params params = ps_params_default(powersgd->params);
    static float x[4096];
    static uint8_t bytes[sizeof x];
    ps_encoding head;
    size_t len;
    ps_status st;

    (void)state;
    x[7] = 1.0f;
    len = ps_codec_encode(powersgd, &params, 1, 0, x, 4096, bytes, &head);
    st = ps_codec_check(powersgd, &head.msg, bytes, len, 4096);
    assert_int_equal(st.code, PS_OK);
    head.u.powersgd.slices = 1;
    st = ps_codec_check(powersgd, &head.msg, bytes, len, 4096);
    assert_int_equal(st.code, PS_DATA_LOSS);
    assert_non_null(strstr(st.text, "1 slices"));
}

/* ---- Finite values ---- */

/* An honest encoder's bytes or others: no value is above the codec's bound. */
static void is_within_bound(const ps_codec *c, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                            const float *y, size_t n)
{
    for (size_t i = 0; c->most != NULL && i < n; i++) {
        assert_true(fabsf(y[i]) <= c->most(head, head->row_width > 0 ? NULL : bytes, n));
    }
}

static void check_one(const ps_codec *c, void *arg)
{
    enum { N = 4096 };
    static const float bad[] = {0, NAN, INFINITY, -INFINITY, FLT_MAX};
    static float x[N], y[N], room[N];
    static uint8_t bytes[4 * PS_CODEC_VALUES];
    size_t *refused = arg;

    for (uint64_t round = 0; round < 60; round++) {
        ps_params params = ps_params_default(c->params);
        size_t rows = (size_t)ps_param_find(c->params, "rows"), first = N;
        ps_encoding head;
        size_t len;
        ps_status st;

        for (size_t i = 0; i < N; i++) {
            x[i] = round % 3 == 2 && i % 256 > 40 ? 0 : (float)ps_draw_normal(round, i);
        }
        x[ps_draw_below(7, round, N)] += bad[round % 5];
        if (c->sum_add == NULL && round % 3 == 2) {
            params.v[rows] = 1;
        }
        len = ps_codec_encode(c, &params, 77, 3, x, N, bytes, &head);
        st = ps_codec_check(c, &head.msg, bytes, len, N);
        assert_int_equal(st.code, PS_OK);
        st = ps_codec_decode(c, &head.msg, bytes, len, PS_INTO_SET, y, N);
        assert_int_equal(st.code, PS_OK);
        for (size_t i = N; i > 0; i--) {
            first = isfinite(y[i - 1]) ? first : i - 1;
        }
        st = ps_codec_check_finite(c, &head.msg, bytes, len, N, room);
        assert_int_equal(st.code, first < N ? PS_INVALID_ARGUMENT : PS_OK);
        if (first < N && head.msg.row_width == 0) {
            char name[32];

            snprintf(name, sizeof name, "value %zu is", first);
            assert_non_null(strstr(st.text, name));
        }
        *refused += first < N;
        is_within_bound(c, &head.msg, bytes, y, N);
        for (size_t i = 0; i < len; i++) {
            bytes[i] = (uint8_t)ps_draw_below(8, round * PS_CODEC_VALUES + i, 256);
        }
        st = ps_codec_decode(c, &head.msg, bytes, len, PS_INTO_SET, y, N);
        if (ps_is_ok(&st)) {
            is_within_bound(c, &head.msg, bytes, y, N);
        }
    }
}

static void what_does_not_decode_to_finite_numbers_is_found(void **state)
{
    size_t refused = 0;

    (void)state;
    ps_codec_each(check_one, &refused);
    assert_true(refused > 100); /* codecs that send floats let NaN through */
}

/* A head may say what no honest encoder would. */
static void a_scale_that_overflows_is_found(void **state)
{
    static const uint8_t ones[] = {1, 0x80}, zeros[2];
    Psgd__V1__Int8 int8 = PSGD__V1__INT8__INIT;
    Psgd__V1__Encoding head = PSGD__V1__ENCODING__INIT;
    float room[2];
    ps_status st;

    (void)state;
    int8.scale = FLT_MAX;
    head.payload_bytes = 2;
    head.codec_case = PSGD__V1__ENCODING__CODEC_INT8;
    head.int8 = &int8;
    st = ps_codec_check(NULL, &head, ones, 2, 2);
    assert_int_equal(st.code, PS_OK);
    st = ps_codec_check_finite(NULL, &head, ones, 2, 2, room);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    int8.scale = FLT_MAX / 256;
    st = ps_codec_check_finite(NULL, &head, zeros, 2, 2, room);
    assert_int_equal(st.code, PS_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_large_and_small_numbers_are_accepted_after_saving),
        cmocka_unit_test(topk_takes_the_largest_and_of_equals_the_first),
        cmocka_unit_test(topk_is_what_sorting_gives),
        cmocka_unit_test(threshold_sends_what_is_above_it),
        cmocka_unit_test(infinity_counts_as_the_largest_and_nan_as_nothing),
        cmocka_unit_test(sign_has_the_mean_or_the_deviation),
        cmocka_unit_test(onebit_has_a_mean_for_each_sign),
        cmocka_unit_test(ternary_cuts_at_so_many_root_mean_squares),
        cmocka_unit_test(qsgd_has_a_norm_for_each_bucket),
        cmocka_unit_test(randomk_takes_one_of_each_run),
        cmocka_unit_test(natural_draws_between_two_powers),
        cmocka_unit_test(threelc_shortens_runs_of_zeros),
        cmocka_unit_test(intn_rounds_to_the_nearest_step),
        cmocka_unit_test(cot_has_the_levels_of_its_grid),
        cmocka_unit_test(cot_takes_fewer_bits_for_fewer_levels),
        cmocka_unit_test(tqn_s_scale_is_the_mean_of_what_it_draws),
        cmocka_unit_test(laq_fits_its_scale_where_the_weights_are),
        cmocka_unit_test(dgc_sends_about_its_share_and_never_a_quarter_more),
        cmocka_unit_test(dgc_sends_the_largest),
        cmocka_unit_test(dgc_s_share_falls_while_it_warms_up),
        cmocka_unit_test(powersgd_keeps_what_has_its_rank),
        cmocka_unit_test(powersgd_gets_better_with_what_it_keeps),
        cmocka_unit_test(powersgd_leaves_small_slices_as_they_are),
        cmocka_unit_test(powersgd_of_several_slices_is_not_one_slice_s),
        cmocka_unit_test(vote_goes_with_the_majority),
        cmocka_unit_test(intsum_adds_what_is_far_apart),
        cmocka_unit_test(norm_has_zero_among_its_levels_and_does_not_wrap),
        cmocka_unit_test(what_does_not_decode_to_finite_numbers_is_found),
        cmocka_unit_test(a_scale_that_overflows_is_found),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
