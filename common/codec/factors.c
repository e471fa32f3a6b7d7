/* SPDX-License-Identifier: Apache-2.0 */
/* factors.c - see factors.h. */
#include "common/codec/factors.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS_MIN = PS_FACTORS_LANES / 2,
    EXPONENT_PLAIN = 30,
    /* at most so many values of M are processed together: they fit a second-level cache */
    PANEL_VALUES = 2 * PS_CODEC_VALUES
};

bool ps_factors_pay(size_t rank, size_t rows, size_t columns, size_t n)
{
    return columns >= COLUMNS_MIN && rank * (rows + columns) < n;
}

void ps_factors_load(const float *x, size_t n, size_t columns, int exponent, float *m)
{
    size_t stride = ps_factors_stride(columns);
    float scale = ldexpf(1.0f, -exponent);

    for (size_t at = 0; at < n; at += columns, m += stride) {
        size_t length = n - at < columns ? n - at : columns;

        for (size_t j = 0; j < length; j++) {
            m[j] = x[at + j] * scale;
        }
        memset(m + length, 0, (stride - length) * sizeof *m);
    }
}

static bool is_zero(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (x[i] != 0.0f) {
            return false;
        }
    }
    return true;
}

void ps_factors_begin(uint32_t key, size_t rank, size_t columns, float *q)
{
    size_t stride = ps_factors_stride(columns);

    for (size_t k = 0; k < rank; k++) {
        float *row = q + k * stride;

        if (!is_zero(row, columns)) {
            continue;
        }
        memset(row, 0, stride * sizeof *row);
        for (size_t j = 0; j < columns; j++) {
            uint32_t draw = ps_draw_u32(key, (uint32_t)(k * columns + j));

            row[j] = (float)(int32_t)draw * 0x1p-31f;
        }
    }
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

void ps_factors_orthonormalise(float *p, size_t rank, size_t rows)
{
    for (size_t k = 0; k < rank; k++) {
        float *v = p + k * rows;
        double before = dot(v, v, rows), left, inverse;

        for (size_t other = 0; other < 2 * k; other++) {
            const float *u = p + other % k * rows;
            float along = (float)dot(u, v, rows);

            for (size_t i = 0; i < rows; i++) {
                v[i] -= along * u[i];
            }
        }
        left = dot(v, v, rows);
        inverse = left > 1e-8 * before ? 1 / sqrt(left) : 0;
        for (size_t i = 0; i < rows; i++) {
            v[i] *= (float)inverse;
        }
    }
}

void ps_factors_scale(const float *q, size_t n, int exponent, float *out)
{
    for (size_t j = 0; j < n; j++) {
        out[j] = fminf(fmaxf(ldexpf(q[j], exponent), -0x1p122f), 0x1p122f);
    }
}

void ps_factors_read(const uint8_t *in, size_t rank, size_t columns, float *q)
{
    size_t stride = ps_factors_stride(columns);

    for (size_t k = 0; k < rank; k++, in += columns * sizeof *q, q += stride) {
        memcpy(q, in, columns * sizeof *q);
        memset(q + columns, 0, (stride - columns) * sizeof *q);
    }
}

static void set_or_add(const float *from, ps_into into, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = into == PS_INTO_SET ? from[i] : y[i] + from[i];
    }
}

void ps_factors_multiply(const float *p, size_t p_rows, const float *q, size_t rank, size_t columns,
                         size_t first, size_t n, ps_into into, float *y)
{
    size_t stride = ps_factors_stride(columns), skip = first % columns;
    float row[PS_FACTORS_COLUMNS_MAX];

    for (size_t at = 0, length; at < n; at += length, p++, skip = 0) {
        length = columns - skip < n - at ? columns - skip : n - at;
        ps_kernels_best()->rank_product(p, p_rows, q, stride, rank, row);
        set_or_add(row + skip, into, y + at, length);
    }
}

/* ---- A whole variable ---- */

/* Returns the number of rows of M that are processed together. */
static size_t panel_rows(const ps_factors *f)
{
    size_t rows = PANEL_VALUES / f->stride;

    return rows < f->rows ? rows : f->rows;
}

void ps_factors_init(ps_factors *f, size_t rank, size_t rows, size_t columns)
{
    size_t panel;

    *f = (ps_factors){
        .rank = rank, .rows = rows, .columns = columns, .stride = ps_factors_stride(columns)};
    panel = panel_rows(f);
    f->p = ps_xcalloc(rank * rows, sizeof *f->p);
    f->q = ps_xcalloc(rank * f->stride, sizeof *f->q);
    f->sent = ps_xcalloc(rank * f->stride, sizeof *f->sent);
    f->m = ps_xcalloc(panel * f->stride, sizeof *f->m);
    f->part = ps_xcalloc(rank * panel, sizeof *f->part);
}

