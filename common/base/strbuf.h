/* SPDX-License-Identifier: Apache-2.0 */
/* strbuf.h - text that grows.
 *
 * {0} is an empty one. The text is always ended by a NUL that len does not
 * count. Aborts when memory runs out: who appends what a peer sent bounds it.
 */
#ifndef PS_COMMON_BASE_STRBUF_H
#define PS_COMMON_BASE_STRBUF_H

#include <stdarg.h>
#include <stddef.h>

#include "common/base/status.h"

typedef struct ps_strbuf {
    char *data; /* NULL until something is appended */
    size_t len; /* bytes, without the NUL */
    size_t cap; /* bytes allocated */
} ps_strbuf;

void ps_strbuf_fini(ps_strbuf *sb); /* leaves an empty one */

/* The text; "" when empty. Valid until the next call that changes it. */
const char *ps_strbuf_text(const ps_strbuf *sb);

/* Moves the text out, to be freed by the caller; leaves an empty one. */
char *ps_strbuf_take(ps_strbuf *sb);

void ps_strbuf_clear(ps_strbuf *sb);                /* keeps the memory */
void ps_strbuf_truncate(ps_strbuf *sb, size_t len); /* len <= sb->len */
void ps_strbuf_append(ps_strbuf *sb, const void *bytes, size_t n);
void ps_strbuf_puts(ps_strbuf *sb, const char *text);
void ps_strbuf_putc(ps_strbuf *sb, char c);
void ps_strbuf_pad(ps_strbuf *sb, char c, size_t n); /* c, n times */
PS_PRINTF(2, 3) void ps_strbuf_printf(ps_strbuf *sb, const char *fmt, ...);
PS_PRINTF(2, 0) void ps_strbuf_vprintf(ps_strbuf *sb, const char *fmt, va_list ap);

/* Appends n bytes as a JSON string with its quotes. Control characters are
 * escaped; bytes that are not UTF-8 become U+FFFD. */
void ps_strbuf_json_string(ps_strbuf *sb, const char *text, size_t n);

#endif
