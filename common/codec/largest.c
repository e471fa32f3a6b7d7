/* SPDX-License-Identifier: Apache-2.0 */
/* largest.c - see largest.h: a radix selection, the highest digit first. */
#include "common/codec/largest.h"

#include "common/codec/codec_type.h"
#include "common/codec/kernels.h"

/* The digits of a magnitude: 11, 10 and 10 bits. */
static const struct {
    unsigned shift, count;
} digits[] = {{20, 1u << 11}, {10, 1u << 10}, {0, 1u << 10}};

enum { DIGITS = sizeof digits / sizeof digits[0] };

static uint32_t digit_of(uint32_t magnitude, int d)
{
    return magnitude >> digits[d].shift & (digits[d].count - 1);
}

/* Returns the digit of the k-th largest of m magnitudes. k becomes its rank among those with
 * that digit. */
static uint32_t find_digit(const uint32_t *of, size_t m, int d, size_t *k)
{
    uint16_t counts[1u << 11] = {0};
    uint32_t digit = digits[d].count - 1;

    for (size_t i = 0; i < m; i++) {
        counts[digit_of(of[i], d)]++;
    }
    for (; counts[digit] < *k; digit--) {
        *k -= counts[digit];
    }
    return digit;
}

uint32_t ps_kth_largest(uint32_t *of, size_t m, size_t k, size_t *ties)
{
    uint32_t value = 0;

    for (int d = 0; d < DIGITS; d++) {
        uint32_t digit = find_digit(of, m, d, &k);
        size_t kept = 0;

        for (size_t i = 0; i < m; i++) {
            uint32_t mag = of[i];

            of[kept] = mag;
            kept += digit_of(mag, d) == digit;
        }
        m = kept;
        value |= digit << digits[d].shift;
    }
    *ties = k;
    return value;
}

size_t ps_keep_largest(const float *x, uint16_t *positions, size_t m, size_t k)
{
    uint32_t of[PS_CODEC_VALUES], least;
    size_t ties, count = 0;

    for (size_t i = 0; i < m; i++) {
        of[i] = ps_magnitude_bits(x[positions[i]]);
    }
    least = ps_kth_largest(of, m, k, &ties);
    for (size_t i = 0; i < m; i++) {
        uint32_t mag = ps_magnitude_bits(x[positions[i]]);
        bool is_tie = mag == least && ties > 0;

        positions[count] = positions[i];
        count += mag > least || is_tie;
        ties -= is_tie;
    }
    return count;
}

/* Estimates a magnitude that at least k values reach, but not many more. Looks at one value in
 * EVERY and aims at half as many again as k. Returns 0 if it looks at too few values for that. */
static uint32_t guess(const float *x, size_t n, size_t k)
{
    enum { EVERY = 16 };
    uint32_t some[PS_CODEC_VALUES / EVERY + 1];
    size_t m = 0, rank = k * 3 / 2 / EVERY + 8, ties;

    for (size_t i = 0; i < n; i += EVERY) {
        some[m++] = ps_magnitude_bits(x[i]);
    }
    return rank < m ? ps_kth_largest(some, m, rank, &ties) : 0;
}

void ps_choose_largest(const float *x, size_t n, size_t k, uint16_t *positions)
{
    uint32_t least = guess(x, n, k);
    size_t m = 0;

    if (least > 0) {
        m = ps_kernels_best()->above(x, least, positions, n);
    }
    if (m < k) { /* the estimate was too high, or there was none */
        for (m = 0; m < n; m++) {
            positions[m] = (uint16_t)m;
        }
    }
    (void)ps_keep_largest(x, positions, m, k);
}