void ps_factors_fini(ps_factors *f)
{
    free(f->p);
    free(f->q);
    free(f->sent);
    free(f->m);
    free(f->part);
}

size_t ps_factors_memory(const ps_factors *f)
{
    size_t panel = panel_rows(f);

    return (f->rank * (f->rows + 2 * f->stride + panel) + panel * f->stride) * sizeof(float);
}

/* Properties of x that a step depends on. */
typedef struct look {
    const float *x;
    int exponent;   /* M is x / 2^exponent: that of the largest magnitude; 0 if is_plain */
    bool is_zero;   /* all values are zero, or so small that they count as zero */
    bool is_finite; /* all values are finite */
    /* x has the layout of M, and no product underflows or overflows: no copy is needed */
    bool is_plain;
} look;

static look look_at(const ps_factors *f, const float *x)
{
    float room[PS_CODEC_VALUES], most = 0, here;
    look l = {.x = x, .is_finite = true};

    for (size_t i = 0; i < f->rows; i++) {
        const float *row = x + i * f->columns;

        l.is_finite &= ps_finite(row, f->columns, room, &here) == row;
        most = fmaxf(most, here);
    }
    (void)frexpf(most, &l.exponent);
    l.is_zero = most == 0.0f;
    l.is_plain = l.is_finite && f->stride == f->columns && abs(l.exponent) <= EXPONENT_PLAIN;
    l.exponent = l.is_plain ? 0 : l.exponent;
    return l;
}

/* Returns rows [from, from + rows) of M: in x itself if l->is_plain, else written to f->m. */
static const float *panel_of(ps_factors *f, const look *l, size_t from, size_t rows)
{
    float room[PS_CODEC_VALUES], most;

    if (l->is_plain) {
        return l->x + from * f->columns;
    }
    for (size_t i = 0; i < rows; i++) {
        const float *row = l->x + (from + i) * f->columns;

        row = l->is_finite ? row : ps_finite(row, f->columns, room, &most);
        ps_factors_load(row, f->columns, f->columns, l->exponent, f->m + i * f->stride);
    }
    return f->m;
}

/* Computes P = Q M^T and orthonormalises it. */
static void find_p(ps_factors *f, const look *l)
{
    size_t panel = panel_rows(f);

    for (size_t at = 0, rows; at < f->rows; at += rows) {
        rows = f->rows - at < panel ? f->rows - at : panel;
        ps_kernels_best()->rank_rows(panel_of(f, l, at, rows), rows, f->stride, f->q, f->rank,
                                     f->part);
        for (size_t k = 0; k < f->rank; k++) {
            memcpy(f->p + k * f->rows + at, f->part + k * rows, rows * sizeof *f->p);
        }
    }
    ps_factors_orthonormalise(f->p, f->rank, f->rows);
}

/* Computes Q = P M as a sum over panels, and f->sent: Q in the scale of x. */
static void find_q(ps_factors *f, const look *l)
{
    size_t panel = panel_rows(f), values = f->rank * f->stride;

    for (size_t at = 0, rows; at < f->rows; at += rows) {
        float *q = at == 0 ? f->q : f->sent;

        rows = f->rows - at < panel ? f->rows - at : panel;
        for (size_t k = 0; k < f->rank; k++) {
            memcpy(f->part + k * rows, f->p + k * f->rows + at, rows * sizeof *f->p);
        }
        ps_kernels_best()->rank_columns(panel_of(f, l, at, rows), rows, f->stride, f->part, f->rank,
                                        q);
        for (size_t i = 0; at > 0 && i < values; i++) {
            f->q[i] += q[i];
        }
    }
    ps_factors_scale(f->q, values, l->exponent, f->sent);
}

void ps_factors_step(ps_factors *f, uint64_t key, const float *x)
{
    look l = look_at(f, x);

    if (l.is_zero) {
        memset(f->p, 0, f->rank * f->rows * sizeof *f->p);
        memset(f->sent, 0, f->rank * f->stride * sizeof *f->sent);
        return;
    }
    ps_factors_begin(ps_key32(key), f->rank, f->columns, f->q);
    find_p(f, &l);
    find_q(f, &l);
}
