/* SPDX-License-Identifier: Apache-2.0 */
/* huffman.c - see huffman.h. */
#include "common/codec/huffman.h"

#include <assert.h>
#include <string.h>

enum { TABLE = 1 << PS_HUFFMAN_BITS };

/* ---- Lengths ---- */

/* Joins the two lightest trees without a parent until one tree is left. Inner nodes are made in
 * ascending weight, so the lightest is at the front of one of two queues: the symbols by
 * weight, and the inner nodes in the order of their making. */
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

/* Writes the code length of each symbol. Returns the longest. */
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

static void write_codes(const uint8_t *codes, size_t n, const uint8_t *lengths,
                        const uint16_t *code, uint8_t *out)
{
    uint64_t word = 0;
    unsigned used = 0;

    for (size_t i = 0; i < n; i++) {
        word |= (uint64_t)code[codes[i]] << used;
        used += lengths[codes[i]];
        if (used >= 32) {
            memcpy(out, &word, 4);
            out += 4;
            word >>= 32;
            used -= 32;
        }
    }
    memcpy(out, &word, (used + 7) / 8);
}

size_t ps_huffman_write(const uint8_t *codes, size_t n, unsigned symbols, uint8_t *out, size_t room)
{
    uint32_t counts[PS_HUFFMAN_SYMBOLS] = {0}, used = 0;
    uint8_t lengths[PS_HUFFMAN_SYMBOLS + 1];
    uint16_t code[PS_HUFFMAN_SYMBOLS];
    size_t bits = 0, bytes;

    assert(n > 0 && symbols <= PS_HUFFMAN_SYMBOLS);
    for (size_t i = 0; i < n; i++) {
        counts[codes[i]]++;
    }
    while (lengths_of(counts, symbols, lengths) > PS_HUFFMAN_BITS) {
        /* flattens the distribution, so the codes get shorter; no count becomes 0 */
        for (unsigned s = 0; s < symbols; s++) {
            counts[s] = (counts[s] + 1) / 2;
        }
    }
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < n; i++) {
        bits += lengths[codes[i]];
        counts[codes[i]] = 1;
    }
    for (unsigned s = 0; s < symbols; s++) {
        used += counts[s];
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
        write_codes(codes, n, lengths, code, out + head_bytes(symbols));
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

/* Reads five codes at a time while eight bytes can be loaded. Returns the number of codes read
 * and sets *bit behind them. */
static size_t read_fast(const uint8_t *in, size_t len, const entry *table, uint8_t *codes, size_t n,
                        size_t *bit)
{
    enum { TOGETHER = 5 }; /* at most 55 of the 57 bits that a load gives */
    size_t i = 0;

    for (; i + TOGETHER <= n && *bit / 8 + sizeof(uint64_t) <= len; i += TOGETHER) {
        unsigned used = 0;
        uint64_t word;

        memcpy(&word, in + *bit / 8, sizeof word);
        word >>= *bit % 8;
        for (size_t j = 0; j < TOGETHER; j++) {
            entry e = table[word & (TABLE - 1)];

            codes[i + j] = e.symbol;
            word >>= e.length;
            used += e.length;
        }
        *bit += used;
    }
    return i;
}

static bool read_codes(const uint8_t *in, size_t len, const entry *table, uint8_t *codes, size_t n)
{
    size_t bit = 0, i = read_fast(in, len, table, codes, n, &bit);

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
