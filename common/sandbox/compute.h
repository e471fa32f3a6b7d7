/* SPDX-License-Identifier: Apache-2.0 */
/* compute.h - code of the kind compute: its functions map, reduce and finish, and the records
 * between them (common/script/record.h).
 *
 *   map(part, params, emit)      is called once for a partition; emit(key, value) makes a record
 *   reduce(key, a, b)            (optional) makes one value of two values of a key; a came first
 *   finish(key, value, params)   (optional) makes the value of the result; nil leaves the key out
 */
#ifndef PS_COMMON_SANDBOX_COMPUTE_H
#define PS_COMMON_SANDBOX_COMPUTE_H

#include <lua.h>

/* The two functions below are called by lua_call. Their first argument is the plugin's table. */

/* Makes the records of a partition. The further arguments: number of the partition and of all
 * partitions, key of its draws, first and last integer (or nil), text (or nil), table of the
 * plugin's numbers, writer of the records. */
int ps_compute_map(lua_State *lua);

/* Makes one record for each key. The further arguments: a reader of records in the order of keys,
 * and for each key in the order of partitions; whether the last key has more records in another
 * call, so that its record is not passed to finish in this one; table of the plugin's numbers;
 * writer of the new records. */
int ps_compute_merge(lua_State *lua);

#endif
