/* SPDX-License-Identifier: Apache-2.0 */
/* lua_program.c - see lua_program.h. */
#include "tests/support/lua_program.h"

#include "common/base/draw.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct writer {
    const uint8_t *choices;
    size_t count, at;
    char *text;
    size_t n;
} writer;

static unsigned choose(writer *w, unsigned among)
{
    unsigned c = w->at < w->count ? w->choices[w->at] : 0;

    w->at++;
    return c % among;
}

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *fmt, ...)
{
    size_t room = LUA_PROGRAM_ROOM - w->n;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(w->text + w->n, room, fmt, ap);
    va_end(ap);
    w->n += (size_t)n < room ? (size_t)n : room - 1;
}

/* Returns one of the texts, which end with NULL. */
static const char *one_of(writer *w, const char *const *texts)
{
    unsigned n = 0;

    while (texts[n] != NULL) {
        n++;
    }
    return texts[choose(w, n)];
}

static const char *const numbers[] = {"0",
                                      "1",
                                      "-1",
                                      "2",
                                      "3",
                                      "7",
                                      "8",
                                      "15",
                                      "16",
                                      "17",
                                      "63",
                                      "64",
                                      "65",
                                      "127",
                                      "128",
                                      "255",
                                      "256",
                                      "4095",
                                      "4096",
                                      "16383",
                                      "16384",
                                      "16385",
                                      "65535",
                                      "65536",
                                      "1048575",
                                      "1048576",
                                      "0.5",
                                      "-0.0",
                                      "1.5",
                                      "1e-45",
                                      "1e-38",
                                      "3.4e38",
                                      "1e39",
                                      "1e300",
                                      "-1e300",
                                      "1e-320",
                                      "0/0",
                                      "-(0/0)",
                                      "1/0",
                                      "-1/0",
                                      "math.huge",
                                      "math.pi",
                                      "math.maxinteger",
                                      "math.mininteger",
                                      "2^53",
                                      "2^31",
                                      "1<<31",
                                      "1<<32",
                                      "0x7fffffff",
                                      "0xffffffff",
                                      "700",
                                      "701",
                                      "#x",
                                      "n",
                                      "key",
                                      NULL};
static const char *const strings[] = {
    "''",         "'x'",           "'abc'",    "'%d'",           "'%s%q'",
    "'%5.1f%%'",  "'.'",           "'.-'",     "'[%w_]+'",       "'%b()'",
    "'%f[%a]'",   "'(a)(b?)'",     "'^x*$'",   "('x'):rep(100)", "('ab'):rep(50, ',')",
    "'\\0\\255'", "'\\u{10FFFF}'", "[[long]]", "'nan'",          "'0x1p4'",
    "'%g %i %c'", "'%a'",          "'[^'",     "'%1'",           NULL};
static const char *const names[] = {"a", "b", "c", "d", "x",  "p", "key", "out", "inn",
                                    "n", "t", "v", "q", "at", "s", "f",   NULL};
static const char *const functions[] = {"assert",
                                        "error",
                                        "ipairs",
                                        "pairs",
                                        "rawequal",
                                        "rawlen",
                                        "select",
                                        "tonumber",
                                        "tostring",
                                        "type",
                                        "math.abs",
                                        "math.ceil",
                                        "math.floor",
                                        "math.fmod",
                                        "math.max",
                                        "math.min",
                                        "math.modf",
                                        "math.sqrt",
                                        "math.tan",
                                        "math.tointeger",
                                        "math.type",
                                        "math.ult",
                                        "math.log",
                                        "math.exp",
                                        "math.pow",
                                        "string.byte",
                                        "string.char",
                                        "string.find",
                                        "string.gmatch",
                                        "string.gsub",
                                        "string.len",
                                        "string.lower",
                                        "string.match",
                                        "string.rep",
                                        "string.reverse",
                                        "string.sub",
                                        "string.upper",
                                        "string.format",
                                        "table.concat",
                                        "table.insert",
                                        "table.move",
                                        "table.pack",
                                        "table.remove",
                                        "table.sort",
                                        "table.unpack",
                                        "vec.fill",
                                        "vec.range",
                                        "vec.of",
                                        "vec.draw",
                                        "vec.key",
                                        "vec.f32",
                                        "vec.normal",
                                        "f",
                                        NULL};
static const char *const methods[] = {
    "clip",   "axpy",     "map",        "sum",     "dot",    "sum_abs", "max_abs", "argmax",
    "finite", "part",     "sum_square", "add",     "sub",    "mul",     "div",     "min",
    "max",    "is_above", "abs",        "neg",     "sign",   "square",  "sqrt",    "floor",
    "round",  "exp",      "log",        "largest", "above",  "gather",  "levels",  "scatter",
    "grid",   "grid_fit", "rep",        "sub",     "format", "gsub",    "byte",    NULL};
