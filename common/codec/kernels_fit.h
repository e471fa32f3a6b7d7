/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_fit.h - loops of the codecs that fit a scale or a grid to the values, in plain C like
 * kernels_more.h.
 *
 * Values are taken FIT_RUN at a time, and the last run is filled up with zeros, so every inner
 * loop has a constant length. Sums are over sixteen lanes, as in kernels_more.h.
 */
#ifndef PS_COMMON_CODEC_KERNELS_FIT_H
#define PS_COMMON_CODEC_KERNELS_FIT_H

#include "common/codec/kernels_more.h"

enum { FIT_RUN = 64 };

/* Returns x[at..at + FIT_RUN), in place or copied to `room` with zeros behind value n. */
PS_BODY const float *run_of(const float *x, size_t at, size_t n, float *room)
{
    if (n - at >= FIT_RUN) {
        return x + at;
    }
    memset(room, 0, FIT_RUN * sizeof *room);
    memcpy(room, x + at, (n - at) * sizeof *room);
    return room;
}

PS_BODY float magnitude_of(float x)
{
    return float_of(bits_of(x) & 0x7fffffffu);
}

PS_BODY double sum_of_lanes(double *part)
{
    for (size_t half = SUM_LANES / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; j++) {
            part[j] += part[j + half];
        }
    }
    return part[0];
}

/* Adds w m b to `up` and w b b (or w b) to `down`, lane by lane. */
PS_BODY void add_terms(const float *m, const float *b, const float *weights, bool is_soft,
                       double *up, double *down)
{
    for (size_t i = 0; i < FIT_RUN; i += SUM_LANES) {
        for (size_t j = 0; j < SUM_LANES; j++) {
            float wb = weights != NULL ? weights[i + j] * b[i + j] : b[i + j];

            up[j] += (double)wb * (double)m[i + j];
            down[j] += (double)wb * (is_soft ? 1.0 : (double)b[i + j]);
        }
    }
}

PS_BODY void body_fit(const float *x, const float *weights, float inverse, float limit,
                      bool is_soft, size_t stride, double *out, size_t n)
{
    double up[SUM_LANES] = {0}, down[SUM_LANES] = {0};

    for (size_t i = 0; i < n; i += stride) {
        float room[FIT_RUN], weights_room[FIT_RUN], m[FIT_RUN], b[FIT_RUN];
        const float *v = run_of(x, i, n, room);
        const float *w = weights != NULL ? run_of(weights, i, n, weights_room) : NULL;

        for (size_t j = 0; j < FIT_RUN; j++) {
            float q;

            m[j] = magnitude_of(v[j]);
            q = m[j] * inverse;
            q = q > limit ? limit : q;
            b[j] = is_soft ? q : (q + 0x1.8p23f) - 0x1.8p23f; /* rounds to nearest */
        }
        add_terms(m, b, w, is_soft, up, down);
    }
    out[0] = sum_of_lanes(up);
    out[1] = sum_of_lanes(down);
}

/* ---- A grid ---- */

/* Sets reached[i] to how many of edges[1..top] the magnitude m[i] reaches. */
PS_BODY void grid_reach(const float *m, const float *edges, uint32_t top, int32_t *reached)
{
    for (size_t i = 0; i < FIT_RUN; i++) {
        reached[i] = 0;
    }
    for (uint32_t k = 1; k <= top; k++) {
        float edge = edges[k];

        for (size_t i = 0; i < FIT_RUN; i++) {
            reached[i] += m[i] >= edge;
        }
    }
}

/* Adds 1 to reached[i], the index of the highest level that m[i] reaches, with the probability that
 * keeps the mean. At the highest level `high` equals `low`, and the index stays. */
PS_BODY void grid_draw(const float *m, const float *level, uint32_t top, uint32_t counter,
                       int32_t *reached)
{
    float low[FIT_RUN], high[FIT_RUN];

    for (size_t i = 0; i < FIT_RUN; i++) {
        low[i] = 0.0f;
        high[i] = level[1];
    }
    for (uint32_t k = 1; k <= top; k++) {
        float here = level[k], next = level[k + 1];

        for (size_t i = 0; i < FIT_RUN; i++) {
            low[i] = m[i] >= here ? here : low[i];
            high[i] = m[i] >= here ? next : high[i];
        }
    }
    for (size_t i = 0; i < FIT_RUN; i++) {
        uint32_t draw = ps_draw_u32(counter + (uint32_t)i * UINT32_C(0x9e3779b9), 0);
        float gap = high[i] - low[i], u = (float)(int32_t)(draw >> 8) * 0x1p-24f;

        reached[i] += (int32_t)(gap * u < m[i] - low[i]) & (int32_t)(gap > 0.0f);
    }
}

