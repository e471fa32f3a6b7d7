/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - see compute.h. */
#include "common/sandbox/compute.h"

#include "common/sandbox/allowed.h"
#include "common/sandbox/values.h"
#include "common/script/record.h"

#include <lauxlib.h>
#include <math.h>
#include <stdbool.h>

enum { PLUGIN = 1 };

/* ---- From Lua to records ---- */

/* Reads the scalar at `index`; `what` names it in errors. */
static ps_scalar_value scalar_at(lua_State *lua, int index, const char *what)
{
    ps_scalar_value x = {.kind = PS_RECORD_FALSE};
    size_t len;

    switch (lua_type(lua, index)) {
    case LUA_TBOOLEAN:
        x.kind = lua_toboolean(lua, index) ? PS_RECORD_TRUE : PS_RECORD_FALSE;
        break;
    case LUA_TNUMBER:
        if (lua_isinteger(lua, index)) {
            x.kind = PS_RECORD_INTEGER;
            x.integer = (int64_t)lua_tointeger(lua, index);
        } else {
            x.kind = PS_RECORD_NUMBER;
            x.number = lua_tonumber(lua, index);
            if (!isfinite(x.number)) {
                luaL_error(lua, "%s is %f; finite numbers are allowed", what, x.number);
            }
        }
        break;
    case LUA_TSTRING:
        x.kind = PS_RECORD_STRING;
        x.text = lua_tolstring(lua, index, &len);
        if (len > PS_RECORD_STRING_MAX) {
            luaL_error(lua, "%s has %I bytes; at most %d are allowed", what, (lua_Integer)len,
                       PS_RECORD_STRING_MAX);
        }
        x.len = (uint32_t)len;
        break;
    default:
        luaL_error(lua,
                   "%s is a %s; integers, numbers, strings, booleans and lists of these are "
                   "allowed",
                   what, luaL_typename(lua, index));
    }
    return x;
}

/* Reads the key at `index`. A number with an integral value becomes an integer, as in Lua's tables.
 */
static ps_scalar_value key_at(lua_State *lua, int index)
{
    ps_scalar_value x = {.kind = PS_RECORD_INTEGER};
    int is_integer = 0;

    if (lua_type(lua, index) == LUA_TNUMBER) {
        x.integer = (int64_t)lua_tointegerx(lua, index, &is_integer);
        if (is_integer) {
            return x;
        }
    }
    if (lua_type(lua, index) != LUA_TSTRING) {
        luaL_error(lua, "a key is a %s; integers and strings are allowed",
                   lua_type(lua, index) == LUA_TNUMBER ? "number with a fraction"
                                                       : luaL_typename(lua, index));
    }
    x = scalar_at(lua, index, "a key");
    if (x.len > PS_RECORD_KEY_MAX) {
        luaL_error(lua, "a key has %d bytes; at most %d are allowed", (int)x.len,
                   PS_RECORD_KEY_MAX);
    }
    return x;
}

static uint8_t *room(lua_State *lua, ps_writer *to, size_t n)
{
    if (n > to->room - to->n) {
        luaL_error(lua, "the records take more than %I bytes; emit fewer, or have more partitions",
                   (lua_Integer)to->room);
    }
    to->n += n;
    return to->p + to->n - n;
}

static void put_scalar(lua_State *lua, ps_writer *to, const ps_scalar_value *x)
{
    ps_record_put(room(lua, to, ps_record_scalar_bytes(x)), x);
}

/* Writes the value at `index`, which is a scalar or a list. */
static void put_value(lua_State *lua, ps_writer *to, int index)
{
    lua_Integer n;
    uint8_t *head;

    if (lua_type(lua, index) != LUA_TTABLE) {
        ps_scalar_value x = scalar_at(lua, index, "a value");

        put_scalar(lua, to, &x);
        return;
    }
    n = (lua_Integer)lua_rawlen(lua, index);
    if (n > PS_RECORD_LIST_MAX) {
        luaL_error(lua, "a list has %I values; at most %d are allowed", n, PS_RECORD_LIST_MAX);
    }
    head = room(lua, to, 5);
    head[0] = PS_RECORD_LIST;
    for (int i = 0; i < 4; i++) {
        head[1 + i] = (uint8_t)((uint32_t)n >> (8 * i));
    }
    for (lua_Integer i = 1; i <= n; i++) {
        ps_scalar_value x;

        lua_rawgeti(lua, index, i);
        x = scalar_at(lua, -1, "a value of a list");
        put_scalar(lua, to, &x);
        lua_pop(lua, 1);
    }
}

