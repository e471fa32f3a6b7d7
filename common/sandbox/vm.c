/* SPDX-License-Identifier: Apache-2.0 */
/* vm.c - see vm.h. */
#include "common/sandbox/vm.h"

#include "common/sandbox/allowed.h"
#include "common/sandbox/compute.h"
#include "common/sandbox/describe_plugin.h"
#include "common/sandbox/lua_pool.h"
#include "common/sandbox/out_room.h"
#include "common/sandbox/values.h"

#include <lauxlib.h>
#include <malloc.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HOOK_EVERY = 1000,         /* Lua instructions between two checks of the budget */
    COLLECT_ABOVE = 256 * 1024 /* bytes in use after a call, above which garbage is collected */
};

/* The one state of the process. */
static struct {
    lua_State *lua; /* NULL: nothing is loaded */
    size_t used, budget;
    uint64_t instructions; /* Lua instructions that the present call may still execute */
    ps_sandbox_memory *shared;
    uint32_t repeat; /* number of the present call among those made together, from 0 */
    ps_plugin_numbers numbers;
} vm;

/* Their addresses are keys of Lua's registry: of the table that is the globals of code, and of a
 * table of functions by name (keep_stateless). */
static const char globals, stateless;

/* Frees p (bytes), which may be NULL. */
static void release(void *p, size_t bytes)
{
    if (ps_lua_pool_has(p)) {
        ps_lua_pool_give(p, bytes);
    } else {
        free(p);
    }
}

/* Does what realloc does, for `bytes` > 0. */
static void *resize(void *old, size_t old_bytes, size_t bytes)
{
    void *p;

    if (ps_lua_pool_has(old) && ps_lua_pool_is_same(old_bytes, bytes)) {
        return old;
    }
    p = ps_lua_pool_take(bytes);
    if (p == NULL && !ps_lua_pool_has(old)) {
        return realloc(old, bytes);
    }
    p = p != NULL ? p : malloc(bytes);
    if (p != NULL && old != NULL) {
        memcpy(p, old, old_bytes < bytes ? old_bytes : bytes);
        release(old, old_bytes);
    }
    return p;
}

static void *allocate(void *arg, void *old, size_t old_bytes, size_t bytes)
{
    void *p;

    (void)arg;
    old_bytes = old == NULL ? 0 : old_bytes; /* for a new object Lua passes its type here */
    if (bytes == 0) {
        release(old, old_bytes);
        vm.used -= old_bytes;
        return NULL;
    }
    if (bytes > old_bytes && (vm.used > vm.budget || bytes - old_bytes > vm.budget - vm.used)) {
        return NULL;
    }
    p = resize(old, old_bytes, bytes);
    if (p == NULL && bytes <= old_bytes) {
        p = old; /* Lua expects that shrinking succeeds */
    }
    if (p != NULL) {
        vm.used = vm.used - old_bytes + bytes;
    }
    return p;
}

static void count_down(lua_State *lua, lua_Debug *at)
{
    (void)at;
    if (vm.instructions <= HOOK_EVERY) {
        bool is_large = vm.shared->instructions >= 1000000;

        vm.instructions = 0;
        luaL_error(lua, "the call takes more instructions than the %I%s of its budget",
                   (lua_Integer)(vm.shared->instructions / (is_large ? 1000000 : 1)),
                   is_large ? " million" : "");
    }
    vm.instructions -= HOOK_EVERY;
}

/* Ends the process. Lua calls it for an error outside of a protected call, which does not happen.
 */
static int panic(lua_State *lua)
{
    (void)lua;
    abort();
}

/* ---- Calls ---- */

/* Gives the function at `index` the library as its globals, the upvalue _ENV: code may have
 * assigned to it. */
static void reset_globals(lua_State *lua, int index)
{
    index = lua_absindex(lua, index);
    lua_rawgetp(lua, LUA_REGISTRYINDEX, &globals);
    if (lua_setupvalue(lua, index, 1) == NULL) {
        lua_pop(lua, 1);
    }
}

