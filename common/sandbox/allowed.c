/* SPDX-License-Identifier: Apache-2.0 */
/* allowed.c - see allowed.h. */
#include "common/sandbox/allowed.h"

#include "common/base/steady.h"
#include "common/sandbox/same_libc.h"
#include "common/sandbox/values.h"

#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tables that cannot be written ---- */

static int refuse_write(lua_State *lua)
{
    return luaL_error(lua, "\"%s\" is assigned to, but only local variables can be",
                      lua_type(lua, 2) == LUA_TSTRING ? lua_tostring(lua, 2) : "a field");
}

/* Replaces the table on top of the stack by an empty one, through which its fields can be read but
 * not assigned. */
static void protect(lua_State *lua)
{
    lua_newtable(lua);
    lua_newtable(lua);
    lua_pushvalue(lua, -3);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, refuse_write);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, -2);
    lua_remove(lua, -2);
}

/* ---- The order of keys ---- */

static bool key_is_less(lua_State *lua, int a, int b)
{
    bool a_is_number = lua_type(lua, a) == LUA_TNUMBER,
         b_is_number = lua_type(lua, b) == LUA_TNUMBER;

    if (a_is_number != b_is_number) {
        return a_is_number;
    }
    return lua_compare(lua, a, b, LUA_OPLT) != 0;
}

static int compare_keys(lua_State *lua)
{
    lua_pushboolean(lua, key_is_less(lua, 1, 2));
    return 1;
}

lua_Integer ps_sorted_keys(lua_State *lua, int index)
{
    lua_Integer n = 0;

    index = lua_absindex(lua, index);
    lua_newtable(lua);
    lua_pushnil(lua);
    while (lua_next(lua, index) != 0) {
        lua_pop(lua, 1);
        if (lua_type(lua, -1) != LUA_TNUMBER && lua_type(lua, -1) != LUA_TSTRING) {
            luaL_error(lua, "a key is a %s; numbers and strings have an order",
                       luaL_typename(lua, -1));
        }
        lua_pushvalue(lua, -1);
        lua_rawseti(lua, -3, ++n);
    }
    lua_getfield(lua, LUA_REGISTRYINDEX, "sort");
    lua_pushvalue(lua, -2);
    lua_pushcfunction(lua, compare_keys);
    lua_call(lua, 2, 0);
    return n;
}

/* Pushes the next key of the table, which is argument 1, and its value: the iterator of pairs. Its
 * upvalues are the sorted keys and the place of the key before. */
static int next_pair(lua_State *lua)
{
    lua_Integer i = lua_tointeger(lua, lua_upvalueindex(2)) + 1;

    lua_pushinteger(lua, i);
    lua_replace(lua, lua_upvalueindex(2));
    if (lua_rawgeti(lua, lua_upvalueindex(1), i) == LUA_TNIL) {
        return 1;
    }
    lua_pushvalue(lua, -1);
    lua_gettable(lua, 1);
    return 2;
}

static int allowed_pairs(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    (void)ps_sorted_keys(lua, 1);
    lua_pushinteger(lua, 0);
    lua_pushcclosure(lua, next_pair, 2);
    lua_pushvalue(lua, 1);
    return 2;
}

/* ---- Functions in place of Lua's ---- */

/* Implements tostring for numbers, strings, booleans and nil. Refuses other values: their text
 * would be an address, which differs from run to run. */
static int allowed_tostring(lua_State *lua)
{
    int type = lua_type(lua, 1);

    luaL_argcheck(
        lua, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TBOOLEAN || type == LUA_TNIL,
        1, "has no text; numbers, strings, booleans and nil have");
    luaL_tolstring(lua, 1, NULL);
    return 1;
}

/* Implements string.format. Refuses %p, and values whose text would be an address. */
static int allowed_format(lua_State *lua)
{
    size_t bytes;
    const char *format = luaL_checklstring(lua, 1, &bytes), *end = format + bytes;
    int n = lua_gettop(lua);

    /* A format of Lua may contain zero bytes, so strchr would stop too early. */
    for (const char *at = format; (at = memchr(at, '%', (size_t)(end - at))) != NULL;) {
        at++;
        at += strspn(at, "-+ #0123456789.");
        luaL_argcheck(lua, *at != 'p', 1, "has %p, which is not allowed");
        at += *at == '%' ? 1 : 0;
    }
    for (int i = 2; i <= n; i++) {
        int type = lua_type(lua, i);

        luaL_argcheck(lua,
                      type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TBOOLEAN ||
                          type == LUA_TNIL,
                      i, "has no text; numbers, strings, booleans and nil have");
    }
    lua_getfield(lua, LUA_REGISTRYINDEX, "format");
    lua_insert(lua, 1);
    lua_call(lua, n, 1);
    return 1;
}

/* Returns the argument at `index`. Raises an error unless it is a normal number above 0, of which
 * ps_steady_log can be taken. */
static lua_Number positive_at(lua_State *lua, int index)
{
    lua_Number x = luaL_checknumber(lua, index);

    luaL_argcheck(lua, isnormal(x) && x > 0, index, "is not above 0 and finite");
    return x;
}

