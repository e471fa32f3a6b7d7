/* SPDX-License-Identifier: Apache-2.0 */
/* allowed.h - the functions of Lua that code may call. */
#ifndef PS_COMMON_SANDBOX_ALLOWED_H
#define PS_COMMON_SANDBOX_ALLOWED_H

#include <lua.h>

/* Pushes the globals of code: a table that cannot be written, nor can those in it. It has what
 * computes, with the same result in every process: no clock, no addresses, no order of hashes,
 * nothing that loads code, catches errors, or changes metatables. */
void ps_allowed_open(lua_State *lua);

/* Writes to `keys` (a new table on the stack) the integer and string keys of the table at `index`:
 * integers first, ascending, then strings by their bytes. Returns how many. Raises an error for
 * other keys. */
lua_Integer ps_sorted_keys(lua_State *lua, int index);

#endif
