/* SPDX-License-Identifier: Apache-2.0 */
/* allowed.h - the functions of Lua that code may call. */
#ifndef PS_COMMON_SANDBOX_ALLOWED_H
#define PS_COMMON_SANDBOX_ALLOWED_H

#include <lua.h>

/* Pushes the table of globals for the code of a job. Neither it nor the tables in it can be
 * written. Its functions only compute, with the same result in every process: there is no clock, no
 * address, no order of hashes, and nothing that loads code, catches errors or changes
 * metatables. */
void ps_allowed_open(lua_State *lua);

/* Writes to `keys` (a new table on the stack) the integer and string keys of the table at `index`:
 * integers first, ascending, then strings by their bytes. Returns how many. Raises an error for
 * other keys. */
lua_Integer ps_sorted_keys(lua_State *lua, int index);

#endif
