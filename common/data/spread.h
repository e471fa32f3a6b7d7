/* SPDX-License-Identifier: Apache-2.0 */
/* spread.h - bytes of which only those that are not zero were kept: back to their places, as
 * floats; once a kind of processor, to the same bits. */
#ifndef PS_COMMON_DATA_SPREAD_H
#define PS_COMMON_DATA_SPREAD_H

#include "common/data/samples.h"

enum {
    PS_SPREAD_GROUP = 8,  /* bytes that a byte of bits is about */
    PS_SPREAD_BLOCK = 64, /* bytes whose bits are counted at once */
    PS_SPREAD_GROUP_VALUES = 256
};

/* of[bits][k]: which of the bytes that are there is byte k; else it is zero. */
typedef struct ps_spread_places {
    uint8_t of[PS_SPREAD_GROUP_VALUES][PS_SPREAD_GROUP];
} ps_spread_places;

/* x (n): byte k, which is zero where bit k of `bits` is (lowest first), else the next of `from`, as
 * ps_bytes_scale makes it, then (x - mean) * inverse. `from` may be read up to a block further. */
typedef void ps_spread_fn(const ps_spread_places *places, const uint8_t *bits, const uint8_t *from,
                          size_t n, const ps_affine *affine, float *x);

/* Kind i of those that this processor runs, from 0, the fastest last; NULL: there are no more. */
ps_spread_fn *ps_spread_at(size_t i);
ps_spread_fn *ps_spread_best(void);
void ps_spread_fill(ps_spread_places *places);

#endif
