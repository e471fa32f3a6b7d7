/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.h - CRC-32C (Castagnoli), the checksum of TFRecord files. */
#ifndef PS_COMMON_ARTIFACT_CRC32C_H
#define PS_COMMON_ARTIFACT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of n bytes: polynomial 0x1edc6f41 reflected, initial and final value all
 * ones (RFC 3720, B.4). Some hundred MB a second, so for small records. */
uint32_t ps_crc32c(const void *bytes, size_t n);

#endif
