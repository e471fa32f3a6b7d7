/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.c - see sha256.h. */
#include "common/base/sha256.h"

#include "common/base/files.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16 };

/* Aborts if a call of libcrypto has failed (is_done is false). Here only a lack of memory makes it
 * fail. */
static void must(bool is_done)
{
    if (!is_done) {
        fputs("libcrypto cannot compute SHA-256\n", stderr);
        abort();
    }
}

void ps_sha256_init(ps_sha256 *sha)
{
    sha->context = EVP_MD_CTX_new();
    must(sha->context != NULL && EVP_DigestInit_ex(sha->context, EVP_sha256(), NULL) == 1);
}

void ps_sha256_add(ps_sha256 *sha, const void *bytes, size_t n)
{
    must(EVP_DigestUpdate(sha->context, bytes, n) == 1);
}

void ps_sha256_finish(ps_sha256 *sha, char hex[PS_SHA256_HEX_BYTES])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    must(EVP_DigestFinal_ex(sha->context, digest, &n) == 1 && 2 * n + 1 == PS_SHA256_HEX_BYTES);
    for (unsigned i = 0; i < n; i++) {
        snprintf(hex + (size_t)2 * i, 3, "%02x", digest[i]);
    }
    ps_sha256_fini(sha);
}

void ps_sha256_fini(ps_sha256 *sha)
{
    EVP_MD_CTX_free(sha->context);
    sha->context = NULL;
}

void ps_sha256_of(const void *bytes, size_t n, char hex[PS_SHA256_HEX_BYTES])
{
    ps_sha256 sha;

    ps_sha256_init(&sha);
    ps_sha256_add(&sha, bytes, n);
    ps_sha256_finish(&sha, hex);
}

ps_status ps_sha256_of_file(const char *path, char hex[PS_SHA256_HEX_BYTES], uint64_t *n_bytes)
{
    unsigned char bytes[READ_BYTES];
    int fd = -1;
    ps_status st = ps_file_open(path, &fd, NULL);
    uint64_t size = 0;
    ps_sha256 sha;
    ssize_t n;

    if (!ps_is_ok(&st)) {
        return st;
    }
    ps_sha256_init(&sha);
    while ((n = read(fd, bytes, sizeof bytes)) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0) {
            ps_sha256_add(&sha, bytes, (size_t)n);
            size += (uint64_t)n;
        }
    }
    if (n < 0) {
        st = ps_fail_errno(errno, "read %s", PS_PATH_SHOWN(path));
        ps_sha256_fini(&sha);
    } else {
        ps_sha256_finish(&sha, hex);
        *n_bytes = size;
    }
    close(fd);
    return st;
}
