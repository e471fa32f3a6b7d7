/* SPDX-License-Identifier: Apache-2.0 */
/* strbuf.h - text that grows.
 *
 * {0} is an empty one. What `data` points to ends with a NUL that len does not count. Aborts when
 * memory runs out, so a caller that appends text of a remote bounds it first.
 */
#ifndef PS_COMMON_BASE_STRBUF_H
#define PS_COMMON_BASE_STRBUF_H

#include <stdarg.h>
#include <stddef.h>

#include "common/base/status.h"

typedef struct ps_strbuf {
    char *data; /* NULL until something is appended */
    size_t len; /* bytes, without the NUL */
    size_t cap; /* allocated bytes */
} ps_strbuf;

/* Frees the text; the buffer is then empty. */
void ps_strbuf_fini(ps_strbuf *sb);

/* Returns the text, "" if it is empty. Valid until the next call that changes it. */
const char *ps_strbuf_text(const ps_strbuf *sb);

/* Returns the text, which the caller frees; the buffer is then empty. */
char *ps_strbuf_take(ps_strbuf *sb);

/* Removes the text and keeps the memory. */
void ps_strbuf_clear(ps_strbuf *sb);

/* Cuts the text to `len` bytes, at most sb->len. */
void ps_strbuf_truncate(ps_strbuf *sb, size_t len);

/* Appends n bytes. */
void ps_strbuf_append(ps_strbuf *sb, const void *bytes, size_t n);

/* Appends a text that ends with a NUL. */
void ps_strbuf_puts(ps_strbuf *sb, const char *text);

/* Appends a character. */
void ps_strbuf_putc(ps_strbuf *sb, char c);

/* Appends `c` n times. */
void ps_strbuf_pad(ps_strbuf *sb, char c, size_t n);

/* Appends formatted text. */
PS_PRINTF(2, 3) void ps_strbuf_printf(ps_strbuf *sb, const char *fmt, ...);

/* Appends formatted text; `ap` is used up. */
PS_PRINTF(2, 0) void ps_strbuf_vprintf(ps_strbuf *sb, const char *fmt, va_list ap);

/* Appends n bytes as a JSON string with its quotes. Control characters are escaped; bytes that
 * are not UTF-8 become U+FFFD. */
void ps_strbuf_json_string(ps_strbuf *sb, const char *text, size_t n);

#endif
