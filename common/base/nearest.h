/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h - what was probably meant by a misspelt word. */
#ifndef PS_COMMON_BASE_NEAREST_H
#define PS_COMMON_BASE_NEAREST_H

#include <stddef.h>

/* The name with the fewest letters to add, drop or change, if these are at most
 * a third of it; else NULL. The first of equals. */
const char *ps_nearest(const char *text, const char *const *names, size_t n);

#endif
