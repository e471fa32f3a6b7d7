/* SPDX-License-Identifier: Apache-2.0 */
/* test_codec.c - what every codec must do; runs on all of common/codec/list.h. */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/codec/codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000 };

typedef void on_codec(const ps_codec *c, const ps_params *params);

static void call(const ps_codec *c, void *arg)
{
    ps_params params = ps_params_default(c->params);

    ((on_codec *)(uintptr_t)arg)(c, &params);
}

static void each(on_codec *fn)
{
    ps_codec_each(call, (void *)(uintptr_t)fn);
}

/* Magnitudes over many powers of two, all normal in binary16. */
static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double exponent = (double)ps_draw_below(7, 2 * i, 28) - 13.0;

        x[i] = (float)(ps_draw_unit(7, 2 * i + 1) < 0.5 ? -1.0 : 1.0) *
               (float)exp2(exponent + ps_draw_unit(8, i));
    }
}

static uint8_t *encoded(const ps_codec *c, const ps_params *params, uint64_t key, const float *x,
                        size_t n, ps_encoding *head)
{
    /* Exact, so that ASan sees one byte too many. */
    uint8_t *out = malloc(c->size(params, n) + (n == 0));

    assert_non_null(out);
    ps_codec_encode(c, params, key, 3, x, n, out, head);
    assert_int_equal(head->msg.slice, 3);
    assert_int_equal(head->msg.payload_bytes, c->size(params, n));
    return out;
}

static void decoded(const ps_codec *c, const ps_encoding *head, const uint8_t *in, ps_into into,
                    float *y, size_t n)
{
    ps_status st = ps_codec_decode(c, &head->msg, in, head->msg.payload_bytes, into, y, n);

    if (!ps_is_ok(&st)) {
        fail_msg("%s: %s", c->name, st.text);
    }
}

static void round_trip(const ps_codec *c, const ps_params *params)
{
    static const size_t lengths[] = {0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 65, N, PS_CODEC_VALUES};
    static float x[PS_CODEC_VALUES], y[PS_CODEC_VALUES];

    fill(x, PS_CODEC_VALUES);
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        size_t n = lengths[l];
        float most = 0;
        ps_encoding head;
        uint8_t *bytes = encoded(c, params, 1, x, n, &head);

        memset(y, 0xff, sizeof y);
        decoded(c, &head, bytes, PS_INTO_SET, y, n);
        for (size_t i = 0; i < n; i++) {
            most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        }
        for (size_t i = 0; i < n; i++) {
            double bound = c->error_of_value * fabs((double)x[i]) + c->error_of_max * (double)most;

            if (!(fabs((double)y[i] - (double)x[i]) <= bound)) {
                fail_msg("%s: %zu of %zu: %a became %a", c->name, i, n, (double)x[i], (double)y[i]);
            }
        }
        free(bytes);
    }
}

static void adds(const ps_codec *c, const ps_params *params)
{
    float x[N], set[N], sum[N];
    ps_encoding head;
    uint8_t *bytes;

    fill(x, N);
    bytes = encoded(c, params, 1, x, N, &head);
    decoded(c, &head, bytes, PS_INTO_SET, set, N);
    for (size_t i = 0; i < N; i++) {
        sum[i] = (float)i;
    }
    decoded(c, &head, bytes, PS_INTO_ADD, sum, N);
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

    fill(x, N);
    first = encoded(c, params, 5, x, N, &a);
    second = encoded(c, params, 5, x, N, &b);
    assert_memory_equal(first, second, a.msg.payload_bytes);
    free(first);
    free(second);
}

/* A codec that calls itself unbiased has the value as its mean over keys. */
static void mean_is_value(const ps_codec *c, const ps_params *params)
{
    enum { SOME = 40, DRAWS = 4000 };
    float x[SOME], y[SOME];
    double sum[SOME] = {0}, sigma;

    if (!c->unbiased) {
        return;
    }
    for (size_t i = 0; i < SOME; i++) {
        x[i] = (float)(ps_draw_unit(11, i) * 2.0 - 1.0);
    }
    x[0] = 1.0f;
    for (uint64_t key = 0; key < DRAWS; key++) {
        ps_encoding head;
        uint8_t *bytes =
            encoded(c, params, ps_draw_key(1, PS_DRAW_TEST, key, 0, 0), x, SOME, &head);

        decoded(c, &head, bytes, PS_INTO_SET, y, SOME);
        free(bytes);
        for (size_t i = 0; i < SOME; i++) {
            sum[i] += (double)y[i];
        }
    }
    /* One draw lies between two steps: its deviation is at most half a step. */
    sigma = c->error_of_max / 2 / sqrt((double)DRAWS);
    for (size_t i = 0; i < SOME; i++) {
        double off = fabs(sum[i] / DRAWS - (double)x[i]);

        if (off > 5 * sigma + c->error_of_value) {
            fail_msg("%s: mean %g for %g", c->name, sum[i] / DRAWS, (double)x[i]);
        }
    }
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
            bytes = encoded(c, params, 9, x, n, &head);
            decoded(c, &head, bytes, PS_INTO_SET, y, n);
            for (size_t i = 0; i < n; i++) {
                assert_true(x[i] != 0.0f || y[i] == 0.0f);
            }
            free(bytes);
        }
    }
}