/* ---- Map ---- */

/* Pushes a function of the plugin, or nil if it has none of that name. Returns whether it has. */
static bool push_function(lua_State *lua, const char *name)
{
    int type = lua_getfield(lua, PLUGIN, name);

    if (type != LUA_TNIL && type != LUA_TFUNCTION) {
        luaL_error(lua, "%s is a %s; a function is allowed", name, luaL_typename(lua, -1));
    }
    return type == LUA_TFUNCTION;
}

/* Implements emit(key, value): adds a record, or reduces it with an earlier one of the same key.
 * Its upvalues are the table of records, and the plugin's function reduce or nil. */
static int emit(lua_State *lua)
{
    lua_settop(lua, 2);
    (void)key_at(lua, 1);
    if (lua_type(lua, 2) != LUA_TTABLE) {
        (void)scalar_at(lua, 2, "a value");
    }
    lua_pushvalue(lua, 1);
    if (lua_rawget(lua, lua_upvalueindex(1)) != LUA_TNIL) { /* at 3: the key's earlier value */
        if (lua_isnil(lua, lua_upvalueindex(2))) {
            return luaL_error(lua, "key %s is emitted twice, and there is no function reduce",
                              luaL_tolstring(lua, 1, NULL));
        }
        lua_pushvalue(lua, lua_upvalueindex(2));
        lua_pushvalue(lua, 1);
        lua_pushvalue(lua, 3);
        lua_pushvalue(lua, 2);
        lua_call(lua, 3, 1);
        if (lua_isnil(lua, -1)) {
            return luaL_error(lua, "reduce returns nothing for key %s",
                              luaL_tolstring(lua, 1, NULL));
        }
        lua_replace(lua, 2);
    }
    lua_settop(lua, 2);
    lua_rawset(lua, lua_upvalueindex(1));
    return 0;
}

static void set(lua_State *lua, int table, const char *name, int index)
{
    lua_pushvalue(lua, index);
    lua_setfield(lua, table, name);
}

int ps_compute_map(lua_State *lua)
{
    enum { NUMBER = 2, COUNT, KEY, FROM, TO, TEXT, NUMBERS, WRITER, RECORDS, PART };
    ps_writer *to = ps_value_at(lua, WRITER, ps_type_writer);
    lua_Integer n;
    int keys;

    lua_newtable(lua);
    lua_newtable(lua);
    set(lua, PART, "number", NUMBER);
    set(lua, PART, "count", COUNT);
    set(lua, PART, "key", KEY);
    set(lua, PART, "from", FROM);
    set(lua, PART, "to", TO);
    set(lua, PART, "text", TEXT);
    if (!push_function(lua, "map")) {
        return luaL_error(lua, "there is no function map");
    }
    lua_pushvalue(lua, PART);
    lua_pushvalue(lua, NUMBERS);
    lua_pushvalue(lua, RECORDS);
    (void)push_function(lua, "reduce");
    lua_pushcclosure(lua, emit, 2);
    lua_call(lua, 3, 1);
    if (!lua_isnil(lua, -1)) {
        return luaL_error(lua, "map returns a %s; it returns nothing, and calls emit(key, value)",
                          luaL_typename(lua, -1));
    }
    n = ps_sorted_keys(lua, RECORDS);
    keys = lua_gettop(lua);
    for (lua_Integer i = 1; i <= n; i++) {
        ps_scalar_value key;

        lua_rawgeti(lua, keys, i);
        key = key_at(lua, -1);
        put_scalar(lua, to, &key);
        lua_rawget(lua, RECORDS);
        put_value(lua, to, lua_gettop(lua));
        lua_pop(lua, 1);
    }
    return 0;
}

/* ---- Merge ---- */

