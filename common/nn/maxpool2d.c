/* SPDX-License-Identifier: Apache-2.0 */
/* maxpool2d.c - the greatest value of each window; of equal values the first one in row order.
 *
 * The tape holds, as u32, the index in its plane of each window's greatest value. A NaN is greater
 * than every number.
 */
#include "common/base/clones.h"
#include "common/nn/pool.h"

#include <string.h>

_Static_assert(sizeof(uint32_t) == sizeof(float), "places lie on the tape");

static const ps_param maxpool2d_params[] = {
    PS_POOL_PARAM_LINES,
    {.name = NULL},
};

static ps_status maxpool2d_plan(ps_layer_plan *plan)
{
    ps_status st = ps_pool_plan(plan, "maxpool2d");

    if (ps_is_ok(&st)) {
        size_t out = ps_shape_size(&plan->out);

        if (out == 0 || plan->batch > PS_TENSOR_MAX / out) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "maxpool2d: %zu samples of %zu values, %d are allowed", plan->batch, out,
                           PS_TENSOR_MAX);
        }
        plan->tape_floats = plan->batch * out;
    }
    return st;
}

static void pool_plane(const ps_pool *at, const float *x, float *y, uint32_t *where)
{
    for (size_t r = 0; r < at->out_rows; r++) {
        size_t top = ps_pool_from(at, r), bottom = ps_pool_to(at, r, at->rows);

        for (size_t c = 0; c < at->out_columns; c++) {
            size_t left = ps_pool_from(at, c), right = ps_pool_to(at, c, at->columns);
            size_t best = top * at->columns + left;

            for (size_t i = top; i < bottom; i++) {
                for (size_t j = left; j < right; j++) {
                    float v = x[i * at->columns + j];

                    best = v > x[best] || v != v ? i * at->columns + j : best;
                }
            }
            *y++ = x[best];
            *where++ = (uint32_t)best;
        }
    }
}

/* Pools n windows of 2 x 2 values from two rows, without branches. `place` is the index in the
 * plane of the first value of `upper`; rows of the plane have `columns` values. */
PS_CLONES(pool_pairs, (upper, lower, place, columns, y, where, n), const float *restrict upper,
          const float *restrict lower, uint32_t place, uint32_t columns, float *restrict y,
          uint32_t *restrict where, uint32_t n)
{
    for (uint32_t c = 0; c < n; c++) {
        float a = upper[2 * c], b = upper[2 * c + 1], d = lower[2 * c], e = lower[2 * c + 1];
        uint32_t best = place + 2 * c;
        uint32_t right = best + 1, below = best + columns, corner = below + 1;

        best = b > a || b != b ? right : best;
        a = b > a || b != b ? b : a;
        best = d > a || d != d ? below : best;
        a = d > a || d != d ? d : a;
        best = e > a || e != e ? corner : best;
        a = e > a || e != e ? e : a;
        y[c] = a;
        where[c] = best;
    }
}

static void maxpool2d_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                              const float *x, float *y, float *tape, size_t n)
{
    ps_pool at = ps_pool_of(plan);
    size_t planes = n * plan->in.dim[0], out = at.out_rows * at.out_columns;
    uint32_t *where = (uint32_t *)(void *)tape;

    (void)pass;
    (void)w;
    for (size_t p = 0; p < planes; p++, x += at.rows * at.columns, y += out, where += out) {
        if (at.kernel != 2 || at.stride != 2 || at.padding != 0) {
            pool_plane(&at, x, y, where);
            continue;
        }
        for (size_t r = 0; r < at.out_rows; r++) {
            size_t first = 2 * r * at.columns;

            pool_pairs(x + first, x + first + at.columns, (uint32_t)first, (uint32_t)at.columns,
                       y + r * at.out_columns, where + r * at.out_columns,
                       (uint32_t)at.out_columns);
        }
    }
}

static void maxpool2d_backward(const ps_layer_plan *plan, const ps_pass *pass,
                               const float *const *w, const float *x, const float *y, float *tape,
                               const float *dy, float *const *dw, float *dx, size_t n)
{
    ps_pool at = ps_pool_of(plan);
    size_t planes = n * plan->in.dim[0], in = at.rows * at.columns;
    size_t out = at.out_rows * at.out_columns;
    const uint32_t *where = (const uint32_t *)(void *)tape;

    (void)pass;
    (void)w;
    (void)x;
    (void)y;
    (void)dw;
    if (dx == NULL) {
        return;
    }
    memset(dx, 0, planes * in * sizeof *dx);
    for (size_t p = 0; p < planes; p++, dx += in, dy += out, where += out) {
        for (size_t i = 0; i < out; i++) {
            dx[where[i]] += dy[i];
        }
    }
}

const ps_layer ps_layer_maxpool2d = {
    .kind = "maxpool2d",
    .summary = "y = the greatest value of each window of kernel x kernel",
    .params = maxpool2d_params,
    .forward_by_sample = true,
    .backward_by_sample = true,
    .plan = maxpool2d_plan,
    .forward = maxpool2d_forward,
    .backward = maxpool2d_backward,
};
