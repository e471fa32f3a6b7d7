/* SPDX-License-Identifier: Apache-2.0 */
/* exact_sum.c - see exact_sum.h. */
#include "common/metric/exact_sum.h"

#include "common/base/bytes.h"

#include <math.h>

__extension__ typedef unsigned __int128 wide;

enum { LIMB_BITS = 32, LOWEST_BIT = -1152, TERMS_MAX = 1 << 29 };
enum { ODD_NAN = 1, ODD_UP = 2, ODD_DOWN = 4, ODD_ALL = 7 };

/* Brings all limbs except the last into [0, 2^32), without changing the sum. */
static void carry(ps_exact_sum *sum)
{
    for (int i = 0; i + 1 < PS_SUM_LIMBS; i++) {
        /* the low 32 bits of the limb, which are not negative even if the limb is */
        int64_t low = sum->limb[i] & INT64_C(0xffffffff);

        sum->limb[i + 1] += (sum->limb[i] - low) / (INT64_C(1) << LIMB_BITS);
        sum->limb[i] = low;
    }
    sum->uncarried = 0;
}

void ps_exact_sum_add(ps_exact_sum *sum, double x)
{
    int exponent, at;
    uint64_t digits;
    wide shifted;

    if (!isfinite(x)) {
        sum->odd |= isnan(x) ? ODD_NAN : x > 0 ? ODD_UP : ODD_DOWN;
        return;
    }
    digits = (uint64_t)ldexp(frexp(fabs(x), &exponent), 53); /* |x| = digits * 2^(exponent - 53) */
    if (digits == 0) {
        return;
    }
    at = exponent - 53 - LOWEST_BIT; /* bit of the limbs where the digits begin, 26 to 2123 */
    shifted = (wide)digits << (at % LIMB_BITS);
    for (int i = at / LIMB_BITS; shifted != 0; i++, shifted >>= LIMB_BITS) {
        int64_t part = (int64_t)(shifted & UINT32_MAX);

        sum->limb[i] += x < 0 ? -part : part;
    }
    if (++sum->uncarried == TERMS_MAX) {
        carry(sum);
    }
}

void ps_exact_sum_merge(ps_exact_sum *sum, const ps_exact_sum *other)
{
    ps_exact_sum theirs = *other;

    carry(&theirs);
    carry(sum);
    for (int i = 0; i < PS_SUM_LIMBS; i++) {
        sum->limb[i] += theirs.limb[i];
    }
    sum->odd |= theirs.odd;
    carry(sum);
}

/* Returns the value of carried limbs whose last one is not negative. */
static double magnitude(const ps_exact_sum *sum)
{
    int top = PS_SUM_LIMBS - 1;
    wide digits = 0;
    uint64_t rest = 0;

    while (top > 2 && sum->limb[top] == 0) {
        top--;
    }
    for (int i = top; i >= 0; i--) {
        if (i + 3 > top) { /* the three highest; if the first is not 0, they have over 64 bits */
            digits = (digits << LIMB_BITS) + (uint64_t)sum->limb[i];
        } else {
            rest |= (uint64_t)sum->limb[i];
        }
    }
    /* The lower limbs matter only if the digits lie halfway between two doubles. A low bit of the
     * digits then breaks the tie in their place. */
    digits |= rest != 0;
    return ldexp((double)digits, (top - 2) * LIMB_BITS + LOWEST_BIT);
}

double ps_exact_sum_value(const ps_exact_sum *sum)
{
    ps_exact_sum s = *sum;
    bool is_negative;

    if (s.odd != 0) {
        return s.odd == ODD_UP ? (double)INFINITY : s.odd == ODD_DOWN ? -(double)INFINITY : NAN;
    }
    carry(&s);
    is_negative = s.limb[PS_SUM_LIMBS - 1] < 0;
    if (is_negative) {
        for (int i = 0; i < PS_SUM_LIMBS; i++) {
            s.limb[i] = -s.limb[i];
        }
        carry(&s);
    }
    return is_negative ? -magnitude(&s) : magnitude(&s);
}

void ps_exact_sum_write(const ps_exact_sum *sum, uint8_t *bytes)
{
    ps_exact_sum s = *sum;

    carry(&s);
    ps_put_u32(bytes, s.odd);
    ps_put_u32(bytes + 4, 0);
    for (int i = 0; i < PS_SUM_LIMBS; i++) {
        ps_put_u32(bytes + 8 + 4 * i, (uint32_t)((uint64_t)s.limb[i] & UINT32_MAX));
    }
}

ps_status ps_exact_sum_read(ps_exact_sum *sum, const uint8_t *bytes)
{
    ps_exact_sum s = {.odd = ps_get_u32(bytes)};
    uint32_t last = ps_get_u32(bytes + 8 + 4 * (PS_SUM_LIMBS - 1));

    /* A double ends in limb 67, counted from 0, and a sum of 2^62 of them in limb 69. So the last
     * limb, 71, holds only the sign. */
    if (s.odd > ODD_ALL || ps_get_u32(bytes + 4) != 0 || (last != 0 && last != UINT32_MAX)) {
        return ps_fail(PS_DATA_LOSS,
                       "an exact sum begins with %u, %u and ends with %u; it begins with at most "
                       "7, 0 and ends with 0 or 4294967295",
                       s.odd, ps_get_u32(bytes + 4), last);
    }
    for (int i = 0; i < PS_SUM_LIMBS - 1; i++) {
        s.limb[i] = (int64_t)ps_get_u32(bytes + 8 + 4 * i);
    }
    s.limb[PS_SUM_LIMBS - 1] = last == 0 ? 0 : -1;
    *sum = s;
    return ps_ok();
}
