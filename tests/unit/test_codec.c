/* SPDX-License-Identifier: Apache-2.0 */
/* test_codec.c - what every codec must do; runs on all of common/codec/list.h. */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/codec/codec.h"
#include "common/codec/wrap.h"
#include "tests/support/codec_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double bound_of(const ps_codec *c, const ps_params *params, double x, double most)
{
    ps_codec_facts facts = c->facts(params);

    return facts.error_of_value * fabs(x) + facts.error_of_max * most;
}

static void trip(const ps_codec *c, const ps_params *params, const float *x, size_t n)
{
    static float y[PS_CODEC_VALUES];
    float most = 0;
    ps_encoding head;
    uint8_t *bytes = codec_encoded(c, params, 1, x, n, &head);

    memset(y, 0xff, sizeof y);
    codec_decoded(c, &head, bytes, PS_INTO_SET, y, n);
    for (size_t i = 0; i < n; i++) {
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    }
    for (size_t i = 0; i < n; i++) {
        double bound = bound_of(c, params, (double)x[i], (double)most);

        if (!(fabs((double)y[i] - (double)x[i]) <= bound)) {
            fail_msg("%s: %zu of %zu: %a became %a", c->name, i, n, (double)x[i], (double)y[i]);
        }
    }
    free(bytes);
}

static void fill_zeros(float *x, size_t n)
{
    memset(x, 0, n * sizeof *x);
}

static void round_trip(const ps_codec *c, const ps_params *params)
{
    static void (*const fills[])(float *, size_t) = {codec_fill, codec_fill_normal,
                                                     codec_fill_equal, codec_fill_few, fill_zeros};
    static const size_t lengths[] = {0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 65, N, PS_CODEC_VALUES};
    static float x[PS_CODEC_VALUES];

    for (size_t f = 0; f < sizeof fills / sizeof fills[0]; f++) {
        fills[f](x, PS_CODEC_VALUES);
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            trip(c, params, x, lengths[l]);
        }
    }
}

static void keeps_to_its_size(const ps_codec *c, const ps_params *params)
{
    for (size_t n = 0; n <= PS_CODEC_VALUES; n++) {
        size_t bytes = c->size(params, n);

        assert_true(bytes <= 4 * n + 8 && bytes <= 4 * (size_t)PS_CODEC_VALUES);
        assert_true(n > 0 || bytes == 0);
    }
}

static void adds(const ps_codec *c, const ps_params *params)
{
    float x[N], set[N], sum[N];
    ps_encoding head;
    uint8_t *bytes;

    codec_fill(x, N);
    bytes = codec_encoded(c, params, 1, x, N, &head);
    codec_decoded(c, &head, bytes, PS_INTO_SET, set, N);
    for (size_t i = 0; i < N; i++) {
        sum[i] = (float)i;
    }
    codec_decoded(c, &head, bytes, PS_INTO_ADD, sum, N);
    for (size_t i = 0; i < N; i++) {
        assert_true(sum[i] == (float)i + set[i]);
    }
    free(bytes);
}

static void repeats(const ps_codec *c, const ps_params *params)
{
    float x[N];
    ps_encoding a, b;
    uint8_t *first, *second;

    codec_fill(x, N);
    first = codec_encoded(c, params, 5, x, N, &a);
    second = codec_encoded(c, params, 5, x, N, &b);
    assert_memory_equal(first, second, a.msg.payload_bytes);
    free(first);
    free(second);
}

