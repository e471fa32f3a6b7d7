/* SPDX-License-Identifier: Apache-2.0 */
/* layer.h - one kind of layer: its shapes, its variables, forward and backward.
 *
 * Letters: B samples of a batch, I values of a sample that go in, O that come
 * out; C channels, H rows and W columns of an image, (C, H, W). Everything is
 * float32, row-major; a sample is a row. A layer is planned once and never
 * allocates afterwards. To add one: common/nn/NAME.c, a line in
 * list.h, a line in CMakeLists.txt, and its form for others in
 * common/artifact/onnx_layers.c.
 */
#ifndef PS_COMMON_NN_LAYER_H
#define PS_COMMON_NN_LAYER_H

#include "common/base/param.h"
#include "common/base/rowset.h"
#include "common/base/status.h"
#include "common/nn/init.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_SHAPE_MAX = 4,
    PS_LAYER_VARS_MAX = 4,
    PS_LAYER_INPUTS_MAX = 16,
    PS_TENSOR_MAX = 1 << 30, /* values of one tensor: 4 GiB, and what BLAS can index */
};

typedef struct ps_shape {
    uint32_t rank;
    uint32_t dim[PS_SHAPE_MAX]; /* outermost first */
} ps_shape;

/* Product of the dimensions; SIZE_MAX if it is more than that. */
size_t ps_shape_size(const ps_shape *shape);
bool ps_shape_equal(const ps_shape *a, const ps_shape *b);

/* A variable that a layer asks for.
 *
 * Beside what is trained there is *state*: values that the layer itself moves
 * while training, as the running statistics of batch_norm. It lies in the same
 * block, is exchanged, saved and checksummed like everything there, but has no
 * gradient: what backward adds in its place is the decrement by which it is to
 * move, so that w -= merged decrements makes it the mean over all blocks. No
 * optimizer may see it. docs/engine.md has the reasons. */
typedef struct ps_layer_var {
    const char *name; /* "weight", "bias" */
    ps_shape shape;
    ps_init init;   /* initial values; left out: zeros */
    bool is_state;  /* moved by the layer, not by the optimizer */
    bool is_sparse; /* (rows, width): of its gradient only the rows of `touch` are not 0 */
} ps_layer_var;

/* One forward and backward of a batch. */
typedef struct ps_pass {
    bool is_training; /* else draws and statistics of the batch are left out */
    uint64_t key;     /* names the layer's draws: the same key, the same draws */
    float scale;      /* dy is the gradient of scale * sum of losses; unused in forward */

    /* For a layer that ends with a relu (ps_layer.with_relu), all of y's shape: what is added
     * before the relu, NULL: nothing; in backward also where the gradient of it goes, NULL if
     * nobody wants it, perhaps dy itself. */
    const float *added;
    float *dadded;
} ps_pass;

typedef struct ps_layer_plan {
    ps_shape in, out; /* of one sample; in is the first input's */
    uint32_t input_count;
    ps_shape ins[PS_LAYER_INPUTS_MAX]; /* of a layer that takes several */
    size_t batch;                      /* B, the most samples at once */
    ps_params params;
    unsigned var_count;
    ps_layer_var vars[PS_LAYER_VARS_MAX];
    size_t tape_floats;   /* from forward to backward, for a batch */
    bool tape_is_scratch; /* needed only while forward or backward runs; layers share it */
} ps_layer_plan;

typedef struct ps_layer ps_layer;
struct ps_layer {
    const char *kind;
    const char *summary;    /* one line with the formula */
    const ps_param *params; /* (optional) */
    uint32_t inputs_max;    /* 0: takes one input; else up to so many */
    bool passes_slope;      /* of several inputs: dx of each is dy, and backward_many NULL */
    bool slope_in_place;    /* backward may be given dy itself as dx */

    /* (optional) The same with y = max(0, y + pass->added) at its end, in the same passes over
     * memory: its plan, variables and tape are this layer's, and its y is all that is kept. In no
     * list: models take it where a relu, or an addition and a relu, follow the layer. */
    const ps_layer *with_relu;

    /* Fills plan->out, vars and tape_floats from in (ins and input_count, where it takes
     * several), batch and params. INVALID_ARGUMENT if the input's shape does not fit. */
    PS_MUST_USE ps_status (*plan)(ps_layer_plan *plan);

    /* y (n, O) from x (n, I), n <= B. w: the layer's variables, one pointer
     * each. NULL, as backward: a view; y is x in another shape, nothing moves. */
    void (*forward)(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                    const float *x, float *y, float *tape, size_t n);

    /* dx (n, I) from dy (n, O), NULL if nobody wants it; dw[v] += the gradient
     * of variable v summed over the n samples, or for state scale * n * its
     * decrement. pass is forward's, in training; x, y as forward left them, and
     * tape, which backward may overwrite. dx may not alias dy, but for slope_in_place. Bits do not
     * depend on where tensors lie. */
    void (*backward)(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                     const float *x, const float *y, float *tape, const float *dy, float *const *dw,
                     float *dx, size_t n);

    /* (optional) Adds to `rows` those of variable 0, a sparse one, that x (n, I) touches. */
    void (*touch)(const ps_layer_plan *plan, const float *x, size_t n, ps_rowset *rows);

    /* (optional) INVALID_ARGUMENT for an x (n, I) that the layer cannot take, of which forward
     * makes NaN: sample, value, what is allowed. For the report of a failure. */
    PS_MUST_USE ps_status (*check)(const ps_layer_plan *plan, const float *x, size_t n);

    /* In place of the two, where inputs_max > 0; no variables, no tape. x[k] (n, ins[k]),
     * dx[k] likewise, NULL if nobody wants it; two inputs may be the same tensor, but no
     * two of dx are. */
    void (*forward_many)(const ps_layer_plan *plan, const float *const *x, float *y, size_t n);
    void (*backward_many)(const ps_layer_plan *plan, const float *const *x, const float *dy,
                          float *const *dx, size_t n);
};

const ps_layer *ps_layer_find(const char *kind); /* NULL if there is none */
void ps_layer_each(void (*fn)(const ps_layer *layer, void *arg), void *arg);

/* For the layers of this directory: the input as an image, INVALID_ARGUMENT
 * that names `kind` if it is none. */
PS_MUST_USE ps_status ps_layer_image(const ps_layer_plan *plan, const char *kind, uint32_t chw[3]);

#endif
