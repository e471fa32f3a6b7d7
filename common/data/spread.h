/* SPDX-License-Identifier: Apache-2.0 */
/* spread.h - makes floats of images that are stored as their non-zero bytes. There is one
 * function per kind of processor; all give the same bits. */
#ifndef PS_COMMON_DATA_SPREAD_H
#define PS_COMMON_DATA_SPREAD_H

#include "common/base/cpu.h"
#include "common/data/samples.h"

enum {
    PS_SPREAD_GROUP = 8,  /* bytes per byte of bits */
    PS_SPREAD_BLOCK = 64, /* bytes whose bits are counted at once */
    PS_SPREAD_GROUP_VALUES = 256
};

/* of[bits][k]: if bit k of `bits` is 1, the index of byte k among the non-zero bytes of its group;
 * else 0x80: byte k is zero. */
typedef struct ps_spread_places {
    uint8_t of[PS_SPREAD_GROUP_VALUES][PS_SPREAD_GROUP];
} ps_spread_places;

/* Writes x (n). Byte k is zero if bit k of `bits` (lowest first) is 0, else the next byte of
 * `from`. Each byte, also a zero, is scaled like ps_bytes_scale, then by (x - mean) * inverse.
 * Reads up to PS_SPREAD_BLOCK bytes beyond the end of `from`. */
typedef void ps_spread_fn(const ps_spread_places *places, const uint8_t *bits, const uint8_t *from,
                          size_t n, const ps_affine *affine, float *x);

/* Returns the function that a processor of this level runs. */
ps_spread_fn *ps_spread_of(ps_cpu level);
/* Fills the table of places. */
void ps_spread_fill(ps_spread_places *places);

#endif
