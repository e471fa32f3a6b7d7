/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - chooses which code this process runs where there is code for several kinds of
 * processors.
 *
 * No other file asks the processor. A level is a set of instructions; each level contains those
 * below it. Every room has a table or a loop for some of the levels and takes the one of
 * ps_cpu_level(). That is the highest level that the processor and the operating system support,
 * or the one that the environment variable PSGD_CPU names, so that one machine can test them all.
 */
#ifndef PS_COMMON_BASE_CPU_H
#define PS_COMMON_BASE_CPU_H

#include "common/base/status.h"

#include <stdatomic.h>

typedef enum ps_cpu {
    /* instructions that the compiler's options allow; the only level except on x86-64 */
    PS_CPU_BASELINE = 1,
    PS_CPU_AVX2,   /* AVX2, FMA, F16C, POPCNT: Intel since Haswell, AMD since Zen */
    PS_CPU_AVX512, /* also AVX-512 F, CD, BW, DQ, VL: Intel since Skylake-X, AMD since Zen 4 */
    PS_CPU_END
} ps_cpu;

/* A sentence for the notes of --help. */
#define PS_CPU_HELP                                                                                \
    "The environment variable PSGD_CPU (baseline, avx2 or avx512) chooses the level of processor " \
    "whose code runs; default: the highest that this processor has."

/* Reads PSGD_CPU; empty counts as unset. Returns INVALID_ARGUMENT as ps_cpu_choose does. main()
 * calls it before it starts threads. Otherwise the first ps_cpu_level() calls it, and ends the
 * process on an error. Repeated calls change nothing. */
PS_MUST_USE ps_status ps_cpu_init(void);

/* Sets *out to the level with this name. Returns INVALID_ARGUMENT, with the allowed names, if no
 * level has the name or the level is above `highest`. */
PS_MUST_USE ps_status ps_cpu_choose(const char *name, ps_cpu highest, ps_cpu *out);

/* The level, or 0 before it is known, and the function that finds it. Only ps_cpu_level() uses the
 * two. */
extern atomic_int ps_cpu_known;
ps_cpu ps_cpu_find(void);

/* Returns the level to run. Any thread; costs a load and a test. */
static inline ps_cpu ps_cpu_level(void)
{
    int level = atomic_load_explicit(&ps_cpu_known, memory_order_relaxed);

    return level != 0 ? (ps_cpu)level : ps_cpu_find();
}

/* Returns the highest level that this processor runs, whatever PSGD_CPU says. */
ps_cpu ps_cpu_highest(void);

/* Returns whether the processor has AVX-512 VBMI2 too: Intel since Ice Lake, AMD since Zen 4. False
 * below PS_CPU_AVX512. */
bool ps_cpu_has_vbmi2(void);

/* Returns "baseline", "avx2" or "avx512": static text. */
const char *ps_cpu_name(ps_cpu level);

#endif
