/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - is this UTF-8? */
#ifndef PS_COMMON_BASE_UTF8_H
#define PS_COMMON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the character that starts n > 0 bytes: 1 to 4, or 0 when there is
 * none (wrong or cut sequence, overlong form, surrogate, beyond U+10FFFF). */
size_t ps_utf8_length(const char *text, size_t n);

bool ps_utf8_is_valid(const char *text, size_t n);

#endif
