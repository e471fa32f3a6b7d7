/* SPDX-License-Identifier: Apache-2.0 */
/* winograd_tiles.c - see winograd_tiles.h. */
#include "common/nn/winograd_tiles.h"

const ps_winograd_tiles *ps_winograd_tiles_of(ps_cpu level)
{
#if defined(__x86_64__)
    if (level >= PS_CPU_AVX512) {
        return &ps_winograd_tiles_avx512;
    }
    if (level >= PS_CPU_AVX2) {
        return &ps_winograd_tiles_avx2;
    }
#endif
    (void)level;
    return NULL;
}
