/* SPDX-License-Identifier: Apache-2.0 */
/* draw.h - random numbers by counter, without state.
 *
 * A draw is a pure function of (seed, purpose, indices). So any process can repeat any draw, in any
 * order, on any number of threads. The 64-bit stream is SplitMix64 (Steele, Lea, Flood 2014)
 * addressed by position. Keys are derived by chaining its finaliser.
 */
#ifndef PS_COMMON_BASE_DRAW_H
#define PS_COMMON_BASE_DRAW_H

#include <stddef.h>
#include <stdint.h>

/* What a stream is for. It is part of the key, so two purposes never share draws. A run is
 * reproducible only with the same values: never renumber. */
typedef enum ps_purpose {
    PS_DRAW_INIT = 1,    /* initial weights: (variable) */
    PS_DRAW_ORDER = 2,   /* sample order: (epoch, worker) */
    PS_DRAW_UP = 3,      /* rounding of pushes: (slice or table, clock, contributor) */
    PS_DRAW_DOWN = 4,    /* rounding of pulls: (slice, version), (table, clock, worker) */
    PS_DRAW_GLYPHS = 5,  /* the glyphs data set: (split) */
    PS_DRAW_TEST = 6,    /* tests and benchmarks */
    PS_DRAW_DROPOUT = 7, /* values that dropout leaves out: (clock or local step, block) */
    /* the simlin data set: (split, sample); 2 and 3 in place of a split: true weights */
    PS_DRAW_SIMLIN = 8,
    PS_DRAW_SPLIT = 9,   /* which records belong to the test set */
    PS_DRAW_SAMPLE = 10, /* changes of a sample, drawn anew each pass: (pass, split, sample) */
    /* which worker gets which samples, in which order: (what, and what it depends on) */
    PS_DRAW_ARRANGE = 11,
    PS_DRAW_STRAGGLER = 12, /* which worker is delayed, and for how long: (worker, step) */
    /* first values and admission of rows of a sparse table: (table, which of the two, id) */
    PS_DRAW_ROWS = 13,
    PS_DRAW_WORKERS = 20,  /* which workers take part in a round: (clock) */
    PS_DRAW_PARTITION = 21 /* draws of a computation that a job brings: (partition) */
} ps_purpose;

/* Returns the key of a stream. a, b and c are the indices that `purpose` lists. */
uint64_t ps_draw_key(uint64_t seed, ps_purpose purpose, uint64_t a, uint64_t b, uint64_t c);

/* Returns draw number `index` of the stream, uniform over 64 bits. */
static inline uint64_t ps_draw_u64(uint64_t key, uint64_t index)
{
    uint64_t z = key + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Returns a cheap 32-bit draw for dithering many values: an integer hash of `index` under a
 * 32-bit key, with two multiplications. A loop over it vectorises. The draw of index + 1 equals
 * the draw of `index` under a key larger by PS_DRAW_U32_STRIDE. */
#define PS_DRAW_U32_STRIDE UINT32_C(0x9e3779b9)
static inline uint32_t ps_draw_u32(uint32_t key, uint32_t index)
{
    uint32_t x = index * PS_DRAW_U32_STRIDE + key;

    x = (x ^ (x >> 16)) * UINT32_C(0x21f0aaad);
    x = (x ^ (x >> 15)) * UINT32_C(0xd35a2d97);
    return x ^ (x >> 15);
}

/* Returns draw number `index` as a double in [0, 1) with 53 bits. The bits are the same on every
 * host. */
double ps_draw_unit(uint64_t key, uint64_t index);

/* Returns draw number `index` from the normal distribution with mean 0 and variance 1, within
 * +-8.3. The bits are the same on every host. */
double ps_draw_normal(uint64_t key, uint64_t index);

/* Returns draw number `index` in [0, n), n > 0. The bias is at most 2^-64 n. */
uint64_t ps_draw_below(uint64_t key, uint64_t index, uint64_t n);

/* Fills order[0..n) with a permutation of 0..n-1 (Fisher-Yates on the stream); n < 2^32. */
void ps_draw_permutation(uint64_t key, uint32_t *order, size_t n);

#endif
