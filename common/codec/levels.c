/* SPDX-License-Identifier: Apache-2.0 */
/* levels.c - see levels.h. Works in runs, so that codes stay in the first-level cache. */
#include "common/codec/levels.h"

#include "common/codec/bitpack.h"
#include "common/codec/kernels.h"

#include <math.h>

enum { RUN = 1024 }; /* values at a time; a multiple of 8, so each run ends at a byte boundary */

static size_t run_at(size_t i, size_t n)
{
    return n - i < RUN ? n - i : RUN;
}

static void write8(const float *x, size_t n, float inverse, uint32_t limit, unsigned bits,
                   bool draws, uint32_t key, size_t first, uint8_t *out)
{
    const ps_kernels *k = ps_kernels_best();
    uint8_t codes[RUN];

    for (size_t i = 0; i < n; i += RUN) {
        size_t m = run_at(i, n);

        if (draws) {
            k->levels8(x + i, inverse, limit, key, first + i, codes, m);
        } else {
            k->nearest8(x + i, inverse, limit, codes, m);
        }
        ps_pack8(codes, m, bits, out + i * bits / 8);
    }
}

static void write16(const float *x, size_t n, float inverse, uint32_t limit, unsigned bits,
                    bool draws, uint32_t key, size_t first, uint8_t *out)
{
    const ps_kernels *k = ps_kernels_best();
    uint16_t codes[RUN];

    for (size_t i = 0; i < n; i += RUN) {
        size_t m = run_at(i, n);

        if (draws) {
            k->levels16(x + i, inverse, limit, key, first + i, codes, m);
        } else {
            k->nearest16(x + i, inverse, limit, codes, m);
        }
        ps_pack16(codes, m, bits, out + i * bits / 8);
    }
}

void ps_levels_write(const float *x, size_t n, float inverse, uint32_t limit, unsigned bits,
                     bool draws, uint32_t key, size_t first, uint8_t *out)
{
    if (bits <= 8) {
        write8(x, n, inverse, limit, bits, draws, key, first, out);
    } else {
        write16(x, n, inverse, limit, bits, draws, key, first, out);
    }
}

ps_status ps_levels_check(const char *name, uint32_t slice, uint32_t bits, float scale, size_t len,
                          size_t n)
{
    if (bits < 2 || bits > 16) {
        return ps_fail(PS_DATA_LOSS, "slice %u: %s: has %u bits a value; 2 to 16 are allowed",
                       slice, name, bits);
    }
    if (len != ps_pack_bytes(n, bits)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: %s: %zu bytes for %zu values of %u bits", slice,
                       name, len, n, bits);
    }
    if (!isfinite(scale) || scale < 0.0f) {
        return ps_fail(PS_DATA_LOSS, "slice %u: %s: scale %g", slice, name, (double)scale);
    }
    return ps_ok();
}

static void read8(const uint8_t *in, size_t n, uint32_t limit, unsigned bits, float scale,
                  ps_into into, float *y)
{
    const ps_kernels *k = ps_kernels_best();
    uint8_t codes[RUN];

    for (size_t i = 0; i < n; i += RUN) {
        size_t m = run_at(i, n);

        ps_unpack8(in + i * bits / 8, m, bits, codes);
        (into == PS_INTO_SET ? k->values8_set : k->values8_add)(codes, limit, scale, y + i, m);
    }
}

static void read16(const uint8_t *in, size_t n, uint32_t limit, unsigned bits, float scale,
                   ps_into into, float *y)
{
    const ps_kernels *k = ps_kernels_best();
    uint16_t codes[RUN];

    for (size_t i = 0; i < n; i += RUN) {
        size_t m = run_at(i, n);

        ps_unpack16(in + i * bits / 8, m, bits, codes);
        (into == PS_INTO_SET ? k->values16_set : k->values16_add)(codes, limit, scale, y + i, m);
    }
}

void ps_levels_read(const uint8_t *in, size_t n, uint32_t limit, unsigned bits, float scale,
                    ps_into into, float *y)
{
    if (bits <= 8) {
        read8(in, n, limit, bits, scale, into, y);
    } else {
        read16(in, n, limit, bits, scale, into, y);
    }
}
