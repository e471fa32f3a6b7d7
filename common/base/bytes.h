/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h - numbers as bytes, little-endian on every host. */
#ifndef PS_COMMON_BASE_BYTES_H
#define PS_COMMON_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

/* Writes x to the 4 bytes at `at`. */
static inline void ps_put_u32(uint8_t *at, uint32_t x)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(x >> (8 * i));
    }
}

/* Writes x to the 8 bytes at `at`. */
static inline void ps_put_u64(uint8_t *at, uint64_t x)
{
    ps_put_u32(at, (uint32_t)(x & UINT32_MAX));
    ps_put_u32(at + 4, (uint32_t)(x >> 32));
}

/* Writes the bits of x to the 8 bytes at `at`. */
static inline void ps_put_f64(uint8_t *at, double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    ps_put_u64(at, bits);
}

/* Reads the 4 bytes at `at`. */
static inline uint32_t ps_get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Reads the 8 bytes at `at`. */
static inline uint64_t ps_get_u64(const uint8_t *at)
{
    return (uint64_t)ps_get_u32(at) | (uint64_t)ps_get_u32(at + 4) << 32;
}

#endif
