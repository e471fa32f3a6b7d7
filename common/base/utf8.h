/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - checks UTF-8. */
#ifndef PS_COMMON_BASE_UTF8_H
#define PS_COMMON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the length in bytes, 1 to 4, of the character at the start of n > 0 bytes. Returns 0
 * if there is none: a wrong or cut sequence, an overlong form, a surrogate, or a value beyond
 * U+10FFFF. */
size_t ps_utf8_length(const char *text, size_t n);

/* Returns whether n bytes are characters in UTF-8 only. */
bool ps_utf8_is_valid(const char *text, size_t n);

#endif