/* A codec that calls itself unbiased has the value as its mean over keys. */
static void mean_is_value(const ps_codec *c, const ps_params *params)
{
    enum { SOME = 40, DRAWS = 10000 };
    float x[SOME], y[SOME];
    double sum[SOME] = {0};

    if (!c->facts(params).is_unbiased) {
        return;
    }
    for (size_t i = 0; i < SOME; i++) {
        x[i] = (float)(ps_draw_unit(11, i) * 2.0 - 1.0);
    }
    x[0] = 1.0f;
    for (uint64_t key = 0; key < DRAWS; key++) {
        ps_encoding head;
        uint8_t *bytes =
            codec_encoded(c, params, ps_draw_key(1, PS_DRAW_TEST, key, 0, 0), x, SOME, &head);

        codec_decoded(c, &head, bytes, PS_INTO_SET, y, SOME);
        free(bytes);
        for (size_t i = 0; i < SOME; i++) {
            sum[i] += (double)y[i];
        }
    }
    for (size_t i = 0; i < SOME; i++) {
        /* One draw lies between two steps, no further apart than the error is
         * large: its deviation is at most half of that. */
        double sigma = bound_of(c, params, (double)x[i], 1) / 2 / sqrt((double)DRAWS);
        double off = fabs(sum[i] / DRAWS - (double)x[i]);

        if (off > 5 * sigma + 0x1p-22) {
            fail_msg("%s: mean %g for %g", c->name, sum[i] / DRAWS, (double)x[i]);
        }
    }
}

/* Bytes of one key are floats that may be added as they are. */
static void sum_is_sum(const ps_codec *c, const ps_params *params)
{
    float a[N], b[N], sum[N], parts[N];
    ps_encoding head;
    uint8_t *first, *second;

    if (!ps_codec_facts_of(c, params).is_summable || c->sum_add != NULL) {
        return;
    }
    codec_fill(a, N);
    codec_fill_normal(b, N);
    first = codec_encoded(c, params, 5, a, N, &head);
    codec_decoded(c, &head, first, PS_INTO_SET, parts, N);
    second = codec_encoded(c, params, 5, b, N, &head);
    codec_decoded(c, &head, second, PS_INTO_ADD, parts, N);
    for (size_t at = 0; at + sizeof(float) <= head.msg.payload_bytes; at += sizeof(float)) {
        float v, w;

        memcpy(&v, first + at, sizeof v);
        memcpy(&w, second + at, sizeof w);
        v += w;
        memcpy(second + at, &v, sizeof v);
    }
    codec_decoded(c, &head, second, PS_INTO_SET, sum, N);
    assert_memory_equal(sum, parts, sizeof sum);
    free(first);
    free(second);
}

/* Merged without decoding, one is what decoding gives, and several do not depend on
 * their order, and are the sum of what each stands for, but of a vote. */
static void sums_undecoded(const ps_codec *c, const ps_params *params)
{
    enum { SEVERAL = 5 };
    static float x[N], y[N], total[N], merged[2][N];
    size_t apart = 0;
    void *sum;

    if (c->sum_add == NULL) {
        return;
    }
    for (int turn = 0; turn < 2; turn++) {
        sum = calloc(1, c->sum_bytes(N));
        assert_non_null(sum);
        memset(total, 0, sizeof total);
        for (uint64_t j = 0; j < SEVERAL; j++) {
            uint64_t which = turn == 0 ? j : SEVERAL - 1 - j;
            ps_encoding head;
            uint8_t *bytes;
            ps_status st;

            for (size_t i = 0; i < N; i++) {
                x[i] = (float)(ps_draw_normal(which, i) * exp2((double)(which * 3 % 5)));
            }
            bytes = codec_encoded(c, params, which, x, N, &head);
            codec_decoded(c, &head, bytes, PS_INTO_SET, y, N);
            st = ps_codec_sum_add(c, &head.msg, bytes, head.msg.payload_bytes, sum, N);
            assert_int_equal(st.code, PS_OK);
            head.msg.payload_bytes = 0;
            st = ps_codec_sum_add(c, &head.msg, NULL, 0, sum, N); /* zeros add nothing */
            assert_int_equal(st.code, PS_OK);
            c->sum_value(sum, merged[turn], N);
            assert_true(j > 0 || memcmp(merged[turn], y, sizeof y) == 0);
            for (size_t i = 0; i < N; i++) {
                total[i] += y[i];
            }
            free(bytes);
        }
        free(sum);
    }
    assert_memory_equal(merged[0], merged[1], sizeof merged[0]);
    for (size_t i = 0; i < N; i++) {
        apart += fabsf(merged[0][i] - total[i]) > 1e-5f * fabsf(total[i]) + 1e-30f;
    }
    assert_true(c->sum_is_vote == (apart > 0));
    assert_false(c->sum_is_vote && c->facts(params).is_unbiased);
}

