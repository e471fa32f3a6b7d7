/* SPDX-License-Identifier: Apache-2.0 */
/* powersgd.c - a slice as the product of two thin matrices (PowerSGD, Vogels et al. 2019).
 *
 * The slice is a matrix M of rows of `columns` values. One step of a power iteration: P =
 * M Q^T, its columns made orthonormal (Gram and Schmidt, twice), Q = P^T M; the value is
 * P Q, the projection of M on what P spans. Q begins as the last one of the slice, the
 * sender's state, so that over time the iteration finds the largest singular
 * vectors; without state, or at first, it is drawn. A matrix that two such factors would
 * not make shorter is sent as it is.
 *
 * PowerSGD factors a whole variable, and adds up P and Q of all workers before it
 * goes on. Here a slice is factored alone, which is a variable's own rows where their
 * length is `columns` (a job's plan sees to that), and what workers send is decoded and
 * added: a sum of projections. So error feedback is on unless a job says otherwise.
 */
#include "common/codec/codec.h"

#include "common/base/draw.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/codec/state.h"
#include "common/codec/wrap.h"

#include <math.h>
#include <string.h>

enum { RANK, COLUMNS };
enum {
    RANK_MAX = 32,
    LANES = 16,
    COLUMNS_MIN = LANES / 2, /* narrow ones would be mostly padding, and hardly worth it */
    /* Values of a factor are fewer than the slice's; padding doubles rows at most, and
     * there are fewer than the slice has values. */
    FACTOR_MAX = PS_CODEC_VALUES,
    PADDED_MAX = 2 * PS_CODEC_VALUES,
    MATRIX_MAX = 2 * PADDED_MAX
};

static const ps_param powersgd_params[] = {
    [RANK] = {"rank", 4, 1, RANK_MAX, true, "columns of the one factor, rows of the other"},
    [COLUMNS] =
        {"columns", 0, 0, PS_CODEC_VALUES, true,
         "values of a row; 0: the variable's own rows, else the root of the slice's length"},
    PS_WRAP_STAGES,
    PS_WRAP_SENDER(1),
    {0},
};

typedef struct shape {
    size_t rank; /* 0: as it is */
    size_t rows, columns, stride;
} shape;

static shape shape_for(size_t rank, size_t columns, size_t n)
{
    shape s = {.rank = rank, .columns = columns};

    s.rows = (n + columns - 1) / columns;
    s.stride = (columns + LANES - 1) / LANES * LANES;
    if (s.columns < COLUMNS_MIN || s.rank * (s.rows + s.columns) >= n) {
        s.rank = 0;
    }
    return s;
}

static shape shape_of(const ps_params *params, size_t n)
{
    size_t columns = (size_t)params->v[COLUMNS];

    if (columns == 0) {
        columns = (size_t)ceil(sqrt((double)(n > 0 ? n : 1)));
    }
    return shape_for((size_t)params->v[RANK], columns, n);
}

static size_t bytes_of(const shape *s, size_t n)
{
    return (s->rank > 0 ? s->rank * (s->rows + s->columns) : n) * sizeof(float);
}

static ps_codec_facts powersgd_facts(const ps_params *params)
{
    (void)params;
    /* A projection: what a column loses is no longer than the column. */
    return (ps_codec_facts){.is_sparse = true,
                            .error_of_max = 1.01 * sqrt((double)PS_CODEC_VALUES)};
}

static size_t powersgd_size(const ps_params *params, size_t n)
{
    shape s = shape_of(params, n);

    return bytes_of(&s, n);
}

/* ---- Encoding ---- */

/* The slice with rows of `stride`, zeros behind each, its largest magnitude between 1/2
 * and 1 so that no product is lost or infinite. */
