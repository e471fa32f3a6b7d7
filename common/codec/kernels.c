/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c - which kernels this processor runs. */
#include "common/codec/kernels.h"

#include <stdbool.h>

#if defined(__x86_64__)
static bool has_avx2(void)
{
#if defined(__clang__)
    /* clang 14 does not know "f16c" here; every processor with AVX2 has it. */
    return __builtin_cpu_supports("avx2");
#else
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
#endif
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const ps_kernels *ps_kernels_best(void)
{
#if defined(__x86_64__)
    if (has_avx512()) {
        return &ps_kernels_avx512;
    }
    if (has_avx2()) {
        return &ps_kernels_avx2;
    }
#endif
    return &ps_kernels_plain;
}

void ps_kernels_each(void (*fn)(const ps_kernels *k, void *arg), void *arg)
{
    fn(&ps_kernels_plain, arg);
#if defined(__x86_64__)
    if (has_avx2()) {
        fn(&ps_kernels_avx2, arg);
    }
    if (has_avx512()) {
        fn(&ps_kernels_avx512, arg);
    }
#endif
}