static int steady_log(lua_State *lua)
{
    lua_Number x = ps_steady_log(positive_at(lua, 1));

    lua_pushnumber(lua, lua_isnoneornil(lua, 2) ? x : x / ps_steady_log(positive_at(lua, 2)));
    return 1;
}

static int steady_exp(lua_State *lua)
{
    lua_Number x = luaL_checknumber(lua, 1);

    luaL_argcheck(lua, x <= 700, 1, "is above 700");
    lua_pushnumber(lua, ps_steady_exp(x));
    return 1;
}

static int steady_tan(lua_State *lua)
{
    lua_Number x = luaL_checknumber(lua, 1);

    luaL_argcheck(lua, fabs(x) <= PS_TAN_MOST, 1, "is not within +-1e6");
    lua_pushnumber(lua, ps_same_tan(x));
    return 1;
}

static int steady_pow(lua_State *lua)
{
    lua_pushnumber(lua, ps_same_pow(luaL_checknumber(lua, 1), luaL_checknumber(lua, 2)));
    return 1;
}

/* ---- What is taken from Lua ---- */

static const struct {
    const char *library; /* NULL: a global */
    const char *names[24];
} taken[] = {
    {NULL, {"assert", "error", "ipairs", "rawequal", "rawlen", "select", "tonumber", "type"}},
    {"math",
     {"abs", "ceil", "floor", "fmod", "huge", "max", "maxinteger", "min", "mininteger", "modf",
      "pi", "sqrt", "tointeger", "type", "ult"}},
    {"string",
     {"byte", "char", "find", "gmatch", "gsub", "len", "lower", "match", "rep", "reverse", "sub",
      "upper"}},
    {"table", {"concat", "insert", "move", "pack", "remove", "sort", "unpack"}},
};

static const luaL_Reg own_globals[] = {
    {"pairs", allowed_pairs}, {"tostring", allowed_tostring}, {NULL, NULL}};
static const luaL_Reg own_math[] = {{"log", steady_log},
                                    {"exp", steady_exp},
                                    {"pow", steady_pow},
                                    {"tan", steady_tan},
                                    {NULL, NULL}};
static const luaL_Reg own_string[] = {{"format", allowed_format}, {NULL, NULL}};

/* Copies the fields `names` of the table at stack place `from` into the table on top of the stack.
 */
static void take(lua_State *lua, int from, const char *const *names)
{
    for (; *names != NULL; names++) {
        lua_getfield(lua, from, *names);
        lua_setfield(lua, -2, *names);
    }
}

/* Pushes a table with the functions of taken[which] from Lua's library, and those of `own` (NULL:
 * none). The caller protects it. */
static void push_library(lua_State *lua, size_t which, const luaL_Reg *own)
{
    int from;

    lua_getglobal(lua, taken[which].library);
    from = lua_gettop(lua);
    lua_newtable(lua);
    take(lua, from, taken[which].names);
    if (own != NULL) {
        luaL_setfuncs(lua, own, 0);
    }
    lua_remove(lua, from);
}

/* Stores a function of a Lua library in the registry under `name`, for the functions of this file
 * that call it. */
static void keep(lua_State *lua, const char *library, const char *name)
{
    lua_getglobal(lua, library);
    lua_getfield(lua, -1, name);
    lua_setfield(lua, LUA_REGISTRYINDEX, name);
    lua_pop(lua, 1);
}

void ps_allowed_open(lua_State *lua)
{
    luaL_requiref(lua, LUA_GNAME, luaopen_base, 1);
    luaL_requiref(lua, LUA_MATHLIBNAME, luaopen_math, 1);
    luaL_requiref(lua, LUA_STRLIBNAME, luaopen_string, 1);
    luaL_requiref(lua, LUA_TABLIBNAME, luaopen_table, 1);
    lua_settop(lua, 0);
    keep(lua, "table", "sort");
    keep(lua, "string", "format");

    lua_newtable(lua); /* the globals */
    lua_pushglobaltable(lua);
    lua_insert(lua, 1);
    take(lua, 1, taken[0].names);
    luaL_setfuncs(lua, own_globals, 0);
    push_library(lua, 1, own_math);
    protect(lua);
    lua_setfield(lua, -2, "math");
    push_library(lua, 2, own_string);
    lua_pushstring(lua, ""); /* sets the metatable of strings: s:f() calls these functions too */
    lua_newtable(lua);
    lua_pushvalue(lua, -3);
    lua_setfield(lua, -2, "__index");
    lua_setmetatable(lua, -2);
    lua_pop(lua, 1);
    protect(lua);
    lua_setfield(lua, -2, "string");
    push_library(lua, 3, NULL);
    protect(lua);
    lua_setfield(lua, -2, "table");
    ps_vector_open(lua);
    protect(lua);
    lua_setfield(lua, -2, "vec");
    ps_pick_open(lua);
    ps_bytes_open(lua);
    protect(lua);
    lua_replace(lua, 1);
    lua_settop(lua, 1);
}
