/* SPDX-License-Identifier: Apache-2.0 */
/* pick.c - positions and codes in Lua: which values of a slice are sent, and small numbers that
 * stand for values. Uses the loops of the built-in codecs, so a codec in Lua can give the same
 * values as a built-in one. */
#include "common/base/clones.h"
#include "common/codec/codec_type.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/codec/largest.h"
#include "common/sandbox/values.h"
#include "common/script/sandbox_protocol.h"

#include <lauxlib.h>
#include <math.h>
#include <string.h>

enum { LEVELS_MAX = 127, PICK_MAX = 65536 };

const char ps_type_positions[] = "positions", ps_type_codes[] = "codes";

uint16_t *ps_positions_new(lua_State *lua, size_t n)
{
    ps_positions *v;

    if (n > PICK_MAX) {
        luaL_error(lua, "%I positions; at most %d are allowed", (lua_Integer)n, PICK_MAX);
    }
    v = ps_value_new(lua, ps_type_positions, sizeof *v + n * sizeof v->p[0], 0);
    v->n = n;
    return v->p;
}

uint8_t *ps_codes_new(lua_State *lua, size_t n)
{
    ps_codes *v;

    if (n > PICK_MAX) {
        luaL_error(lua, "%I codes; at most %d are allowed", (lua_Integer)n, PICK_MAX);
    }
    v = ps_value_new(lua, ps_type_codes, sizeof *v + n, 0);
    v->n = n;
    return v->p;
}

const ps_positions *ps_positions_at(lua_State *lua, int index)
{
    return ps_value_at(lua, index, ps_type_positions);
}

const ps_codes *ps_codes_at(lua_State *lua, int index)
{
    return ps_value_at(lua, index, ps_type_codes);
}

PS_CLONES(largest_code, (p, n, most), const uint8_t *restrict p, size_t n, uint8_t *restrict most)
{
    uint8_t so_far = 0;

    for (size_t i = 0; i < n; i++) {
        so_far = p[i] > so_far ? p[i] : so_far;
    }
    *most = so_far;
}

uint8_t ps_codes_most(const ps_codes *codes)
{
    uint8_t most;

    largest_code(codes->p, codes->n, &most);
    return most;
}

/* Returns the vector at `index`. Raises an error if it has more than PS_CODEC_VALUES values, which
 * positions and codes cannot name. */
static const ps_vector *slice_at(lua_State *lua, int index)
{
    const ps_vector *x = ps_vector_at(lua, index);

    luaL_argcheck(lua, x->n <= PS_CODEC_VALUES, index, "has more than 16384 values");
    return x;
}

/* ---- Positions ---- */

/* Returns whether one of the values at the positions (k) is NaN. */
static bool has_nan(const float *x, const uint16_t *positions, size_t k)
{
    bool has = false;

    for (size_t i = 0; i < k; i++) {
        has |= isnan(x[positions[i]]);
    }
    return has;
}

/* x:largest(k): pushes the positions of the k largest magnitudes; of equal ones the first. */
static int vector_largest(lua_State *lua)
{
    const ps_vector *x = slice_at(lua, 1);
    size_t k = ps_count_at(lua, 2, x->n);
    uint16_t room[PS_CODEC_VALUES];

    if (k > 0) {
        ps_choose_largest(x->p, x->n, k, room);
        /* NaN are the largest, so if there is one, it was chosen; which of them depends on bits
         * that are not the same on every processor */
        if (has_nan(x->p, room, k)) {
            ps_choose_largest(ps_vector_settled(lua, x), x->n, k, room);
        }
    }
    memcpy(ps_positions_new(lua, k), room, k * sizeof room[0]);
    return 1;
}

/* x:above(least): pushes the positions of the magnitudes that are `least` or more; least > 0. */
static int vector_above(lua_State *lua)
{
    const ps_vector *x = slice_at(lua, 1);
    float least = (float)luaL_checknumber(lua, 2);
    uint16_t room[PS_CODEC_VALUES];
    uint32_t bits;
    size_t k;

    luaL_argcheck(lua, least > 0, 2, "is not above 0");
    memcpy(&bits, &least, sizeof bits);
    k = ps_kernels_best()->above(ps_vector_settled(lua, x), bits, room, x->n);
    memcpy(ps_positions_new(lua, k), room, k * sizeof room[0]);
    return 1;
}

