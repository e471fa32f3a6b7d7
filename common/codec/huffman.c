/* SPDX-License-Identifier: Apache-2.0 */
/* huffman.c - see huffman.h. */
#include "common/codec/huffman.h"

#include "common/codec/kernels.h"

#include <assert.h>
#include <string.h>

enum { TABLE = 1 << PS_HUFFMAN_BITS };

/* ---- Lengths ---- */

/* A Huffman tree that is being built: the two lightest trees without a parent are joined until one
 * is left. Inner nodes are made in ascending weight, so the lightest is at the front of one of two
 * queues: the symbols by weight, and the inner nodes in the order of their making. */
typedef struct tree {
    unsigned count; /* number of symbols that occur */
    uint8_t symbol[PS_HUFFMAN_SYMBOLS];
    uint32_t weight[2 * PS_HUFFMAN_SYMBOLS];
    uint16_t parent[2 * PS_HUFFMAN_SYMBOLS];
} tree;

static void sort_symbols(tree *t, const uint32_t *counts, unsigned symbols)
{
    t->count = 0;
    for (unsigned s = 0; s < symbols; s++) {
        unsigned at = t->count;

        if (counts[s] == 0) {
            continue;
        }
        for (; at > 0 && t->weight[at - 1] > counts[s]; at--) {
            t->weight[at] = t->weight[at - 1];
            t->symbol[at] = t->symbol[at - 1];
        }
        t->weight[at] = counts[s];
        t->symbol[at] = (uint8_t)s;
        t->count++;
    }
}

static unsigned take_rarest(const tree *t, unsigned *leaf, unsigned *node, unsigned nodes)
{
    if (*leaf < t->count && (*node >= nodes || t->weight[*leaf] <= t->weight[*node])) {
        return (*leaf)++;
    }
    return (*node)++;
}

/* Writes the code length of each symbol; 0 for one that does not occur. Returns the longest. */
static unsigned lengths_of(const uint32_t *counts, unsigned symbols, uint8_t *lengths)
{
    tree t;
    unsigned leaf = 0, node, nodes, most = 0;
    uint8_t depth[2 * PS_HUFFMAN_SYMBOLS];

    sort_symbols(&t, counts, symbols);
    memset(lengths, 0, symbols);
    if (t.count == 1) {
        lengths[t.symbol[0]] = 1;
        return 1;
    }
    node = nodes = t.count;
    while (nodes < 2 * t.count - 1) {
        unsigned a = take_rarest(&t, &leaf, &node, nodes);
        unsigned b = take_rarest(&t, &leaf, &node, nodes);

        t.weight[nodes] = t.weight[a] + t.weight[b];
        t.parent[a] = t.parent[b] = (uint16_t)nodes++;
    }
    depth[nodes - 1] = 0;
    for (unsigned i = nodes - 1; i-- > 0;) {
        depth[i] = (uint8_t)(depth[t.parent[i]] + 1);
        if (i < t.count) {
            lengths[t.symbol[i]] = depth[i];
            most = depth[i] > most ? depth[i] : most;
        }
    }
    return most;
}

/* ---- Codes ---- */

static uint16_t reversed(unsigned code, unsigned bits)
{
    unsigned out = 0;

    for (unsigned i = 0; i < bits; i++) {
        out |= (code >> i & 1) << (bits - 1 - i);
    }
    return (uint16_t)out;
}

/* Computes the codes in the form that is written: the highest bit of a code is the lowest here. */
static void codes_of(const uint8_t *lengths, unsigned symbols, uint16_t *code)
{
    unsigned next[PS_HUFFMAN_BITS + 2] = {0}, count[PS_HUFFMAN_BITS + 1] = {0};

    for (unsigned s = 0; s < symbols; s++) {
        count[lengths[s]]++;
    }
    count[0] = 0;
    for (unsigned b = 1; b <= PS_HUFFMAN_BITS; b++) {
        next[b] = (next[b - 1] + count[b - 1]) << 1;
    }
    for (unsigned s = 0; s < symbols; s++) {
        code[s] = lengths[s] > 0 ? reversed(next[lengths[s]]++, lengths[s]) : 0;
    }
}

static size_t head_bytes(unsigned symbols)
{
    return (symbols + 1) / 2;
}

/* A symbol's code in the form that is written, and its length. */
typedef struct written {
    uint16_t code, length;
} written;

