/* SPDX-License-Identifier: Apache-2.0 */
/* test_huffman.c - what is written is read again, is about as short as can be, and
 * junk is refused. */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/codec/huffman.h"

#include <math.h>
#include <string.h>

enum { N = 16384 };

static uint8_t codes[N], again[N + 20], bytes[N];

/* Symbol s about as often as 2^(-s / spread). */
static void fill(uint64_t key, size_t n, unsigned symbols, double spread)
{
    for (size_t i = 0; i < n; i++) {
        double s = -log2(1 - ps_draw_unit(key, i)) * spread;

        codes[i] = (uint8_t)(s < symbols ? s : symbols - 1);
    }
}

static void what_is_written_is_read_again(void **state)
{
    static const unsigned symbols[] = {1, 2, 3, 7, 15, 63, 127, 255};
    static const size_t lengths[] = {1, 2, 5, 100, 1001, N};

    (void)state;
    for (size_t s = 0; s < sizeof symbols / sizeof symbols[0]; s++) {
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            for (int spread = 0; spread < 20; spread++) {
                size_t n = lengths[l], len;

                fill(s * 100 + l, n, symbols[s], spread * spread / 4.0);
                len = ps_huffman_write(codes, n, symbols[s], bytes, sizeof bytes);
                if (len == 0) {
                    assert_true(symbols[s] > 200 && n == N);
                    continue;
                }
                assert_true(ps_huffman_read(bytes, len, symbols[s], again, n));
                assert_memory_equal(codes, again, n);
                assert_false(ps_huffman_read(bytes, len - 1, symbols[s], again, n));
                /* A symbol that is alone takes no bits, so there may be any number. */
                assert_true(len == (symbols[s] + 1) / 2 ||
                            !ps_huffman_read(bytes, len, symbols[s], again, n + 20));
                assert_int_equal(ps_huffman_write(codes, n, symbols[s], bytes, len), 0);
            }
        }
    }
}

static void a_code_is_as_short_as_its_entropy_and_a_bit_allow(void **state)
{
    enum { SYMBOLS = 31 };
    size_t counts[SYMBOLS] = {0}, len;
    double entropy = 0;

    (void)state;
    fill(1, N, SYMBOLS, 2.3);
    for (size_t i = 0; i < N; i++) {
        counts[codes[i]]++;
    }
    for (size_t s = 0; s < SYMBOLS; s++) {
        entropy -= counts[s] > 0 ? (double)counts[s] * log2((double)counts[s] / N) : 0;
    }
    len = ps_huffman_write(codes, N, SYMBOLS, bytes, sizeof bytes) - (SYMBOLS + 1) / 2;
    assert_true((double)len * 8 >= entropy);
    assert_true((double)len * 8 < entropy * 1.05);
}

/* Weights like Fibonacci's make the longest codes there are. */
static void no_code_is_longer_than_the_table(void **state)
{
    size_t n = 0, a = 1, b = 1, len;

    (void)state;
    for (uint8_t s = 0; n + b <= N; s++) {
        size_t c = a + b;

        memset(codes + n, s, a);
        n += a;
        a = b;
        b = c;
    }
    len = ps_huffman_write(codes, n, 40, bytes, sizeof bytes);
    assert_true(len > 0);
    for (size_t s = 0; s < 40; s++) {
        assert_true((bytes[s / 2] >> (s % 2 * 4) & 15) <= PS_HUFFMAN_BITS);
    }
    assert_true(ps_huffman_read(bytes, len, 40, again, n));
    assert_memory_equal(codes, again, n);
}

static void a_lone_symbol_takes_no_bits(void **state)
{
    (void)state;
    memset(codes, 5, 1000);
    assert_int_equal(ps_huffman_write(codes, 1000, 15, bytes, sizeof bytes), 8);
    assert_true(ps_huffman_read(bytes, 8, 15, again, 1000));
    assert_memory_equal(codes, again, 1000);
}

static void lengths_that_are_no_code_are_refused(void **state)
{
    static const uint8_t junk[][5] = {
        {0x11, 0x01, 0, 0, 0}, /* three of one bit */
        {0x21, 0x00, 0, 0, 0}, /* something is missing */
        {0x00, 0x00, 0, 0, 0}, /* nothing at all */
        {0x02, 0x00, 0, 0, 0}, /* alone, and not 1 */
        {0xc1, 0x0c, 0, 0, 0}, /* longer than a code can be */
        {0x21, 0x12, 0, 0, 0}, /* a length behind the last symbol */
    };

    (void)state;
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++) {
        assert_false(ps_huffman_read(junk[i], 5, 3, again, 20));
        assert_false(ps_huffman_read(junk[i], 2, 3, again, 20));
        assert_false(ps_huffman_read(junk[i], 1, 3, again, 20));
    }
    /* 0 has one bit, 1 and 2 have two: twenty zeros, then what should be none. */
    assert_true(ps_huffman_read((const uint8_t[]){0x21, 0x02, 0, 0, 0}, 5, 3, again, 20));
    assert_false(ps_huffman_read((const uint8_t[]){0x21, 0x02, 0, 0, 0x10}, 5, 3, again, 20));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(a_code_is_as_short_as_its_entropy_and_a_bit_allow),
        cmocka_unit_test(no_code_is_longer_than_the_table),
        cmocka_unit_test(a_lone_symbol_takes_no_bits),
        cmocka_unit_test(lengths_that_are_no_code_are_refused),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
