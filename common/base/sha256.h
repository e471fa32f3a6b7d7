/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h - SHA-256 (FIPS 180-4), for manifests and data sets. */
#ifndef PS_COMMON_BASE_SHA256_H
#define PS_COMMON_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum { PS_SHA256_BYTES = 32, PS_SHA256_HEX_BYTES = 65 /* with the NUL */ };

typedef struct ps_sha256 {
    uint32_t h[8];
    uint64_t n_bytes; /* added so far */
    uint8_t block[64];
} ps_sha256;

void ps_sha256_init(ps_sha256 *sha);
void ps_sha256_add(ps_sha256 *sha, const void *bytes, size_t n);
/* Ends it; init before it is used again. */
void ps_sha256_finish(ps_sha256 *sha, uint8_t digest[PS_SHA256_BYTES]);

/* Lower-case hexadecimal. */
void ps_sha256_hex(const uint8_t digest[PS_SHA256_BYTES], char hex[PS_SHA256_HEX_BYTES]);

/* All at once: of bytes, and of a file (errors as of open and read). */
void ps_sha256_of(const void *bytes, size_t n, char hex[PS_SHA256_HEX_BYTES]);
PS_MUST_USE ps_status ps_sha256_of_file(const char *path, char hex[PS_SHA256_HEX_BYTES],
                                        uint64_t *n_bytes);

#endif
