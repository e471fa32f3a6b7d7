/* SPDX-License-Identifier: Apache-2.0 */
/* test_codec_stages.c - what an encoding goes through beside its codec: rows of zeros
 * left out, bytes compressed; and that junk there is refused. */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/codec/codec.h"
#include "common/codec/wrap.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { N = 4096, LZ4 = 1, ZSTD = 2 };

static ps_params made_with(const ps_codec *c, int wrap, double value)
{
    ps_params params = ps_params_default(c->params);

    params.v[c->own + (size_t)wrap] = value;
    return params;
}

static size_t encode(const ps_codec *c, const ps_params *params, const float *x, size_t n,
                     uint8_t *out, ps_encoding *head)
{
    return ps_codec_encode(c, params, 1, 0, x, n, out, head);
}

static void is_data_loss(const ps_encoding *head, const uint8_t *in, size_t len, size_t n)
{
    static float y[N], before[N];
    ps_status st = ps_codec_check(NULL, &head->msg, in, len, n);

    assert_int_equal(st.code, PS_DATA_LOSS);
    st = ps_codec_decode(NULL, &head->msg, in, len, PS_INTO_ADD, y, n);
    assert_int_equal(st.code, PS_DATA_LOSS);
    assert_memory_equal(y, before, sizeof y);
}

static void bytes_that_repeat_are_compressed(void **state)
{
    const ps_codec *f32 = ps_codec_find("f32");
    static uint8_t out[4 * N];
    static float x[N], y[N];

    (void)state;
    for (size_t i = 0; i < N; i++) {
        x[i] = (float)(i % 8);
    }
    for (int how = LZ4; how <= ZSTD; how++) {
        ps_params params = made_with(f32, PS_WRAP_LOSSLESS, how);
        ps_encoding head;
        size_t len = encode(f32, &params, x, N, out, &head);
        ps_status st;

        assert_true(len < sizeof out / 50);
        assert_int_equal(head.msg.lossless, how);
        assert_int_equal(head.msg.raw_bytes, sizeof out);
        assert_false(ps_encoding_is_plain(&head.msg));
        assert_false(ps_codec_is_plain(f32, &params));
        memset(y, 0xff, sizeof y);
        st = ps_codec_decode(f32, &head.msg, out, len, PS_INTO_SET, y, N);
        assert_int_equal(st.code, PS_OK);
        assert_memory_equal(x, y, sizeof x);
    }
}

static void bytes_that_would_grow_stay_as_they_are(void **state)
{
    const ps_codec *f32 = ps_codec_find("f32");
    static uint8_t out[4 * N];
    static float x[N];

    (void)state;
    for (size_t i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)ps_draw_u64(1, i);

        memcpy(&x[i], &bits, sizeof bits);
    }
    for (int how = LZ4; how <= ZSTD; how++) {
        ps_params params = made_with(f32, PS_WRAP_LOSSLESS, how);
        ps_encoding head;

        assert_int_equal(encode(f32, &params, x, N, out, &head), sizeof out);
        assert_true(ps_encoding_is_plain(&head.msg));
        assert_memory_equal(out, x, sizeof x);
        assert_int_equal(encode(f32, &params, x, 0, out, &head), 0);
    }
}

/* A few bytes that claim to be a hundred megabytes end at the slice's. */
static void decompression_ends_with_the_slice(void **state)
{
    const ps_codec *f32 = ps_codec_find("f32");
    const size_t bomb_bytes = 100 << 20;
    ps_params params = ps_params_default(f32->params);
    const float nothing = 0;
    uint8_t none[1], *bomb = calloc(bomb_bytes, 1), *packed = malloc(bomb_bytes);
    ps_encoding head;
    size_t len;

    (void)state;
    assert_true(bomb != NULL && packed != NULL);
    len = ZSTD_compress(packed, bomb_bytes, bomb, bomb_bytes, 1);
    assert_true(!ZSTD_isError(len) && len < 4 * N);
    encode(f32, &params, &nothing, 0, none, &head);
    head.msg.lossless = PSGD__V1__LOSSLESS__LOSSLESS_ZSTD;
    head.msg.payload_bytes = (uint32_t)len;
    head.msg.raw_bytes = 4 * N;
    is_data_loss(&head, packed, len, N);
    head.msg.raw_bytes = (uint32_t)bomb_bytes;
    is_data_loss(&head, packed, len, N);
    head.msg.raw_bytes = (uint32_t)len; /* no shorter than what it came from */
    is_data_loss(&head, packed, len, N);
    free(bomb);
    free(packed);
}

static void compressed_bytes_that_were_changed_are_refused(void **state)
{
    const ps_codec *f32 = ps_codec_find("f32");
    static uint8_t out[4 * N];
    static float x[N];

    (void)state;
    for (int how = LZ4; how <= ZSTD; how++) {
        ps_params params = made_with(f32, PS_WRAP_LOSSLESS, how);
        ps_encoding head;
        size_t len;

        x[7] = 1;
        len = encode(f32, &params, x, N, out, &head);
        head.msg.raw_bytes--;
        is_data_loss(&head, out, len, N);
        head.msg.raw_bytes += 2;
        is_data_loss(&head, out, len, N);
        head.msg.raw_bytes--;
        head.msg.lossless = (Psgd__V1__Lossless)(LZ4 + ZSTD - how);
        is_data_loss(&head, out, len, N);
        head.msg.lossless = (Psgd__V1__Lossless)3;
        is_data_loss(&head, out, len, N);
    }
}

