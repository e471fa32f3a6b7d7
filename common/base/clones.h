/* SPDX-License-Identifier: Apache-2.0 */
/* clones.h - one loop, compiled for each level of processor (cpu.h).
 *
 *     PS_CLONES(add, (x, y, n), const float *restrict x, float *restrict y, size_t n)
 *     {
 *         for (size_t i = 0; i < n; i++) {
 *             y[i] += x[i];
 *         }
 *     }
 *
 * defines `static void add(const float *restrict x, ...)`, which runs the loop as the level that
 * ps_cpu_level() names can run it.
 *
 * For elementwise loops of sums, products, quotients, square roots, selects and
 * integer work only: IEEE 754 rounds these alike at every width, and with
 * -ffp-contract=off no clone fuses them, so that every host gets the same bits.
 * A loop that sums up over lanes does not qualify. Pointers are `restrict`, else
 * the loop begins with a test whether it may use vectors.
 */
#ifndef PS_COMMON_BASE_CLONES_H
#define PS_COMMON_BASE_CLONES_H

#include "common/base/cpu.h"

#if defined(__x86_64__)
#define PS_CLONES(name, arguments, ...)                                                            \
    static inline __attribute__((always_inline)) void name##_body(__VA_ARGS__);                    \
    static __attribute__((target("avx512f"), noinline)) void name##_avx512(__VA_ARGS__)            \
    {                                                                                              \
        name##_body arguments;                                                                     \
    }                                                                                              \
    static __attribute__((target("avx2"), noinline)) void name##_avx2(__VA_ARGS__)                 \
    {                                                                                              \
        name##_body arguments;                                                                     \
    }                                                                                              \
    static __attribute__((noinline)) void name##_baseline(__VA_ARGS__)                             \
    {                                                                                              \
        name##_body arguments;                                                                     \
    }                                                                                              \
    static inline void name(__VA_ARGS__)                                                           \
    {                                                                                              \
        ps_cpu cpu_level = ps_cpu_level();                                                         \
                                                                                                   \
        if (cpu_level >= PS_CPU_AVX512) {                                                          \
            name##_avx512 arguments;                                                               \
        } else if (cpu_level >= PS_CPU_AVX2) {                                                     \
            name##_avx2 arguments;                                                                 \
        } else {                                                                                   \
            name##_baseline arguments;                                                             \
        }                                                                                          \
    }                                                                                              \
    static inline void name##_body(__VA_ARGS__)
#else
#define PS_CLONES(name, arguments, ...) static void name(__VA_ARGS__)
#endif

#endif
