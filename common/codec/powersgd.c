/* SPDX-License-Identifier: Apache-2.0 */
/* powersgd.c - a slice as the product of two thin matrices (PowerSGD, Vogels et al. 2019).
 *
 * The slice is a matrix M with rows of `columns` values; the factors of factors.h are sent. The
 * iteration starts from the last Q of the slice, the sender's state, so over time it finds the
 * largest singular vectors. Without state, and at first, Q is random. A matrix that two factors
 * would not make shorter is sent unchanged.
 *
 * In PowerSGD the matrix is a whole variable. So it is here on the way to servers, where one
 * encoding of several slices has the factors (common/wire/matrix.h). This file encodes a single
 * slice as a matrix, for other receivers and for jobs that set `columns`. PowerSGD sums P and Q
 * of all workers before the iteration continues. Here the contributions of workers are decoded
 * and added, which is a sum of projections. Error feedback is on by default.
 */
#include "common/codec/codec_type.h"

#include "common/codec/codec_state.h"
#include "common/codec/factors.h"
#include "common/codec/finite.h"
#include "common/codec/kernels.h"
#include "common/codec/wrap.h"

#include <math.h>
#include <string.h>

enum { RANK, COLUMNS };
enum {
    /* The values of a factor are fewer than those of the slice. Padding at most doubles rows,
     * and there are fewer rows than values. */
    FACTOR_MAX = PS_CODEC_VALUES,
    PADDED_MAX = 2 * PS_CODEC_VALUES,
    MATRIX_MAX = 2 * PADDED_MAX
};

static const ps_param powersgd_params[] = {
    [RANK] = {"rank", 4, 1, PS_FACTORS_RANK_MAX, true, "columns of one factor, rows of the other"},
    [COLUMNS] = {"columns", 0, 0, PS_CODEC_VALUES, true,
                 "values of a row of a slice; 0: the variable's matrix, else the root of the "
                 "slice's length"},
    PS_WRAP_STAGES,
    PS_WRAP_SENDER(1),
    {0},
};

typedef struct shape {
    size_t rank; /* 0: the slice is sent unchanged */
    size_t rows, columns, stride;
} shape;

static shape shape_for(size_t rank, size_t columns, size_t n)
{
    shape s = {.rank = rank, .columns = columns};

    s.rows = (n + columns - 1) / columns;
    s.stride = ps_factors_stride(columns);
    if (!ps_factors_pay(s.rank, s.rows, s.columns, n)) {
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
    /* A projection: what a column loses is not longer than the column. */
    return (ps_codec_facts){.is_sparse = true,
                            .error_of_max = 1.01 * sqrt((double)PS_CODEC_VALUES)};
}

static size_t powersgd_size(const ps_params *params, size_t n)
{
    shape s = shape_of(params, n);

    return bytes_of(&s, n);
}

/* ---- Encoding ---- */

/* Writes both factors to `out`, and leaves Q of the scaled matrix in q (rank, stride). `start`
 * is the Q to start from; NULL: it is random. */
static void factor(const float *x, size_t n, const shape *s, float most, uint32_t key,
                   const float *start, float *q, uint8_t *out)
{
    float m[MATRIX_MAX], p[FACTOR_MAX];
    size_t values = s->rank * s->stride;
    const ps_kernels *k = ps_kernels_best();
    int exponent;

    (void)frexpf(most, &exponent);
    ps_factors_load(x, n, s->columns, exponent, m);
    if (start != NULL) {
        memcpy(q, start, values * sizeof *q);
    } else {
        memset(q, 0, values * sizeof *q);
    }
    ps_factors_begin(key, s->rank, s->columns, q);
    k->rank_rows(m, s->rows, s->stride, q, s->rank, p);
    ps_factors_orthonormalise(p, s->rank, s->rows);
    k->rank_columns(m, s->rows, s->stride, p, s->rank, q);
    memcpy(out, p, s->rank * s->rows * sizeof *p);
    out += s->rank * s->rows * sizeof *p;
    for (size_t i = 0; i < s->rank; i++, out += s->columns * sizeof *m) {
        ps_factors_scale(q + i * s->stride, s->columns, exponent, m);
        memcpy(out, m, s->columns * sizeof *m);
    }
}

/* The state is a tag, Q before the newest encoding, and Q after it. A slice that is sent unchanged
 * has none. */
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
        memset(out, 0, bytes_of(&s, n)); /* a slice of zeros does not change the state */
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

    if (powersgd->rank > PS_FACTORS_RANK_MAX || powersgd->columns < 1 ||
        powersgd->columns > PS_CODEC_VALUES || powersgd->slices != 0) {
        return ps_fail(PS_DATA_LOSS, "slice %u: powersgd: rank %u, %u columns, %u slices",
                       head->slice, powersgd->rank, powersgd->columns, powersgd->slices);
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

static void multiply(const shape *s, const uint8_t *in, ps_into into, float *y, size_t n)
{
    float p[FACTOR_MAX], q[PADDED_MAX];

    memcpy(p, in, s->rank * s->rows * sizeof *p);
    ps_factors_read(in + s->rank * s->rows * sizeof *p, s->rank, s->columns, q);
    ps_factors_multiply(p, s->rows, q, s->rank, s->columns, 0, n, into, y);
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
    .summary =
        "the slice as a matrix: a product of two thin matrices, by a step of power iteration",
    .params = powersgd_params,
    .own = 2,
    .wire = PSGD__V1__ENCODING__CODEC_POWERSGD,
    .is_low_rank = true,
    .facts = powersgd_facts,
    .size = powersgd_size,
    .encode = powersgd_encode,
    .state = powersgd_state,
    .encode_with = powersgd_encode_with,
    .check = powersgd_check,
    .decode = powersgd_decode,
};
