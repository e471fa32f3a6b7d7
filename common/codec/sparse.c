/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.c - see sparse.h. */
#include "common/codec/sparse.h"

#include "common/base/nonfinite.h"
#include "common/codec/bitpack.h"

#include <string.h>

/* Returns the bits of a position among n; 0 if n < 2. */
static unsigned position_bits(size_t n)
{
    return n < 2 ? 0 : 32 - (unsigned)__builtin_clz((unsigned)(n - 1));
}

static bool is_packed(size_t n, size_t k)
{
    return ps_pack_bytes(k, position_bits(n)) <= (n + 7) / 8;
}

size_t ps_positions_bytes(size_t n, size_t k)
{
    if (k == 0 || k == n) {
        return 0;
    }
    return is_packed(n, k) ? ps_pack_bytes(k, position_bits(n)) : (n + 7) / 8;
}

size_t ps_sparse_bytes(size_t n, size_t k)
{
    return ps_positions_bytes(n, k) + k * sizeof(float);
}

size_t ps_sparse_most(size_t n, size_t k)
{
    size_t all_but_one = n > 0 && k == n ? ps_sparse_bytes(n, n - 1) : 0;
    size_t bytes = ps_sparse_bytes(n, k); /* grows with k, except that k = n needs no positions */

    return all_but_one > bytes ? all_but_one : bytes;
}

size_t ps_positions_write(const uint16_t *positions, size_t n, size_t k, uint8_t *out)
{
    size_t bytes = ps_positions_bytes(n, k);

    if (bytes > 0 && is_packed(n, k)) {
        ps_pack16(positions, k, position_bits(n), out);
    } else if (bytes > 0) {
        memset(out, 0, bytes);
        for (size_t j = 0; j < k; j++) {
            out[positions[j] / 8] = (uint8_t)(out[positions[j] / 8] | 1u << positions[j] % 8);
        }
    }
    return bytes;
}

size_t ps_sparse_write(const float *x, size_t n, const uint16_t *positions, size_t k, uint8_t *out)
{
    uint8_t *values = out + ps_positions_write(positions, n, k, out);

    for (size_t j = 0; j < k; j++) {
        memcpy(values + j * sizeof(float), &x[positions[j]], sizeof(float));
    }
    return ps_sparse_bytes(n, k);
}

/* Writes the positions of the bits that are set in a bitmap. Returns their number, or SIZE_MAX if
 * one is not below n. */
static size_t read_bitmap(const uint8_t *in, size_t n, uint16_t *positions)
{
    size_t count = 0;

    for (size_t i = 0; i < (n + 7) / 8; i++) {
        for (unsigned byte = in[i]; byte != 0; byte &= byte - 1) {
            size_t at = 8 * i + (unsigned)__builtin_ctz(byte);

            if (at >= n) {
                return SIZE_MAX;
            }
            positions[count++] = (uint16_t)at;
        }
    }
    return count;
}

bool ps_positions_read(const uint8_t *in, size_t n, size_t k, uint16_t *positions)
{
    if (k == 0 || k == n) {
        for (size_t j = 0; j < k; j++) {
            positions[j] = (uint16_t)j;
        }
        return true;
    }
    if (!is_packed(n, k)) {
        return read_bitmap(in, n, positions) == k;
    }
    ps_unpack16(in, k, position_bits(n), positions);
    for (size_t j = 1; j < k; j++) {
        if (positions[j] <= positions[j - 1]) {
            return false;
        }
    }
    return positions[k - 1] < n;
}

ps_status ps_sparse_check(const char *name, uint32_t slice, const uint8_t *in, size_t len, size_t n,
                          size_t k, uint16_t *positions)
{
    uint16_t own[PS_CODEC_VALUES];

    if (k > n || len != ps_sparse_bytes(n, k)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: %s: %zu bytes for %zu of %zu values", slice, name,
                       len, k, n);
    }
    if (!ps_positions_read(in, n, k, positions != NULL ? positions : own)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: %s: positions are not %zu ascending ones below %zu",
                       slice, name, k, n);
    }
    return ps_ok();
}

size_t ps_sparse_first_nonfinite(const uint8_t *in, size_t n, size_t k)
{
    size_t first = ps_first_nonfinite(in + ps_positions_bytes(n, k), k);
    uint16_t positions[PS_CODEC_VALUES];

    return first < k && ps_positions_read(in, n, k, positions) ? positions[first] : n;
}

ps_status ps_sparse_decode(const char *name, uint32_t slice, const uint8_t *in, size_t len,
                           size_t n, size_t k, ps_into into, float *y)
{
    uint16_t positions[PS_CODEC_VALUES];
    ps_status st = ps_sparse_check(name, slice, in, len, n, k, positions);

    if (!ps_is_ok(&st)) {
        return st;
    }
    in += ps_positions_bytes(n, k);
    if (into == PS_INTO_SET) {
        memset(y, 0, n * sizeof *y);
    }
    for (size_t j = 0; j < k; j++) {
        float v;

        memcpy(&v, in + j * sizeof v, sizeof v);
        y[positions[j]] = into == PS_INTO_SET ? v : y[positions[j]] + v;
    }
    return st;
}
