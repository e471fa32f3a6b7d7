/* SPDX-License-Identifier: Apache-2.0 */
/* script_fuzz.c - runs many programs that are drawn by a seed (lua_program.h).
 *
 * script_fuzz vm|sandbox FIRST COUNT runs the programs FIRST to FIRST + COUNT - 1. `sandbox`: as a
 * service does, in sandboxes; a program may end its sandbox by taking too long, and by nothing
 * else. `vm`: in a process of this program with its sanitizers, and twice: both times must give the
 * same bytes. It ends with 1 and shows the program if one does what it must not.
 */
#include "common/base/clock.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/sandbox/vm.h"
#include "common/script/sandbox.h"
#include "tests/support/lua_program.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    INSTRUCTIONS = 20000,
    MEMORY = 2 << 20,
    TIME_US = 50 * 1000,
    VALUES = 64,
    CODED_BYTES = 1024,
    LATE_US = 50 * 1000 /* microseconds by which a call may exceed its budget */
};

/* Counters in memory that is shared with the process that runs programs. */
typedef struct counts {
    uint64_t at; /* number of the program that runs now */
    uint64_t loaded, encoded, decoded, ended, late;
    int64_t longest_us;
    uint64_t digest; /* hash of all answers: the same on every processor */
} counts;

static counts *count;
static char text[LUA_PROGRAM_ROOM];

static void show(uint64_t seed, const char *why)
{
    size_t n = lua_program_of_seed(seed, text);

    fprintf(stderr, "program %llu: %s\n%.*s\n", (unsigned long long)seed, why, (int)n, text);
}

/* Writes call number `which` to the shared memory: 0 load, 1 encode, 2 decode. */
static void set_call(ps_sandbox_memory *shared, int which, size_t bytes)
{
    uint32_t written = shared->results[0].count;
    float x[VALUES];

    shared->what = which == 0 ? PS_SANDBOX_LOAD : PS_SANDBOX_RUN;
    shared->result_max = which == 1 ? 0 : 1;
    shared->argument_count = which == 0 ? 1 : which == 1 ? 4 : 2;
    snprintf(shared->function, sizeof shared->function, "%s", which == 1 ? "encode" : "decode");
    if (which == 0) {
        memcpy(shared->in, text, bytes);
        shared->arguments[0] =
            (ps_sandbox_value){.kind = PS_SANDBOX_TEXT, .count = (uint32_t)bytes};
    } else if (which == 1) {
        for (int i = 0; i < VALUES; i++) {
            x[i] = (float)(i - 20) * 0.25f;
        }
        memcpy(shared->in, x, sizeof x);
        shared->arguments[0] = (ps_sandbox_value){.kind = PS_SANDBOX_VECTOR, .count = VALUES};
        shared->arguments[1] = (ps_sandbox_value){.kind = PS_SANDBOX_NUMBERED};
        shared->arguments[2] = (ps_sandbox_value){.kind = PS_SANDBOX_INTEGER, .as.integer = 77};
        shared->arguments[3] = (ps_sandbox_value){.kind = PS_SANDBOX_WRITER, .count = CODED_BYTES};
    } else {
        written = written < CODED_BYTES ? written : CODED_BYTES;
        memcpy(shared->in, shared->out, written);
        shared->arguments[0] = (ps_sandbox_value){.kind = PS_SANDBOX_READER, .count = written};
        shared->arguments[1] = (ps_sandbox_value){.kind = PS_SANDBOX_INTEGER, .as.integer = VALUES};
    }
}

static void count_call(int which)
{
    count->loaded += which == 0;
    count->encoded += which == 1;
    count->decoded += which == 2;
}

/* ---- In sandboxes ---- */

static ps_sandbox *start(void)
{
    const ps_sandbox_budget budget = {
        .instructions = INSTRUCTIONS, .memory = MEMORY, .time_us = TIME_US};
    ps_sandbox *sandbox;
    ps_status st = ps_sandbox_start(&budget, &sandbox);

    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s\n", st.text);
        exit(EXIT_FAILURE);
    }
    return sandbox;
}

static bool run_in_sandbox(ps_sandbox **sandbox, uint64_t seed)
{
    size_t bytes = lua_program_of_seed(seed, text);
    ps_status st = ps_ok();

    for (int which = 0; which < 3 && ps_is_ok(&st); which++) {
        int64_t began_us = ps_clock_us(), us;

        set_call(ps_sandbox_shared(*sandbox), which, bytes);
        st = ps_sandbox_call(*sandbox, 0, 1);
        us = ps_clock_us() - began_us;
        count->longest_us = us > count->longest_us ? us : count->longest_us;
        if (us > TIME_US + LATE_US) {
            count->late++;
            fprintf(stderr, "program %llu took %.1f ms\n", (unsigned long long)seed,
                    (double)us / 1e3);
        }
        if (ps_is_ok(&st)) {
            count_call(which);
        }
    }
    if (!ps_sandbox_is_over(*sandbox)) {
        return true;
    }
    ps_sandbox_end(*sandbox);
    *sandbox = start();
    count->ended++;
    if (strstr(st.text, "takes longer than") == NULL) {
        show(seed, st.text);
        return false;
    }
    return true;
}

