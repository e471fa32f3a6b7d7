/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_end.c - the end that a sandbox sets itself, for a service that has died. */
#include "common/script/script_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BUDGET_US = 400 * 1000, SHORT_US = 50 * 1000 };

/* `decode` takes for ever in one call of Lua's library, of which no instruction is counted. */
static const char text[] =
    "return { kind = 'codec', name = 'a', bits = 32,"
    "  encode = function(x, params, key, out) local s = 0; for i = 1, 1000000 do s = s + i end end,"
    "  decode = function() string.find(string.rep('a', 30000), string.rep('a*', 100) .. 'b') end }";

static ps_sandbox *start(int64_t time_us)
{
    ps_sandbox_budget budget = ps_sandbox_budget_default();
    ps_sandbox *sandbox;
    ps_status st;

    budget.time_us = (uint64_t)time_us;
    st = ps_script_load(text, strlen(text), &budget, &sandbox);
    assert_string_equal(st.text, "");
    return sandbox;
}

/* Is a service: writes the id of its sandbox's process, makes a call that takes for ever, and dies
 * meanwhile. */
static void serve(int to)
{
    const struct itimerval soon = {.it_value = {.tv_usec = SHORT_US}};
    ps_sandbox *sandbox = start(SHORT_US);
    int pid = ps_sandbox_pid(sandbox);
    ps_status st = ps_ok();

    if (write(to, &pid, sizeof pid) == sizeof pid) {
        ps_script_set_call(ps_sandbox_shared(sandbox), PS_SANDBOX_RUN, "decode", 1);
        ps_sandbox_shared(sandbox)->argument_count = 0;
        setitimer(ITIMER_REAL, &soon, NULL);
        st = ps_sandbox_call(sandbox, 0, 1000); /* waits for 50 s, if it lives so long */
    }
    _exit(ps_is_ok(&st) ? 0 : 1);
}

static void test_a_sandbox_ends_in_a_call_after_its_service_has_died(void **state)
{
    int pids[2], pid = 0, how = 0;
    pid_t service;

    (void)state;
    assert_int_equal(pipe(pids), 0);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    service = fork();
    assert_true(service >= 0);
    if (service == 0) {
        serve(pids[1]);
    }
    assert_int_equal(read(pids[0], &pid, sizeof pid), sizeof pid);
    assert_int_equal(waitpid(service, &how, 0), service);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGALRM);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGPROF);
    close(pids[0]);
    close(pids[1]);
}

static void test_calls_that_end_in_time_go_on_for_longer_than_one_may_take(void **state)
{
    ps_sandbox *sandbox = start(BUDGET_US);
    ps_sandbox_memory *shared = ps_sandbox_shared(sandbox);
    struct timespec used = {0};
    clockid_t clock;

    (void)state;
    assert_int_equal(clock_getcpuclockid(ps_sandbox_pid(sandbox), &clock), 0);
    while ((int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000 <
           BUDGET_US + PS_SANDBOX_SPARE_US + BUDGET_US / 2) {
        ps_status st;

        ps_script_set_call(shared, PS_SANDBOX_RUN, "encode", 1);
        shared->argument_count = 0;
        st = ps_sandbox_call(sandbox, 0, 1);
        assert_string_equal(st.text, "");
        assert_int_equal(clock_gettime(clock, &used), 0);
    }
    ps_sandbox_end(sandbox);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sandbox_ends_in_a_call_after_its_service_has_died),
        cmocka_unit_test(test_calls_that_end_in_time_go_on_for_longer_than_one_may_take),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
