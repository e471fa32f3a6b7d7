/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c - see gemm.h. Returns the table of kernels for a level of processor. */
#include "common/nn/gemm.h"

const ps_gemm *ps_gemm_of(ps_cpu level)
{
#if defined(__x86_64__)
    if (level >= PS_CPU_AVX512) {
        return &ps_gemm_avx512;
    }
    if (level >= PS_CPU_AVX2) {
        return &ps_gemm_avx2;
    }
#endif
    (void)level;
    return NULL;
}
