/* SPDX-License-Identifier: Apache-2.0 */
/* argmax.h - which output is the greatest. For common/nn only. */
#ifndef PS_COMMON_NN_ARGMAX_H
#define PS_COMMON_NN_ARGMAX_H

#include <stddef.h>

/* Returns the index of the greatest of y (width), the first if several are equal. */
static inline size_t ps_index_of_max(const float *y, size_t width)
{
    size_t best = 0;

    for (size_t j = 1; j < width; j++) {
        if (y[j] > y[best]) {
            best = j;
        }
    }
    return best;
}

#endif
