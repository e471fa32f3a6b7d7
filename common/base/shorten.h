/* SPDX-License-Identifier: Apache-2.0 */
/* shorten.h - shortens text in the middle, where people see it: "/srv/data/a very l…/model.bin".
 *
 * A message never loses its end, where it says what is allowed or what to do. A long value of a
 * user is shortened when it is put into a message; a message that is too long even so loses its
 * middle. "…" stands for what is missing. No character of UTF-8 is cut in two.
 */
#ifndef PS_COMMON_BASE_SHORTEN_H
#define PS_COMMON_BASE_SHORTEN_H

#include <stdarg.h>
#include <stddef.h>

/* Writes `text` to `out` (cap bytes with the ending 0, at least 8), shortened if it is too long.
 * Returns `out`. */
char *ps_shorten(char *out, size_t cap, const char *text);

/* A value for a message, at most `bytes` long (a constant). Valid to the end of the block. */
#define PS_SHORT(text, bytes) ps_shorten((char[(bytes) + 1]){0}, (bytes) + 1, (text))

/* Formats into `out`, shortened if it is too long. */
__attribute__((format(printf, 3, 0))) void ps_shorten_vprint(char *out, size_t cap, const char *fmt,
                                                             va_list ap);

#endif
