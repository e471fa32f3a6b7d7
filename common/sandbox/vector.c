/* SPDX-License-Identifier: Apache-2.0 */
/* vector.c - vectors of float32 in Lua. Loops give the same bits on every processor: elementwise
 * ones round alike at every width, and sums are formed in sixteen partial sums in a fixed order. */
#include "common/base/clones.h"
#include "common/base/draw.h"
#include "common/base/steady.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/sandbox/out_room.h"
#include "common/sandbox/values.h"
#include "common/script/sandbox_protocol.h"

#include <float.h>
#include <lauxlib.h>
#include <math.h>
#include <string.h>

const char ps_type_vector[] = "vector";

/* ---- Values ---- */

/* The types' metatables stand in the registry under the types' addresses: strings would have to be
 * looked up. */
void ps_type_new(lua_State *lua, const char *name)
{
    luaL_newmetatable(lua, name);
    lua_pushvalue(lua, -1);
    lua_rawsetp(lua, LUA_REGISTRYINDEX, name);
}

void *ps_value_new(lua_State *lua, const char *type, size_t bytes, int user_values)
{
    const char **v = lua_newuserdatauv(lua, bytes, user_values);

    *v = type;
    lua_rawgetp(lua, LUA_REGISTRYINDEX, type);
    lua_setmetatable(lua, -2);
    return v;
}

void *ps_value_at(lua_State *lua, int index, const char *type)
{
    /* code gets no userdata that ps_value_new has not made */
    const char **v = lua_type(lua, index) == LUA_TUSERDATA ? lua_touserdata(lua, index) : NULL;

    return v != NULL && *v == type ? (void *)v : luaL_checkudata(lua, index, type);
}

float *ps_vector_new(lua_State *lua, size_t n)
{
    ps_vector *v;
    float *values;

    if (n > PS_VECTOR_VALUES) {
        luaL_error(lua, "a vector of %d values; at most %d are allowed",
                   (int)(n > INT32_MAX ? INT32_MAX : n), PS_VECTOR_VALUES);
    }
    values = ps_out_room_spare(n * sizeof(float));
    v = ps_value_new(lua, ps_type_vector, sizeof *v + (values == NULL ? n * sizeof(float) : 0), 0);
    values = values != NULL ? values : v->own;
    *v = (ps_vector){.type = v->type, .n = n, .p = values};
    return values;
}

void ps_vector_view(lua_State *lua, const float *p, size_t n)
{
    ps_vector *v = ps_value_new(lua, ps_type_vector, sizeof *v, 0);

    *v = (ps_vector){.type = v->type, .n = n, .p = p};
}

uint32_t ps_vector_largest(const ps_vector *v)
{
    ps_vector *known = (ps_vector *)(uintptr_t)v; /* only caches: the values never change */

    if (!v->has_largest) {
        known->largest = ps_kernels_best()->largest(v->p, v->n);
        known->has_largest = true;
    }
    return known->largest;
}

const float *ps_vector_settled(lua_State *lua, const ps_vector *v)
{
    float *z;

    if (v->n == 0 || ps_vector_largest(v) <= 0x7f800000u) {
        return v->p;
    }
    z = ps_vector_new(lua, v->n);
    for (size_t i = 0; i < v->n; i++) {
        z[i] = isnan(v->p[i]) ? NAN : v->p[i];
    }
    return z;
}

void ps_push_settled(lua_State *lua, double x)
{
    lua_pushnumber(lua, isnan(x) ? (lua_Number)NAN : x);
}

void ps_vector_scatter(lua_State *lua, const void *x, const uint16_t *at, size_t k, size_t n)
{
    if (n <= PS_SANDBOX_SPARSE_VALUES && k <= n / 2) {
        ps_vector *v =
            ps_value_new(lua, ps_type_vector, sizeof *v + k * (sizeof(float) + sizeof *at), 1);

        *v = (ps_vector){.type = v->type, .n = n, .kept = (uint32_t)k};
        memcpy(v->own, x, k * sizeof(float));
        memcpy(v->own + k, at, k * sizeof *at);
    } else {
        float *z = ps_vector_new(lua, n);

        memset(z, 0, n * sizeof *z);
        for (size_t i = 0; i < k; i++) {
            memcpy(&z[at[i]], (const uint8_t *)x + i * sizeof *z, sizeof *z);
        }
    }
}