/* Runs the job's file anew and pushes the table that it returns, the plugin. */
static void push_plugin(lua_State *lua)
{
    lua_getfield(lua, LUA_REGISTRYINDEX, "chunk");
    reset_globals(lua, -1);
    lua_call(lua, 0, 1);
    if (lua_type(lua, -1) != LUA_TTABLE) {
        luaL_error(lua, "the file returns a %s; it has to return a table", luaL_typename(lua, -1));
    }
}

/* Returns where an argument's bytes begin. The service is trusted; the check is against its
 * mistakes. */
static const uint8_t *bytes_of(lua_State *lua, const ps_sandbox_value *v, size_t unit)
{
    if (v->at > PS_SANDBOX_ROOM || v->count > (PS_SANDBOX_ROOM - v->at) / unit) {
        luaL_error(lua, "an argument is outside of the shared memory");
    }
    return vm.shared->in + v->at;
}

static void push_numbers(lua_State *lua, const ps_sandbox_value *v)
{
    const uint8_t *in = bytes_of(lua, v, sizeof(double));

    lua_createtable(lua, 0, (int)vm.numbers.count);
    for (uint32_t i = 0; i < v->count && i < vm.numbers.count; i++) {
        double x;

        memcpy(&x, in + i * sizeof x, sizeof x);
        if (vm.numbers.is_integer[i]) {
            lua_pushinteger(lua, (lua_Integer)x);
        } else {
            lua_pushnumber(lua, x);
        }
        lua_setfield(lua, -2, vm.numbers.names[i]);
    }
}

static void push_argument(lua_State *lua, const ps_sandbox_value *v)
{
    switch (v->kind) {
    case PS_SANDBOX_BOOLEAN:
        lua_pushboolean(lua, v->as.integer != 0);
        break;
    case PS_SANDBOX_NUMBER:
        lua_pushnumber(lua, v->as.number);
        break;
    case PS_SANDBOX_INTEGER:
        lua_pushinteger(lua, (lua_Integer)v->as.integer);
        break;
    case PS_SANDBOX_NUMBERED:
        push_numbers(lua, v);
        break;
    case PS_SANDBOX_VECTOR:
        ps_vector_view(lua, (const float *)(const void *)bytes_of(lua, v, sizeof(float)), v->count);
        break;
    case PS_SANDBOX_READER:
        ps_reader_new(lua, bytes_of(lua, v, 1), v->count);
        break;
    case PS_SANDBOX_TEXT:
        lua_pushlstring(lua, (const char *)bytes_of(lua, v, 1), v->count);
        break;
    default:
        lua_pushnil(lua);
    }
}

/* Takes `bytes` bytes of shared->out for a result. Returns their address and sets v->at to their
 * offset. */
static void *put(lua_State *lua, size_t bytes, ps_sandbox_value *v)
{
    uint8_t *p = ps_out_room_take(bytes);

    if (p == NULL) {
        luaL_error(lua, "the results take more than %d bytes", PS_SANDBOX_ROOM);
    }
    v->at = (uint32_t)(p - vm.shared->out);
    return p;
}

static void take_sparse(lua_State *lua, const ps_vector *x, ps_sandbox_value *v)
{
    size_t floats = x->kept * sizeof(float), positions = x->kept * sizeof(uint16_t);
    float *p = put(lua, floats + positions, v);

    v->kind = PS_SANDBOX_SPARSE;
    v->count = (uint32_t)x->n;
    v->as.integer = x->kept;
    for (size_t i = 0; i < x->kept; i++) {
        p[i] = isnan(x->own[i]) ? NAN : x->own[i]; /* one bit pattern, as of ps_vector_settled */
    }
    memcpy(p + x->kept, ps_vector_positions(x), positions);
}

