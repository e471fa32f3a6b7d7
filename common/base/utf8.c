/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c - see utf8.h. */
#include "common/base/utf8.h"

#include <stdint.h>

size_t ps_utf8_length(const char *text, size_t n)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    size_t len = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    uint32_t c;

    if (len == 1) {
        return 1;
    }
    if (len == 0 || len > n || s[0] > 0xf4) {
        return 0;
    }
    c = s[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
        return 0;
    }
    return len;
}

bool ps_utf8_is_valid(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = ps_utf8_length(text + i, n - i);

        if (len == 0) {
            return false;
        }
        i += len;
    }
    return true;
}
