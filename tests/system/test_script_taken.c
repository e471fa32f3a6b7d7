/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_taken.c - a service with sandboxes that an attacker has taken over: it neither waits
 * for them beyond the deadline, nor believes what they write, nor keeps anything of them. */
#include "common/base/clock.h"
#include "common/script/script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUDGET_US = 200 * 1000, GRACE_US = 50 * 1000, CALLS = 1500, MOST_US = 60 * 1000 * 1000 };

static char folder[] = "/tmp/psgd-taken-XXXXXX";

/* Has the next sandboxes do what the name says. */
static void take_over(const char *name)
{
    char path[64];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    assert_int_equal(symlink(PS_TAKEN_SANDBOX, path), 0);
    assert_int_equal(setenv("PSGD_SANDBOX", path, 1), 0);
}

static int count_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(d);
    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    return n;
}

static void check_call_ends(const char *name, const char *why)
{
    const ps_sandbox_budget budget = {
        .instructions = 1000, .memory = 1 << 20, .time_us = BUDGET_US};
    ps_sandbox *sandbox;
    ps_status st;
    int64_t began_us;
    int pid;

    take_over(name);
    st = ps_sandbox_start(&budget, &sandbox);
    assert_true(ps_is_ok(&st));
    pid = ps_sandbox_pid(sandbox);
    began_us = ps_clock_us();
    st = ps_sandbox_call(sandbox, 0, 1);
    if (st.code != PS_RESOURCE_EXHAUSTED || strstr(st.text, why) == NULL) {
        fail_msg("%s: \"%s\", not \"%s\"", name, st.text, why);
    }
    assert_true(ps_clock_us() - began_us < (BUDGET_US + GRACE_US) * PS_SLOW);
    assert_true(ps_sandbox_is_over(sandbox));
    assert_true(kill(pid, 0) != 0 && errno == ESRCH); /* not a zombie either */
    ps_sandbox_end(sandbox);
}

static void test_calls_end_whatever_the_sandbox_does(void **state)
{
    (void)state;
    check_call_ends("flips", "takes longer than");
    check_call_ends("stops", "takes longer than");
    check_call_ends("dies", "ended by signal 9");
}

static void test_a_sandbox_that_does_not_start_is_named(void **state)
{
    const ps_sandbox_budget budget = ps_sandbox_budget_default();
    ps_sandbox *sandbox;
    ps_status st;

    (void)state;
    take_over("ends");
    st = ps_sandbox_start(&budget, &sandbox);
    assert_int_equal(st.code, PS_UNAVAILABLE);
    assert_non_null(strstr(st.text, "status 7"));
    assert_int_equal(setenv("PSGD_SANDBOX", "/nonexistent/sandbox", 1), 0);
    st = ps_sandbox_start(&budget, &sandbox);
    assert_int_equal(st.code, PS_UNAVAILABLE);
    assert_non_null(strstr(st.text, "/nonexistent/sandbox cannot be started"));
}

static void check_description(const char *name, const char *why)
{
    ps_script_about about;
    ps_status st;

    take_over(name);
    st = ps_script_describe("x", 1, &about);
    if (why == NULL ? !ps_is_ok(&st) : st.code != PS_INVALID_ARGUMENT || !strstr(st.text, why)) {
        fail_msg("%s: \"%s\"", name, st.text);
    }
    for (const char *c = st.text; *c != '\0'; c++) {
        assert_true(*c >= ' ');
    }
}

static void test_descriptions_are_not_believed(void **state)
{
    (void)state;
    check_description("shrinks", NULL); /* it cannot */
    check_description("paints", "byte 0x1b");
    check_description("climbs", "name ../../a");
    check_description("repeats", "number b");
    check_description("shadows", "number script");
    check_description("exceeds", "number b 1e300");
    check_description("many", "6 numbers; a codec may have 5");
}

/* Results change while they are read: each is within what was lent, or refused. */
static void test_results_may_change_while_they_are_read(void **state)
{
    static float values[4096 + 1];
    ps_script_about about = {.kind = "codec", .name = "a", .bits = 32};
    ps_script *script;
    uint32_t taken = 0, calls = 0;
    int64_t end_us = ps_clock_us() + MOST_US;

    (void)state;
    take_over("scribbles");
    script = ps_script_open("a.lua", "x", 1, &about);
    /* About 5 of 1,500 results are of the right kind and size; without any the test says little. */
    for (; calls < CALLS || (taken == 0 && ps_clock_us() < end_us); calls++) {
        ps_script_value r = {.kind = PS_SANDBOX_VECTOR, .count = 4096, .out = values};
        ps_script_value text = {.kind = PS_SANDBOX_TEXT, .count = 4096, .out = values};
        ps_script_value *result = calls % 2 == 0 ? &r : &text;
        ps_status st;

        values[4096] = 7;
        st = ps_script_call(script, "decode", NULL, 0, result, 1);
        assert_true(values[4096] == 7 && result->count <= 4096);
        taken += ps_is_ok(&st);
        if (!ps_is_ok(&st)) { /* the first failure stays: begin anew, now and then */
            for (const char *c = st.text; *c != '\0'; c++) {
                assert_true((unsigned char)*c >= ' '); /* UTF-8: "…" where text is shortened */
            }
            ps_script_close(script);
            script = ps_script_open("a.lua", "x", 1, &about);
        }
    }
    ps_script_close(script);
    print_message("%u of %u calls gave a result of the right kind and size\n", taken, calls);
    assert_true(taken > 0);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void test_nothing_is_kept(void **state)
{
    int before = count_descriptors();

    test_calls_end_whatever_the_sandbox_does(state);
    test_a_sandbox_that_does_not_start_is_named(state);
    test_descriptions_are_not_believed(state);
    assert_int_equal(count_descriptors(), before);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_end_whatever_the_sandbox_does),
        cmocka_unit_test(test_a_sandbox_that_does_not_start_is_named),
        cmocka_unit_test(test_descriptions_are_not_believed),
        cmocka_unit_test(test_results_may_change_while_they_are_read),
        cmocka_unit_test(test_nothing_is_kept),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
