/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack.c - small numbers side by side, and values with positions. */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/codec/bitpack.h"
#include "common/codec/sparse.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 70 };

/* Exact room, so that ASan sees a byte too many. */
static uint8_t *room(size_t bytes)
{
    uint8_t *p = malloc(bytes + (bytes == 0));

    assert_non_null(p);
    memset(p, 0xa5, bytes);
    return p;
}

static unsigned bit(const uint8_t *bytes, size_t at)
{
    return (unsigned)bytes[at / 8] >> at % 8 & 1u;
}

static void check_bits(const uint8_t *bytes, const uint16_t *codes, size_t n, unsigned bits)
{
    for (size_t i = 0; i < n * bits; i++) {
        assert_int_equal(bit(bytes, i), codes[i / bits] >> i % bits & 1);
    }
    for (size_t i = n * bits; i < 8 * ps_pack_bytes(n, bits); i++) {
        assert_int_equal(bit(bytes, i), 0);
    }
}

static void numbers_lie_where_they_should_and_come_back(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits <= 16; bits++) {
        for (size_t n = 0; n <= MOST; n++) {
            uint16_t codes[MOST], again[MOST];
            uint8_t *bytes = room(ps_pack_bytes(n, bits));

            for (size_t i = 0; i < n; i++) {
                codes[i] = (uint16_t)ps_draw_below(bits, n * MOST + i, 1u << bits);
            }
            ps_pack16(codes, n, bits, bytes);
            check_bits(bytes, codes, n, bits);
            ps_unpack16(bytes, n, bits, again);
            assert_memory_equal(codes, again, n * sizeof *codes);
            free(bytes);
        }
    }
}

static void bytes_are_packed_as_wider_numbers_are(void **state)
{
    (void)state;
    for (unsigned bits = 1; bits <= 8; bits++) {
        for (size_t n = 0; n <= MOST; n++) {
            uint8_t codes[MOST], again[MOST], wide_bytes[MOST];
            uint8_t *bytes = room(ps_pack_bytes(n, bits));
            uint16_t wide[MOST];

            for (size_t i = 0; i < n; i++) {
                wide[i] = (uint16_t)ps_draw_below(bits, n * MOST + i, 1u << bits);
                codes[i] = (uint8_t)wide[i];
            }
            ps_pack8(codes, n, bits, bytes);
            ps_pack16(wide, n, bits, wide_bytes);
            assert_memory_equal(bytes, wide_bytes, ps_pack_bytes(n, bits));
            ps_unpack8(bytes, n, bits, again);
            assert_memory_equal(codes, again, n);
            free(bytes);
        }
    }
}

static void check_sparse(const uint16_t *positions, size_t n, size_t k)
{
    float x[MOST], y[MOST];
    size_t len = ps_sparse_bytes(n, k), at = 0;
    uint8_t *bytes = room(len);
    ps_status st;

    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(i + 1);
        y[i] = 100.0f;
    }
    assert_int_equal(ps_sparse_write(x, n, positions, k, bytes), len);
    st = ps_sparse_decode("s", 0, bytes, len, n, k, PS_INTO_ADD, y);
    assert_int_equal(st.code, PS_OK);
    for (size_t i = 0; i < n; i++) {
        bool sent = at < k && positions[at] == i;

        assert_true(y[i] == (sent ? 101.0f + (float)i : 100.0f));
        at += sent;
    }
    if (len > 0) {
        st = ps_sparse_decode("s", 0, bytes, len - 1, n, k, PS_INTO_SET, y);
        assert_int_equal(st.code, PS_DATA_LOSS);
    }
    free(bytes);
}

static void values_come_back_to_their_positions(void **state)
{
    (void)state;
    for (size_t n = 0; n <= MOST; n++) {
        for (size_t k = 0; k <= n; k++) {
            uint16_t positions[MOST];
            uint32_t order[MOST];
            size_t count = 0;

            ps_draw_permutation(n * MOST + k, order, n);
            for (size_t i = 0; i < n; i++) { /* i is in if it fell among the first k */
                positions[count] = (uint16_t)i;
                count += order[i] < k;
            }
            assert_int_equal(count, k);
            check_sparse(positions, n, k);
        }
    }
}

static void positions_that_do_not_ascend_are_refused(void **state)
{
    static const uint16_t wrong[][2] = {{3, 3}, {4, 3}, {3, 70}, {127, 3}};
    static const uint16_t right[2] = {3, 69};
    uint8_t bytes[64] = {0};
    float y[MOST] = {0};

    (void)state;
    for (size_t i = 0; i < 5; i++) { /* 7 bits each, as 69 has */
        size_t len = ps_sparse_bytes(MOST, 2);
        ps_status st;

        ps_pack16(i < 4 ? wrong[i] : right, 2, 7, bytes);
        st = ps_sparse_check("s", 0, bytes, len, MOST, 2, NULL);
        assert_int_equal(st.code, i < 4 ? PS_DATA_LOSS : PS_OK);
        st = ps_sparse_decode("s", 0, bytes, len, MOST, 2, PS_INTO_SET, y);
        assert_int_equal(st.code, i < 4 ? PS_DATA_LOSS : PS_OK);
    }
}

static void a_bitmap_has_as_many_bits_as_values_and_none_behind(void **state)
{
    enum { K = 20 };
    size_t len = ps_sparse_bytes(MOST, K); /* 9 bytes of bitmap, 18 packed */
    uint8_t bytes[9 + K * 4] = {0xff, 0xff, 0x0f};
    ps_status st = ps_sparse_check("s", 0, bytes, len, MOST, K, NULL);

    (void)state;
    assert_int_equal(len, sizeof bytes);
    assert_int_equal(st.code, PS_OK);
    bytes[2] = 0x07; /* 19 */
    st = ps_sparse_check("s", 0, bytes, len, MOST, K, NULL);
    assert_int_equal(st.code, PS_DATA_LOSS);
    bytes[8] = 0x40; /* position 70 */
    st = ps_sparse_check("s", 0, bytes, len, MOST, K, NULL);
    assert_int_equal(st.code, PS_DATA_LOSS);
    bytes[2] = 0x0f; /* 20, and one behind */
    st = ps_sparse_check("s", 0, bytes, len, MOST, K, NULL);
    assert_int_equal(st.code, PS_DATA_LOSS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_lie_where_they_should_and_come_back),
        cmocka_unit_test(bytes_are_packed_as_wider_numbers_are),
        cmocka_unit_test(values_come_back_to_their_positions),
        cmocka_unit_test(positions_that_do_not_ascend_are_refused),
        cmocka_unit_test(a_bitmap_has_as_many_bits_as_values_and_none_behind),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
