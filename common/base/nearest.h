/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h - suggests the name that a misspelt word probably meant. */
#ifndef PS_COMMON_BASE_NEAREST_H
#define PS_COMMON_BASE_NEAREST_H

#include <stddef.h>

/* Returns, of the names whose edit distance to `text` is at most a third of the name's length, the
 * one with the smallest distance, the first of equals; NULL if there is none. Texts and names of
 * more than 63 bytes match nothing. */
const char *ps_nearest(const char *text, const char *const *names, size_t n);

#endif
