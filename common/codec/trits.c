/* SPDX-License-Identifier: Apache-2.0 */
/* trits.c - see trits.h. */
#include "common/codec/trits.h"

#include "common/codec/kernels.h"

#include <math.h>
#include <string.h>

void ps_trits_write(const float *x, size_t n, float inverse, bool draws, uint32_t key, uint8_t *out)
{
    const ps_kernels *k = ps_kernels_best();
    uint8_t codes[5 * PS_TRITS_BYTES];
    size_t m = ps_trits_bytes(n);

    if (draws) {
        k->levels8(x, inverse, 1, key, 0, codes, n);
    } else {
        k->nearest8(x, inverse, 1, codes, n);
    }
    memset(codes + n, 1, 5 * m - n);
    k->trits_pack(codes, out, m);
}

bool ps_trits_are_sound(const uint8_t *in, size_t len)
{
    uint8_t most = 0;

    for (size_t i = 0; i < len; i++) {
        most = in[i] > most ? in[i] : most;
    }
    return most <= PS_TRITS_TOP;
}

ps_status ps_trits_check(const char *name, uint32_t slice, float scale, const uint8_t *in,
                         size_t len, size_t n)
{
    if (len != ps_trits_bytes(n)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: %s: %zu bytes for %zu values", slice, name, len, n);
    }
    if (!isfinite(scale) || scale < 0.0f) {
        return ps_fail(PS_DATA_LOSS, "slice %u: %s: scale %g", slice, name, (double)scale);
    }
    if (!ps_trits_are_sound(in, len)) {
        return ps_fail(PS_DATA_LOSS, "slice %u: %s: a byte above %d", slice, name, PS_TRITS_TOP);
    }
    return ps_ok();
}

void ps_trits_read(const uint8_t *in, size_t n, float scale, ps_into into, float *y)
{
    const ps_kernels *k = ps_kernels_best();
    uint8_t codes[5 * PS_TRITS_BYTES];

    k->trits_unpack(in, codes, ps_trits_bytes(n));
    (into == PS_INTO_SET ? k->values8_set : k->values8_add)(codes, 1, scale, y, n);
}