const uint16_t *ps_vector_positions(const ps_vector *v)
{
    return (const uint16_t *)(const void *)(v->own + v->kept);
}

const ps_vector *ps_vector_sparse_at(lua_State *lua, int index)
{
    const ps_vector *v = ps_value_at(lua, index, ps_type_vector);

    return v->p == NULL ? v : NULL;
}

/* Forms the values of a sparse vector, which keeps the vector that has them as its user value. */
static void form(lua_State *lua, int index, ps_vector *v)
{
    const uint16_t *at = ps_vector_positions(v);
    float *z;

    index = lua_absindex(lua, index);
    z = ps_vector_new(lua, v->n);
    memset(z, 0, v->n * sizeof *z);
    for (size_t i = 0; i < v->kept; i++) {
        z[at[i]] = v->own[i];
    }
    lua_setiuservalue(lua, index, 1);
    v->p = z;
}

const ps_vector *ps_vector_at(lua_State *lua, int index)
{
    ps_vector *v = ps_value_at(lua, index, ps_type_vector);

    if (v->p == NULL) {
        form(lua, index, v);
    }
    return v;
}

size_t ps_count_at(lua_State *lua, int index, size_t most)
{
    lua_Integer n = luaL_checkinteger(lua, index);

    if (n < 0 || (size_t)n > most) {
        luaL_error(lua, "argument %d is %I; 0 to %I are allowed", index, n, (lua_Integer)most);
    }
    return (size_t)n;
}

/* ---- Elementwise ---- */

typedef void vectors_fn(const float *x, const float *y, float *z, size_t n);
typedef void number_fn(const float *x, float b, float *z, size_t n);
typedef void unary_fn(const float *x, float *z, size_t n);

/* Pushes the result of an operation of two vectors of one length, or of a vector and a number. */
static int binary(lua_State *lua, vectors_fn *vectors, number_fn *number)
{
    const ps_vector *x, *y;
    float *z;

    if (lua_type(lua, 1) == LUA_TNUMBER) {
        float b = (float)lua_tonumber(lua, 1);

        y = ps_vector_at(lua, 2);
        z = ps_vector_new(lua, y->n);
        for (size_t i = 0; i < y->n; i++) {
            z[i] = b;
        }
        lua_replace(lua, 1);
    }
    x = ps_vector_at(lua, 1);
    if (lua_type(lua, 2) == LUA_TNUMBER) {
        z = ps_vector_new(lua, x->n);
        number(x->p, (float)lua_tonumber(lua, 2), z, x->n);
        return 1;
    }
    y = ps_vector_at(lua, 2);
    if (x->n != y->n) {
        return luaL_error(lua, "vectors of %I and %I values; equal lengths are allowed",
                          (lua_Integer)x->n, (lua_Integer)y->n);
    }
    z = ps_vector_new(lua, x->n);
    vectors(x->p, y->p, z, x->n);
    return 1;
}

static int unary(lua_State *lua, unary_fn *fn)
{
    const ps_vector *x = ps_vector_at(lua, 1);

    fn(x->p, ps_vector_new(lua, x->n), x->n);
    return 1;
}

/* Defines the loops of an operation on elements a and b: for two vectors, and for a vector and a
 * number. */
#define BINARY(name, expression)                                                                   \
    PS_CLONES(name##_loop, (x, y, z, n), const float *restrict x, const float *restrict y,         \
              float *restrict z, size_t n)                                                         \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            float a = x[i], b = y[i];                                                              \
                                                                                                   \
            z[i] = (expression);                                                                   \
        }                                                                                          \
    }                                                                                              \
    PS_CLONES(name##_number_loop, (x, b, z, n), const float *restrict x, float b,                  \
              float *restrict z, size_t n)                                                         \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            float a = x[i];                                                                        \
                                                                                                   \
            z[i] = (expression);                                                                   \
        }                                                                                          \
    }                                                                                              \
    static void name##_vectors(const float *x, const float *y, float *z, size_t n)                 \
    {                                                                                              \
        name##_loop(x, y, z, n);                                                                   \
    }                                                                                              \
    static void name##_number(const float *x, float b, float *z, size_t n)                         \
    {                                                                                              \
        name##_number_loop(x, b, z, n);                                                            \
    }

