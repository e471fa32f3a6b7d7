/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.c - see matrix.h. */
#include "common/wire/matrix.h"

#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A variable as a matrix, and which slices of it one part has. */
typedef struct matrix {
    size_t rank, rows, columns;
    uint32_t variable, part, leader, slices;
    size_t bytes;
} matrix;

/* The rows of the matrix that a slice overlaps. */
typedef struct band {
    /* index of the slice's first value in the variable, and number of its values */
    size_t first, n;
    size_t row, rows; /* first of these rows, and their number */
} band;

static band band_of(const ps_plan *plan, size_t columns, uint32_t slice)
{
    const ps_slice *at = &plan->layout.slices[slice];
    band b = {.first = at->at - plan->layout.variables[at->variable].at, .n = at->n};

    b.row = b.first / columns;
    b.rows = (b.first + b.n - 1) / columns + 1 - b.row;
    return b;
}

/* Returns the first slice of the variable, from `slice` on, that the part has; if there is none,
 * the number after the variable's last slice. */
static uint32_t next_slice(const ps_placement *placement, uint32_t variable, uint32_t part,
                           uint32_t slice)
{
    uint32_t end = placement->layout->first_slice[variable + 1];
    uint32_t original = ps_placement_original(placement, part);

    while (slice < end && placement->part_of[slice] != original) {
        slice++;
    }
    return slice;
}

static size_t rank_of(const ps_plan *plan, uint32_t variable)
{
    const ps_codec_choice *up = &plan->up[variable];

    return (size_t)up->params.v[ps_param_find(up->codec->params, "rank")];
}

static matrix matrix_of(const ps_plan *plan, const ps_placement *placement, uint32_t variable,
                        uint32_t part)
{
    const ps_variable *var = &plan->layout.variables[variable];
    uint32_t end = plan->layout.first_slice[variable + 1];
    matrix m = {.rows = var->shape.dim[0], .variable = variable, .part = part};
    size_t rows = 0;

    m.rank = rank_of(plan, variable);
    m.columns = var->size / m.rows;
    m.leader = next_slice(placement, variable, part, plan->layout.first_slice[variable]);
    for (uint32_t s = m.leader; s < end; s = next_slice(placement, variable, part, s + 1)) {
        rows += band_of(plan, m.columns, s).rows;
        m.slices++;
    }
    m.bytes = m.rank * (rows + m.columns) * sizeof(float);
    return m;
}

uint32_t ps_matrix_slices(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                          uint32_t slice)
{
    const ps_slice *at = &plan->layout.slices[slice];
    matrix m;

    if (!plan->by_matrix[at->variable]) {
        return 1;
    }
    if (next_slice(placement, at->variable, part, plan->layout.first_slice[at->variable]) !=
        slice) {
        return 0;
    }
    m = matrix_of(plan, placement, at->variable, part);
    return m.slices;
}

void ps_matrix_init(const ps_plan *plan, uint32_t variable, ps_factors *f)
{
    const ps_variable *var = &plan->layout.variables[variable];

    if (plan->by_matrix[variable]) {
        ps_factors_init(f, rank_of(plan, variable), var->shape.dim[0],
                        var->size / var->shape.dim[0]);
    }
}

size_t ps_matrix_size(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                      uint32_t leader)
{
    return matrix_of(plan, placement, plan->layout.slices[leader].variable, part).bytes;
}

/* Fills the head of the encoding that holds the slices of m. The head names the first of them,
 * m->leader. */
static void fill_head(const matrix *m, ps_encoding *head)
{
    psgd__v1__encoding__init(&head->msg);
    psgd__v1__powersgd__init(&head->u.powersgd);
    head->u.powersgd.rank = (uint32_t)m->rank;
    head->u.powersgd.columns = (uint32_t)m->columns;
    head->u.powersgd.slices = m->slices;
    head->msg.codec_case = PSGD__V1__ENCODING__CODEC_POWERSGD;
    head->msg.powersgd = &head->u.powersgd;
    head->msg.slice = m->leader;
    head->msg.payload_bytes = (uint32_t)m->bytes;
}