static void contributions_merge_undecoded_in_any_order(void **state)
{
    (void)state;
    codec_each_case(sums_undecoded);
}

static void takes_odd_values(const ps_codec *c, const ps_params *params)
{
    static const float odd[] = {
        NAN,       -NAN, INFINITY, -INFINITY,       0x1p-149f,        -0x1p-149f,
        0x1p-126f, 0.0f, -0.0f,    0x1.fffffep127f, -0x1.fffffep127f, 1.0f};
    enum { ODD = sizeof odd / sizeof odd[0] };
    float x[N], y[N];

    for (size_t start = 0; start < ODD; start++) {
        for (size_t n = 1; n + start <= ODD; n++) {
            ps_encoding head;
            uint8_t *bytes;

            memcpy(x, odd + start, n * sizeof *x);
            bytes = codec_encoded(c, params, 9, x, n, &head);
            codec_decoded(c, &head, bytes, PS_INTO_SET, y, n);
            for (size_t i = 0; i < n; i++) {
                assert_true(!c->facts(params).keeps_zeros || x[i] != 0.0f || y[i] == 0.0f);
            }
            free(bytes);
        }
    }
}

/* All values so small, or so large, that a careless scale is 0 or infinite. */
static void takes_extremes(const ps_codec *c, const ps_params *params)
{
    static const float extremes[] = {0x1p-149f, 0x1p-127f, 0x1p-126f, 0x1p-101f,
                                     0x1p-99f,  0x1p64f,   0x1p127f,  0x1.fffffep127f};

    for (size_t e = 0; e < sizeof extremes / sizeof extremes[0]; e++) {
        float x[N], y[N];
        ps_encoding head;
        uint8_t *bytes;

        for (size_t i = 0; i < N; i++) {
            x[i] = i % 2 == 0 ? extremes[e] : -extremes[e];
        }
        bytes = codec_encoded(c, params, 2, x, N, &head);
        codec_decoded(c, &head, bytes, PS_INTO_SET, y, N);
        for (size_t i = 0; i < N; i++) {
            assert_true(!isnan(y[i]));
        }
        free(bytes);
    }
}

static void refuses(const ps_codec *c, const ps_params *params)
{
    float x[N], y[N], before[N];
    ps_encoding head;
    uint8_t *bytes;
    ps_status st;
    size_t len;

    codec_fill(x, N);
    codec_fill(y, N);
    memcpy(before, y, sizeof y);
    bytes = codec_encoded(c, params, 1, x, N, &head);
    len = head.msg.payload_bytes;
    if (len == 0) {
        free(bytes);
        return;
    }
    for (size_t cut = 1; cut < 9 && cut < len; cut++) { /* shorter than n values take */
        head.msg.payload_bytes = (uint32_t)(len - cut);
        st = ps_codec_decode(c, &head.msg, bytes, len - cut, PS_INTO_SET, y, N);
        assert_int_equal(st.code, PS_DATA_LOSS);
        st = ps_codec_check(c, &head.msg, bytes, len - cut, N);
        assert_int_equal(st.code, PS_DATA_LOSS);
    }
    head.msg.payload_bytes = (uint32_t)len;
    if (!c->facts(params).is_sparse) { /* those say in the head how many they send */
        st = ps_codec_decode(c, &head.msg, bytes, len, PS_INTO_SET, y, N / 2);
        assert_int_equal(st.code, PS_DATA_LOSS);
    }
    st = ps_codec_decode(c, &head.msg, bytes, len - 1, PS_INTO_SET, y, N);
    assert_int_equal(st.code, PS_DATA_LOSS); /* the head says otherwise */
    head.msg.codec_case = PSGD__V1__ENCODING__CODEC__NOT_SET;
    st = ps_codec_decode(c, &head.msg, bytes, len, PS_INTO_SET, y, N);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_memory_equal(y, before, sizeof y);
    free(bytes);
}