/* x:gather(positions): pushes the values of x at the positions. */
static int vector_gather(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1);
    const ps_positions *at = ps_positions_at(lua, 2);
    float *z = ps_vector_new(lua, at->n);

    for (size_t i = 0; i < at->n; i++) {
        luaL_argcheck(lua, at->p[i] < x->n, 2, "has a position behind the vector's end");
        z[i] = x->p[at->p[i]];
    }
    return 1;
}

/* x:scatter(positions, n): pushes n values, those of x at the positions and 0 elsewhere. */
static int vector_scatter(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 1);
    const ps_positions *at = ps_positions_at(lua, 2);
    size_t n = ps_count_at(lua, 3, PS_VECTOR_VALUES);

    luaL_argcheck(lua, x->n == at->n, 2, "has another length");
    luaL_argcheck(lua, at->n == 0 || at->p[at->n - 1] < n, 2, "has a position behind the end");
    ps_vector_scatter(lua, x->p, at->p, at->n, n);
    return 1;
}

static int positions_length(lua_State *lua)
{
    lua_pushinteger(lua, (lua_Integer)ps_positions_at(lua, 1)->n);
    return 1;
}

/* ---- Codes ---- */

/* Returns the argument at `index`, the inverse of a scale. Raises an error if a value of x times it
 * is not finite. */
static float inverse_at(lua_State *lua, int index, const ps_vector *x)
{
    float inverse = (float)luaL_checknumber(lua, index);
    uint32_t bits = ps_vector_largest(x);
    float most;

    memcpy(&most, &bits, sizeof most);
    luaL_argcheck(lua, isfinite(most) && isfinite(most * inverse), index,
                  "times the largest magnitude is not finite; x:finite() is for such slices");
    return inverse;
}

/* x:levels(inverse, limit, key): pushes codes q + limit, where q is the integer nearest to x *
 * inverse within +-limit; with a key it is drawn from the two neighbours so that the mean is
 * right. */
static int vector_levels(lua_State *lua)
{
    const ps_vector *x = slice_at(lua, 1);
    float inverse = inverse_at(lua, 2, x);
    uint32_t limit = (uint32_t)ps_count_at(lua, 3, LEVELS_MAX);
    bool draws = !lua_isnoneornil(lua, 4);
    uint32_t key = draws ? ps_key32((uint64_t)luaL_checkinteger(lua, 4)) : 0;
    uint8_t *codes = ps_codes_new(lua, x->n);

    if (draws) {
        ps_kernels_best()->levels8(x->p, inverse, limit, key, 0, codes, x->n);
    } else {
        ps_kernels_best()->nearest8(x->p, inverse, limit, codes, x->n);
    }
    return 1;
}

/* A grid: level[0] is 0, level[1] to level[top] are those of an ascending table in Lua, and
 * level[top + 1] repeats the last. edges[k] is halfway between level[k - 1] and level[k]. */
typedef struct grid {
    uint32_t top;
    float level[LEVELS_MAX + 2], edges[LEVELS_MAX + 2];
} grid;

static void grid_at(lua_State *lua, int index, grid *g)
{
    size_t n;

    luaL_checktype(lua, index, LUA_TTABLE);
    n = (size_t)lua_rawlen(lua, index);
    luaL_argcheck(lua, n >= 1 && n <= LEVELS_MAX, index, "has no levels, or more than 127");
    *g = (grid){.top = (uint32_t)n};
    for (size_t k = 1; k <= n; k++) {
        lua_rawgeti(lua, index, (lua_Integer)k);
        g->level[k] = (float)luaL_checknumber(lua, -1);
        lua_pop(lua, 1);
        luaL_argcheck(lua, g->level[k] > g->level[k - 1] && isfinite(g->level[k]), index,
                      "has levels that do not ascend from above 0");
        g->edges[k] = g->level[k - 1] / 2 + g->level[k] / 2;
    }
    g->level[n + 1] = g->level[n];
}

/* x:grid(inverse, levels, key): pushes codes #levels +- k by the sign of x, where level k is
 * nearest to |x| * inverse; with a key it is drawn from the two neighbours so that the mean is
 * right. */