size_t ps_matrix_write(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                       uint32_t leader, const ps_factors *f, uint8_t *out, ps_encoding *head)
{
    matrix m = matrix_of(plan, placement, plan->layout.slices[leader].variable, part);
    uint32_t end = plan->layout.first_slice[m.variable + 1];

    assert(m.leader == leader && m.bytes <= PS_MATRIX_BYTES_MAX);
    for (uint32_t s = leader; s < end; s = next_slice(placement, m.variable, m.part, s + 1)) {
        band b = band_of(plan, m.columns, s);

        for (size_t k = 0; k < m.rank; k++, out += b.rows * sizeof(float)) {
            memcpy(out, f->p + k * m.rows + b.row, b.rows * sizeof(float));
        }
    }
    for (size_t k = 0; k < m.rank; k++) {
        memcpy(out, f->sent + k * f->stride, m.columns * sizeof(float));
        out += m.columns * sizeof(float);
    }
    fill_head(&m, head);
    return m.bytes;
}

/* ---- Encodings of single slices ---- */

/* Returns the matrix of the slice's variable, for a part that has only this slice of it. */
static matrix single_of(const ps_plan *plan, uint32_t slice)
{
    uint32_t variable = plan->layout.slices[slice].variable;
    const ps_variable *var = &plan->layout.variables[variable];
    matrix m = {.rows = var->shape.dim[0], .variable = variable, .leader = slice, .slices = 1};

    m.rank = rank_of(plan, variable);
    m.columns = var->size / m.rows;
    m.bytes = m.rank * (band_of(plan, m.columns, slice).rows + m.columns) * sizeof(float);
    return m;
}

static size_t band_bytes(const ps_plan *plan, const matrix *m, uint32_t slice)
{
    return m->rank * band_of(plan, m->columns, slice).rows * sizeof(float);
}

static size_t q_bytes(const matrix *m)
{
    return m->rank * m->columns * sizeof(float);
}

ps_status ps_matrix_split(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                          const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len,
                          ps_matrix_take *take, void *arg)
{
    uint32_t variable = plan->layout.slices[head->slice].variable;
    uint32_t end = plan->layout.first_slice[variable + 1];
    ps_encoding of_single;
    ps_status st = ps_ok();
    uint8_t *room;
    matrix m;

    if (!plan->by_matrix[variable]) {
        return take(arg, head, bytes, len);
    }
    m = matrix_of(plan, placement, variable, part);
    assert(m.leader == head->slice && m.bytes == len);
    room = ps_xmalloc(m.bytes);
    for (uint32_t s = m.leader; s < end && ps_is_ok(&st);
         s = next_slice(placement, variable, part, s + 1)) {
        matrix single = single_of(plan, s);
        size_t rows = band_bytes(plan, &m, s);

        memcpy(room, bytes, rows);
        memcpy(room + rows, bytes + len - q_bytes(&m), q_bytes(&m));
        fill_head(&single, &of_single);
        st = take(arg, &of_single.msg, room, single.bytes);
        bytes += rows;
        len -= rows;
    }
    free(room);
    return st;
}

size_t ps_matrix_join(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                      uint32_t leader, const uint8_t *const *singles, uint8_t *out,
                      ps_encoding *head)
{
    matrix m = matrix_of(plan, placement, plan->layout.slices[leader].variable, part);
    uint32_t end = plan->layout.first_slice[m.variable + 1];

    assert(m.leader == leader && m.bytes <= PS_MATRIX_BYTES_MAX);
    for (uint32_t s = leader; s < end; s = next_slice(placement, m.variable, m.part, s + 1)) {
        size_t rows = band_bytes(plan, &m, s);

        memcpy(out, singles[s], rows);
        out += rows;
    }
    memcpy(out, singles[leader] + band_bytes(plan, &m, leader), q_bytes(&m));
    fill_head(&m, head);
    return m.bytes;
}

void ps_matrix_values(const ps_plan *plan, uint32_t slice, const ps_factors *f, float *y)
{
    band b = band_of(plan, f->columns, slice);

    ps_factors_multiply(f->p + b.row, f->rows, f->sent, f->rank, f->columns, b.first, b.n,
                        PS_INTO_SET, y);
}

