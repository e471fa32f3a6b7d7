/* SPDX-License-Identifier: Apache-2.0 */
/* embedding.c - looks up a row of a table for each id, so that words and categories become
 * vectors.
 *
 * Ids are inputs like others: float32 values that hold an integer exactly. An id that is outside
 * the table or no integer gives a row of NaN, so that the loss is NaN and ps_model_find_nonfinite
 * names the sample. No memory outside the table is read. The gradient of the table is zero in all
 * rows but those that `touch` returns for the batch.
 */
#include "common/base/clones.h"
#include "common/nn/layer.h"

#include <math.h>
#include <string.h>

enum { ROWS, WIDTH, INIT, INIT_SCALE };

static const ps_param embedding_params[] = {
    {.name = "rows",
     .value = 1000,
     .min = 1,
     .max = 1 << 24,
     .is_integer = true,
     .help = "ids are 0 to rows - 1"},
    {.name = "width",
     .value = 32,
     .min = 1,
     .max = 65536,
     .is_integer = true,
     .help = "values of each id"},
    PS_INIT_PARAM_LINES,
    {.name = NULL},
};

static ps_status embedding_plan(ps_layer_plan *plan)
{
    size_t ids = ps_shape_size(&plan->in);
    uint32_t rows = (uint32_t)plan->params.v[ROWS], width = (uint32_t)plan->params.v[WIDTH];

    if (ids == 0 || ids > PS_TENSOR_MAX / width || rows > PS_TENSOR_MAX / width) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "embedding: %u rows and %zu ids of %u values; %d values each are allowed",
                       rows, ids, width, PS_TENSOR_MAX);
    }
    plan->out = (ps_shape){.rank = 2, .dim = {(uint32_t)ids, width}};
    plan->var_count = 1;
    plan->vars[0] = (ps_layer_var){
        .name = "weight",
        .shape = {.rank = 2, .dim = {rows, width}},
        .init = ps_init_of_weight(plan->params.v[INIT], plan->params.v[INIT_SCALE], rows, width),
        .is_sparse = true,
    };
    return ps_ok();
}

static size_t rows_of(const ps_layer_plan *plan)
{
    return plan->vars[0].shape.dim[0];
}

/* Sets *row to the row of an id. Returns false if the id is outside the table or no integer. */
static bool row_of(const ps_layer_plan *plan, float id, size_t *row)
{
    if (!(id >= 0.0f && id < (float)rows_of(plan))) {
        return false;
    }
    *row = (size_t)id;
    return (float)*row == id;
}

/* A row is prefetched this many ids before it is used. Rows lie scattered in a table that is larger
 * than the caches. */
enum { AHEAD = 8 };

static void prefetch(const ps_layer_plan *plan, const float *table, float id)
{
    size_t row = 0, width = plan->out.dim[1];

    if (row_of(plan, id, &row)) {
        const char *from = (const char *)(table + row * width);

        for (size_t at = 0; at < width * sizeof *table; at += 64) {
            __builtin_prefetch(from + at);
        }
    }
}

static void embedding_forward(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                              const float *x, float *y, float *tape, size_t n)
{
    size_t ids = n * plan->out.dim[0], width = plan->out.dim[1];

    (void)pass;
    (void)tape;
    for (size_t i = 0; i < ids; i++) {
        size_t row = 0;

        if (i + AHEAD < ids) {
            prefetch(plan, w[0], x[i + AHEAD]);
        }
        if (row_of(plan, x[i], &row)) {
            memcpy(y + i * width, w[0] + row * width, width * sizeof *y);
            continue;
        }
        for (size_t j = 0; j < width; j++) {
            y[i * width + j] = NAN;
        }
    }
}

PS_CLONES(add_row, (dy, dw, width), const float *restrict dy, float *restrict dw, size_t width)
{
    for (size_t j = 0; j < width; j++) {
        dw[j] += dy[j];
    }
}

static void embedding_backward(const ps_layer_plan *plan, const ps_pass *pass,
                               const float *const *w, const float *x, const float *y, float *tape,
                               const float *dy, float *const *dw, float *dx, size_t n)
{
    size_t ids = n * plan->out.dim[0], width = plan->out.dim[1];

    (void)pass;
    (void)w;
    (void)y;
    (void)tape;
    for (size_t i = 0; i < ids; i++) {
        size_t row = 0;

        if (i + AHEAD < ids) {
            prefetch(plan, dw[0], x[i + AHEAD]);
        }
        if (row_of(plan, x[i], &row)) {
            add_row(dy + i * width, dw[0] + row * width, width);
        }
    }
    if (dx != NULL) { /* ids have no gradient */
        memset(dx, 0, ids * sizeof *dx);
    }
}

static void embedding_touch(const ps_layer_plan *plan, const float *x, size_t n, ps_rowset *rows)
{
    for (size_t i = 0; i < n * plan->out.dim[0]; i++) {
        size_t row = 0;

        if (row_of(plan, x[i], &row)) {
            ps_rowset_add(rows, (uint32_t)row);
        }
    }
}

static ps_status embedding_check(const ps_layer_plan *plan, const float *x, size_t n)
{
    size_t ids = plan->out.dim[0], row = 0;

    for (size_t i = 0; i < n * ids; i++) {
        if (!row_of(plan, x[i], &row)) {
            return ps_fail(PS_INVALID_ARGUMENT, "sample %zu: id %.9g, 0 to %zu are allowed",
                           i / ids, (double)x[i], rows_of(plan) - 1);
        }
    }
    return ps_ok();
}

const ps_layer ps_layer_embedding = {
    .kind = "embedding",
    .summary =
        "y[i] = W[x[i]]; W (rows, width), x ids; the gradient is nonzero in the touched rows only",
    .params = embedding_params,
    .forward_by_sample = true,
    .plan = embedding_plan,
    .forward = embedding_forward,
    .backward = embedding_backward,
    .touch = embedding_touch,
    .check = embedding_check,
};
