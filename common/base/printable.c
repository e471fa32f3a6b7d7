/* SPDX-License-Identifier: Apache-2.0 */
/* printable.c - see printable.h. */
#include "common/base/printable.h"

#include "common/base/utf8.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Returns whether a character of n bytes in UTF-8 controls the terminal or the direction of
 * writing, ends a line, or is invisible. */
static bool is_deceptive(const unsigned char *c, size_t n)
{
    switch (n) {
    case 1:
        return c[0] < 0x20 || c[0] == 0x7f;
    case 2: /* U+0080 to U+009F; U+00AD; U+061C */
        return (c[0] == 0xc2 && (c[1] < 0xa0 || c[1] == 0xad)) || (c[0] == 0xd8 && c[1] == 0x9c);
    case 3: /* U+200B, U+200E, U+200F, U+2028 to U+202E; U+2060 to U+2069; U+FEFF */
        return (c[0] == 0xe2 && c[1] == 0x80 &&
                (c[2] == 0x8b || c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae))) ||
               (c[0] == 0xe2 && c[1] == 0x81 && c[2] >= 0xa0 && c[2] <= 0xa9) ||
               (c[0] == 0xef && c[1] == 0xbb && c[2] == 0xbf);
    default: /* U+E0000 to U+E007F: invisible tags */
        return c[0] == 0xf3 && c[1] == 0xa0 && (c[2] == 0x80 || c[2] == 0x81);
    }
}

void ps_printable(char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        size_t n = ps_utf8_length(text, left), bytes = n > 0 ? n : 1;

        if (n == 0 || is_deceptive((const unsigned char *)text, n)) {
            memset(text, '?', bytes);
        }
        text += bytes;
        left -= bytes;
    }
}