static void knows_its_names(const ps_codec *c, const ps_params *params)
{
    assert_ptr_equal(ps_codec_find(c->name), c);
    assert_ptr_equal(ps_codec_of_wire(c->wire), c);
    assert_true(c->summary != NULL && c->summary[0] != '\0');
    (void)params;
    for (size_t i = 0; i < PS_WRAP_COUNT; i++) {
        static const char *const wraps[] = {"lossless",   "rows",     "error_feedback",
                                            "difference", "momentum", "lazy"};

        assert_string_equal(c->params[c->own + i].name, wraps[i]);
    }
    assert_null(c->params[c->own + PS_WRAP_COUNT].name);
}

static void count_one(const ps_codec *c, void *arg)
{
    (void)c;
    ++*(size_t *)arg;
}

/* What docs/codecs.md says. */
static const struct {
    const char *name;
    double bits;
} documented[] = {
    {"f32", 32},     {"f16", 16},       {"int8", 8},       {"bf16", 16},     {"intn", 4},
    {"natural", 8},  {"sign", 1},       {"onebit", 1},     {"ternary", 1.6}, {"qsgd", 4.0625},
    {"topk", 0.46},  {"randomk", 0.32}, {"threshold", 32}, {"threelc", 1.6}, {"cot", 4},
    {"tqn", 1.6},    {"laq", 4},        {"norm", 16},      {"vote", 1},      {"intsum", 8},
    {"dgc", 0.5757}, {"powersgd", 2},
};

/* Counted on the bytes of a full slice, and its head as it is packed. */
static void has_its_bits(const ps_codec *c, void *arg)
{
    static float x[PS_CODEC_VALUES];
    ps_params params = ps_params_default(c->params);
    size_t *count = arg;

    codec_fill_normal(x, PS_CODEC_VALUES);
    for (size_t i = 0; i < sizeof documented / sizeof documented[0]; i++) {
        if (strcmp(documented[i].name, c->name) == 0) {
            ps_encoding head;
            uint8_t *bytes = codec_encoded(c, &params, 1, x, PS_CODEC_VALUES, &head);
            double bits = (double)head.msg.payload_bytes * 8 / PS_CODEC_VALUES;
            size_t packed = psgd__v1__encoding__get_packed_size(&head.msg);

            assert_true(fabs(ps_codec_bits(c, &params) - documented[i].bits) < 0.001);
            if (ps_codec_depends_on_data(c, &params)) {
                assert_true(bits < documented[i].bits + 0.001);
            } else {
                assert_true(fabs(bits - documented[i].bits) < 0.001);
            }
            if (packed < 6 || packed > 20) {
                fail_msg("%s: a head of %zu bytes", c->name, packed);
            }
            free(bytes);
            (*count)++;
        }
    }
}

static void every_codec_takes_the_documented_bits(void **state)
{
    size_t codecs = 0, checked = 0;

    (void)state;
    ps_codec_each(has_its_bits, &checked);
    ps_codec_each(count_one, &codecs);
    assert_int_equal(checked, codecs);
}

static void survives_the_wire(const ps_codec *c, const ps_params *params)
{
    float x[N], y[N], z[N];
    ps_encoding head, copy;
    uint8_t *bytes, packed[256];
    Psgd__V1__Encoding *received;
    size_t len;

    codec_fill(x, N);
    bytes = codec_encoded(c, params, 1, x, N, &head);
    codec_decoded(c, &head, bytes, PS_INTO_SET, y, N);
    len = psgd__v1__encoding__pack(&head.msg, packed);
    assert_true(len <= sizeof packed);
    received = psgd__v1__encoding__unpack(NULL, len, packed);
    assert_non_null(received);
    ps_encoding_copy(&copy, received);
    psgd__v1__encoding__free_unpacked(received, NULL); /* the copy needs nothing of it */
    codec_decoded(c, &copy, bytes, PS_INTO_SET, z, N);
    assert_memory_equal(y, z, sizeof y);
    free(bytes);
}

static void every_codec_round_trips_within_its_bounds(void **state)
{
    (void)state;
    codec_each_case(round_trip);
}

static void every_codec_adds_what_it_would_set(void **state)
{
    (void)state;
    codec_each_case(adds);
}

