/* SPDX-License-Identifier: Apache-2.0 */
/* compute.h - code of the kind compute: its functions map, reduce and finish, and the records
 * between them (common/script/record.h).
 *
 *   map(part, params, emit)      is called once for a partition; emit(key, value) makes a record
 *   reduce(key, a, b)            (optional) makes one value of two of the same key, a the earlier
 * one finish(key, value, params)   (optional) makes the result's value; nil leaves the key out
 */
#ifndef PS_COMMON_SANDBOX_COMPUTE_H
#define PS_COMMON_SANDBOX_COMPUTE_H

#include <lua.h>

/* Functions for lua_call. Their first argument is the plugin's table. */

/* The others: number and count of the partition, its key of draws, first and last integer (or nil),
 * text (or nil), the numbers, the writer of the records. */
int ps_compute_map(lua_State *lua);

/* The others: a reader of records in the order of keys, where those of a key are in the order of
 * partitions; whether the last key goes on in another call, so that it is not finished in this one;
 * the numbers; the writer of the records, of which each key has one. */
int ps_compute_merge(lua_State *lua);

#endif
