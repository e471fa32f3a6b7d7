/* SPDX-License-Identifier: Apache-2.0 */
/* lua_program.h - writes programs in Lua, for fuzzing: they look plausible, and call the functions
 * that a job's code may call, with odd arguments. */
#ifndef PS_TESTS_LUA_PROGRAM_H
#define PS_TESTS_LUA_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { LUA_PROGRAM_CHOICES = 600, LUA_PROGRAM_ROOM = 32768 };

/* Writes a program to `text` (LUA_PROGRAM_ROOM bytes). The bytes choices[0..n) decide what is in
 * it; missing ones count as 0. If the first choice says so, some bytes of the program are changed
 * afterwards. Returns the number of bytes of the program. */
size_t lua_program(const uint8_t *choices, size_t n, char *text);

/* Does what lua_program does, with LUA_PROGRAM_CHOICES choices drawn from a seed. */
size_t lua_program_of_seed(uint64_t seed, char *text);

#endif