/* Writes the codes to out[0..bytes). */
static void write_codes(const uint8_t *codes, size_t n, const written *table, uint8_t *out,
                        size_t bytes)
{
    enum { TOGETHER = 5 }; /* codes of at most 55 bits, beside up to 7 bits left from before */
    const uint8_t *end = out + bytes;
    uint64_t word = 0;
    unsigned used = 0;
    size_t i = 0;

    for (; i + TOGETHER <= n && (size_t)(end - out) >= sizeof word; i += TOGETHER) {
        uint64_t some = 0;
        unsigned length = 0;

        for (size_t j = 0; j < TOGETHER; j++) {
            some |= (uint64_t)table[codes[i + j]].code << length;
            length += table[codes[i + j]].length;
        }
        word |= some << used;
        used += length;
        memcpy(out, &word, sizeof word);
        out += used / 8;
        word >>= used & ~7u;
        used %= 8;
    }
    for (; i < n; i++) {
        word |= (uint64_t)table[codes[i]].code << used;
        used += table[codes[i]].length;
        for (; used >= 8; used -= 8, word >>= 8) {
            *out++ = (uint8_t)word;
        }
    }
    if (used > 0) {
        *out = (uint8_t)word;
    }
}

size_t ps_huffman_write(const uint8_t *codes, size_t n, unsigned symbols, uint8_t *out, size_t room)
{
    uint32_t counts[PS_HUFFMAN_SYMBOLS], flat[PS_HUFFMAN_SYMBOLS], used = 0;
    uint8_t lengths[PS_HUFFMAN_SYMBOLS + 1];
    uint16_t code[PS_HUFFMAN_SYMBOLS];
    written table[PS_HUFFMAN_SYMBOLS];
    size_t bits = 0, bytes;

    assert(n > 0 && symbols <= PS_HUFFMAN_SYMBOLS);
    ps_kernels_best()->count8(codes, symbols, counts, n);
    memcpy(flat, counts, sizeof flat);
    while (lengths_of(flat, symbols, lengths) > PS_HUFFMAN_BITS) {
        /* Flattens the distribution, so the codes get shorter. A symbol that occurs keeps a count
         * of at least 1. */
        for (unsigned s = 0; s < symbols; s++) {
            flat[s] = (flat[s] + 1) / 2;
        }
    }
    for (unsigned s = 0; s < symbols; s++) {
        bits += (size_t)counts[s] * lengths[s];
        used += counts[s] > 0;
    }
    bytes = head_bytes(symbols) + (used == 1 ? 0 : (bits + 7) / 8);
    if (bytes >= room) {
        return 0;
    }
    lengths[symbols] = 0;
    for (unsigned s = 0; s < symbols; s += 2) {
        out[s / 2] = (uint8_t)(lengths[s] | lengths[s + 1] << 4);
    }
    if (used > 1) {
        codes_of(lengths, symbols, code);
        for (unsigned s = 0; s < symbols; s++) {
            table[s] = (written){code[s], lengths[s]};
        }
        write_codes(codes, n, table, out + head_bytes(symbols), (bits + 7) / 8);
    }
    return bytes;
}

/* ---- Reading ---- */

/* The symbol that the next bits mean, and the length of its code. */
typedef struct entry {
    uint8_t symbol, length;
} entry;

/* Reads the code lengths. Returns the number of symbols that occur, or 0 if the lengths belong
 * neither to a complete code nor to a single symbol. */
static unsigned read_lengths(const uint8_t *in, unsigned symbols, uint8_t *lengths)
{
    unsigned sum = 0, used = 0, most = 0;

    for (unsigned s = 0; s < symbols; s++) {
        lengths[s] = in[s / 2] >> (s % 2 * 4) & 15;
        most = lengths[s] > most ? lengths[s] : most;
        if (lengths[s] > 0 && lengths[s] <= PS_HUFFMAN_BITS) {
            sum += 1u << (PS_HUFFMAN_BITS - lengths[s]);
            used++;
        }
    }
    if (most > PS_HUFFMAN_BITS || (used == 1 ? most != 1 : sum != 1u << PS_HUFFMAN_BITS) ||
        (symbols % 2 == 1 && in[symbols / 2] >> 4 != 0)) {
        return 0;
    }
    return used;
}