static const char *const reads[] = {"f32",     "floats", "halves", "signs", "positions", "codes",
                                    "huffman", "u8",     "u16",    "u32",   "sparse",    NULL};
static const char *const binaries[] = {"+",  "-",  "*", "/",  "//", "%",  "^",   "..",
                                       "==", "~=", "<", "<=", ">",  ">=", "and", "or",
                                       "&",  "|",  "~", "<<", ">>", NULL};
/* Expressions such as a codec would have, with arguments of the right types. */
static const char *const plausible[] = {"x:largest(%s)",
                                        "x:above(%s)",
                                        "x:levels(%s, %s, %s)",
                                        "x:grid(%s, {0.5, 1, 2})",
                                        "x:grid(%s, {%s, %s}, %s)",
                                        "x:gather(at)",
                                        "x:gather(at):scatter(at, %s)",
                                        "q:levels(%s, %s)",
                                        "q:grid(%s, {%s, 3})",
                                        "x:part(%s, %s)",
                                        "x:clip(%s, %s)",
                                        "x:axpy(%s, v)",
                                        "x:dot(v)",
                                        "x:finite()",
                                        "out:floats(x)",
                                        "out:halves(v)",
                                        "out:signs(x)",
                                        "out:positions(at, %s)",
                                        "out:sparse(x, at)",
                                        "out:codes(q, %s)",
                                        "out:huffman(q, %s, %s)",
                                        "out:u8(%s)",
                                        "out:u32(%s)",
                                        "out:f32(%s)",
                                        "inn:floats(%s)",
                                        "inn:halves(%s)",
                                        "inn:signs(%s, %s, %s)",
                                        "inn:positions(%s, %s)",
                                        "inn:sparse(%s)",
                                        "inn:codes(%s, %s)",
                                        "inn:huffman(%s, %s)",
                                        "inn:u16()",
                                        "vec.fill(%s, %s)",
                                        "vec.draw(%s, %s)",
                                        "vec.normal(%s, %s)",
                                        "x[%s]",
                                        "#x",
                                        "#q",
                                        "#at",
                                        "#out",
                                        "#inn",
                                        "x + v",
                                        "x * %s",
                                        "%s / x",
                                        "-x",
                                        "x:map(function(y) return y * %s end)",
                                        "x:map(f)",
                                        "x:exp():log()",
                                        "x:max_abs()",
                                        "(x * %s):sum()",
                                        NULL};
static const char *const declarations[] = {"local v = vec.normal(%s, 64)",
                                           "local q = x:levels(2, 7, %s)",
                                           "local at = x:largest(%s)",
                                           "local t = {%s, %s, %s}",
                                           "local t = {[%s] = 1, k = %s}",
                                           "local s = ('ab'):rep(%s)",
                                           "local a, y <const> = %s, %s",
                                           "local f = function(...) return %s, ... end",
                                           "local x = vec.normal(1, %s)",
                                           "local z <close> = nil",
                                           NULL};

static void expression(writer *w, unsigned depth);

static void arguments(writer *w, unsigned depth)
{
    unsigned n = choose(w, 5);

    for (unsigned i = 0; i < n; i++) {
        put(w, "%s", i > 0 ? ", " : "");
        expression(w, depth + 1);
    }
}

/* Writes a pattern, and for each %s in it a random number or expression. */
static void filled(writer *w, const char *pattern, unsigned depth)
{
    for (const char *at = pattern; *at != '\0'; at++) {
        if (at[0] == '%' && at[1] == 's') {
            if (choose(w, 6) == 0) {
                expression(w, depth + 1);
            } else {
                put(w, "%s", one_of(w, numbers));
            }
            at++;
        } else {
            put(w, "%c", *at);
        }
    }
}

static void block(writer *w, unsigned depth);

static void expression(writer *w, unsigned depth)
{
    if (depth > 6) {
        put(w, "%s", one_of(w, numbers));
        return;
    }
    switch (choose(w, 12)) {
    case 0:
        put(w, "%s", one_of(w, numbers));
        break;
    case 1:
        put(w, "%s", one_of(w, strings));
        break;
    case 2:
        put(w, "%s", one_of(w, names));
        break;
    case 3:
        put(w, "%s(", one_of(w, functions));
        arguments(w, depth);
        put(w, ")");
        break;
    case 4:
        put(w, "(");
        expression(w, depth + 1);
        put(w, "):%s(", one_of(w, choose(w, 3) == 0 ? reads : methods));
        arguments(w, depth);
        put(w, ")");
        break;
    case 5:
        put(w, "(");
        expression(w, depth + 1);
        put(w, " %s ", one_of(w, binaries));
        expression(w, depth + 1);
        put(w, ")");
        break;
    case 6:
        put(w, "%s(", choose(w, 2) == 0 ? "not " : choose(w, 2) == 0 ? "-" : "#");
        expression(w, depth + 1);
        put(w, ")");
        break;
    case 7:
        put(w, "{");
        arguments(w, depth);
        put(w, "}");
        break;
    case 8:
        put(w, "function(a, ...) ");
        block(w, depth + 2);
        put(w, " end");
        break;
    default:
        filled(w, one_of(w, plausible), depth);
    }
}

