/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h - SHA-256 as lower-case hexadecimal text, computed by libcrypto. */
#ifndef PS_COMMON_BASE_SHA256_H
#define PS_COMMON_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum { PS_SHA256_HEX_BYTES = 65 }; /* 64 digits and the NUL */

/* A digest that is being computed. Its memory ends with finish or fini. */
typedef struct ps_sha256 {
    struct evp_md_ctx_st *context; /* NULL: none is being computed */
} ps_sha256;

/* Begins a digest. `sha` holds none: it is new, finished or given up. */
void ps_sha256_init(ps_sha256 *sha);
/* Adds n bytes to the digest. */
void ps_sha256_add(ps_sha256 *sha, const void *bytes, size_t n);
/* Writes the digest of all bytes added, and frees its memory. */
void ps_sha256_finish(ps_sha256 *sha, char hex[PS_SHA256_HEX_BYTES]);
/* Gives a digest up and frees its memory. Legal on zeros, and after finish. */
void ps_sha256_fini(ps_sha256 *sha);

/* Writes the digest of n bytes. */
void ps_sha256_of(const void *bytes, size_t n, char hex[PS_SHA256_HEX_BYTES]);

/* Reads the file at `path` to its end; writes its digest and its size in bytes.
 * Errors are those of open and read. */
PS_MUST_USE ps_status ps_sha256_of_file(const char *path, char hex[PS_SHA256_HEX_BYTES],
                                        uint64_t *n_bytes);

#endif
