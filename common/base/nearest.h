/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h - suggests the name that a misspelt word probably meant. */
#ifndef PS_COMMON_BASE_NEAREST_H
#define PS_COMMON_BASE_NEAREST_H

#include <stddef.h>

/* Returns the name with the smallest edit distance to `text`, the first of equals. Returns NULL if
 * the distance of every name is more than a third of its length. Texts of more than 63 bytes match
 * nothing. */
const char *ps_nearest(const char *text, const char *const *names, size_t n);

#endif
