/* SPDX-License-Identifier: Apache-2.0 */
/* nonfinite.c - see nonfinite.h. A search counts the values that are not finite in each BLOCK of
 * values, without a branch. It looks at single values only in the first BLOCK that has one. */
#include "common/base/nonfinite.h"

#include "common/base/clones.h"

#include <string.h>

enum { BLOCK = 4096, EXPONENT_F32 = 0x7f800000 };

PS_CLONES(count32, (bytes, n, count), const uint8_t *restrict bytes, size_t n,
          uint32_t *restrict count)
{
    uint32_t found = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
        found += (bits & EXPONENT_F32) == EXPONENT_F32;
    }
    *count = found;
}

PS_CLONES(copy32, (to, from, n, found), uint8_t *restrict to, const uint8_t *restrict from,
          size_t n, uint32_t *restrict found)
{
    uint32_t any = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, from + i * sizeof bits, sizeof bits);
        memcpy(to + i * sizeof bits, &bits, sizeof bits);
        any |= (bits & EXPONENT_F32) == EXPONENT_F32;
    }
    *found = any;
}

PS_CLONES(count16, (bytes, n, exponent, count), const uint8_t *restrict bytes, size_t n,
          uint16_t exponent, uint32_t *restrict count)
{
    uint16_t found = 0; /* 16 bits are enough, as n is at most BLOCK */

    for (size_t i = 0; i < n; i++) {
        uint16_t bits;

        memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
        found = (uint16_t)(found + ((bits & exponent) == exponent));
    }
    *count = found;
}

/* Returns the index of the first of n values of `width` bytes that has all bits of `exponent` set,
 * or n. */
static size_t search(const uint8_t *bytes, size_t n, size_t width, uint32_t exponent)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = 0; /* little-endian, as safetensors_read.c asserts */

        memcpy(&bits, bytes + i * width, width);
        if ((bits & exponent) == exponent) {
            return i;
        }
    }
    return n;
}

size_t ps_first_nonfinite(const void *floats, size_t n)
{
    const uint8_t *bytes = floats;

    for (size_t at = 0; at < n; at += BLOCK) {
        size_t some = n - at < BLOCK ? n - at : BLOCK;
        uint32_t count;

        count32(bytes + at * sizeof(float), some, &count);
        if (count > 0) {
            return at + search(bytes + at * sizeof(float), some, sizeof(float), EXPONENT_F32);
        }
    }
    return n;
}

bool ps_copy_finite(void *restrict to, const void *restrict floats, size_t n)
{
    uint32_t found;

    copy32(to, floats, n, &found);
    return found == 0;
}

size_t ps_first_nonfinite16(const void *values, size_t n, uint16_t exponent)
{
    const uint8_t *bytes = values;

    for (size_t at = 0; at < n; at += BLOCK) {
        size_t some = n - at < BLOCK ? n - at : BLOCK;
        uint32_t count;

        count16(bytes + at * 2, some, exponent, &count);
        if (count > 0) {
            return at + search(bytes + at * 2, some, 2, exponent);
        }
    }
    return n;
}