/* Defines the loop of an operation on each element a of a vector. */
#define UNARY(name, expression)                                                                    \
    PS_CLONES(name##_loop, (x, z, n), const float *restrict x, float *restrict z, size_t n)        \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            float a = x[i];                                                                        \
                                                                                                   \
            z[i] = (expression);                                                                   \
        }                                                                                          \
    }                                                                                              \
    static void name##_values(const float *x, float *z, size_t n)                                  \
    {                                                                                              \
        name##_loop(x, z, n);                                                                      \
    }

BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a *b)
BINARY(div, a / b)
BINARY(lesser, a < b ? a : b)
BINARY(greater, a > b ? a : b)
BINARY(is_above, a > b ? 1.0f : 0.0f)

UNARY(abs, fabsf(a))
UNARY(negative, -a)
UNARY(sign, (float)(a > 0.0f) - (float)(a < 0.0f))
UNARY(square, a *a)
UNARY(root, sqrtf(a))
UNARY(floor, floorf(a))
UNARY(round, rintf(a))
/* Computed in double by functions that give the same bits on every processor. exp gives infinity
 * above 700; log gives NaN below FLT_MIN and for infinity. NaN stays NaN. */
UNARY(exponential, a <= 700.0f ? (float)ps_steady_exp((double)a) : a > 0.0f ? INFINITY : NAN)
UNARY(logarithm, a >= FLT_MIN && a <= FLT_MAX ? (float)ps_steady_log((double)a) : NAN)

static const struct {
    const char *name;
    vectors_fn *vectors;
    number_fn *number;
} binaries[] = {
    {"add", add_vectors, add_number},
    {"sub", sub_vectors, sub_number},
    {"mul", mul_vectors, mul_number},
    {"div", div_vectors, div_number},
    {"min", lesser_vectors, lesser_number},
    {"max", greater_vectors, greater_number},
    {"is_above", is_above_vectors, is_above_number},
};

static const struct {
    const char *name;
    unary_fn *values;
} unaries[] = {
    {"abs", abs_values},       {"neg", negative_values},    {"sign", sign_values},
    {"square", square_values}, {"sqrt", root_values},       {"floor", floor_values},
    {"round", round_values},   {"exp", exponential_values}, {"log", logarithm_values},
};

static int call_binary(lua_State *lua)
{
    lua_Integer i = lua_tointeger(lua, lua_upvalueindex(1));

    return binary(lua, binaries[i].vectors, binaries[i].number);
}

static int call_unary(lua_State *lua)
{
    lua_settop(lua, 1); /* Lua passes the operand of a unary operator twice */
    return unary(lua, unaries[lua_tointeger(lua, lua_upvalueindex(1))].values);
}

static int vector_clip(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1);
    float least = (float)luaL_checknumber(lua, 2), most = (float)luaL_checknumber(lua, 3);
    float *z = ps_vector_new(lua, x->n);

    greater_number(x->p, least, z, x->n);
    for (size_t i = 0; i < x->n; i++) {
        z[i] = z[i] < most ? z[i] : most;
    }
    return 1;
}

/* Pushes x + factor * y; the product and the sum are each rounded to float32. */
static int vector_axpy(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1), *y = ps_vector_at(lua, 3);
    float *scaled;

    luaL_argcheck(lua, x->n == y->n, 3, "has another length");
    scaled = ps_vector_new(lua, y->n);
    mul_number(y->p, (float)luaL_checknumber(lua, 2), scaled, y->n);
    add_vectors(x->p, scaled, ps_vector_new(lua, x->n), x->n);
    return 1;
}

/* Pushes the results of a Lua function for each value of x. Slow: for operations that have no loop
 * of their own here. */
static int vector_map(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1);
    float *z;

    luaL_checktype(lua, 2, LUA_TFUNCTION);
    z = ps_vector_new(lua, x->n);
    for (size_t i = 0; i < x->n; i++) {
        lua_pushvalue(lua, 2);
        ps_push_settled(lua, (double)x->p[i]);
        lua_call(lua, 1, 1);
        z[i] = (float)luaL_checknumber(lua, -1);
        lua_pop(lua, 1);
    }
    return 1;
}

/* ---- Sums and extremes ---- */

enum { LANES = 16 };