PS_BODY void body_grid(const float *x, float inverse, const float *edges, const float *level,
                       uint32_t top, bool draws, uint32_t key, uint8_t *codes, size_t n)
{
    for (size_t i = 0; i < n; i += FIT_RUN) {
        float room[FIT_RUN], m[FIT_RUN];
        const float *v = run_of(x, i, n, room);
        int32_t reached[FIT_RUN];
        uint8_t some[FIT_RUN];

        for (size_t j = 0; j < FIT_RUN; j++) {
            m[j] = magnitude_of(v[j]) * inverse;
        }
        grid_reach(m, draws ? level : edges, top, reached);
        if (draws) {
            grid_draw(m, level, top, counter_at(key, i), reached);
        }
        for (size_t j = 0; j < FIT_RUN; j++) {
            int32_t negative = -(int32_t)(bits_of(v[j]) >> 31);

            some[j] = (uint8_t)((int32_t)top + ((reached[j] ^ negative) - negative));
        }
        memcpy(codes + i, some, n - i < FIT_RUN ? n - i : FIT_RUN);
    }
}

PS_BODY void body_grid_fit(const float *x, float inverse, const float *edges, const float *level,
                           uint32_t top, size_t stride, double *out, size_t n)
{
    double up[SUM_LANES] = {0}, down[SUM_LANES] = {0};

    for (size_t i = 0; i < n; i += stride) {
        float room[FIT_RUN], m[FIT_RUN], q[FIT_RUN], b[FIT_RUN];
        const float *v = run_of(x, i, n, room);

        for (size_t j = 0; j < FIT_RUN; j++) {
            m[j] = magnitude_of(v[j]);
            q[j] = m[j] * inverse;
            b[j] = 0.0f;
        }
        for (uint32_t k = 1; k <= top; k++) {
            float edge = edges[k], value = level[k];

            for (size_t j = 0; j < FIT_RUN; j++) {
                b[j] = q[j] >= edge ? value : b[j];
            }
        }
        add_terms(m, b, NULL, false, up, down);
    }
    out[0] = sum_of_lanes(up);
    out[1] = sum_of_lanes(down);
}

/* ---- Small codes ---- */

/* Counts few symbols by comparing: `equal` returns how many of the `step` codes at a place are s.
 */
PS_BODY void body_count8_compared(const uint8_t *codes, unsigned symbols, uint32_t *counts,
                                  size_t n, size_t step,
                                  unsigned (*equal)(const uint8_t *codes, unsigned s))
{
    size_t whole = n / step * step;

    for (unsigned s = 0; s < symbols; s++) {
        counts[s] = 0;
        for (size_t i = 0; i < whole; i += step) {
            counts[s] += equal(codes + i, s);
        }
    }
    for (size_t i = whole; i < n; i++) {
        counts[codes[i]]++;
    }
}

/* Counts the codes of each symbol in four tables in turn: a count that was just written is not read
 * again at once. */
PS_BODY void body_count8(const uint8_t *codes, unsigned symbols, uint32_t *counts, size_t n)
{
    enum { TABLES = 4 };
    uint32_t part[TABLES][256] = {0};
    size_t i = 0;

    for (; i + 2 * TABLES <= n; i += 2 * TABLES) {
        uint64_t eight;

        memcpy(&eight, codes + i, sizeof eight);
        for (size_t j = 0; j < 2 * TABLES; j++) {
            part[j % TABLES][eight >> 8 * j & 255]++;
        }
    }
    for (; i < n; i++) {
        part[0][codes[i]]++;
    }
    for (unsigned s = 0; s < symbols; s++) {
        counts[s] = part[0][s] + part[1][s] + part[2][s] + part[3][s];
    }
}

PS_BODY void body_lookup8(const uint8_t *codes, const float *value, bool adds, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = adds ? y[i] + value[codes[i]] : value[codes[i]];
    }
}

#endif