static ps_status check(const ps_plan *plan, const matrix *m, const Psgd__V1__Encoding *head,
                       size_t len)
{
    const Psgd__V1__Powersgd *powersgd = head->powersgd;
    const char *name = plan->layout.variables[m->variable].name;

    if (head->codec_case != PSGD__V1__ENCODING__CODEC_POWERSGD ||
        head->lossless != PSGD__V1__LOSSLESS__LOSSLESS_UNSPECIFIED || head->row_width != 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "slice %u: of %s, which comes whole, as powersgd",
                       head->slice, PS_SHORT(name, 40));
    }
    if (powersgd->slices != m->slices || head->slice != m->leader) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "slice %u: powersgd of %u slices; of %s this part has %u from %u on",
                       head->slice, powersgd->slices, PS_SHORT(name, 40), m->slices, m->leader);
    }
    if (powersgd->rank != m->rank || powersgd->columns != m->columns || len != m->bytes ||
        head->payload_bytes != len) {
        return ps_fail(PS_DATA_LOSS,
                       "slice %u: powersgd: %zu bytes, rank %u, %u columns; %zu, %zu, %zu are "
                       "allowed",
                       head->slice, len, powersgd->rank, powersgd->columns, m->bytes, m->rank,
                       m->columns);
    }
    return ps_ok();
}

ps_status ps_matrix_check_single(const ps_plan *plan, uint32_t slice,
                                 const Psgd__V1__Encoding *head, size_t len)
{
    matrix m = single_of(plan, slice);

    return check(plan, &m, head, len);
}

/* Multiplies the factors and passes the values to `take` as float32, slice by slice, until `take`
 * fails. `at`: the slices' rows of the first factor, as they were received; p has room for the rows
 * of one slice; q (rank, stride) is the second factor. */
static ps_status hand_on(const ps_plan *plan, const ps_placement *placement, const matrix *m,
                         const uint8_t *at, float *p, const float *q, ps_matrix_take *take,
                         void *arg)
{
    uint32_t end = plan->layout.first_slice[m->variable + 1];
    float y[PS_SLICE_VALUES];
    ps_encoding head;
    ps_status st = ps_ok();

    for (uint32_t s = m->leader; s < end && ps_is_ok(&st);
         s = next_slice(placement, m->variable, m->part, s + 1)) {
        band b = band_of(plan, m->columns, s);

        memcpy(p, at, m->rank * b.rows * sizeof *p);
        at += m->rank * b.rows * sizeof *p;
        ps_factors_multiply(p, b.rows, q, m->rank, m->columns, b.first, b.n, PS_INTO_SET, y);
        psgd__v1__encoding__init(&head.msg);
        psgd__v1__f32__init(&head.u.f32);
        head.msg.codec_case = PSGD__V1__ENCODING__CODEC_F32;
        head.msg.f32 = &head.u.f32;
        head.msg.slice = s;
        head.msg.payload_bytes = (uint32_t)(b.n * sizeof *y);
        st = take(arg, &head.msg, (const uint8_t *)y, b.n * sizeof *y);
    }
    return st;
}

ps_status ps_matrix_push(const ps_plan *plan, const ps_placement *placement, uint32_t part,
                         const Psgd__V1__Encoding *head, const uint8_t *bytes, size_t len,
                         ps_matrix_take *take, void *arg)
{
    ps_status st;
    matrix m;
    size_t values;
    float *q;

    if (head->slice >= plan->layout.slice_count || head->payload_bytes == 0 ||
        !plan->by_matrix[plan->layout.slices[head->slice].variable]) {
        return take(arg, head, bytes, len);
    }
    m = matrix_of(plan, placement, plan->layout.slices[head->slice].variable, part);
    st = check(plan, &m, head, len);
    if (!ps_is_ok(&st)) {
        return st;
    }
    values = m.rank * ps_factors_stride(m.columns);
    q = ps_xmalloc(values * sizeof *q + m.bytes);
    ps_factors_read(bytes + len - m.rank * m.columns * sizeof *q, m.rank, m.columns, q);
    st = hand_on(plan, placement, &m, bytes, q + values, q, take, arg);
    free(q);
    return st;
}
