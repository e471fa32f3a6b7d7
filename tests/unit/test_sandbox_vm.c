/* SPDX-License-Identifier: Apache-2.0 */
/* test_sandbox_vm.c - what Lua code computes in a sandbox, without the process around it. */
#include "common/sandbox/same_libc.h"
#include "common/sandbox/vm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static ps_sandbox_memory memory;

/* Runs the body of a function and returns its result; NULL if it failed (memory.error). */
static const ps_sandbox_value *run(const char *body)
{
    int n = snprintf((char *)memory.in, sizeof memory.in,
                     "return {kind = 'compute', name = 'test', map = function() %s end}", body);

    memory.instructions = 1000000;
    memory.memory = 16u << 20;
    memory.what = PS_SANDBOX_LOAD;
    memory.argument_count = 1;
    memory.arguments[0] = (ps_sandbox_value){.kind = PS_SANDBOX_TEXT, .count = (uint32_t)n};
    ps_vm_answer(&memory);
    if (memory.failed != 0) {
        return NULL;
    }
    memory.what = PS_SANDBOX_RUN;
    memory.argument_count = 0;
    memory.result_max = 1;
    snprintf(memory.function, sizeof memory.function, "map");
    ps_vm_answer(&memory);
    return memory.failed != 0 ? NULL : &memory.results[0];
}

static double number(const char *body)
{
    const ps_sandbox_value *v = run(body);

    if (v == NULL) {
        fail_msg("%s: %s", body, memory.error);
        return 0;
    }
    return v->kind == PS_SANDBOX_INTEGER ? (double)v->as.integer : v->as.number;
}

static void check_fails(const char *body, const char *why)
{
    if (run(body) != NULL || strstr(memory.error, why) == NULL) {
        fail_msg("%s: \"%s\", not \"%s\"", body, memory.error, why);
    }
}

/* A vector of scatter is what the same values are that were given one by one, whether it is
 * returned or computed with. */
static void test_scattered_values_are_those_of_a_vector(void **state)
{
    static const char *const is_same[] = {
        "local s = x:gather(x:largest(3)):scatter(x:largest(3), 10) return s:sum() == 24 and #s == "
        "10 and "
        "s[7] == 0 and s[8] == 7 and s[10] == 9 and 1 or 0",
        "local s = x:gather(x:largest(3)):scatter(x:largest(3), 10) local t = s + 0 return "
        "s:dot(t) == "
        "194 and (s - t):max_abs() == 0 and 1 or 0",
        "local s = x:gather(x:largest(6)):scatter(x:largest(6), 10) return s:sum() == 39 and 1 or "
        "0",
        "local s = vec.of({}):scatter(vec.fill(4, 0):largest(0), 4) return s:sum() == 0 and #s == "
        "4 "
        "and 1 or 0",
    };
    static const char *const signs[] = {"", "-"}; /* of NaN, which differs between processors */
    const float nan = NAN;
    const ps_sandbox_value *v;
    float values[2];
    uint16_t at[2];

    (void)state;
    for (size_t i = 0; i < sizeof is_same / sizeof is_same[0]; i++) {
        char body[512];

        snprintf(body, sizeof body, "local x = vec.range(10) %s", is_same[i]);
        assert_true(number(body) == 1.0);
    }
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        char body[512];

        snprintf(body, sizeof body,
                 "local x = %svec.of{1, 0/0, 3, 0/0} local p = x:largest(2) "
                 "return x:gather(p):scatter(p, 4)",
                 signs[i]);
        v = run(body);
        assert_non_null(v);
        assert_int_equal(v->kind, PS_SANDBOX_SPARSE);
        assert_int_equal(v->count, 4);
        assert_int_equal(v->as.integer, 2);
        memcpy(values, memory.out + v->at, sizeof values);
        memcpy(at, memory.out + v->at + sizeof values, sizeof at);
        assert_true(at[0] == 1 && at[1] == 3);
        assert_memory_equal(&values[0], &nan, sizeof nan);
        assert_memory_equal(&values[1], &nan, sizeof nan);
    }
    v = run("local x = vec.range(10) local p = x:largest(2) local s = x:gather(p):scatter(p, 10) "
            "return s:abs() + s");
    assert_non_null(v);
    assert_int_equal(v->kind, PS_SANDBOX_VECTOR);
    check_fails("local x = vec.range(10) return x:gather(x:largest(2)):scatter(x:largest(2), 9)",
                "behind the end");
}