static void take_result(lua_State *lua, int index, ps_sandbox_value *v)
{
    const ps_vector *x;
    const float *floats;
    const char *text;
    size_t n;

    switch (lua_type(lua, index)) {
    case LUA_TNIL:
        v->kind = PS_SANDBOX_NIL;
        break;
    case LUA_TBOOLEAN:
        v->kind = PS_SANDBOX_BOOLEAN;
        v->as.integer = lua_toboolean(lua, index);
        break;
    case LUA_TNUMBER:
        v->kind = lua_isinteger(lua, index) ? PS_SANDBOX_INTEGER : PS_SANDBOX_NUMBER;
        if (v->kind == PS_SANDBOX_INTEGER) {
            v->as.integer = lua_tointeger(lua, index);
        } else {
            v->as.number = lua_tonumber(lua, index);
        }
        break;
    case LUA_TSTRING:
        text = lua_tolstring(lua, index, &n);
        v->kind = PS_SANDBOX_TEXT;
        v->count = (uint32_t)n;
        memcpy(put(lua, n, v), text, n);
        break;
    case LUA_TUSERDATA:
        x = ps_vector_sparse_at(lua, index);
        if (x != NULL) {
            take_sparse(lua, x, v);
            break;
        }
        x = ps_vector_at(lua, index);
        v->kind = PS_SANDBOX_VECTOR;
        v->count = (uint32_t)x->n;
        floats = ps_vector_settled(lua, x);
        if (ps_out_room_has(floats, &n)) {
            v->at = (uint32_t)n;
        } else {
            memcpy(put(lua, x->n * sizeof(float), v), floats, x->n * sizeof(float));
        }
        break;
    default:
        luaL_error(lua,
                   "result %d is a %s; numbers, strings, booleans, vectors and nil are allowed",
                   index, luaL_typename(lua, index));
    }
}

/* Pushes the arguments of the call. For an argument that asks for a writer, pushes one with the
 * room in `out` that the argument names. Returns that writer and sets *place to where its bytes
 * are; NULL: no argument asks for one. */
static const ps_writer *push_arguments(lua_State *lua, ps_sandbox_value *place)
{
    ps_sandbox_memory *shared = vm.shared;
    uint32_t count = shared->argument_count;
    ps_writer *writer = NULL;

    if (vm.repeat >= PS_SANDBOX_TOGETHER ||
        count > PS_SANDBOX_ARGUMENTS / (vm.repeat + 1)) { /* only by a mistake of the service */
        luaL_error(lua, "too many arguments");
    }
    for (uint32_t i = 0; i < count; i++) {
        const ps_sandbox_value *v = &shared->arguments[vm.repeat * count + i];

        if (v->kind == PS_SANDBOX_WRITER) {
            writer = ps_writer_new(lua, put(lua, v->count, place), v->count);
            lua_pushvalue(lua, -1);
            lua_setfield(lua, LUA_REGISTRYINDEX, "this writer"); /* so that it is not collected */
        } else {
            push_argument(lua, v);
        }
    }
    return writer;
}

/* Puts the plugin's function at stack place 1, and nothing behind it. */
static void push_function(lua_State *lua, const char *name)
{
    lua_settop(lua, 0);
    lua_rawgetp(lua, LUA_REGISTRYINDEX, &stateless);
    if (lua_getfield(lua, 1, name) == LUA_TFUNCTION) {
        reset_globals(lua, 2);
        lua_replace(lua, 1);
        return;
    }
    lua_settop(lua, 0);
    push_plugin(lua);
    lua_getfield(lua, -1, name);
    if (lua_type(lua, -1) != LUA_TFUNCTION) {
        luaL_error(lua, "the plugin has no function \"%s\"", name);
    }
    lua_replace(lua, 1);
    lua_settop(lua, 1);
}

/* Pushes the function to call: the plugin's function of the name in shared. For code of kind
 * compute pushes ps_compute_map or ps_compute_merge, and the plugin as its first argument. */
