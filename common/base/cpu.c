/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.c - see cpu.h. */
#include "common/base/cpu.h"
#include "common/base/shorten.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char variable[] = "PSGD_CPU";

atomic_int ps_cpu_known;

const char *ps_cpu_name(ps_cpu level)
{
    static const char *const names[PS_CPU_END] = {
        [PS_CPU_BASELINE] = "baseline", [PS_CPU_AVX2] = "avx2", [PS_CPU_AVX512] = "avx512"};

    return names[level];
}

#if defined(__x86_64__)
/* Asks the processor itself, because __builtin_cpu_supports of clang 14 does not know F16C. */
static bool has_f16c(void)
{
    unsigned a, b, c = 0, d;

    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("popcnt") && has_f16c();
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

ps_cpu ps_cpu_highest(void)
{
#if defined(__x86_64__)
    if (has_avx2()) {
        return has_avx512() ? PS_CPU_AVX512 : PS_CPU_AVX2;
    }
#endif
    return PS_CPU_BASELINE;
}

bool ps_cpu_has_vbmi2(void)
{
#if defined(__x86_64__)
    return ps_cpu_level() >= PS_CPU_AVX512 && __builtin_cpu_supports("avx512vbmi2");
#else
    return false;
#endif
}

/* Writes the names of the levels up to `highest`, as in "baseline, avx2 or avx512", to `text` and
 * returns it. */
static const char *names_up_to(ps_cpu highest, char *text, size_t cap)
{
    size_t used = 0;

    for (ps_cpu l = PS_CPU_BASELINE; l <= highest; l++) {
        const char *between = l == PS_CPU_BASELINE ? "" : l == highest ? " or " : ", ";
        int n = snprintf(text + used, cap - used, "%s%s", between, ps_cpu_name(l));

        used += (size_t)n;
    }
    return text;
}

ps_status ps_cpu_choose(const char *name, ps_cpu highest, ps_cpu *out)
{
    char names[64];

    for (ps_cpu l = PS_CPU_BASELINE; l <= highest; l++) {
        if (strcmp(name, ps_cpu_name(l)) == 0) {
            *out = l;
            return ps_ok();
        }
    }
    return ps_fail(PS_INVALID_ARGUMENT, "%s=%s: this processor runs %s", variable,
                   PS_SHORT(name, 20), names_up_to(highest, names, sizeof names));
}

ps_status ps_cpu_init(void)
{
    const char *wanted = getenv(variable);
    ps_cpu level = ps_cpu_highest();
    ps_status st = ps_ok();

    if (wanted != NULL && wanted[0] != '\0') {
        st = ps_cpu_choose(wanted, level, &level);
    }
    if (ps_is_ok(&st)) {
        atomic_store_explicit(&ps_cpu_known, (int)level, memory_order_relaxed);
    }
    return st;
}

ps_cpu ps_cpu_find(void)
{
    ps_status st = ps_cpu_init();

    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s\n", st.text);
        exit(EXIT_FAILURE);
    }
    return (ps_cpu)atomic_load_explicit(&ps_cpu_known, memory_order_relaxed);
}