static void load(const float *x, size_t n, const shape *s, float scale, float *m)
{
    for (size_t i = 0; i < s->rows; i++) {
        size_t length = n - i * s->columns < s->columns ? n - i * s->columns : s->columns;
        float *row = m + i * s->stride;

        for (size_t j = 0; j < length; j++) {
            row[j] = x[i * s->columns + j] * scale;
        }
        memset(row + length, 0, (s->stride - length) * sizeof *row);
    }
}

static void draw_start(const shape *s, uint32_t key, float *q)
{
    memset(q, 0, s->rank * s->stride * sizeof *q);
    for (size_t k = 0; k < s->rank; k++) {
        for (size_t j = 0; j < s->columns; j++) {
            uint32_t draw = ps_draw_u32(key, (uint32_t)(k * s->columns + j));

            q[k * s->stride + j] = (float)(int32_t)draw * 0x1p-31f;
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

/* The rows of p (rank, rows) become orthonormal; one that the others span, zeros. */
static void orthonormalise(const shape *s, float *p)
{
    for (size_t k = 0; k < s->rank; k++) {
        float *v = p + k * s->rows;
        double before = dot(v, v, s->rows), left, inverse;

        for (size_t other = 0; other < 2 * k; other++) {
            const float *u = p + other % k * s->rows;
            float along = (float)dot(u, v, s->rows);

            for (size_t i = 0; i < s->rows; i++) {
                v[i] -= along * u[i];
            }
        }
        left = dot(v, v, s->rows);
        inverse = left > 1e-8 * before ? 1 / sqrt(left) : 0;
        for (size_t i = 0; i < s->rows; i++) {
            v[i] *= (float)inverse;
        }
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

/* Writes both factors; those of the scaled matrix stay in q (rank, stride). `start` is
 * as q, or NULL. */
static void factor(const float *x, size_t n, const shape *s, float most, uint32_t key,
                   const float *start, float *q, uint8_t *out)
{
    float m[MATRIX_MAX], p[FACTOR_MAX];
    const ps_kernels *k = ps_kernels_best();
    int exponent;

    (void)frexpf(most, &exponent);
    load(x, n, s, ldexpf(1.0f, -exponent), m);
    if (start == NULL || is_zero(start, s->rank * s->stride)) {
        draw_start(s, key, q);
        start = q;
    }
    k->rank_rows(m, s->rows, s->stride, start, s->rank, p);
    orthonormalise(s, p);
    k->rank_columns(m, s->rows, s->stride, p, s->rank, q);
    memcpy(out, p, s->rank * s->rows * sizeof *p);
    out += s->rank * s->rows * sizeof *p;
    for (size_t i = 0; i < s->rank; i++) {
        for (size_t j = 0; j < s->columns; j++, out += sizeof(float)) {
            /* Cut so that no sum of products is infinite. */
            float v = ldexpf(q[i * s->stride + j], exponent);

            v = fminf(fmaxf(v, -0x1p122f), 0x1p122f);
            memcpy(out, &v, sizeof v);
        }
    }
}

/* Tag, Q before the encoding in hand, Q after it. */
static size_t powersgd_state(const ps_params *params, size_t n)
{
    shape s = shape_of(params, n);

    return s.rank > 0 ? PS_STATE_TAG + 2 * s.rank * s.stride : 0;
}

static size_t powersgd_encode_with(const ps_params *params, uint64_t key, float *state,
                                   const float *x, size_t n, uint8_t *out, ps_encoding *head)
{
    shape s = shape_of(params, n);
    size_t values = s.rank * s.stride;
    float room[PS_CODEC_VALUES], own[PADDED_MAX], most;
    const float *finite = ps_finite(x, n, room, &most);
    float *before = state != NULL ? state + PS_STATE_TAG : NULL;

    if (s.rank == 0) {
        memcpy(out, x, n * sizeof *x);
    } else if (most == 0.0f) {
        memset(out, 0, bytes_of(&s, n)); /* nothing to learn from */
    } else {
        if (before != NULL && ps_state_is_new(state, key)) {
            memcpy(before, before + values, values * sizeof *before);
        }
        factor(finite, n, &s, most, ps_key32(key), before, before != NULL ? before + values : own,
               out);
    }
    psgd__v1__powersgd__init(&head->u.powersgd);
    head->u.powersgd.rank = (uint32_t)s.rank;
    head->u.powersgd.columns = (uint32_t)s.columns;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_POWERSGD;
    head->msg.powersgd = &head->u.powersgd;
    return bytes_of(&s, n);
}

static size_t powersgd_encode(const ps_params *params, uint64_t key, const float *x, size_t n,
                              uint8_t *out, ps_encoding *head)
{
    return powersgd_encode_with(params, key, NULL, x, n, out, head);
}

/* ---- Decoding ---- */

static ps_status read_shape(const Psgd__V1__Encoding *head, size_t len, size_t n, shape *s)
{
    const Psgd__V1__Powersgd *powersgd = head->powersgd;

    if (powersgd->rank > RANK_MAX || powersgd->columns < 1 || powersgd->columns > PS_CODEC_VALUES) {
        return ps_fail(PS_DATA_LOSS, "slice %u: powersgd: rank %u, %u columns", head->slice,
                       powersgd->rank, powersgd->columns);
    }
    *s = shape_for(powersgd->rank, powersgd->columns, n);
    if (s->rank != powersgd->rank || len != bytes_of(s, n)) {
        return ps_fail(PS_DATA_LOSS,
                       "slice %u: powersgd: %zu bytes for %zu values, rank %u, %u columns",
                       head->slice, len, n, powersgd->rank, powersgd->columns);
    }
    return ps_ok();
}

static ps_status powersgd_check(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                                size_t n)
{
    shape s;

    (void)in;
    return read_shape(head, len, n, &s);
}

static void set_or_add(const float *from, ps_into into, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = into == PS_INTO_SET ? from[i] : y[i] + from[i];
    }
}

static void multiply(const shape *s, const uint8_t *in, ps_into into, float *y, size_t n)
{
    float p[FACTOR_MAX], q[PADDED_MAX], row[PS_CODEC_VALUES + LANES];

    memcpy(p, in, s->rank * s->rows * sizeof *p);
    in += s->rank * s->rows * sizeof *p;
    for (size_t k = 0; k < s->rank; k++, in += s->columns * sizeof *q) {
        memcpy(q + k * s->stride, in, s->columns * sizeof *q);
        memset(q + k * s->stride + s->columns, 0, (s->stride - s->columns) * sizeof *q);
    }
    for (size_t i = 0; i < s->rows; i++) {
        size_t at = i * s->columns, length = n - at < s->columns ? n - at : s->columns;

        ps_kernels_best()->rank_product(p + i, s->rows, q, s->stride, s->rank, row);
        set_or_add(row, into, y + at, length);
    }
}

static ps_status powersgd_decode(const Psgd__V1__Encoding *head, const uint8_t *in, size_t len,
                                 ps_into into, float *y, size_t n)
{
    shape s;
    ps_status st = read_shape(head, len, n, &s);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (s.rank > 0) {
        multiply(&s, in, into, y, n);
    } else if (into == PS_INTO_SET) {
        memcpy(y, in, len);
    } else {
        ps_kernels_best()->f32_add(in, y, n);
    }
    return st;
}

const ps_codec ps_codec_powersgd = {
    .name = "powersgd",
    .summary = "the slice as a matrix, by a step of power iteration a product of two thin ones",
    .params = powersgd_params,
    .own = 2,
    .wire = PSGD__V1__ENCODING__CODEC_POWERSGD,
    .facts = powersgd_facts,
    .size = powersgd_size,
    .encode = powersgd_encode,
    .state = powersgd_state,
    .encode_with = powersgd_encode_with,
    .check = powersgd_check,
    .decode = powersgd_decode,
};
