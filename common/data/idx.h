/* SPDX-License-Identifier: Apache-2.0 */
/* idx.h - files in MNIST's IDX format: bytes 0, 0, type, rank, then rank
 * big-endian u32 dimensions, then the values in C order. Only type 8 (u8).
 *
 * Read from front to end, plain or .gz; nothing that a file says sizes anything. One thread
 * at a time. Errors: INVALID_ARGUMENT names the file, the offset, what is there and what was
 * expected; DATA_LOSS: a .gz is damaged or cut; NOT_FOUND.
 */
#ifndef PS_COMMON_DATA_IDX_H
#define PS_COMMON_DATA_IDX_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { PS_IDX_RANK_MAX = 4 };

/* An open file; of zeros: none. */
typedef struct ps_idx {
    struct ps_packed *file;
    const char *name;
    uint32_t rank, dim[PS_IDX_RANK_MAX];
    uint64_t at, size; /* bytes read, and that the header promises in all */
} ps_idx;

/* Opens FOLDER/NAME (kept) and reads its header: so many dimensions, none of them 0. What it
 * promises fits 63 bits. On failure nothing is open. */
PS_MUST_USE ps_status ps_idx_open(ps_idx *idx, const char *folder, const char *name, uint32_t rank);

/* Dimension i is to be `want`. */
PS_MUST_USE ps_status ps_idx_expect(const ps_idx *idx, uint32_t i, uint32_t want);

/* The next n values, which the header has promised. */
PS_MUST_USE ps_status ps_idx_read(ps_idx *idx, uint8_t *values, size_t n);

/* After the last value: the file ends here. */
PS_MUST_USE ps_status ps_idx_end(ps_idx *idx);

void ps_idx_close(ps_idx *idx); /* of zeros too */

#endif