static void push_callee(lua_State *lua)
{
    const ps_sandbox_memory *shared = vm.shared;

    if (shared->what != PS_SANDBOX_MAP && shared->what != PS_SANDBOX_MERGE) {
        push_function(lua, shared->function);
        return;
    }
    push_plugin(lua);
    lua_pushcfunction(lua, shared->what == PS_SANDBOX_MAP ? ps_compute_map : ps_compute_merge);
    lua_insert(lua, 1);
    lua_settop(lua, 2);
}

static int run(lua_State *lua)
{
    ps_sandbox_memory *shared = vm.shared;
    uint32_t results = shared->result_count;
    ps_sandbox_value place = {.kind = PS_SANDBOX_WRITER};
    const ps_writer *writer;
    int top;

    push_callee(lua);
    writer = push_arguments(lua, &place);
    lua_call(lua, lua_gettop(lua) - 1, (int)shared->result_max);
    if (writer != NULL && results < PS_SANDBOX_RESULTS) {
        place.count = (uint32_t)writer->n;
        shared->results[results++] = place;
        if (shared->result_max == 0) {
            /* What the function has made besides is not needed any more. The next call uses the
             * same memory, which is in the processor's caches. */
            ps_out_room_end(place.at + place.count);
        }
    }
    top = lua_gettop(lua);
    for (int i = 1; i <= top && results < PS_SANDBOX_RESULTS; i++) {
        take_result(lua, i, &shared->results[results++]);
        lua_settop(lua, top);
    }
    shared->result_count = results;
    return 0;
}

/* The second half of a round trip: calls decode with the bytes that encode has written. */
static int run_back(lua_State *lua)
{
    ps_sandbox_memory *shared = vm.shared;
    const ps_sandbox_value *x = &shared->arguments[vm.repeat * shared->argument_count];
    uint32_t results = shared->result_count;
    ps_sandbox_value written, values = {.kind = PS_SANDBOX_NIL};

    if (results == 0 || results >= PS_SANDBOX_RESULTS) { /* only by a mistake of the service */
        return luaL_error(lua, "no result to decode");
    }
    written = shared->results[results - 1];
    if (written.count > 0) {
        push_function(lua, "decode");
        ps_reader_new(lua, shared->out + written.at, written.count);
        lua_pushinteger(lua, (lua_Integer)x->count);
        lua_call(lua, 2, 1);
        take_result(lua, 1, &values);
    }
    shared->results[results] = values;
    shared->result_count = results + 1;
    return 0;
}

/* ---- Loading ---- */

/* Returns whether the function at the top of the stack uses nothing of its file: it has no upvalue,
 * or only the library as its globals. */
static bool is_stateless(lua_State *lua)
{
    lua_Debug about;
    bool is = true;

    lua_pushvalue(lua, -1);
    lua_getinfo(lua, ">u", &about);
    if (about.nups > 0) {
        (void)lua_getupvalue(lua, -1, 1);
        lua_rawgetp(lua, LUA_REGISTRYINDEX, &globals);
        is = about.nups == 1 && lua_rawequal(lua, -1, -2);
        lua_pop(lua, 2);
    }
    return is && !lua_iscfunction(lua, -1);
}

/* Stores, by name, the functions of the plugin at the top of the stack that are stateless. Calls of
 * them leave nothing behind, so the file does not run anew for each. */
static void keep_stateless(lua_State *lua)
{
    lua_newtable(lua);
    lua_pushnil(lua);
    while (lua_next(lua, -3) != 0) {
        if (lua_type(lua, -2) == LUA_TSTRING && lua_isfunction(lua, -1) && is_stateless(lua)) {
            lua_pushvalue(lua, -2);
            lua_pushvalue(lua, -2);
            lua_rawset(lua, -5);
        }
        lua_pop(lua, 1);
    }
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &stateless);
}