static void statement(writer *w, unsigned depth)
{
    bool is_loop;
    size_t label;

    switch (choose(w, 12)) {
    case 0:
        put(w, "if ");
        expression(w, depth + 1);
        put(w, " then ");
        block(w, depth + 1);
        put(w, choose(w, 2) == 0 ? " else " : " elseif n then ");
        block(w, depth + 1);
        put(w, " end ");
        break;
    case 1:
        put(w, "for a = ");
        expression(w, depth + 1);
        put(w, ", %s do ", one_of(w, numbers));
        block(w, depth + 1);
        put(w, " end ");
        break;
    case 2:
        put(w, "for k, a in %s(", choose(w, 3) == 0 ? "ipairs" : "pairs");
        expression(w, depth + 1);
        put(w, ") do ");
        block(w, depth + 1);
        put(w, " end ");
        break;
    case 3:
        is_loop = choose(w, 2) == 0;
        label = w->n;
        put(w, is_loop ? "repeat " : "do ::l%zu:: ", label);
        block(w, depth + 1);
        put(w,
            is_loop             ? " break until n "
            : choose(w, 4) == 0 ? " goto l%zu end "
                                : " end ",
            label);
        break;
    case 4:
        put(w, "%s = ", one_of(w, names));
        expression(w, depth + 1);
        put(w, " ");
        break;
    case 5:
        put(w, "t[");
        expression(w, depth + 1);
        put(w, "] = ");
        expression(w, depth + 1);
        put(w, " ");
        break;
    case 6:
    case 7:
        filled(w, one_of(w, declarations), depth);
        put(w, " ");
        break;
    default:
        put(w, "local %s = ", one_of(w, names));
        expression(w, depth);
        put(w, " ");
    }
}

static void block(writer *w, unsigned depth)
{
    unsigned n = depth > 5 ? 0 : 1 + choose(w, 4);

    for (unsigned i = 0; i < n; i++) {
        statement(w, depth + 1);
    }
    if (choose(w, 4) == 0) {
        put(w, "do return ");
        expression(w, depth + 1);
        put(w, " end ");
    }
}

static void codec(writer *w)
{
    put(w, "local f = function(a) return a end local a, b, c, d, s = 1, 2, {}, 'd', 'string' "
           "local t = {3, 1, 2, k = 1} local v, inn, n = vec.range(64), nil, 64 "
           "return {kind = 'codec', name = 'a', encode = function(x, p, key, out) "
           "local q, at = x:levels(2, 7), x:largest(9) ");
    block(w, 0);
    put(w,
        " out:floats(x) end, decode = function(inn, n) "
        "local x, out, key = vec.normal(1, n), nil, 5 local q, at = x:levels(2, 7), x:above(1) ");
    block(w, 0);
    put(w, " return ");
    expression(w, 0);
    put(w, " end}");
}

/* Changes, removes or repeats a few bytes of the program. */
static void damage(writer *w)
{
    unsigned times = 1 + choose(w, 4);

    for (unsigned i = 0; i < times && w->n > 8; i++) {
        size_t at = (choose(w, 256) * 256 + choose(w, 256)) % (w->n - 4), len = 1 + choose(w, 40);

        switch (choose(w, 3)) {
        case 0:
            w->text[at] = (char)choose(w, 256);
            break;
        case 1:
            len = len < w->n - at ? len : w->n - at;
            memmove(w->text + at, w->text + at + len, w->n - at - len);
            w->n -= len;
            break;
        default:
            len = len < w->n - at ? len : w->n - at;
            if (w->n + len < LUA_PROGRAM_ROOM) {
                memmove(w->text + at + len, w->text + at, w->n - at);
                w->n += len;
            }
        }
    }
}

size_t lua_program(const uint8_t *choices, size_t n, char *text)
{
    writer w = {.choices = choices, .count = n, .text = text};
    unsigned kind = choose(&w, 8);

    if (kind == 0) {
        put(&w, "local x, p, key, out, inn, n, t = vec.range(9), {}, 7, nil, nil, 9, {} ");
        block(&w, 0);
    } else {
        codec(&w);
    }
    if (kind == 1) {
        damage(&w);
    }
    return w.n;
}

size_t lua_program_of_seed(uint64_t seed, char *text)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_TEST, 0, 0, 0);
    uint8_t choices[LUA_PROGRAM_CHOICES];

    for (size_t i = 0; i < sizeof choices; i++) {
        choices[i] = (uint8_t)(ps_draw_u64(key, i) >> 40);
    }
    return lua_program(choices, sizeof choices, text);
}