static void every_codec_gives_the_same_bytes_for_the_same_key(void **state)
{
    (void)state;
    codec_each_case(repeats);
}

static void an_unbiased_codec_is_right_on_average(void **state)
{
    (void)state;
    codec_each_case(mean_is_value);
}

static void every_codec_takes_values_that_are_no_numbers(void **state)
{
    (void)state;
    codec_each_case(takes_odd_values);
}

static void no_codec_makes_nan_of_the_smallest_and_the_largest(void **state)
{
    (void)state;
    codec_each_case(takes_extremes);
}

static void every_codec_keeps_to_its_size(void **state)
{
    (void)state;
    codec_each_case(keeps_to_its_size);
}

static void bytes_of_a_summable_codec_add_up(void **state)
{
    (void)state;
    codec_each_case(sum_is_sum);
}

static void every_codec_refuses_other_lengths_and_changes_nothing(void **state)
{
    (void)state;
    codec_each_case(refuses);
}

static void every_codec_is_found_by_name_and_by_wire(void **state)
{
    (void)state;
    codec_each_case(knows_its_names);
    assert_null(ps_codec_find("f17"));
    assert_null(ps_codec_of_wire(PSGD__V1__ENCODING__CODEC__NOT_SET));
    assert_null(ps_codec_of_wire((Psgd__V1__Encoding__CodecCase)4711));
}

static void a_head_survives_the_wire(void **state)
{
    (void)state;
    codec_each_case(survives_the_wire);
}

static void another_codec_than_the_job_s_is_refused(void **state)
{
    const ps_codec *f16 = ps_codec_find("f16"), *f32 = ps_codec_find("f32");
    ps_params params = ps_params_default(f16->params);
    float x[2] = {1, 2}, y[2] = {0};
    ps_encoding head;
    uint8_t *bytes = codec_encoded(f16, &params, 1, x, 2, &head);
    ps_status st = ps_codec_decode(f32, &head.msg, bytes, 4, PS_INTO_SET, y, 2);

    (void)state;
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = ps_codec_check(f32, &head.msg, bytes, 4, 2);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    codec_decoded(f16, &head, bytes, PS_INTO_SET, y, 2);
    assert_true(y[1] == 2.0f);
    free(bytes);
}

static void no_payload_stands_for_zeros(void **state)
{
    Psgd__V1__Encoding head = PSGD__V1__ENCODING__INIT;
    float y[2] = {1, 2};
    ps_status st = ps_codec_decode(ps_codec_find("f32"), &head, NULL, 0, PS_INTO_ADD, y, 2);

    (void)state;
    assert_int_equal(st.code, PS_OK);
    assert_true(y[0] == 1.0f && y[1] == 2.0f);
    st = ps_codec_decode(NULL, &head, NULL, 0, PS_INTO_SET, y, 2);
    assert_int_equal(st.code, PS_OK);
    assert_true(y[0] == 0.0f && y[1] == 0.0f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_round_trips_within_its_bounds),
        cmocka_unit_test(every_codec_adds_what_it_would_set),
        cmocka_unit_test(every_codec_gives_the_same_bytes_for_the_same_key),
        cmocka_unit_test(an_unbiased_codec_is_right_on_average),
        cmocka_unit_test(every_codec_takes_values_that_are_no_numbers),
        cmocka_unit_test(no_codec_makes_nan_of_the_smallest_and_the_largest),
        cmocka_unit_test(every_codec_keeps_to_its_size),
        cmocka_unit_test(bytes_of_a_summable_codec_add_up),
        cmocka_unit_test(contributions_merge_undecoded_in_any_order),
        cmocka_unit_test(every_codec_takes_the_documented_bits),
        cmocka_unit_test(every_codec_refuses_other_lengths_and_changes_nothing),
        cmocka_unit_test(every_codec_is_found_by_name_and_by_wire),
        cmocka_unit_test(a_head_survives_the_wire),
        cmocka_unit_test(another_codec_than_the_job_s_is_refused),
        cmocka_unit_test(no_payload_stands_for_zeros),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