static int load(lua_State *lua)
{
    ps_sandbox_memory *shared = vm.shared;
    uint32_t bytes = shared->arguments[0].count;

    ps_allowed_open(lua);
    if (bytes > PS_SANDBOX_TEXT_MAX) {
        return luaL_error(lua, "%d bytes; at most %d are allowed", (int)bytes, PS_SANDBOX_TEXT_MAX);
    }
    /* text only: the reader of compiled code is not made for hostile bytes */
    if (luaL_loadbufferx(lua, (const char *)shared->in, bytes, "=code", "t") != LUA_OK) {
        return lua_error(lua);
    }
    lua_pushvalue(lua, 1);
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &globals);
    lua_setfield(lua, LUA_REGISTRYINDEX, "chunk");
    push_plugin(lua);
    keep_stateless(lua);
    shared->results[0] = (ps_sandbox_value){
        .kind = PS_SANDBOX_TEXT,
        .count = ps_describe_plugin(lua, (char *)shared->out, PS_SANDBOX_ROOM, &vm.numbers),
    };
    shared->result_count = 1;
    return 0;
}

static bool begin(void)
{
    if (vm.lua != NULL) {
        lua_close(vm.lua);
    }
    /* malloc takes vectors from the heap; each mapping of its own would cost page faults. */
    mallopt(M_MMAP_THRESHOLD, 64 * 1024 * 1024);
    mallopt(M_TRIM_THRESHOLD, 256 * 1024 * 1024);
    /* when memory runs out the allocator would try another arena, with a mapping that is not
     * allowed */
    mallopt(M_ARENA_MAX, 1);
    vm.used = 0;
    vm.lua = lua_newstate(allocate, NULL);
    if (vm.lua != NULL) {
        lua_atpanic(vm.lua, panic);
        lua_gc(vm.lua, LUA_GCSTOP); /* garbage is collected between calls, or if memory runs out */
    }
    return vm.lua != NULL;
}

static void fail(ps_sandbox_memory *shared, const char *text)
{
    shared->failed = 1;
    snprintf(shared->error, sizeof shared->error, "%s", text);
}

/* Does `what` with a budget of its own. */
static void call(ps_sandbox_memory *shared, lua_CFunction what)
{
    vm.instructions = shared->instructions;
    lua_settop(vm.lua, 0);
    lua_sethook(vm.lua, count_down, LUA_MASKCOUNT, HOOK_EVERY);
    lua_pushcfunction(vm.lua, what);
    if (lua_pcall(vm.lua, 0, 0, 0) != LUA_OK) {
        fail(shared, lua_type(vm.lua, -1) == LUA_TSTRING ? lua_tostring(vm.lua, -1)
                                                         : "an error without text");
    }
    lua_settop(vm.lua, 0);
    if (vm.used > COLLECT_ABOVE || vm.used > vm.budget / 2) {
        lua_gc(vm.lua, LUA_GCCOLLECT);
    }
}

/* Makes call number vm.repeat of those that are made together, and writes its results or error. */
static void answer(ps_sandbox_memory *shared)
{
    call(shared, shared->what == PS_SANDBOX_LOAD ? load : run);
    if (shared->what == PS_SANDBOX_ROUND_TRIP && shared->failed == 0) {
        call(shared, run_back);
        shared->failed *= 2;
    }
}

void ps_vm_answer(ps_sandbox_memory *shared)
{
    vm.shared = shared;
    vm.budget = (size_t)shared->memory;
    /* While code loads, `out` gets its description, so vectors that it makes are placed elsewhere.
     */
    ps_out_room_begin(shared->out, shared->what == PS_SANDBOX_LOAD ? 0 : PS_SANDBOX_ROOM);
    shared->failed = 0;
    shared->result_count = 0;
    if (shared->what == PS_SANDBOX_LOAD ? !begin() : vm.lua == NULL) {
        fail(shared, "nothing is loaded");
        return;
    }
    for (vm.repeat = 0; vm.repeat <= shared->repeats && shared->failed == 0; vm.repeat++) {
        answer(shared);
    }
}
