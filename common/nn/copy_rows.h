/* SPDX-License-Identifier: Apache-2.0 */
/* copy_rows.h - copies and prefetches of short rows of values. For common/nn only. */
#ifndef PS_COMMON_NN_COPY_ROWS_H
#define PS_COMMON_NN_COPY_ROWS_H

#include <stddef.h>
#include <string.h>

enum { PS_COPY_PIECE = 8 }; /* values that are copied at once */

/* Copies n values. For rows so short that a call of memcpy takes longer than the copy. */
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

/* Prefetches n values. For short pieces at scattered addresses, which the processor's own prefetch
 * does not recognise. */
static inline void ps_prefetch(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __builtin_prefetch(x + i);
    }
}

#endif
