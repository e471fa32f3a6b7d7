/* SPDX-License-Identifier: Apache-2.0 */
/* lua_program.h - writes programs in Lua that look plausible and call what code of jobs may call,
 * with odd arguments. */
#ifndef PS_TESTS_LUA_PROGRAM_H
#define PS_TESTS_LUA_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { LUA_PROGRAM_CHOICES = 600, LUA_PROGRAM_ROOM = 32768 };

/* Writes the program that these choices mean to text (LUA_PROGRAM_ROOM bytes); choices that are
 * missing count as 0. Some bytes are changed afterwards if the first choice says so. Returns its
 * bytes. */
size_t lua_program(const uint8_t *choices, size_t n, char *text);

/* Does the same with choices of a seed. */
size_t lua_program_of_seed(uint64_t seed, char *text);

#endif
