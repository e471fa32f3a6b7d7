/* SPDX-License-Identifier: Apache-2.0 */
/* shorten.c - see shorten.h. */
#include "common/base/shorten.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char gap[] = "\xe2\x80\xa6"; /* U+2026, in place of what is left out */

static bool is_inside(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

char *ps_shorten(char *out, size_t cap, const char *text)
{
    size_t n = strlen(text), room = cap - sizeof gap, head = room / 2, tail = n - (room - head);

    assert(cap >= 8);
    if (n < cap) {
        memmove(out, text, n + 1);
        return out;
    }
    while (head > 0 && is_inside(text[head])) {
        head--;
    }
    while (tail < n && is_inside(text[tail])) {
        tail++;
    }
    memmove(out, text, head);
    memcpy(out + head, gap, sizeof gap - 1);
    memmove(out + head + sizeof gap - 1, text + tail, n - tail + 1);
    return out;
}

void ps_shorten_vprint(char *out, size_t cap, const char *fmt, va_list ap)
{
    va_list again;
    char *whole = NULL;
    int n;

    va_copy(again, ap);
    n = vsnprintf(out, cap, fmt, ap);
    if (n >= 0 && (size_t)n >= cap && vasprintf(&whole, fmt, again) >= 0) {
        ps_shorten(out, cap, whole);
        free(whole);
    }
    va_end(again);
}