static void refuses(const ps_codec *c, const ps_params *params)
{
    float x[N], y[N], before[N];
    ps_encoding head;
    uint8_t *bytes;
    size_t len = c->size(params, N);
    ps_status st;

    fill(x, N);
    fill(y, N);
    memcpy(before, y, sizeof y);
    bytes = encoded(c, params, 1, x, N, &head);
    for (size_t cut = 1; cut < 9; cut++) { /* shorter than n values take */
        head.msg.payload_bytes = (uint32_t)(len - cut);
        st = ps_codec_decode(c, &head.msg, bytes, len - cut, PS_INTO_SET, y, N);
        assert_int_equal(st.code, PS_DATA_LOSS);
        st = ps_codec_check(c, &head.msg, bytes, len - cut, N);
        assert_int_equal(st.code, PS_DATA_LOSS);
    }
    head.msg.payload_bytes = (uint32_t)len;
    st = ps_codec_decode(c, &head.msg, bytes, len, PS_INTO_SET, y, N - 1);
    assert_int_equal(st.code, PS_DATA_LOSS);
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
    assert_true((double)c->size(params, 8000) * 8 / 8000 == c->bits_per_value);
}

static void survives_the_wire(const ps_codec *c, const ps_params *params)
{
    float x[N], y[N], z[N];
    ps_encoding head, copy;
    uint8_t *bytes, packed[256];
    Psgd__V1__Encoding *received;
    size_t len;

    fill(x, N);
    bytes = encoded(c, params, 1, x, N, &head);
    decoded(c, &head, bytes, PS_INTO_SET, y, N);
    len = psgd__v1__encoding__pack(&head.msg, packed);
    assert_true(len <= sizeof packed);
    received = psgd__v1__encoding__unpack(NULL, len, packed);
    assert_non_null(received);
    ps_encoding_copy(&copy, received);
    psgd__v1__encoding__free_unpacked(received, NULL); /* the copy needs nothing of it */
    decoded(c, &copy, bytes, PS_INTO_SET, z, N);
    assert_memory_equal(y, z, sizeof y);
    free(bytes);
}

static void every_codec_round_trips_within_its_bounds(void **state)
{
    (void)state;
    each(round_trip);
}

static void every_codec_adds_what_it_would_set(void **state)
{
    (void)state;
    each(adds);
}

static void every_codec_gives_the_same_bytes_for_the_same_key(void **state)
{
    (void)state;
    each(repeats);
}

static void an_unbiased_codec_is_right_on_average(void **state)
{
    (void)state;
    each(mean_is_value);
}

static void every_codec_takes_values_that_are_no_numbers(void **state)
{
    (void)state;
    each(takes_odd_values);
}

static void every_codec_refuses_other_lengths_and_changes_nothing(void **state)
{
    (void)state;
    each(refuses);
}

static void every_codec_is_found_by_name_and_by_wire(void **state)
{
    (void)state;
    each(knows_its_names);
    assert_null(ps_codec_find("f17"));
    assert_null(ps_codec_of_wire(PSGD__V1__ENCODING__CODEC__NOT_SET));
    assert_null(ps_codec_of_wire((Psgd__V1__Encoding__CodecCase)4711));
}

static void a_head_survives_the_wire(void **state)
{
    (void)state;
    each(survives_the_wire);
}

static void another_codec_than_the_job_s_is_refused(void **state)
{
    const ps_codec *f16 = ps_codec_find("f16"), *f32 = ps_codec_find("f32");
    ps_params params = ps_params_default(f16->params);
    float x[2] = {1, 2}, y[2] = {0};
    ps_encoding head;
    uint8_t *bytes = encoded(f16, &params, 1, x, 2, &head);
    ps_status st = ps_codec_decode(f32, &head.msg, bytes, 4, PS_INTO_SET, y, 2);

    (void)state;
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = ps_codec_check(f32, &head.msg, bytes, 4, 2);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    decoded(f16, &head, bytes, PS_INTO_SET, y, 2);
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
        cmocka_unit_test(every_codec_refuses_other_lengths_and_changes_nothing),
        cmocka_unit_test(every_codec_is_found_by_name_and_by_wire),
        cmocka_unit_test(a_head_survives_the_wire),
        cmocka_unit_test(another_codec_than_the_job_s_is_refused),
        cmocka_unit_test(no_payload_stands_for_zeros),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