/* Returns the sum of x * y, or of x if y is NULL, in double and in a fixed order. */
static double product(const float *x, const float *y, size_t n)
{
    double part[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            part[j] += (double)x[i + j] * (y == NULL ? 1.0 : (double)y[i + j]);
        }
    }
    for (size_t j = 0; i + j < n; j++) {
        part[j] += (double)x[i + j] * (y == NULL ? 1.0 : (double)y[i + j]);
    }
    for (size_t half = LANES / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; j++) {
            part[j] += part[j + half];
        }
    }
    return part[0];
}

static int vector_sum(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1);

    ps_push_settled(lua, product(x->p, NULL, x->n));
    return 1;
}

static int vector_dot(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1), *y = ps_vector_at(lua, 2);

    luaL_argcheck(lua, x->n == y->n, 2, "has another length");
    ps_push_settled(lua, product(x->p, y->p, x->n));
    return 1;
}

static int vector_sum_abs(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1);

    ps_push_settled(lua, ps_kernels_best()->sum_abs(x->p, x->n));
    return 1;
}

static int vector_sum_square(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1);

    ps_push_settled(lua, ps_kernels_best()->sum_square(x->p, x->n));
    return 1;
}

/* Pushes the largest |x|; infinity if a value is infinite or NaN. */
static int vector_max_abs(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1);
    uint32_t bits = ps_vector_largest(x);
    float most;

    memcpy(&most, &bits, sizeof most);
    lua_pushnumber(lua, isnan(most) ? HUGE_VAL : (lua_Number)most);
    return 1;
}

/* Pushes the index, from 1, of the greatest value, and the value; of equal ones the first. */
static int vector_argmax(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1);
    size_t best = 0;

    luaL_argcheck(lua, x->n > 0, 1, "is empty");
    for (size_t i = 1; i < x->n; i++) {
        best = x->p[i] > x->p[best] ? i : best;
    }
    lua_pushinteger(lua, (lua_Integer)best + 1);
    ps_push_settled(lua, (double)x->p[best]);
    return 2;
}

/* Pushes x with NaN as 0 and infinities as the largest finite magnitude, so that a scale can be
 * computed. Also pushes that magnitude, which is 0 for a slice that counts as zeros. */
static int vector_finite(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1);
    float *room = ps_vector_new(lua, x->n), most;
    const float *p = ps_finite(x->p, x->n, room, &most);

    if (p == x->p) {
        lua_pushvalue(lua, 1);
    }
    lua_pushnumber(lua, (lua_Number)most);
    return 2;
}

/* ---- Parts ---- */

static int vector_length(lua_State *lua)
{
    lua_pushinteger(lua, (lua_Integer)ps_vector_at(lua, 1)->n);
    return 1;
}

static int vector_part(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1);
    size_t from = ps_count_at(lua, 2, x->n), count = ps_count_at(lua, 3, x->n - from);

    memcpy(ps_vector_new(lua, count), x->p + from, count * sizeof(float));
    return 1;
}

/* Pushes x[i], the value number i from 1, or the method x.name. */
static int vector_index(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1);

    if (lua_isinteger(lua, 2)) {
        lua_Integer i = lua_tointeger(lua, 2);

        if (i < 1 || (size_t)i > x->n) {
            return luaL_error(lua, "value %I of a vector of %I", i, (lua_Integer)x->n);
        }
        ps_push_settled(lua, (double)x->p[i - 1]);
        return 1;
    }
    lua_pushvalue(lua, 2);
    lua_rawget(lua, lua_upvalueindex(1));
    return 1;
}

/* ---- New vectors ---- */

static int vec_fill(lua_State *lua)
{
    size_t n = ps_count_at(lua, 1, PS_VECTOR_VALUES);
    float x = (float)luaL_optnumber(lua, 2, 0), *z = ps_vector_new(lua, n);

    for (size_t i = 0; i < n; i++) {
        z[i] = x;
    }
    return 1;
}

static int vec_range(lua_State *lua)
{
    size_t n = ps_count_at(lua, 1, PS_VECTOR_VALUES);
    float *z = ps_vector_new(lua, n);

    for (size_t i = 0; i < n; i++) {
        z[i] = (float)i;
    }
    return 1;
}

