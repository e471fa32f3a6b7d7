/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpu.c - levels of processors, and a loop that is compiled for each. */
#include "common/base/clones.h"

#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must_refuse(const char *name, ps_cpu highest, const char *text)
{
    ps_cpu level = PS_CPU_END;
    ps_status st = ps_cpu_choose(name, highest, &level);

    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_string_equal(st.text, text);
    assert_int_equal(level, PS_CPU_END);
}

static void a_level_is_chosen_by_its_name(void **state)
{
    (void)state;
    for (ps_cpu l = PS_CPU_BASELINE; l < PS_CPU_END; l++) {
        ps_cpu level = PS_CPU_END;
        ps_status st = ps_cpu_choose(ps_cpu_name(l), PS_CPU_AVX512, &level);

        assert_true(ps_is_ok(&st));
        assert_int_equal(level, l);
    }
}

static void what_the_processor_lacks_is_refused(void **state)
{
    (void)state;
    must_refuse("sse9", PS_CPU_AVX512,
                "PSGD_CPU=sse9: this processor runs baseline, avx2 or avx512");
    must_refuse("avx512", PS_CPU_AVX2, "PSGD_CPU=avx512: this processor runs baseline or avx2");
    must_refuse("avx2", PS_CPU_BASELINE, "PSGD_CPU=avx2: this processor runs baseline");
    must_refuse("AVX2", PS_CPU_AVX2, "PSGD_CPU=AVX2: this processor runs baseline or avx2");
}

static void the_environment_chooses(void **state)
{
    const char *given = getenv("PSGD_CPU");
    char before[32];
    ps_status st;

    (void)state;
    snprintf(before, sizeof before, "%s", given != NULL ? given : "");
    for (ps_cpu l = PS_CPU_BASELINE; l <= ps_cpu_highest(); l++) {
        assert_int_equal(setenv("PSGD_CPU", ps_cpu_name(l), 1), 0);
        st = ps_cpu_init();
        assert_true(ps_is_ok(&st));
        assert_int_equal(ps_cpu_level(), l);
        assert_false(l < PS_CPU_AVX512 && ps_cpu_has_vbmi2());
    }
    setenv("PSGD_CPU", "", 1);
    st = ps_cpu_init();
    assert_true(ps_is_ok(&st));
    assert_int_equal(ps_cpu_level(), ps_cpu_highest());
    setenv("PSGD_CPU", "8086", 1);
    st = ps_cpu_init();
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_int_equal(ps_cpu_level(), ps_cpu_highest());
    setenv("PSGD_CPU", before, 1);
    st = ps_cpu_init();
    assert_true(ps_is_ok(&st));
}

PS_CLONES(add_thirds, (x, y, n), const float *restrict x, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] += x[i] * x[i] / 3.0f;
    }
}

static void clones_give_the_same_bits_at_each_level(void **state)
{
    enum { N = 67 };
    int before = (int)ps_cpu_level();
    float x[N], want[N], got[N];

    (void)state;
    for (size_t i = 0; i < N; i++) {
        x[i] = (float)i / 7.0f;
    }
    for (ps_cpu l = PS_CPU_BASELINE; l <= (ps_cpu)before; l++) {
        atomic_store(&ps_cpu_known, (int)l);
        for (size_t i = 0; i < N; i++) {
            got[i] = 1.0f;
        }
        add_thirds(x, got, N);
        if (l == PS_CPU_BASELINE) {
            memcpy(want, got, sizeof want);
        }
        assert_memory_equal(got, want, sizeof want);
        assert_true(got[N - 1] > 30.0f);
    }
    atomic_store(&ps_cpu_known, before);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_is_chosen_by_its_name),
        cmocka_unit_test(what_the_processor_lacks_is_refused),
        cmocka_unit_test(the_environment_chooses),
        cmocka_unit_test(clones_give_the_same_bits_at_each_level),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
