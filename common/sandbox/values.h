/* SPDX-License-Identifier: Apache-2.0 */
/* values.h - what code computes with: vectors, positions, codes, and bytes to read and to write. In
 * Lua each is an opaque value that cannot be changed; docs/code.md lists their functions. */
#ifndef PS_COMMON_SANDBOX_VALUES_H
#define PS_COMMON_SANDBOX_VALUES_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PS_VECTOR_VALUES = 1 << 20 }; /* most values of a vector */

/* Each value begins with its type, one of ps_type_..., by its address. */
typedef struct ps_vector {
    const char *type;
    size_t n;
    /* (n): the member `own`, or memory that outlives the call. NULL: the values of a sparse vector
     * that ps_vector_at has not formed yet */
    const float *p;
    bool has_largest; /* `largest` was computed (ps_vector_largest) */
    uint32_t largest;
    uint32_t kept; /* values of a sparse vector that are not 0 */
    /* (n) if the values are not elsewhere; of a sparse vector (kept), and behind them the position
     * of each as uint16_t */
    float own[];
} ps_vector;

/* Ascending positions in a slice. */
typedef struct ps_positions {
    const char *type;
    size_t n;
    uint16_t p[];
} ps_positions;

/* Small numbers, 0 to 255. */
typedef struct ps_codes {
    const char *type;
    size_t n;
    uint8_t p[];
} ps_codes;

/* Bytes to read, of which `at` have been read; and room for bytes to write, of which `n` have been
 * written. */
typedef struct ps_reader {
    const char *type;
    const uint8_t *p;
    size_t n, at;
} ps_reader;
typedef struct ps_writer {
    const char *type;
    uint8_t *p;
    size_t room, n;
} ps_writer;

/* Pushes a new value of a type, of so many bytes and with so many user values. The caller writes
 * all members but `type`. */
void *ps_value_new(lua_State *lua, const char *type, size_t bytes, int user_values);
/* Returns the argument at `index`, or raises an error unless it is of the type. */
void *ps_value_at(lua_State *lua, int index, const char *type);
/* Pushes a new vector whose n values the caller writes. Raises an error above PS_VECTOR_VALUES. */
float *ps_vector_new(lua_State *lua, size_t n);
/* Pushes a vector of n values that are x, k float32 of any alignment, at the ascending positions
 * (k), and else 0. */
void ps_vector_scatter(lua_State *lua, const void *x, const uint16_t *at, size_t k, size_t n);
/* Returns the vector at `index` if it is sparse and its values were not formed, else NULL. */
const ps_vector *ps_vector_sparse_at(lua_State *lua, int index);
/* Returns the positions of a sparse vector. */
const uint16_t *ps_vector_positions(const ps_vector *v);
/* Pushes a vector of memory that outlives the call. */
void ps_vector_view(lua_State *lua, const float *p, size_t n);
/* Returns the bits of the largest magnitude, as ps_kernels.largest does. */
uint32_t ps_vector_largest(const ps_vector *v);
/* Returns the values with one bit pattern for NaN; pushes a value if that needs memory. Arithmetic
 * on NaN gives other signs and payloads on other processors, so whatever shows bits uses this. */
const float *ps_vector_settled(lua_State *lua, const ps_vector *v);
/* Pushes a number that was computed from values, with one bit pattern for NaN. */
void ps_push_settled(lua_State *lua, double x);
/* Return the argument at `index`, or raise an error that names the expected type. */
const ps_vector *ps_vector_at(lua_State *lua, int index);
const ps_positions *ps_positions_at(lua_State *lua, int index);
const ps_codes *ps_codes_at(lua_State *lua, int index);
/* Returns the largest code, or 0 if there are none. */
uint8_t ps_codes_most(const ps_codes *codes);
/* Push new positions, or codes, whose n elements the caller writes. Raise an error if n is above
 * 65536. */
uint16_t *ps_positions_new(lua_State *lua, size_t n);
uint8_t *ps_codes_new(lua_State *lua, size_t n);
/* Push a reader and a writer; the writer is valid until the call ends. */
void ps_reader_new(lua_State *lua, const uint8_t *p, size_t n);
ps_writer *ps_writer_new(lua_State *lua, uint8_t *p, size_t room);

/* Returns the argument at `index`, or raises an error unless it is a whole number from 0 to
 * `most`. */
size_t ps_count_at(lua_State *lua, int index, size_t most);

/* Define the types of this file, with their methods, in a Lua state. */
void ps_vector_open(lua_State *lua); /* leaves the table `vec` on the stack */
void ps_pick_open(lua_State *lua);
void ps_bytes_open(lua_State *lua);
/* Pushes a new metatable, which values of the type get. */
void ps_type_new(lua_State *lua, const char *name);
/* Defines a type in a Lua state: `methods` are called as x:name(), `events` are its metamethods. */
void ps_type_open(lua_State *lua, const char *name, const luaL_Reg *methods,
                  const luaL_Reg *events);

extern const char ps_type_vector[], ps_type_positions[], ps_type_codes[], ps_type_reader[],
    ps_type_writer[];

#endif
