/* SPDX-License-Identifier: Apache-2.0 */
/* copy_row.h - short rows of values: a call of memcpy takes longer than its work. For
 * common/nn alone.
 */
#ifndef PS_COMMON_NN_COPY_ROW_H
#define PS_COMMON_NN_COPY_ROW_H

#include <stddef.h>
#include <string.h>

enum { PS_COPY_PIECE = 8 }; /* values */

static inline void ps_copy_row(const float *restrict from, float *restrict to, size_t n)
{
    size_t i = 0;

    for (; i + PS_COPY_PIECE <= n; i += PS_COPY_PIECE) {
        memcpy(to + i, from + i, PS_COPY_PIECE * sizeof *to); /* of a size the compiler knows */
    }
    for (; i < n; i++) {
        to[i] = from[i];
    }
}

#endif
