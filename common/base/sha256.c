/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.c - see sha256.h. Letters as in FIPS 180-4. */
#include "common/base/sha256.h"

#include "common/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16 };

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load_be(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Step t. The eight words are not moved: place p of the standard's a to h is
 * s[(p - t) & 7]. */
static inline void step(uint32_t s[8], size_t t, uint32_t w)
{
    uint32_t a = s[(0 - t) & 7], b = s[(1 - t) & 7], c = s[(2 - t) & 7];
    uint32_t e = s[(4 - t) & 7], f = s[(5 - t) & 7], g = s[(6 - t) & 7];
    uint32_t t1 =
        s[(7 - t) & 7] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + k[t] + w;

    s[(3 - t) & 7] += t1;
    s[(7 - t) & 7] = t1 + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

static void compress(uint32_t h[8], const uint8_t block[64])
{
    uint32_t w[64];
    uint32_t s[8];

    for (size_t t = 0; t < 16; t++) {
        w[t] = load_be(block + 4 * t);
    }
    for (size_t t = 16; t < 64; t++) {
        uint32_t x = w[t - 15], y = w[t - 2];

        w[t] = w[t - 16] + (rotr(x, 7) ^ rotr(x, 18) ^ x >> 3) + w[t - 7] +
               (rotr(y, 17) ^ rotr(y, 19) ^ y >> 10);
    }
    memcpy(s, h, sizeof s);
    for (size_t t = 0; t < 64; t += 8) { /* constant places, so s stays in registers */
        step(s, t, w[t]);
        step(s, t + 1, w[t + 1]);
        step(s, t + 2, w[t + 2]);
        step(s, t + 3, w[t + 3]);
        step(s, t + 4, w[t + 4]);
        step(s, t + 5, w[t + 5]);
        step(s, t + 6, w[t + 6]);
        step(s, t + 7, w[t + 7]);
    }
    for (size_t i = 0; i < 8; i++) {
        h[i] += s[i];
    }
}

void ps_sha256_init(ps_sha256 *sha)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memcpy(sha->h, first, sizeof first);
    sha->n_bytes = 0;
}

void ps_sha256_add(ps_sha256 *sha, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    size_t have = (size_t)(sha->n_bytes % 64);

    sha->n_bytes += n;
    if (have > 0) {
        size_t more = n < 64 - have ? n : 64 - have;

        if (more > 0) {
            memcpy(sha->block + have, p, more);
        }
        if (have + more < 64) {
            return;
        }
        compress(sha->h, sha->block);
        p += more;
        n -= more;
    }
    for (; n >= 64; p += 64, n -= 64) {
        compress(sha->h, p);
    }
    if (n > 0) {
        memcpy(sha->block, p, n);
    }
}

void ps_sha256_finish(ps_sha256 *sha, uint8_t digest[PS_SHA256_BYTES])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t n_bits = sha->n_bytes * 8;
    size_t have = (size_t)(sha->n_bytes % 64);
    uint8_t length[8];

    for (size_t i = 0; i < 8; i++) {
        length[i] = (uint8_t)(n_bits >> (56 - 8 * i));
    }
    ps_sha256_add(sha, padding, have < 56 ? 56 - have : 120 - have);
    ps_sha256_add(sha, length, sizeof length);
    for (size_t i = 0; i < PS_SHA256_BYTES; i++) {
        digest[i] = (uint8_t)(sha->h[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void ps_sha256_hex(const uint8_t digest[PS_SHA256_BYTES], char hex[PS_SHA256_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < PS_SHA256_BYTES; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[PS_SHA256_HEX_BYTES - 1] = '\0';
}

void ps_sha256_of(const void *bytes, size_t n, char hex[PS_SHA256_HEX_BYTES])
{
    uint8_t digest[PS_SHA256_BYTES];
    ps_sha256 sha;

    ps_sha256_init(&sha);
    ps_sha256_add(&sha, bytes, n);
    ps_sha256_finish(&sha, digest);
    ps_sha256_hex(digest, hex);
}

ps_status ps_sha256_of_file(const char *path, char hex[PS_SHA256_HEX_BYTES], uint64_t *n_bytes)
{
    uint8_t bytes[READ_BYTES], digest[PS_SHA256_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ps_sha256 sha;
    ssize_t n;

    if (fd < 0) {
        return ps_fail_errno(errno, "open %s", ps_path_tail(path));
    }
    ps_sha256_init(&sha);
    while ((n = read(fd, bytes, sizeof bytes)) != 0) {
        if (n < 0 && errno != EINTR) {
            ps_status st = ps_fail_errno(errno, "read %s", ps_path_tail(path));

            close(fd);
            return st;
        }
        ps_sha256_add(&sha, bytes, n < 0 ? 0 : (size_t)n);
    }
    close(fd);
    *n_bytes = sha.n_bytes;
    ps_sha256_finish(&sha, digest);
    ps_sha256_hex(digest, hex);
    return ps_ok();
}
