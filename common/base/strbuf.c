/* SPDX-License-Identifier: Apache-2.0 */
/* strbuf.c - see strbuf.h. */
#include "common/base/strbuf.h"
#include "common/base/utf8.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 128 };

/* Enlarges the buffer, if need be, to hold n more bytes and the NUL. */
static void reserve(ps_strbuf *sb, size_t n)
{
    size_t cap = sb->cap == 0 ? FIRST_CAP : sb->cap;

    assert(n < SIZE_MAX / 4 && sb->len < SIZE_MAX / 4);
    while (cap - sb->len <= n) {
        cap *= 2;
    }
    if (cap != sb->cap) {
        sb->data = ps_xrealloc(sb->data, cap);
        sb->cap = cap;
    }
}

void ps_strbuf_fini(ps_strbuf *sb)
{
    free(sb->data);
    *sb = (ps_strbuf){0};
}

const char *ps_strbuf_text(const ps_strbuf *sb)
{
    return sb->data == NULL ? "" : sb->data;
}

char *ps_strbuf_take(ps_strbuf *sb)
{
    char *text = sb->data == NULL ? ps_xstrdup("") : sb->data;

    *sb = (ps_strbuf){0};
    return text;
}

void ps_strbuf_clear(ps_strbuf *sb)
{
    ps_strbuf_truncate(sb, 0);
}

void ps_strbuf_truncate(ps_strbuf *sb, size_t len)
{
    assert(len <= sb->len);
    sb->len = len;
    if (sb->data != NULL) {
        sb->data[len] = '\0';
    }
}

void ps_strbuf_append(ps_strbuf *sb, const void *bytes, size_t n)
{
    reserve(sb, n);
    if (n > 0) {
        memcpy(sb->data + sb->len, bytes, n);
    }
    sb->len += n;
    sb->data[sb->len] = '\0';
}

void ps_strbuf_puts(ps_strbuf *sb, const char *text)
{
    ps_strbuf_append(sb, text, strlen(text));
}

void ps_strbuf_putc(ps_strbuf *sb, char c)
{
    ps_strbuf_append(sb, &c, 1);
}

void ps_strbuf_pad(ps_strbuf *sb, char c, size_t n)
{
    reserve(sb, n);
    memset(sb->data + sb->len, c, n);
    sb->len += n;
    sb->data[sb->len] = '\0';
}

void ps_strbuf_vprintf(ps_strbuf *sb, const char *fmt, va_list ap)
{
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    assert(n >= 0);
    reserve(sb, (size_t)n);
    vsnprintf(sb->data + sb->len, (size_t)n + 1, fmt, ap);
    sb->len += (size_t)n;
}

void ps_strbuf_printf(ps_strbuf *sb, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    ps_strbuf_vprintf(sb, fmt, ap);
    va_end(ap);
}

static void json_char(ps_strbuf *sb, unsigned char c)
{
    static const char escaped[] = "\"\\\b\f\n\r\t";
    static const char letter[] = "\"\\bfnrt";
    const char *found = c == '\0' ? NULL : strchr(escaped, c);

    if (found != NULL) {
        ps_strbuf_putc(sb, '\\');
        ps_strbuf_putc(sb, letter[found - escaped]);
    } else if (c < 0x20 || c == 0x7f) {
        ps_strbuf_printf(sb, "\\u%04x", c);
    } else {
        ps_strbuf_putc(sb, (char)c);
    }
}

void ps_strbuf_json_string(ps_strbuf *sb, const char *text, size_t n)
{
    ps_strbuf_putc(sb, '"');
    for (size_t i = 0; i < n;) {
        size_t len = ps_utf8_length(text + i, n - i);

        if (len == 0) {
            ps_strbuf_puts(sb, "\xef\xbf\xbd"); /* U+FFFD for a byte that is not UTF-8 */
            i++;
        } else if (len == 1) {
            json_char(sb, (unsigned char)text[i++]);
        } else {
            ps_strbuf_append(sb, text + i, len);
            i += len;
        }
    }
    ps_strbuf_putc(sb, '"');
}