static void check_power(double x, double y)
{
    double is = ps_same_pow(x, y);
    long double want = powl((long double)x, (long double)y);
    bool is_right = is == (double)want || (isnan(is) && isnan(want));

    if (isfinite((double)want) && want != 0) {
        double digits = 8 + fabs((double)logl(fabsl(want)));

        is_right = fabsl((long double)is - want) <= 1e-15L * digits * fabsl(want) + 0x1p-1073L;
    }
    if (!is_right) {
        fail_msg("%a ^ %a is %a, not %La", x, y, is, want);
    }
}

static void test_powers_are_those_of_c(void **state)
{
    static const double some[] = {
        0.0,   -0.0, 1.0,  -1.0,  0.5,   -0.5,  2.0,    -2.0,   3.0,    -3.0,     1e-310,
        1e308, 10.0, 1e3,  1025., 1e16,  -1e16, 0.1,    -1e-20, 1 / 3., INFINITY, -INFINITY,
        1e300, NAN,  1e19, -7.5,  0.999, 1.001, 0x1p53, 1e5,    -1025., 0x1p-1074};
    const size_t count = sizeof some / sizeof some[0];

    (void)state;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            /* where the logarithm's last bit decides, the last digits may differ */
            if (fabs(some[j]) < 1e4 || some[i] == 0 || fabs(some[i]) == 1.0 || isinf(some[j]) ||
                isnan(some[i])) {
                check_power(some[i], some[j]);
            }
        }
    }
    for (int n = -1074; n < 1024; n++) {
        assert_true(ps_same_pow(2.0, n) == ldexp(1.0, n));
    }
    assert_true(number("return 2^0.5 == math.sqrt(2) and 10^3 == 1000 and 1 or 0") == 1.0);
    assert_true(isinf(number("return math.pow(10, 400)")));
    assert_true(number("return 7^1.7") == ps_same_pow(7, 1.7));
}

static void test_tangents_are_those_of_c(void **state)
{
    (void)state;
    for (int i = -20000; i <= 20000; i++) {
        double x = i * 0.37 + i * 1e-5, is = ps_same_tan(x);
        long double want = tanl((long double)x);

        assert_true(fabsl((long double)is - want) <=
                    1e-15L * (1 + want * want) * (1 + fabs(x) / 100));
    }
    check_fails("return math.tan(1e9)", "is not within");
    check_fails("return math.tan(0/0)", "is not within");
}

/* liblua asks time() and clock() for seeds, but there is no clock. */
static void test_there_is_no_clock(void **state)
{
    time_t now = 5;

    (void)state;
    assert_true(time(&now) == 0 && now == 0);
    assert_true(clock() == 0);
    /* the three looks of the sort find the least values, so it asks the clock for another pivot */
    assert_true(number("local t = {} for i = 1, 1000 do t[i] = i + 10 end "
                       "t[1] = 1 t[250] = 2 t[1000] = 3 table.sort(t) "
                       "for i = 2, 1000 do if t[i] < t[i - 1] then return 0 end end return 1") ==
                1.0);
}

static void test_no_text_has_an_address(void **state)
{
    (void)state;
    check_fails("return ('%p'):format('x')", "%p");
    check_fails("return ('\\0%p'):format('x')", "%p");
    check_fails("return ('%%%5p'):format('x')", "%p");
    check_fails("return ('%s'):format({})", "has no text");
    check_fails("return tostring(math.abs)", "has no text");
    assert_non_null(run("return ('%%p%d'):format(3)"));
}

