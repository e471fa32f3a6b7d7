/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c - see gemm.h: which tables there are. */
#include "common/nn/gemm.h"

const ps_gemm *ps_gemm_at(size_t i)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        if (i == 0) {
            return &ps_gemm_avx512;
        }
        i--;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && i == 0) {
        return &ps_gemm_avx2;
    }
#endif
    (void)i;
    return NULL;
}
