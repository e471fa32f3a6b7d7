/* SPDX-License-Identifier: Apache-2.0 */
/* bytes_io.c - the bytes of an encoding in Lua: a writer appends them, a reader takes them in the
 * same order. Numbers are little-endian. */
#include "common/base/bytes.h"
#include "common/codec/bitpack.h"
#include "common/codec/codec_type.h"
#include "common/codec/huffman.h"
#include "common/codec/kernels.h"
#include "common/codec/sparse.h"
#include "common/sandbox/values.h"

#include <lauxlib.h>
#include <math.h>
#include <string.h>

const char ps_type_reader[] = "reader", ps_type_writer[] = "writer";

void ps_reader_new(lua_State *lua, const uint8_t *p, size_t n)
{
    ps_reader *r = ps_value_new(lua, ps_type_reader, sizeof *r, 0);

    *r = (ps_reader){.type = r->type, .p = p, .n = n};
}

ps_writer *ps_writer_new(lua_State *lua, uint8_t *p, size_t room)
{
    ps_writer *w = ps_value_new(lua, ps_type_writer, sizeof *w, 0);

    *w = (ps_writer){.type = w->type, .p = p, .room = room};
    return w;
}

/* Returns where the next n bytes are; raises an error if there are fewer. */
static const uint8_t *take(lua_State *lua, size_t n)
{
    ps_reader *r = ps_value_at(lua, 1, ps_type_reader);

    if (n > r->n - r->at) {
        luaL_error(lua, "%I bytes are read where %I are left", (lua_Integer)n,
                   (lua_Integer)(r->n - r->at));
    }
    r->at += n;
    return r->p + r->at - n;
}

static uint8_t *append(lua_State *lua, size_t n)
{
    ps_writer *w = ps_value_at(lua, 1, ps_type_writer);

    if (n > w->room - w->n) {
        luaL_error(lua,
                   "more than %I bytes are written; `bits` of the plugin says how many are allowed",
                   (lua_Integer)w->room);
    }
    w->n += n;
    return w->p + w->n - n;
}

/* ---- Numbers ---- */

static int write_f32(lua_State *lua)
{
    float x = (float)luaL_checknumber(lua, 2);

    x = isnan(x) ? NAN : x;
    memcpy(append(lua, sizeof x), &x, sizeof x);
    return 0;
}

static int read_f32(lua_State *lua)
{
    float x;

    memcpy(&x, take(lua, sizeof x), sizeof x);
    ps_push_settled(lua, (double)x);
    return 1;
}

/* Writes an integer of 1, 2 or 4 bytes; the closure's upvalue is that number of bytes. */
static int write_integer(lua_State *lua)
{
    size_t bytes = (size_t)lua_tointeger(lua, lua_upvalueindex(1));
    size_t x = ps_count_at(lua, 2, bytes == 4 ? UINT32_MAX : (1u << (8 * bytes)) - 1);
    uint8_t all[4];

    ps_put_u32(all, (uint32_t)x);
    memcpy(append(lua, bytes), all, bytes);
    return 0;
}

static int read_integer(lua_State *lua)
{
    size_t bytes = (size_t)lua_tointeger(lua, lua_upvalueindex(1));
    uint8_t all[4] = {0};

    memcpy(all, take(lua, bytes), bytes);
    lua_pushinteger(lua, (lua_Integer)ps_get_u32(all));
    return 1;
}

/* ---- Vectors ---- */

static int write_floats(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 2);
    const float *p = ps_vector_settled(lua, x);

    memcpy(append(lua, x->n * sizeof(float)), p, x->n * sizeof(float));
    return 0;
}

static int read_floats(lua_State *lua)
{
    size_t n = ps_count_at(lua, 2, PS_VECTOR_VALUES);
    const uint8_t *in = take(lua, n * sizeof(float));

    memcpy(ps_vector_new(lua, n), in, n * sizeof(float));
    return 1;
}

static int write_halves(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 2);

    ps_kernels_best()->f16_encode(ps_vector_settled(lua, x), append(lua, 2 * x->n), x->n);
    return 0;
}

static int read_halves(lua_State *lua)
{
    size_t n = ps_count_at(lua, 2, PS_VECTOR_VALUES);
    const uint8_t *in = take(lua, 2 * n);

    ps_kernels_best()->f16_set(in, ps_vector_new(lua, n), n);
    return 1;
}

