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

enum { WIDTH = 8, ALL = N / WIDTH };

/* Row r is something where r % 7 is 3, zeros with a touch where it is 5. */
static size_t touch(float *x, uint16_t *rows)
{
    size_t count = 0;

    for (size_t r = 0; r < ALL; r++) {
        for (size_t i = 0; i < WIDTH; i++) {
            x[r * WIDTH + i] = r % 7 == 3 ? (float)(r + i) - 100.5f : 0.0f;
        }
        if (r % 7 == 3 || r % 7 == 5) {
            rows[count++] = (uint16_t)r;
        }
    }
    return count;
}

static void rows_that_are_named_give_the_bytes_of_rows_that_are_found(void **state)
{
    static const char *const names[] = {"f32", "f16", "int8", "intn", "sign"};
    static float x[N], y[N], packed[N];
    static uint8_t a[4 * N], b[4 * N];

    (void)state;
    for (size_t c = 0; c < sizeof names / sizeof names[0]; c++) {
        const ps_codec *codec = ps_codec_find(names[c]);
        ps_params params = made_with(codec, PS_WRAP_ROWS, WIDTH);
        ps_encoding ha, hb;
        uint16_t rows[ALL], back[ALL];
        size_t count = touch(x, rows), len = encode(codec, &params, x, N, a, &ha), n;
        ps_status st;

        assert_int_equal(ps_codec_encode_rows(codec, &params, 1, 0, x, N, rows, count, b, &hb),
                         len);
        assert_memory_equal(a, b, len);
        assert_int_equal(ha.msg.row_count, hb.msg.row_count);
        st = ps_codec_decode(codec, &ha.msg, a, len, PS_INTO_SET, y, N);
        assert_string_equal(st.text, "");
        st = ps_codec_unpack(codec, &ha.msg, a, len, N, WIDTH, back, &n, packed);
        assert_string_equal(st.text, "");
        assert_int_equal(n, ha.msg.row_count);
        for (size_t j = 0; j < n; j++) {
            assert_int_equal(back[j] % 7, 3);
            assert_memory_equal(packed + j * WIDTH, y + back[j] * WIDTH, WIDTH * sizeof *y);
        }
        /* Of an encoding of all values the rows are found. */
        params = ps_params_default(codec->params);
        len = encode(codec, &params, x, N, a, &ha);
        st = ps_codec_unpack(codec, &ha.msg, a, len, N, WIDTH, back, &n, packed);
        assert_string_equal(st.text, "");
        st = ps_codec_decode(codec, &ha.msg, a, len, PS_INTO_SET, y, N);
        assert_string_equal(st.text, "");
        for (size_t r = 0, j = 0; r < ALL; r++) { /* those that are not zeros */
            static const float zeros[WIDTH];
            bool is_any = memcmp(y + r * WIDTH, zeros, sizeof zeros) != 0;

            if (j < n && back[j] == r) {
                assert_memory_equal(packed + j++ * WIDTH, y + r * WIDTH, sizeof zeros);
            } else {
                assert_false(is_any);
            }
        }
        st = ps_codec_unpack(codec, &ha.msg, a, len - 1, N, WIDTH, back, &n, packed);
        assert_int_equal(st.code, PS_DATA_LOSS);
    }
}

static void rows_that_have_changed_leave_the_others(void **state)
{
    const ps_codec *f32 = ps_codec_find("f32");
    ps_params params = ps_params_default(f32->params);
    static float x[N], y[N];
    static uint8_t out[4 * N];
    uint16_t rows[ALL];
    ps_encoding head;
    size_t count = touch(x, rows), len;
    ps_status st;

    (void)state;
    for (size_t i = 0; i < N; i++) {
        y[i] = 7.0f;
    }
    len = ps_codec_encode_changed(f32, &params, 4, x, N, WIDTH, rows, count, out, &head);
    assert_true(head.msg.others_stay && len < sizeof x / 3);
    st = ps_codec_decode(f32, &head.msg, out, len, PS_INTO_SET, y, N);
    assert_string_equal(st.text, "");
    for (size_t i = 0; i < N; i++) { /* zeros that were named are zeros */
        size_t r = i / WIDTH % 7;

        assert_true(y[i] == (r == 3 || r == 5 ? x[i] : 7.0f));
    }
    len = ps_codec_encode_changed(f32, &params, 4, x, N, WIDTH, NULL, 0, out, &head);
    assert_int_equal(len, 0);
    st = ps_codec_decode(f32, &head.msg, out, 0, PS_INTO_SET, y, N);
    assert_string_equal(st.text, "");
    assert_true(y[0] == 7.0f);
    for (size_t r = 0; r < ALL; r++) {
        rows[r] = (uint16_t)r;
    }
    len = ps_codec_encode_changed(f32, &params, 4, x, N, WIDTH, rows, ALL, out, &head);
    assert_int_equal(len, sizeof x);
    assert_true(ps_encoding_is_plain(&head.msg) && !head.msg.others_stay);
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
        cmocka_unit_test(rows_that_are_named_give_the_bytes_of_rows_that_are_found),
        cmocka_unit_test(rows_that_have_changed_leave_the_others),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