static void push_scalar(lua_State *lua, const ps_scalar_value *x)
{
    switch (x->kind) {
    case PS_RECORD_INTEGER:
        lua_pushinteger(lua, (lua_Integer)x->integer);
        break;
    case PS_RECORD_NUMBER:
        lua_pushnumber(lua, x->number);
        break;
    case PS_RECORD_STRING:
        lua_pushlstring(lua, x->text, x->len);
        break;
    default:
        lua_pushboolean(lua, x->kind == PS_RECORD_TRUE);
    }
}

static void push_key(lua_State *lua, const ps_keyed *record)
{
    const uint8_t *at = record->at;
    ps_scalar_value key = ps_record_scalar(&at);

    push_scalar(lua, &key);
}

static void push_value(lua_State *lua, const ps_keyed *record)
{
    const uint8_t *at;
    bool is_list;
    uint32_t n = ps_record_value(record, &at, &is_list);

    if (is_list) {
        lua_createtable(lua, (int)n, 0);
    }
    for (uint32_t i = 1; i <= n; i++) {
        ps_scalar_value x = ps_record_scalar(&at);

        push_scalar(lua, &x);
        if (is_list) {
            lua_rawseti(lua, -2, (lua_Integer)i);
        }
    }
}

enum { READER = 2, GOES_ON, NUMBERS, WRITER, REDUCE, FINISH, RECORD_KEY, RECORD_VALUE };

/* Replaces RECORD_VALUE, the value of the key so far, by what the plugin's function reduce returns
 * for it and the value of `record`. */
static void reduce(lua_State *lua, const ps_keyed *record)
{
    if (lua_isnil(lua, REDUCE)) {
        luaL_error(lua, "key %s is in more than one partition, and there is no function reduce",
                   luaL_tolstring(lua, RECORD_KEY, NULL));
    }
    lua_pushvalue(lua, REDUCE);
    lua_pushvalue(lua, RECORD_KEY);
    lua_pushvalue(lua, RECORD_VALUE);
    push_value(lua, record);
    lua_call(lua, 3, 1);
    if (lua_isnil(lua, -1)) {
        luaL_error(lua, "reduce returns nothing for key %s", luaL_tolstring(lua, RECORD_KEY, NULL));
    }
    lua_replace(lua, RECORD_VALUE);
}

/* Writes the record of RECORD_KEY and RECORD_VALUE. Unless more records of the key follow in a
 * later call (goes_on), passes the value through the plugin's function finish; nil leaves the
 * record out.
 */
static void put_record(lua_State *lua, ps_writer *to, bool goes_on)
{
    ps_scalar_value key = key_at(lua, RECORD_KEY);

    if (!goes_on && !lua_isnil(lua, FINISH)) {
        lua_pushvalue(lua, FINISH);
        lua_pushvalue(lua, RECORD_KEY);
        lua_pushvalue(lua, RECORD_VALUE);
        lua_pushvalue(lua, NUMBERS);
        lua_call(lua, 3, 1);
        lua_replace(lua, RECORD_VALUE);
        if (lua_isnil(lua, RECORD_VALUE)) {
            return;
        }
    }
    put_scalar(lua, to, &key);
    put_value(lua, to, RECORD_VALUE);
}

int ps_compute_merge(lua_State *lua)
{
    ps_reader *in = ps_value_at(lua, READER, ps_type_reader);
    bool goes_on = lua_toboolean(lua, GOES_ON);
    ps_writer *to = ps_value_at(lua, WRITER, ps_type_writer);
    ps_keyed record, before = {.at = NULL};

    (void)push_function(lua, "reduce");
    (void)push_function(lua, "finish");
    lua_settop(lua, RECORD_VALUE);
    while (ps_record_next(in->p, in->n, &in->at, &record)) {
        if (before.at != NULL && ps_record_compare(&before, &record) == 0) {
            reduce(lua, &record);
            continue;
        }
        if (before.at != NULL) {
            put_record(lua, to, false);
        }
        push_key(lua, &record);
        lua_replace(lua, RECORD_KEY);
        push_value(lua, &record);
        lua_replace(lua, RECORD_VALUE);
        before = record;
    }
    if (before.at != NULL) {
        put_record(lua, to, goes_on);
    }
    return 0;
}