static int write_signs(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 2);

    ps_kernels_best()->signs_pack(ps_vector_settled(lua, x), append(lua, (x->n + 7) / 8), x->n);
    return 0;
}

/* in:signs(n, plus, minus): pushes n values, `minus` where the sign bit was set, else `plus`. */
static int read_signs(lua_State *lua)
{
    size_t n = ps_count_at(lua, 2, PS_VECTOR_VALUES);
    float plus = (float)luaL_checknumber(lua, 3), minus = (float)luaL_checknumber(lua, 4);
    const uint8_t *in = take(lua, (n + 7) / 8);

    ps_kernels_best()->signs_set(in, plus, minus, ps_vector_new(lua, n), n);
    return 1;
}

/* ---- Positions ---- */

/* out:positions(at, n): writes positions below n, packed or as a bitmap, whichever is shorter. */
static int write_positions(lua_State *lua)
{
    const ps_positions *at = ps_positions_at(lua, 2);
    size_t n = ps_count_at(lua, 3, PS_CODEC_VALUES);

    luaL_argcheck(lua, at->n <= n && (at->n == 0 || at->p[at->n - 1] < n), 3,
                  "is not above all positions");
    (void)ps_positions_write(at->p, n, at->n, append(lua, ps_positions_bytes(n, at->n)));
    return 0;
}

/* in:positions(k, n): reads and pushes k positions below n. */
static int read_positions(lua_State *lua)
{
    size_t n = ps_count_at(lua, 3, PS_CODEC_VALUES), k = ps_count_at(lua, 2, n);
    const uint8_t *in = take(lua, ps_positions_bytes(n, k));
    uint16_t room[PS_CODEC_VALUES];

    if (!ps_positions_read(in, n, k, room)) {
        return luaL_error(lua, "these bytes are not %I ascending positions below %I",
                          (lua_Integer)k, (lua_Integer)n);
    }
    memcpy(ps_positions_new(lua, k), room, k * sizeof room[0]);
    return 1;
}

/* out:sparse(x, at): writes the number of positions, in two bytes, the positions as write_positions
 * does, and the values of x there. */
static int write_sparse(lua_State *lua)
{
    const ps_vector *x = ps_vector_at(lua, 2);
    const ps_positions *at = ps_positions_at(lua, 3);
    uint8_t *out;

    luaL_argcheck(lua, x->n <= PS_CODEC_VALUES, 2, "has more than 16384 values");
    luaL_argcheck(lua, at->n == 0 || at->p[at->n - 1] < x->n, 3, "has a position behind the end");
    out = append(lua, 2 + ps_sparse_bytes(x->n, at->n));
    out[0] = (uint8_t)at->n;
    out[1] = (uint8_t)(at->n >> 8);
    out += 2 + ps_positions_write(at->p, x->n, at->n, out + 2);
    for (size_t i = 0; i < at->n; i++) {
        float value = x->p[at->p[i]];

        value = isnan(value) ? NAN : value;
        memcpy(out + i * sizeof value, &value, sizeof value);
    }
    return 0;
}

/* in:sparse(n): reads what write_sparse has written; pushes n values, 0 but for those. */
static int read_sparse(lua_State *lua)
{
    size_t n = ps_count_at(lua, 2, PS_CODEC_VALUES);
    const uint8_t *in = take(lua, 2);
    size_t k = in[0] | (size_t)in[1] << 8;
    uint16_t room[PS_CODEC_VALUES];

    if (k > n || !ps_positions_read(take(lua, ps_positions_bytes(n, k)), n, k, room)) {
        return luaL_error(lua, "these bytes are not %I ascending positions below %I",
                          (lua_Integer)k, (lua_Integer)n);
    }
    in = take(lua, k * sizeof(float));
    ps_vector_scatter(lua, in, room, k, n);
    return 1;
}

/* ---- Codes ---- */

static unsigned bits_at(lua_State *lua, int index)
{
    lua_Integer bits = luaL_checkinteger(lua, index);

    luaL_argcheck(lua, bits >= 1 && bits <= 8, index, "is not a number of bits from 1 to 8");
    return (unsigned)bits;
}

/* out:codes(codes, bits): writes each code in so many bits. */
static int write_codes(lua_State *lua)
{
    const ps_codes *codes = ps_codes_at(lua, 2);
    unsigned bits = bits_at(lua, 3);

    luaL_argcheck(lua, ps_codes_most(codes) >> bits == 0, 3, "is too few bits for the codes");
    ps_pack8(codes->p, codes->n, bits, append(lua, ps_pack_bytes(codes->n, bits)));
    return 0;
}