static int vec_of(lua_State *lua)
{
    size_t n;
    float *z;

    luaL_checktype(lua, 1, LUA_TTABLE);
    n = (size_t)lua_rawlen(lua, 1);
    z = ps_vector_new(lua, n);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(lua, 1, (lua_Integer)i + 1);
        z[i] = (float)luaL_checknumber(lua, -1);
        lua_pop(lua, 1);
    }
    return 1;
}

/* Pushes n draws, uniform over (0, 1) with 16 bits: the same with which built-in codecs round. */
static int vec_draw(lua_State *lua)
{
    uint32_t key = ps_key32((uint64_t)luaL_checkinteger(lua, 1));
    size_t n = ps_count_at(lua, 2, PS_VECTOR_VALUES);
    float *z = ps_vector_new(lua, n);

    for (size_t i = 0; i < n; i++) {
        z[i] = ((float)(ps_draw_u32(key, (uint32_t)i) >> 16) + 0.5f) * 0x1p-16f;
    }
    return 1;
}

/* Pushes n draws from the standard normal distribution. */
static int vec_normal(lua_State *lua)
{
    uint64_t key = (uint64_t)luaL_checkinteger(lua, 1);
    size_t n = ps_count_at(lua, 2, PS_VECTOR_VALUES);
    float *z = ps_vector_new(lua, n);

    for (size_t i = 0; i < n; i++) {
        z[i] = (float)ps_draw_normal(key, i);
    }
    return 1;
}

/* Pushes a number rounded to float32, as a receiver gets it. */
static int vec_f32(lua_State *lua)
{
    lua_pushnumber(lua, (lua_Number)(float)luaL_checknumber(lua, 1));
    return 1;
}

/* Pushes a key derived from a key and a number, so that draws for different purposes are
 * independent. */
static int vec_key(lua_State *lua)
{
    uint64_t key = (uint64_t)luaL_checkinteger(lua, 1), index = (uint64_t)luaL_checkinteger(lua, 2);

    lua_pushinteger(lua, (lua_Integer)ps_draw_u64(key, index));
    return 1;
}

static const luaL_Reg functions[] = {
    {"fill", vec_fill}, {"range", vec_range}, {"of", vec_of},         {"draw", vec_draw},
    {"key", vec_key},   {"f32", vec_f32},     {"normal", vec_normal}, {NULL, NULL},
};

static const luaL_Reg methods[] = {
    {"clip", vector_clip},
    {"axpy", vector_axpy},
    {"map", vector_map},
    {"sum", vector_sum},
    {"dot", vector_dot},
    {"sum_abs", vector_sum_abs},
    {"max_abs", vector_max_abs},
    {"argmax", vector_argmax},
    {"finite", vector_finite},
    {"part", vector_part},
    {"sum_square", vector_sum_square},
    {NULL, NULL},
};

static void add_operator(lua_State *lua, const char *event, const char *method)
{
    lua_getfield(lua, -1, method);
    lua_setfield(lua, -3, event);
}

void ps_vector_open(lua_State *lua)
{
    ps_type_new(lua, ps_type_vector);
    lua_newtable(lua);
    luaL_setfuncs(lua, methods, 0);
    for (size_t i = 0; i < sizeof binaries / sizeof binaries[0]; i++) {
        lua_pushinteger(lua, (lua_Integer)i);
        lua_pushcclosure(lua, call_binary, 1);
        lua_setfield(lua, -2, binaries[i].name);
    }
    for (size_t i = 0; i < sizeof unaries / sizeof unaries[0]; i++) {
        lua_pushinteger(lua, (lua_Integer)i);
        lua_pushcclosure(lua, call_unary, 1);
        lua_setfield(lua, -2, unaries[i].name);
    }
    add_operator(lua, "__add", "add");
    add_operator(lua, "__sub", "sub");
    add_operator(lua, "__mul", "mul");
    add_operator(lua, "__div", "div");
    add_operator(lua, "__unm", "neg");
    lua_pushvalue(lua, -1);
    lua_setfield(lua, LUA_REGISTRYINDEX, "vector methods"); /* pick.c adds to them */
    lua_pushcclosure(lua, vector_index, 1);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, vector_length);
    lua_setfield(lua, -2, "__len");
    lua_pop(lua, 1);
    luaL_newlib(lua, functions);
}
