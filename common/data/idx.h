/* SPDX-License-Identifier: Apache-2.0 */
/* idx.h - files in MNIST's IDX format: bytes 0, 0, type, rank, then `rank` big-endian u32
 * dimensions, then the values in C order. Only type 8 (u8) is supported.
 *
 * A file is read from front to end, plain or .gz. No allocation depends on a value in the file.
 * One thread at a time. Errors: INVALID_ARGUMENT names the file, the offset, the value and what
 * was expected; DATA_LOSS if a .gz is damaged or truncated; NOT_FOUND.
 */
#ifndef PS_COMMON_DATA_IDX_H
#define PS_COMMON_DATA_IDX_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { PS_IDX_RANK_MAX = 4 };

/* An open file. All zeros: no file. */
typedef struct ps_idx {
    struct ps_packed *file;
    const char *name;
    uint32_t rank, dim[PS_IDX_RANK_MAX];
    uint64_t at, size; /* bytes read so far, and bytes of the whole file according to the header */
} ps_idx;

/* Opens FOLDER/NAME and reads its header. Keeps `name`. The file must have `rank` dimensions,
 * none of them 0, and less than 2^63 values. On failure no file is open. */
PS_MUST_USE ps_status ps_idx_open(ps_idx *idx, const char *folder, const char *name, uint32_t rank);

/* Fails with INVALID_ARGUMENT unless dimension i is `want`. */
PS_MUST_USE ps_status ps_idx_expect(const ps_idx *idx, uint32_t i, uint32_t want);

/* Reads the next n values, which the header must have announced. */
PS_MUST_USE ps_status ps_idx_read(ps_idx *idx, uint8_t *values, size_t n);

/* Fails unless the file ends here. Call it after the last value. */
PS_MUST_USE ps_status ps_idx_end(ps_idx *idx);

/* Closes the file. All zeros are allowed. */
void ps_idx_close(ps_idx *idx);

#endif