static int read_codes(lua_State *lua)
{
    size_t n = ps_count_at(lua, 2, PS_CODEC_VALUES);
    unsigned bits = bits_at(lua, 3);
    const uint8_t *in = take(lua, ps_pack_bytes(n, bits));

    ps_unpack8(in, n, bits, ps_codes_new(lua, n));
    return 1;
}

/* out:huffman(codes, symbols, room): codes below `symbols` by Huffman codes, if those take less
 * than `room` bytes. Pushes whether they do; else nothing is written. */
static int write_huffman(lua_State *lua)
{
    const ps_codes *codes = ps_codes_at(lua, 2);
    unsigned symbols = (unsigned)ps_count_at(lua, 3, PS_HUFFMAN_SYMBOLS);
    size_t room = ps_count_at(lua, 4, PS_CODEC_VALUES), bytes = 0;
    uint8_t out[PS_CODEC_VALUES];

    luaL_argcheck(lua, codes->n == 0 || ps_codes_most(codes) < symbols, 3,
                  "is not above all codes");
    if (codes->n > 0) {
        bytes = ps_huffman_write(codes->p, codes->n, symbols, out, room);
    }
    if (bytes > 0) {
        memcpy(append(lua, bytes), out, bytes);
    }
    lua_pushboolean(lua, bytes > 0);
    return 1;
}

/* in:huffman(n, symbols): pushes n codes, which take all bytes that are left. */
static int read_huffman(lua_State *lua)
{
    ps_reader *r = ps_value_at(lua, 1, ps_type_reader);
    size_t n = ps_count_at(lua, 2, PS_CODEC_VALUES), len = r->n - r->at;
    unsigned symbols = (unsigned)ps_count_at(lua, 3, PS_HUFFMAN_SYMBOLS);
    const uint8_t *in = take(lua, len);

    if (!ps_huffman_read(in, len, symbols, ps_codes_new(lua, n), n)) {
        return luaL_error(lua, "these %I bytes are not Huffman codes of %I values",
                          (lua_Integer)len, (lua_Integer)n);
    }
    return 1;
}

/* Pushes the number of bytes that are left to read. */
static int reader_length(lua_State *lua)
{
    const ps_reader *r = ps_value_at(lua, 1, ps_type_reader);

    lua_pushinteger(lua, (lua_Integer)(r->n - r->at));
    return 1;
}

static int writer_length(lua_State *lua)
{
    const ps_writer *w = ps_value_at(lua, 1, ps_type_writer);

    lua_pushinteger(lua, (lua_Integer)w->n);
    return 1;
}

static const luaL_Reg reads[] = {
    {"f32", read_f32},     {"floats", read_floats},       {"halves", read_halves},
    {"signs", read_signs}, {"positions", read_positions}, {"sparse", read_sparse},
    {"codes", read_codes}, {"huffman", read_huffman},     {NULL, NULL},
};
static const luaL_Reg writes[] = {
    {"f32", write_f32},     {"floats", write_floats},       {"halves", write_halves},
    {"signs", write_signs}, {"positions", write_positions}, {"sparse", write_sparse},
    {"codes", write_codes}, {"huffman", write_huffman},     {NULL, NULL},
};
static const luaL_Reg reader_events[] = {{"__len", reader_length}, {NULL, NULL}};
static const luaL_Reg writer_events[] = {{"__len", writer_length}, {NULL, NULL}};

/* Adds u8, u16 and u32 to the methods of a type. */
static void add_integers(lua_State *lua, const char *type, lua_CFunction fn)
{
    static const struct {
        const char *name;
        int bytes;
    } integers[] = {{"u8", 1}, {"u16", 2}, {"u32", 4}};

    luaL_getmetatable(lua, type);
    lua_getfield(lua, -1, "__index");
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        lua_pushinteger(lua, integers[i].bytes);
        lua_pushcclosure(lua, fn, 1);
        lua_setfield(lua, -2, integers[i].name);
    }
    lua_pop(lua, 2);
}

void ps_bytes_open(lua_State *lua)
{
    ps_type_open(lua, ps_type_reader, reads, reader_events);
    ps_type_open(lua, ps_type_writer, writes, writer_events);
    add_integers(lua, ps_type_reader, read_integer);
    add_integers(lua, ps_type_writer, write_integer);
}
