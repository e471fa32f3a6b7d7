/* SPDX-License-Identifier: Apache-2.0 */
/* describe_plugin.c - see describe_plugin.h. */
#include "common/sandbox/describe_plugin.h"

#include "common/sandbox/allowed.h"

#include <ctype.h>
#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 31, SUMMARY_MAX_BYTES = 160 };

static const double integer_most = 0x1p53; /* a double represents all integers up to it exactly */

/* The kinds of plugins, each with the functions that it has to have. */
static const struct {
    const char *name;
    const char *functions[4];
} kinds[] = {
    {"codec", {"encode", "decode"}},     {"schedule", {"factor"}},
    {"metric", {"add", "value"}},        {"transform", {"sample"}},
    {"consistency", {"admit", "scale"}}, {"compute", {"map"}},
};

/* Fields that are true or false; left out they are false. */
static const char *const traits[] = {"unbiased", "sparse", "keeps_zeros", "cost"};

typedef struct sheet {
    char *text;
    size_t room, n;
} sheet;

static void put_line(lua_State *lua, sheet *to, const char *line)
{
    size_t n = strlen(line);

    if (n > to->room - to->n) {
        luaL_error(lua, "the plugin has too much to say of itself");
    }
    memcpy(to->text + to->n, line, n);
    to->n += n;
}

/* Returns the field's text and leaves it on the stack, which keeps it alive. Raises an error unless
 * it is a plain name. */
static const char *name_field(lua_State *lua, int table, const char *field)
{
    const char *text;
    size_t n;

    if (lua_getfield(lua, table, field) != LUA_TSTRING) {
        luaL_error(lua, "%s is not a string", field);
    }
    text = lua_tolstring(lua, -1, &n);
    if (n == 0 || n > NAME_MAX_BYTES ||
        strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") != n) {
        luaL_error(lua, "%s is \"%s\"; 1 to %d of a-z 0-9 _ are allowed", field, text,
                   NAME_MAX_BYTES);
    }
    return text;
}

/* Returns the field's text, "" if it is left out. Raises an error unless it is one line of
 * printable ASCII. */
static const char *line_field(lua_State *lua, int table, const char *field)
{
    const char *text = "";
    size_t n = 0;

    if (lua_getfield(lua, table, field) != LUA_TNIL) {
        if (lua_type(lua, -1) != LUA_TSTRING) {
            luaL_error(lua, "%s is not a string", field);
        }
        text = lua_tolstring(lua, -1, &n);
    }
    for (size_t i = 0; i < n; i++) {
        if (!isprint((unsigned char)text[i]) || n > SUMMARY_MAX_BYTES) {
            luaL_error(lua, "%s is not a line of at most %d printable characters", field,
                       SUMMARY_MAX_BYTES);
        }
    }
    return text;
}

static double number_field(lua_State *lua, int table, const char *name, const char *field,
                           double otherwise)
{
    double x = otherwise;

    if (lua_getfield(lua, table, field) != LUA_TNIL) {
        if (lua_type(lua, -1) != LUA_TNUMBER) {
            luaL_error(lua, "%s of %s is not a number", field, name);
        }
        x = lua_tonumber(lua, -1);
    }
    lua_pop(lua, 1);
    if (!isfinite(x)) {
        luaL_error(lua, "%s of %s is not finite", field, name);
    }
    return x;
}

static bool bool_field(lua_State *lua, int table, const char *field)
{
    bool is;

    if (lua_getfield(lua, table, field) != LUA_TNIL && !lua_isboolean(lua, -1)) {
        luaL_error(lua, "%s is neither true nor false", field);
    }
    is = lua_toboolean(lua, -1);
    lua_pop(lua, 1);
    return is;
}

/* Checks the table on top of the stack, which describes the plugin's number `name`. Writes its line
 * and adds it to *numbers. Raises an error if a value is not allowed. */
