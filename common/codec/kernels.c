/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c - chooses the kernels for the level of the processor. */
#include "common/codec/kernels.h"

const ps_kernels *ps_kernels_of(ps_cpu level)
{
#if defined(__x86_64__)
    if (level >= PS_CPU_AVX512) {
        return &ps_kernels_avx512;
    }
    if (level >= PS_CPU_AVX2) {
        return &ps_kernels_avx2;
    }
#endif
    (void)level;
    return &ps_kernels_plain;
}

const ps_kernels *ps_kernels_best(void)
{
    return ps_kernels_of(ps_cpu_level());
}