static int vector_grid(lua_State *lua)
{
    const ps_vector *x = slice_at(lua, 1);
    float inverse = inverse_at(lua, 2, x);
    bool draws = !lua_isnoneornil(lua, 4);
    uint32_t key = draws ? ps_key32((uint64_t)luaL_checkinteger(lua, 4)) : 0;
    uint8_t *codes;
    grid g;

    grid_at(lua, 3, &g);
    codes = ps_codes_new(lua, x->n);
    if (draws) {
        ps_kernels_best()->grid_drawn(x->p, inverse, g.level, g.top, key, codes, x->n);
    } else {
        ps_kernels_best()->grid_nearest(x->p, inverse, g.edges, g.top, codes, x->n);
    }
    return 1;
}

/* x:grid_fit(inverse, levels): pushes sum(|x| b) and sum(b b) for the levels b nearest to |x| *
 * inverse, over the values that ps_fit_stride selects. */
static int vector_grid_fit(lua_State *lua)
{
    const ps_vector *x = slice_at(lua, 1);
    float inverse = inverse_at(lua, 2, x);
    double sums[2];
    grid g;

    grid_at(lua, 3, &g);
    ps_kernels_best()->grid_fit(x->p, inverse, g.edges, g.level, g.top, ps_fit_stride(x->n), sums,
                                x->n);
    lua_pushnumber(lua, sums[0]);
    lua_pushnumber(lua, sums[1]);
    return 2;
}

static int codes_length(lua_State *lua)
{
    lua_pushinteger(lua, (lua_Integer)ps_codes_at(lua, 1)->n);
    return 1;
}

/* codes:levels(limit, scale): pushes the values (code - limit) * scale. */
static int codes_levels(lua_State *lua)
{
    const ps_codes *codes = ps_codes_at(lua, 1);
    uint32_t limit = (uint32_t)ps_count_at(lua, 2, LEVELS_MAX);
    float scale = (float)luaL_checknumber(lua, 3);

    ps_kernels_best()->values8_set(codes->p, limit, scale, ps_vector_new(lua, codes->n), codes->n);
    return 1;
}

/* codes:grid(scale, levels): pushes the values that codes of x:grid stand for, times `scale`. A
 * code above 2 * #levels stands for the highest level. */
static int codes_grid(lua_State *lua)
{
    const ps_codes *codes = ps_codes_at(lua, 1);
    float scale = (float)luaL_checknumber(lua, 2), value[256], *z;
    grid g;

    grid_at(lua, 3, &g);
    for (uint32_t code = 0; code < 256; code++) {
        uint32_t c = code < 2 * g.top ? code : 2 * g.top;

        value[code] = c >= g.top ? g.level[c - g.top] * scale : -(g.level[g.top - c] * scale);
    }
    value[g.top] = 0.0f;
    z = ps_vector_new(lua, codes->n);
    ps_kernels_best()->lookup8_set(codes->p, value, ps_codes_most(codes) + 1u, z, codes->n);
    return 1;
}

static const luaL_Reg vector_methods[] = {
    {"largest", vector_largest},   {"above", vector_above},
    {"gather", vector_gather},     {"levels", vector_levels},
    {"scatter", vector_scatter},   {"grid", vector_grid},
    {"grid_fit", vector_grid_fit}, {NULL, NULL},
};
static const luaL_Reg position_methods[] = {{NULL, NULL}};
static const luaL_Reg position_events[] = {{"__len", positions_length}, {NULL, NULL}};
static const luaL_Reg code_methods[] = {
    {"levels", codes_levels}, {"grid", codes_grid}, {NULL, NULL}};
static const luaL_Reg code_events[] = {{"__len", codes_length}, {NULL, NULL}};

void ps_type_open(lua_State *lua, const char *name, const luaL_Reg *methods, const luaL_Reg *events)
{
    ps_type_new(lua, name);
    luaL_setfuncs(lua, events, 0);
    lua_newtable(lua);
    luaL_setfuncs(lua, methods, 0);
    lua_setfield(lua, -2, "__index");
    lua_pop(lua, 1);
}

void ps_pick_open(lua_State *lua)
{
    lua_getfield(lua, LUA_REGISTRYINDEX, "vector methods");
    luaL_setfuncs(lua, vector_methods, 0);
    lua_pop(lua, 1);
    ps_type_open(lua, ps_type_positions, position_methods, position_events);
    ps_type_open(lua, ps_type_codes, code_methods, code_events);
}
