/* SPDX-License-Identifier: Apache-2.0 */
/* layer_rig.c - see layer_rig.h. */
#include "tests/support/layer_rig.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include "tests/support/close.h"
#include "tests/support/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

static const float canary = 12345.0f;

static tensor make(size_t n, size_t shift, uint64_t stream)
{
    size_t total = n + shift + 2 * RIG_GUARD;
    tensor out = {.block = ps_xaligned_alloc(total * sizeof(float)), .n = n};
    uint64_t key = ps_draw_key(rig_seed, PS_DRAW_TEST, stream, 0, 0);

    out.v = out.block + RIG_GUARD + shift;
    for (size_t i = 0; i < total; i++) {
        out.block[i] = canary;
    }
    for (size_t i = 0; i < n; i++) {
        double u = 2.0 * ps_draw_unit(key, i) - 1.0;

        out.v[i] = (float)(u < 0 ? u - 0.2 : u + 0.2);
    }
    return out;
}

static void drop(tensor *at)
{
    for (size_t i = 0; i < RIG_GUARD; i++) {
        assert_true(at->v[-1 - (ptrdiff_t)i] == canary && at->v[at->n + i] == canary);
    }
    free(at->block);
}

static ps_layer_plan plan_of(const ps_layer *layer, ps_shape in, size_t batch,
                             const ps_params *params)
{
    ps_layer_plan plan = {.in = in, .batch = batch, .params = *params, .input_count = 1};

    if (layer->inputs_max > 0) {
        plan.input_count = layer->inputs_max > RIG_MORE + 1 ? RIG_MORE + 1 : layer->inputs_max;
    }
    for (uint32_t k = 0; k < plan.input_count; k++) {
        plan.ins[k] = in;
    }
    if (strcmp(layer->kind, "dots") == 0) {
        plan.ins[1] = (ps_shape){.rank = 2, .dim = {3, in.dim[0]}};
    }
    return plan;
}

/* Returns whether the inputs of the layer are ids. Such a layer has no gradient by its input. */
static bool reads_ids(const ps_layer *layer)
{
    return layer->touch != NULL;
}

/* Fills the input with ids of rows of the table, some of them several times. */
static void draw_ids(rig *at)
{
    uint64_t key = ps_draw_key(rig_seed, PS_DRAW_TEST, 40, 0, 0);

    for (size_t i = 0; i < at->x.n; i++) {
        at->x.v[i] = (float)ps_draw_below(key, i, at->plan.vars[0].shape.dim[0]);
    }
}

rig rig_of(const ps_layer *layer, size_t n, size_t batch, ps_shape in, const ps_params *params,
           size_t shift)
{
    rig at = {.layer = layer, .n = n, .in = ps_shape_size(&in)};
    ps_status st;

    at.pass = (ps_pass){.is_training = true, .key = rig_seed, .scale = 1.0f};
    at.plan = plan_of(layer, in, batch, params);
    st = layer->plan(&at.plan);
    assert_true(ps_is_ok(&st));
    for (uint32_t k = 1; k < at.plan.input_count; k++) {
        size_t size = ps_shape_size(&at.plan.ins[k]);

        at.more_x[k - 1] = make(n * size, shift, 20 + k);
        at.more_dx[k - 1] = make(n * size, shift, 30 + k);
    }
    at.out = ps_shape_size(&at.plan.out);
    at.x = make(n * at.in, shift, 0);
    at.y = make(n * at.out, shift, 1);
    at.dx = make(n * at.in, shift, 2);
    at.dy = make(n * at.out, shift, 3);
    at.tape = make(at.plan.tape_floats, shift, 4);
    for (unsigned v = 0; v < at.plan.var_count; v++) {
        at.w[v] = make(ps_shape_size(&at.plan.vars[v].shape), shift, 5 + v);
        at.dw[v] = make(at.w[v].n, shift, 10 + v);
    }
    if (reads_ids(layer)) {
        draw_ids(&at);
    }
    return at;
}

static bool takes(const ps_layer *layer, ps_shape in, const ps_params *params)
{
    ps_layer_plan plan = plan_of(layer, in, 1, params);
    ps_status st = layer->plan(&plan);

    return ps_is_ok(&st);
}

rig rig_make(const ps_layer *layer, size_t n, size_t batch, uint32_t in, uint32_t units,
             size_t shift)
{
    ps_params params = ps_params_default(layer->params);
    ps_shape row = {.rank = 1, .dim = {in}}, image = {.rank = 3, .dim = {3, 3 + in / 3, 5}};
    int wide = ps_param_find(layer->params, "units"),
        deep = ps_param_find(layer->params, "filters");

    if (wide >= 0) {
        params.v[wide] = units;
    }
    if (deep >= 0) {
        params.v[deep] = units;
    }
    if (reads_ids(layer)) {
        params.v[ps_param_find(layer->params, "rows")] = in;
        params.v[ps_param_find(layer->params, "width")] = units;
    }
    return rig_of(layer, n, batch, takes(layer, row, &params) ? row : image, &params, shift);
}

void rig_drop(rig *at)
{
    drop(&at->x);
    drop(&at->y);
    drop(&at->dx);
    drop(&at->dy);
    drop(&at->tape);
    for (uint32_t k = 1; k < at->plan.input_count; k++) {
        drop(&at->more_x[k - 1]);
        drop(&at->more_dx[k - 1]);
    }
    for (unsigned v = 0; v < at->plan.var_count; v++) {
        drop(&at->w[v]);
        drop(&at->dw[v]);
    }
}

void rig_clear(rig *at)
{
    for (unsigned v = 0; v < at->plan.var_count; v++) {
        memset(at->dw[v].v, 0, at->dw[v].n * sizeof(float));
    }
}

