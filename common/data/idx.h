/* SPDX-License-Identifier: Apache-2.0 */
/* idx.h - files in MNIST's IDX format: bytes 0, 0, type, rank, then rank
 * big-endian u32 dimensions, then the values in C order. Only type 8 (u8). */
#ifndef PS_COMMON_DATA_IDX_H
#define PS_COMMON_DATA_IDX_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { PS_IDX_RANK_MAX = 4 };

/* Where the values start: 4 + 4 * rank. */
size_t ps_idx_header_bytes(uint32_t rank);

/* Are bytes[0..len) a whole IDX file of exactly these dimensions? Their product
 * fits size_t. INVALID_ARGUMENT names the file, the offset, what is there and
 * what was expected. */
PS_MUST_USE ps_status ps_idx_check(const char *name, const uint8_t *bytes, size_t len,
                                   uint32_t rank, const uint32_t *dim);

/* Reads FOLDER/NAME, plain or .gz, of exactly these dimensions. *bytes is the
 * whole file, to be freed; values from ps_idx_header_bytes on. No more is ever
 * allocated than such a file has, whatever the file says. */
PS_MUST_USE ps_status ps_idx_read(const char *folder, const char *name, uint32_t rank,
                                  const uint32_t *dim, uint8_t **bytes);

#endif
