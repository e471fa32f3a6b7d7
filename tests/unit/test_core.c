/* SPDX-License-Identifier: Apache-2.0 */
/* test_core.c - which kernels a process computes with, whatever OpenBLAS takes the processor for.
 *
 * OpenBLAS looks at OPENBLAS_CORETYPE when it is loaded, so each case is a process of its own: this
 * program again, with an argument. `found` removes the variable before anything else is called:
 * then OpenBLAS has what it might have found by itself on a processor that it does not know.
 */
#include "common/base/cpu.h"
#include "common/nn/blas.h"

#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 400 };

/* What a process with these variables prints. */
static void ask(const char *variables, const char *how, char line[LINE])
{
    char command[LINE], self[200];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    FILE *pipe;

    assert_true(n > 0);
    self[n] = '\0';
    snprintf(command, sizeof command, "env %s %s %s 2>&1", variables, self, how);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(line, LINE, pipe));
    pclose(pipe);
    line[strcspn(line, "\n")] = '\0';
    print_message("%s %s: %s\n", variables, how, line);
}

static const char *core_of(ps_cpu level)
{
    static const char *const cores[PS_CPU_END] = {
        [PS_CPU_BASELINE] = "Prescott", [PS_CPU_AVX2] = "Haswell", [PS_CPU_AVX512] = "SkylakeX"};

    return cores[level];
}

static void what_openblas_finds_does_not_matter(void **state)
{
    static const char *const found[] = {"Prescott", "Nehalem", "Haswell", "Zen"};
    char variables[100], line[LINE], want[LINE];
    ps_cpu highest = ps_cpu_highest();

    (void)state;
    for (size_t i = 0; i < sizeof found / sizeof found[0] && highest > PS_CPU_BASELINE; i++) {
        /* Zen has kernels for AVX2, as Haswell has: it stays where nothing higher runs */
        bool stays = highest == PS_CPU_AVX2 && strcmp(found[i], "Zen") == 0;

        snprintf(variables, sizeof variables, "-u PSGD_CPU OPENBLAS_CORETYPE=%s", found[i]);
        ask(variables, "found", line);
        snprintf(want, sizeof want, "%s, OpenBLAS %s, own small products and convolutions %s",
                 ps_cpu_name(highest), stays ? found[i] : core_of(highest), ps_cpu_name(highest));
        assert_string_equal(line, want);
    }
}

static void kernels_for_the_level_stay(void **state)
{
    char line[LINE];

    (void)state;
    if (ps_cpu_highest() < PS_CPU_AVX512) {
        skip();
    }
    ask("-u PSGD_CPU OPENBLAS_CORETYPE=Cooperlake", "found", line);
    assert_non_null(strstr(line, ", OpenBLAS Cooperlake, "));
    ask("PSGD_CPU=avx2 OPENBLAS_CORETYPE=Zen", "found", line);
    assert_non_null(strstr(line, ", OpenBLAS Zen, "));
}

static void the_user_s_core_stays(void **state)
{
    char line[LINE];

    (void)state;
#if defined(__x86_64__)
    ask("-u PSGD_CPU OPENBLAS_CORETYPE=Nehalem", "given", line);
    assert_non_null(strstr(line, ", OpenBLAS Nehalem by OPENBLAS_CORETYPE, "));
#else
    (void)line;
#endif
}

static void a_level_has_its_core(void **state)
{
    char variables[100], line[LINE], want[LINE];

    (void)state;
    for (ps_cpu l = PS_CPU_BASELINE; l < ps_cpu_highest(); l++) {
        snprintf(variables, sizeof variables, "-u OPENBLAS_CORETYPE PSGD_CPU=%s", ps_cpu_name(l));
        ask(variables, "given", line);
        snprintf(want, sizeof want, "%s by PSGD_CPU, OpenBLAS %s, %s%s", ps_cpu_name(l), core_of(l),
                 l == PS_CPU_BASELINE ? "none of our own" : "own small products and convolutions ",
                 l == PS_CPU_BASELINE ? "" : ps_cpu_name(l));
        assert_string_equal(line, want);
    }
    ask("PSGD_CPU=8086", "given", line);
    assert_non_null(strstr(line, "PSGD_CPU=8086: this processor runs baseline"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_openblas_finds_does_not_matter),
        cmocka_unit_test(kernels_for_the_level_stay),
        cmocka_unit_test(the_user_s_core_stays),
        cmocka_unit_test(a_level_has_its_core),
    };
    char text[PS_NN_KERNELS_BYTES];

    if (argc > 1) {
        if (strcmp(argv[1], "found") == 0) {
            unsetenv("OPENBLAS_CORETYPE");
        }
        puts(ps_nn_kernels(text));
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