static void rows_of_zeros_are_left_out(void **state)
{
    static const float x[10] = {[1] = 2, [9] = 3}, one = 1;
    const ps_codec *f32 = ps_codec_find("f32");
    ps_params params = made_with(f32, PS_WRAP_ROWS, 3);
    uint8_t out[40];
    float y[10] = {0, 0, 0, one};
    ps_encoding head;
    ps_status st;

    (void)state;
    /* Rows 0 and 3 of four with 2 bits each, three values and the last. */
    assert_int_equal(encode(f32, &params, x, 10, out, &head), 1 + 4 * 4);
    assert_int_equal(out[0], 0x0c);
    assert_memory_equal(out + 1, x, 12);
    assert_memory_equal(out + 13, x + 9, 4);
    assert_int_equal(head.msg.row_width, 3);
    assert_int_equal(head.msg.row_count, 2);
    st = ps_codec_decode(f32, &head.msg, out, 17, PS_INTO_ADD, y, 10);
    assert_int_equal(st.code, PS_OK);
    assert_true(y[1] == 2.0f && y[3] == one && y[9] == 3.0f);
    st = ps_codec_decode(f32, &head.msg, out, 17, PS_INTO_SET, y, 10);
    assert_int_equal(st.code, PS_OK);
    assert_memory_equal(y, x, sizeof y);
}

static void a_slice_without_rows_takes_no_bytes(void **state)
{
    static const float x[10];
    const ps_codec *int8 = ps_codec_find("int8");
    ps_params params = made_with(int8, PS_WRAP_ROWS, 4);
    uint8_t out[40];
    ps_encoding head;

    (void)state;
    assert_int_equal(encode(int8, &params, x, 10, out, &head), 0);
}

static void rows_are_as_good_as_the_codec_on_them(void **state)
{
    const ps_codec *intn = ps_codec_find("intn");
    ps_params params = made_with(intn, PS_WRAP_ROWS, 64);
    static float x[N], few[2 * 64], y[N], small[2 * 64];
    static uint8_t out[4 * N], inner[4 * N];
    ps_encoding head, plain;
    size_t len;
    ps_status st;

    (void)state;
    for (size_t i = 0; i < 64; i++) {
        few[i] = x[5 * 64 + i] = (float)ps_draw_normal(2, i);
        few[64 + i] = x[40 * 64 + i] = (float)ps_draw_normal(3, i);
    }
    len = encode(intn, &params, x, N, out, &head);
    params = ps_params_default(intn->params);
    /* Two of 64 rows: 6 bits each. */
    assert_int_equal(len, 2 + encode(intn, &params, few, 2 * 64, inner, &plain));
    assert_memory_equal(out + 2, inner, len - 2);
    st = ps_codec_decode(intn, &head.msg, out, len, PS_INTO_SET, y, N);
    assert_int_equal(st.code, PS_OK);
    st = ps_codec_decode(intn, &plain.msg, inner, len - 2, PS_INTO_SET, small, 2 * 64);
    assert_int_equal(st.code, PS_OK);
    assert_memory_equal(y + 5 * 64, small, 64 * sizeof *y);
    assert_memory_equal(y + 40 * 64, small + 64, 64 * sizeof *y);
    assert_true(y[0] == 0.0f && y[41 * 64] == 0.0f);
}

static void rows_that_are_none_are_refused(void **state)
{
    static const float x[10] = {[1] = 2, [9] = 3};
    const ps_codec *f32 = ps_codec_find("f32");
    ps_params params = made_with(f32, PS_WRAP_ROWS, 3);
    uint8_t out[40];
    ps_encoding head;
    size_t len = encode(f32, &params, x, 10, out, &head);

    (void)state;
    out[0] = 0x03; /* rows 3 and 0 */
    is_data_loss(&head, out, len, 10);
    out[0] = 0x0c;
    head.msg.row_count = 4; /* all: nothing would be left out */
    is_data_loss(&head, out, len, 10);
    head.msg.row_count = 0;
    is_data_loss(&head, out, len, 10);
    head.msg.row_count = 2;
    head.msg.row_width = 4; /* rows 0 and 3 of three */
    is_data_loss(&head, out, len, 10);
    head.msg.row_width = UINT32_MAX;
    is_data_loss(&head, out, len, 10);
    head.msg.row_width = 3;
    head.msg.payload_bytes = (uint32_t)(len - 4); /* a value too few */
    is_data_loss(&head, out, len - 4, 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_repeat_are_compressed),
        cmocka_unit_test(bytes_that_would_grow_stay_as_they_are),
        cmocka_unit_test(decompression_ends_with_the_slice),
        cmocka_unit_test(compressed_bytes_that_were_changed_are_refused),
        cmocka_unit_test(rows_of_zeros_are_left_out),
        cmocka_unit_test(a_slice_without_rows_takes_no_bytes),
        cmocka_unit_test(rows_are_as_good_as_the_codec_on_them),
        cmocka_unit_test(rows_that_are_none_are_refused),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