static int run_sandboxes(uint64_t first, uint64_t end)
{
    ps_sandbox *sandbox = start();
    bool ok = true;

    for (uint64_t seed = first; seed < end && ok; seed++) {
        ok = run_in_sandbox(&sandbox, seed);
    }
    ps_sandbox_end(sandbox);
    return ok ? 0 : 1;
}

/* ---- In this program ---- */

/* Runs one program and returns a hash of all of its answers. */
static uint64_t run_in_vm(ps_sandbox_memory *shared, uint64_t seed, bool counts_it)
{
    size_t bytes = lua_program_of_seed(seed, text);
    uint64_t hash = 1;

    memset(shared->out, 0, 2 * CODED_BYTES);
    for (int which = 0; which < 3; which++) {
        const uint8_t *p;

        shared->instructions = INSTRUCTIONS;
        shared->memory = MEMORY;
        set_call(shared, which, bytes);
        memset(shared->results, 0, sizeof shared->results);
        ps_vm_answer(shared);
        if (shared->failed != 0) {
            /* how much memory tables take depends on the seed of hashes */
            p = (const uint8_t *)shared->error;
            return strcmp(shared->error, "not enough memory") == 0
                       ? 0
                       : ps_draw_key(hash, PS_DRAW_TEST, strlen(shared->error), p[0], p[5]);
        }
        if (counts_it) {
            count_call(which);
        }
        p = (const uint8_t *)shared->results;
        for (size_t i = 0; i < sizeof shared->results[0]; i++) {
            hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
        }
        for (size_t i = 0; i < 2 * CODED_BYTES; i++) {
            hash = (hash ^ shared->out[i]) * UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

/* Runs programs, in a process of its own, until `end` or until one takes too long. */
static void run_some(uint64_t end)
{
    const struct itimerval none = {{0, 0}, {0, 0}}, limit = {{0, 0}, {5, 0}};
    ps_sandbox_memory *shared = ps_xcalloc(1, sizeof *shared + 64);

    shared = (ps_sandbox_memory *)(((uintptr_t)shared + 63) / 64 * 64);
    for (; count->at < end; count->at++) {
        uint64_t first, second;

        setitimer(ITIMER_REAL, &limit, NULL);
        first = run_in_vm(shared, count->at, true);
        second = run_in_vm(shared, count->at, false);
        setitimer(ITIMER_REAL, &none, NULL);
        count->digest = ps_draw_key(count->digest, PS_DRAW_TEST, first, 0, 0);
        if (first != second && first != 0 && second != 0) {
            show(count->at, "has two results");
            _exit(1);
        }
    }
    _exit(0);
}

static int run_vms(uint64_t end)
{
    int status = 0;

    for (;;) {
        pid_t pid = fork();

        if (pid == 0) {
            run_some(end);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid) {
            return 1;
        }
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM) {
            break;
        }
        count->ended++;
        count->at++;
    }
    if (status != 0) {
        show(count->at, "ended the process");
    }
    return status != 0;
}

int main(int argc, char **argv)
{
    uint64_t first = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;
    uint64_t end = argc == 4 ? first + strtoull(argv[3], NULL, 10) : 0;
    bool in_vm = argc == 4 && strcmp(argv[1], "vm") == 0;
    int64_t began_us = ps_clock_us();
    int result;

    if (end == 0 || (!in_vm && strcmp(argv[1], "sandbox") != 0)) {
        fputs("script_fuzz vm|sandbox FIRST COUNT\n", stderr);
        return 2;
    }
    count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    count->at = first;
    result = in_vm ? run_vms(end) : run_sandboxes(first, end);
    printf("%llu programs in %.0f s: %llu load, %llu encode, %llu decode; %llu ended by time",
           (unsigned long long)(end - first), (double)(ps_clock_us() - began_us) / 1e6,
           (unsigned long long)count->loaded, (unsigned long long)count->encoded,
           (unsigned long long)count->decoded, (unsigned long long)count->ended);
    if (!in_vm) {
        printf("; the longest call took %.1f ms of %d, %llu more than %d beyond",
               (double)count->longest_us / 1e3, TIME_US / 1000, (unsigned long long)count->late,
               LATE_US / 1000);
    }
    if (in_vm) {
        printf("; digest %016llx", (unsigned long long)count->digest);
    }
    puts("");
    return result;
}
