/* SPDX-License-Identifier: Apache-2.0 */
/* lua_pool.h - the process's memory for small objects of Lua, of which each call makes dozens.
 * malloc takes several times as long. For the one thread of the sandbox. */
#ifndef PS_COMMON_SANDBOX_LUA_POOL_H
#define PS_COMMON_SANDBOX_LUA_POOL_H

#include <stdbool.h>
#include <stddef.h>

/* Returns `bytes` > 0 bytes, aligned to 16. Returns NULL if they are too many for the pool, or if
 * it has no more: the caller then takes them from elsewhere. */
void *ps_lua_pool_take(size_t bytes);
/* Returns whether ps_lua_pool_take has returned p. */
bool ps_lua_pool_has(const void *p);
/* Gives back p, which ps_lua_pool_take(bytes) has returned. */
void ps_lua_pool_give(void *p, size_t bytes);
/* Returns whether ps_lua_pool_take gives equally many bytes for `a` as for `b`. */
bool ps_lua_pool_is_same(size_t a, size_t b);

#endif
