/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_driver.c - runs programs in sandboxes, for tests that are written in Python.
 *
 * sandbox_driver INSTRUCTIONS MEMORY_BYTES TIME_MS [background] reads programs from the standard
 * input: the bytes as 4 bytes little-endian, then the text. It loads each; if that works it calls
 * encode with 64 values and decode with what was written. It writes a line for each: the code of
 * the status, the longest call in microseconds, the process of the sandbox, and the reason.
 */
#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/script/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 64, CODED_BYTES = 1024 };

static ps_sandbox_budget budget;
static ps_sandbox *sandbox;

/* Makes the sandbox do `what`, and raises *longest to the microseconds that it took. */
static ps_status call(uint32_t what, const char *function, uint32_t results, int64_t *longest_us)
{
    ps_sandbox_memory *shared = ps_sandbox_shared(sandbox);
    int64_t began_us = ps_clock_us(), us;
    ps_status st;

    shared->what = what;
    shared->result_max = results;
    snprintf(shared->function, sizeof shared->function, "%s", function);
    st = ps_sandbox_call(sandbox, 0, 1);
    us = ps_clock_us() - began_us;
    *longest_us = us > *longest_us ? us : *longest_us;
    return st;
}

static ps_status load(const char *text, size_t bytes, int64_t *longest_us)
{
    ps_sandbox_memory *shared = ps_sandbox_shared(sandbox);

    memcpy(shared->in, text, bytes);
    shared->argument_count = 1;
    shared->arguments[0] = (ps_sandbox_value){.kind = PS_SANDBOX_TEXT, .count = (uint32_t)bytes};
    return call(PS_SANDBOX_LOAD, "", 1, longest_us);
}

static ps_status encode(int64_t *longest_us)
{
    ps_sandbox_memory *shared = ps_sandbox_shared(sandbox);
    float x[VALUES];

    for (int i = 0; i < VALUES; i++) {
        x[i] = (float)(i - 20) * 0.25f;
    }
    memcpy(shared->in, x, sizeof x);
    shared->argument_count = 4;
    shared->arguments[0] = (ps_sandbox_value){.kind = PS_SANDBOX_VECTOR, .count = VALUES};
    shared->arguments[1] = (ps_sandbox_value){.kind = PS_SANDBOX_NUMBERED};
    shared->arguments[2] = (ps_sandbox_value){.kind = PS_SANDBOX_INTEGER, .as.integer = 77};
    shared->arguments[3] = (ps_sandbox_value){.kind = PS_SANDBOX_WRITER, .count = CODED_BYTES};
    return call(PS_SANDBOX_RUN, "encode", 0, longest_us);
}

static ps_status decode(int64_t *longest_us)
{
    ps_sandbox_memory *shared = ps_sandbox_shared(sandbox);
    uint32_t n = shared->results[0].count;

    memcpy(shared->in, shared->out, CODED_BYTES);
    shared->argument_count = 2;
    shared->arguments[0] =
        (ps_sandbox_value){.kind = PS_SANDBOX_READER, .count = n < CODED_BYTES ? n : CODED_BYTES};
    shared->arguments[1] = (ps_sandbox_value){.kind = PS_SANDBOX_INTEGER, .as.integer = VALUES};
    return call(PS_SANDBOX_RUN, "decode", 1, longest_us);
}

/* Runs one program in a sandbox and writes the line about it to stdout. */
static void run(const char *text, size_t bytes)
{
    int64_t longest_us = 0;
    ps_status st = ps_ok();

    if (sandbox != NULL && ps_sandbox_is_over(sandbox)) {
        ps_sandbox_end(sandbox);
        sandbox = NULL;
    }
    if (sandbox == NULL) {
        st = ps_sandbox_start(&budget, &sandbox);
        if (!ps_is_ok(&st)) {
            fprintf(stderr, "%s\n", st.text);
            exit(EXIT_FAILURE);
        }
    }
    st = load(text, bytes, &longest_us);
    if (ps_is_ok(&st)) {
        st = encode(&longest_us);
    }
    if (ps_is_ok(&st)) {
        st = decode(&longest_us);
    }
    printf("%d %lld %d %s\n", (int)st.code, (long long)longest_us, ps_sandbox_pid(sandbox),
           st.text);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static char text[PS_SANDBOX_ROOM];
    uint8_t head[4];

    if (argc < 4) {
        fputs("sandbox_driver INSTRUCTIONS MEMORY_BYTES TIME_MS [background]\n", stderr);
        return 2;
    }
    budget = (ps_sandbox_budget){.instructions = strtoull(argv[1], NULL, 10),
                                 .memory = strtoull(argv[2], NULL, 10),
                                 .time_us = strtoull(argv[3], NULL, 10) * 1000,
                                 .is_background = argc > 4 && strcmp(argv[4], "background") == 0};
    while (fread(head, 1, sizeof head, stdin) == sizeof head) {
        size_t bytes = ps_get_u32(head);

        if (bytes > sizeof text || fread(text, 1, bytes, stdin) != bytes) {
            return 2;
        }
        run(text, bytes);
    }
    ps_sandbox_end(sandbox);
    return 0;
}