void rig_forward(rig *at)
{
    const float *w[PS_LAYER_VARS_MAX] = {at->w[0].v, at->w[1].v, at->w[2].v, at->w[3].v};

    if (at->layer->forward_many != NULL) {
        const float *x[1 + RIG_MORE] = {at->x.v, at->more_x[0].v, at->more_x[1].v};

        at->layer->forward_many(&at->plan, x, at->y.v, at->n);
        return;
    }
    /* the layer is a view: its output is its input in another shape */
    if (at->layer->forward == NULL) {
        memcpy(at->y.v, at->x.v, at->y.n * sizeof(float));
        return;
    }
    at->layer->forward(&at->plan, &at->pass, w, at->x.v, at->y.v, at->tape.v, at->n);
}

static void rig_backward_many(rig *at, float *dx)
{
    const float *x[1 + RIG_MORE] = {at->x.v, at->more_x[0].v, at->more_x[1].v};
    float *to[1 + RIG_MORE] = {dx, at->more_dx[0].v, at->more_dx[1].v};

    if (!at->layer->passes_slope) {
        at->layer->backward_many(&at->plan, x, at->dy.v, to, at->n);
        return;
    }
    assert_null(at->layer->backward_many);
    for (uint32_t k = 0; k < at->plan.input_count; k++) {
        if (to[k] != NULL) {
            memcpy(to[k], at->dy.v, at->dy.n * sizeof(float));
        }
    }
}

void rig_backward(rig *at, float *dx)
{
    const float *w[PS_LAYER_VARS_MAX] = {at->w[0].v, at->w[1].v, at->w[2].v, at->w[3].v};
    float *dw[PS_LAYER_VARS_MAX] = {at->dw[0].v, at->dw[1].v, at->dw[2].v, at->dw[3].v};

    if (at->layer->forward_many != NULL) {
        rig_backward_many(at, dx);
        return;
    }
    if (at->layer->backward == NULL) {
        assert_null(at->layer->forward);
        if (dx != NULL) {
            memcpy(dx, at->dy.v, at->dy.n * sizeof(float));
        }
        return;
    }
    at->layer->backward(&at->plan, &at->pass, w, at->x.v, at->y.v, at->tape.v, at->dy.v, dw, dx,
                        at->n);
}

/* Returns the sum of dy * y, the function whose gradient backward computes. */
static double objective(rig *at)
{
    double sum = 0;

    rig_forward(at);
    for (size_t i = 0; i < at->y.n; i++) {
        sum += (double)at->dy.v[i] * (double)at->y.v[i];
    }
    return sum;
}

static double objective_at(rig *at, float *value, float x)
{
    float held = *value;
    double out;

    *value = x;
    out = objective(at);
    *value = held;
    return out;
}

/* Fills a tensor with values 0.01 apart, in random order, so that a step of finite differences
 * makes no other value the greatest. */
static void spread(tensor *x)
{
    uint32_t *order = ps_xcalloc(x->n, sizeof *order);

    ps_draw_permutation(ps_draw_key(rig_seed, PS_DRAW_TEST, 30, 0, 0), order, x->n);
    for (size_t i = 0; i < x->n; i++) {
        x->v[i] = 0.01f * (float)order[i] - 0.5f;
    }
    free(order);
}

/* Returns the step of finite differences for a layer, and sets the tolerance. A piecewise linear
 * layer gets a small step: it crosses few kinks (none with this rig_seed), and between kinks there
 * is no error of higher order. The variance of a batch has the largest higher derivatives. */
static float step_of(const ps_layer *layer, double *tolerance)
{
    *tolerance = 1e-4;
    if (strcmp(layer->kind, "maxpool2d") == 0 || strcmp(layer->kind, "hard_tanh") == 0) {
        *tolerance = 1e-3;
        return 0x1p-10f;
    }
    return strcmp(layer->kind, "batch_norm") == 0 ? 0x1p-7f : 0x1p-5f;
}

/* Compares a gradient with central differences of fourth order, whose error of order h^4 is far
 * below that of float32. */
static void compare_with_differences(rig *at, tensor *of, const tensor *gradient, const char *what)
{
    double tolerance;
    const float h = step_of(at->layer, &tolerance);

    for (size_t i = 0; i < of->n; i++) {
        float v = of->v[i];
        double near = objective_at(at, &of->v[i], v + h) - objective_at(at, &of->v[i], v - h);
        double far =
            objective_at(at, &of->v[i], v + 2 * h) - objective_at(at, &of->v[i], v - 2 * h);
        double want = (8 * near - far) / (12 * (double)h);

        assert_true(is_close((double)gradient->v[i], want, tolerance * (1 + fabs(want)), what, i));
    }
}

void rig_check(rig *at)
{
    if (strcmp(at->layer->kind, "maxpool2d") == 0) {
        spread(&at->x);
    }
    rig_clear(at);
    rig_forward(at);
    rig_backward(at, at->dx.v);
    if (!reads_ids(at->layer)) {
        compare_with_differences(at, &at->x, &at->dx, at->layer->kind);
    }
    for (size_t i = 0; reads_ids(at->layer) && i < at->dx.n; i++) {
        assert_true(at->dx.v[i] == 0.0f);
    }
    for (uint32_t k = 1; k < at->plan.input_count; k++) {
        compare_with_differences(at, &at->more_x[k - 1], &at->more_dx[k - 1], at->layer->kind);
    }
    for (unsigned v = 0; v < at->plan.var_count; v++) {
        if (!at->plan.vars[v].is_state) {
            compare_with_differences(at, &at->w[v], &at->dw[v], at->plan.vars[v].name);
        }
    }
    rig_drop(at);
}