static void put_number(lua_State *lua, sheet *to, const char *name, ps_plugin_numbers *numbers)
{
    int at = lua_gettop(lua);
    double value = number_field(lua, at, name, "default", 0),
           min = number_field(lua, at, name, "min", -1e12),
           max = number_field(lua, at, name, "max", 1e12);
    bool is_integer = bool_field(lua, at, "integer");
    char line[512];

    if (!(min <= value && value <= max) || (is_integer && value != floor(value))) {
        luaL_error(lua, "default of %s is %f; %f to %f are allowed", name, value, min, max);
    }
    if (is_integer && (min < -integer_most || max > integer_most)) {
        luaL_error(lua, "%s is an integer from %f to %f; at most +-%f is allowed", name, min, max,
                   integer_most);
    }
    snprintf(line, sizeof line, "number %s %.17g %.17g %.17g %d %s\n", name, value, min, max,
             is_integer, line_field(lua, at, "help"));
    put_line(lua, to, line);
    snprintf(numbers->names[numbers->count], sizeof numbers->names[0], "%s", name);
    numbers->is_integer[numbers->count++] = is_integer;
    lua_settop(lua, at);
}

static void put_numbers(lua_State *lua, sheet *to, int plugin, ps_plugin_numbers *numbers)
{
    lua_Integer n;
    int table, keys;

    *numbers = (ps_plugin_numbers){.count = 0};
    if (lua_getfield(lua, plugin, "params") == LUA_TNIL) {
        return;
    }
    luaL_argcheck(lua, lua_istable(lua, -1), 1, "params is not a table");
    table = lua_gettop(lua);
    n = ps_sorted_keys(lua, table);
    keys = lua_gettop(lua);
    if (n > PS_SANDBOX_NUMBERS) {
        luaL_error(lua, "params has %I numbers; at most %d are allowed", n, PS_SANDBOX_NUMBERS);
    }
    for (lua_Integer i = 1; i <= n; i++) {
        const char *name;

        lua_rawgeti(lua, keys, i);
        if (lua_type(lua, -1) != LUA_TSTRING) {
            luaL_error(lua, "params has a number without a name");
        }
        name = lua_tostring(lua, -1);
        if (strlen(name) > NAME_MAX_BYTES ||
            strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name) ||
            name[0] == '\0') {
            luaL_error(lua, "params has the name \"%s\"; 1 to %d of a-z 0-9 _ are allowed", name,
                       NAME_MAX_BYTES);
        }
        lua_getfield(lua, table, name);
        if (!lua_istable(lua, -1)) {
            luaL_error(lua, "params.%s is not a table with default, min and max", name);
        }
        put_number(lua, to, name, numbers);
        lua_settop(lua, keys);
    }
}

/* Checks that the kind is known and that the plugin has its functions. */
static void check_kind(lua_State *lua, int plugin, const char *kind)
{
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (strcmp(kind, kinds[k].name) != 0) {
            continue;
        }
        for (size_t f = 0; f < 4 && kinds[k].functions[f] != NULL; f++) {
            if (lua_getfield(lua, plugin, kinds[k].functions[f]) != LUA_TFUNCTION) {
                luaL_error(lua, "a %s needs a function %s", kind, kinds[k].functions[f]);
            }
            lua_pop(lua, 1);
        }
        return;
    }
    luaL_error(
        lua,
        "kind is \"%s\"; codec, schedule, metric, transform, consistency and compute are allowed",
        kind);
}

uint32_t ps_describe_plugin(lua_State *lua, char *text, size_t room, ps_plugin_numbers *numbers)
{
    int plugin = lua_gettop(lua);
    const char *kind = name_field(lua, plugin, "kind");
    sheet to = {.text = text, .room = room};
    char line[512];

    snprintf(line, sizeof line, "kind %s\nname %s\n", kind, name_field(lua, plugin, "name"));
    check_kind(lua, plugin, kind);
    put_line(lua, &to, line);
    snprintf(line, sizeof line, "summary %s\n", line_field(lua, plugin, "summary"));
    put_line(lua, &to, line);
    snprintf(line, sizeof line, "bits %.17g\n",
             number_field(lua, plugin, "the plugin", "bits", 32));
    put_line(lua, &to, line);
    for (size_t i = 0; i < sizeof traits / sizeof traits[0]; i++) {
        if (bool_field(lua, plugin, traits[i])) {
            snprintf(line, sizeof line, "trait %s\n", traits[i]);
            put_line(lua, &to, line);
        }
    }
    put_numbers(lua, &to, plugin, numbers);
    return (uint32_t)to.n;
}