static void test_logarithms_refuse_what_has_none(void **state)
{
    (void)state;
    check_fails("return math.log(0)", "not above 0");
    check_fails("return math.log(2, 0)", "not above 0");
    check_fails("return math.log(2, 0/0)", "not above 0");
    check_fails("return math.log(1e-320)", "not above 0");
    check_fails("return math.log(2, math.huge)", "not above 0");
    check_fails("return math.exp(701)", "above 700");
    check_fails("return math.exp(0/0)", "above 700");
    assert_true(number("return math.log(8, 2)") == 3.0);
}

/* NaN has one bit pattern wherever its bits can be seen. */
static void test_nan_is_one_value(void **state)
{
    static const char *const bodies[] = {
        "return vec.fill(3, 0/0)",
        "return vec.fill(3, -(0/0))",
        "return -vec.fill(3, 0/0)",
        "return vec.fill(3, math.huge) * 0",
        "local x = vec.fill(3, 0/0) return x + (-x)",
        "return vec.of({(-vec.fill(1, 0/0))[1], vec.fill(2, -(0/0)):sum(), "
        "vec.fill(1, 0/0):dot(vec.fill(1, -1))})",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        const ps_sandbox_value *v = run(bodies[i]);
        uint32_t bits[3];

        assert_non_null(v);
        assert_int_equal(v->count, 3);
        memcpy(bits, memory.out + v->at, sizeof bits);
        for (size_t j = 0; j < 3; j++) {
            assert_int_equal(bits[j], 0x7fc00000);
        }
    }
    assert_true(number("return ('%g'):format(vec.fill(1, 0/0)[1]) == 'nan' and 1 or 0") == 1.0);
}

/* The scale times a value has to be finite as the loops compute it, in float. */
static void test_scales_are_finite(void **state)
{
    (void)state;
    check_fails("return #vec.fill(9):levels(1e300, 127)", "not finite");
    check_fails("return #vec.fill(9):levels(0/0, 127)", "not finite");
    check_fails("return #vec.fill(9, 1e30):levels(1e30, 127)", "not finite");
    check_fails("return #vec.fill(9, 0/0):levels(1, 127)", "not finite");
    check_fails("return #vec.fill(9):grid(1e39, {1, 2})", "not finite");
    assert_true(number("return #vec.fill(9, 1e30):levels(1e-30, 127)") == 9.0);
    assert_true(number("return #vec.fill(9, 1):grid(3e38, {2e38, 3.4e38})") == 9.0);
}

static void test_integers_of_a_plugin_fit_a_double(void **state)
{
    static const char text[] =
        "return {kind = 'compute', name = 'a', map = function() end, params = "
        "{x = {default = 0, min = 0, max = 1e300, integer = true}}}";

    (void)state;
    memcpy(memory.in, text, sizeof text);
    memory.what = PS_SANDBOX_LOAD;
    memory.arguments[0].count = sizeof text - 1;
    ps_vm_answer(&memory);
    assert_true(memory.failed != 0 && strstr(memory.error, "at most +-") != NULL);
}

/* A call leaves nothing behind for the next one. */
static void test_calls_share_nothing(void **state)
{
    const ps_sandbox_value *v = run("local s = 'abc' return s:upper()");

    (void)state;
    assert_non_null(v);
    check_fails("math.x = 1", "only local variables");
    check_fails("_ENV.x = 1", "only local variables");
    check_fails("table.insert(string, 1)", "only local variables");
    check_fails("table.move({1, 2}, 1, 2, 1, vec)", "only local variables");
    check_fails("('x').y = 1", "attempt to index a string value");
    check_fails("vec.fill(1).y = 1", "attempt to index a vector value");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scattered_values_are_those_of_a_vector),
        cmocka_unit_test(test_powers_are_those_of_c),
        cmocka_unit_test(test_tangents_are_those_of_c),
        cmocka_unit_test(test_there_is_no_clock),
        cmocka_unit_test(test_no_text_has_an_address),
        cmocka_unit_test(test_logarithms_refuse_what_has_none),
        cmocka_unit_test(test_nan_is_one_value),
        cmocka_unit_test(test_scales_are_finite),
        cmocka_unit_test(test_integers_of_a_plugin_fit_a_double),
        cmocka_unit_test(test_calls_share_nothing),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