static void fill_table(const uint8_t *lengths, unsigned symbols, entry *table)
{
    uint16_t code[PS_HUFFMAN_SYMBOLS];

    codes_of(lengths, symbols, code);
    for (unsigned s = 0; s < symbols; s++) {
        for (unsigned at = code[s]; lengths[s] > 0 && at < TABLE; at += 1u << lengths[s]) {
            table[at] = (entry){(uint8_t)s, lengths[s]};
        }
    }
}

/* The symbols that the next bits mean, one to three of them as far as they are whole: a byte each,
 * the first one lowest; above them how many, and the length of their codes together. */
enum { RUN_MOST = 3, RUN_COUNT = 24, RUN_LENGTH = 28 };

/* Appends a symbol to a run, if its code still fits into the table's bits. Does so without a
 * branch: whether a code fits is as random as the codes. */
static uint32_t join(uint32_t run, entry next)
{
    unsigned count = run >> RUN_COUNT & 15, length = run >> RUN_LENGTH;
    uint32_t fits = 0 - (uint32_t)(length + next.length <= PS_HUFFMAN_BITS);
    uint32_t more = (uint32_t)next.symbol << 8 * count | (uint32_t)next.length << RUN_LENGTH;

    return run + ((more + (1u << RUN_COUNT)) & fits);
}

/* Computes for each value of the next bits the run of at most `most` symbols that it begins with.
 */
static void fill_runs(const entry *table, unsigned most, uint32_t *runs)
{
    for (unsigned at = 0; at < TABLE; at++) {
        runs[at] = 0;
        for (unsigned k = 0; k < most; k++) {
            runs[at] = join(runs[at], table[at >> (runs[at] >> RUN_LENGTH)]);
        }
    }
}

/* Reads five runs at a time while eight bytes can be loaded and all their codes fit in `codes`.
 * Returns the number of codes read and sets *bit behind them. The caller reads the others. */
static size_t read_runs(const uint8_t *in, size_t len, const entry *table, uint8_t *codes, size_t n,
                        size_t *bit)
{
    enum {
        TOGETHER = 5,    /* runs of at most 55 bits; one load gives at least 57 */
        LONG_FROM = 2048 /* number of codes from which it pays to compute longer runs */
    };
    uint32_t runs[TABLE];
    size_t i = 0;

    fill_runs(table, n < LONG_FROM ? 1 : RUN_MOST, runs);
    while (i + TOGETHER * RUN_MOST + sizeof(uint32_t) <= n && *bit / 8 + sizeof(uint64_t) <= len) {
        unsigned used = 0;
        uint64_t word;

        memcpy(&word, in + *bit / 8, sizeof word);
        word >>= *bit % 8;
        for (size_t j = 0; j < TOGETHER; j++) {
            uint32_t run = runs[word & (TABLE - 1)];

            memcpy(codes + i, &run, sizeof run);
            i += run >> RUN_COUNT & 15;
            word >>= run >> RUN_LENGTH;
            used += run >> RUN_LENGTH;
        }
        *bit += used;
    }
    return i;
}

static bool read_codes(const uint8_t *in, size_t len, const entry *table, uint8_t *codes, size_t n)
{
    size_t bit = 0, i = read_runs(in, len, table, codes, n, &bit);

    for (; i < n; i++) {
        uint32_t word = 0;
        entry e;

        for (size_t j = 0; j < 3 && bit / 8 + j < len; j++) {
            word |= (uint32_t)in[bit / 8 + j] << (8 * j);
        }
        e = table[word >> bit % 8 & (TABLE - 1)];
        if (bit + e.length > 8 * len) {
            return false;
        }
        codes[i] = e.symbol;
        bit += e.length;
    }
    /* Only zero bits of the last byte may remain. */
    return (bit + 7) / 8 == len && (bit % 8 == 0 || in[len - 1] >> bit % 8 == 0);
}

bool ps_huffman_read(const uint8_t *in, size_t len, unsigned symbols, uint8_t *codes, size_t n)
{
    uint8_t lengths[PS_HUFFMAN_SYMBOLS];
    entry table[TABLE];
    unsigned used;

    if (n == 0 || len < head_bytes(symbols)) {
        return false;
    }
    used = read_lengths(in, symbols, lengths);
    if (used == 0) {
        return false;
    }
    if (used == 1) {
        unsigned lone = 0;

        while (lengths[lone] == 0) {
            lone++;
        }
        memset(codes, (int)lone, n);
        return len == head_bytes(symbols);
    }
    fill_table(lengths, symbols, table);
    return read_codes(in + head_bytes(symbols), len - head_bytes(symbols), table, codes, n);
}
