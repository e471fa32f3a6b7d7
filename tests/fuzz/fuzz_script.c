/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_script.c - any bytes as code of a job, in this process (libFuzzer).
 *
 * Byte 0: the rest is the text of a file; or the choices of a program (lua_program.h); or a
 * description that a sandbox has written. Code that loads is called as a codec.
 */
#include "common/sandbox/vm.h"
#include "common/script/script_impl.h"
#include "tests/support/lua_program.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VALUES = 64, CODED_BYTES = 1024 };

static ps_sandbox_memory shared;

static bool call(uint32_t what, const char *function, uint32_t arguments, uint32_t results)
{
    shared.instructions = 20000;
    shared.memory = 2 << 20;
    shared.what = what;
    shared.argument_count = arguments;
    shared.result_max = results;
    snprintf(shared.function, sizeof shared.function, "%s", function);
    ps_vm_answer(&shared);
    return shared.failed == 0;
}

static void run(const char *text, size_t n)
{
    memcpy(shared.in, text, n);
    shared.arguments[0] = (ps_sandbox_value){.kind = PS_SANDBOX_TEXT, .count = (uint32_t)n};
    if (!call(PS_SANDBOX_LOAD, "", 1, 1)) {
        return;
    }
    for (size_t i = 0; i < VALUES; i++) {
        float x = (float)i - 20.25f;

        memcpy(shared.in + i * sizeof x, &x, sizeof x);
    }
    shared.arguments[0] = (ps_sandbox_value){.kind = PS_SANDBOX_VECTOR, .count = VALUES};
    shared.arguments[1] = (ps_sandbox_value){.kind = PS_SANDBOX_NUMBERED};
    shared.arguments[2] = (ps_sandbox_value){.kind = PS_SANDBOX_INTEGER, .as.integer = 77};
    shared.arguments[3] = (ps_sandbox_value){.kind = PS_SANDBOX_WRITER, .count = CODED_BYTES};
    if (!call(PS_SANDBOX_RUN, "encode", 4, 0)) {
        return;
    }
    memcpy(shared.in, shared.out, CODED_BYTES);
    shared.arguments[0] =
        (ps_sandbox_value){.kind = PS_SANDBOX_READER, .count = shared.results[0].count};
    shared.arguments[1] = (ps_sandbox_value){.kind = PS_SANDBOX_INTEGER, .as.integer = VALUES};
    (void)call(PS_SANDBOX_RUN, "decode", 2, 1);
}

/* Reads a description that may be anything; what is accepted keeps its bounds. */
static void read_description(const uint8_t *data, size_t size)
{
    char *lines = malloc(size + 1);
    ps_script_about about;
    ps_status st;

    memcpy(lines, data, size);
    lines[size] = '\0';
    st = ps_script_about_read(lines, &about);
    if (ps_is_ok(&st)) {
        for (uint32_t i = 0; i < about.number_count; i++) {
            if (!(about.numbers[i].min <= about.numbers[i].value) || about.names[i][0] == '\0') {
                abort();
            }
        }
    }
    free(lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[LUA_PROGRAM_ROOM];

    if (size == 0 || size > PS_SANDBOX_TEXT_MAX) {
        return 0;
    }
    switch (data[0] % 4) {
    case 0:
        run((const char *)data + 1, size - 1);
        break;
    case 1:
        read_description(data + 1, size - 1);
        break;
    default:
        run(text, lua_program(data + 1, size - 1, text));
    }
    return 0;
}
