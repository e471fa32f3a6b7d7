/* SPDX-License-Identifier: Apache-2.0 */
/* layer.h - one kind of layer: its shapes, its variables, forward and backward.
 *
 * Letters: B samples of a batch; I values of a sample at the input, O at the output; C channels, H
 * rows and W columns of an image (C, H, W). Tensors are float32, row-major; a sample is a row. In
 * names, `slope` means a gradient. `plan` is called once; forward and backward never allocate. To
 * add a layer: common/nn/NAME.c, a line in list.h, a line in CMakeLists.txt, and its ONNX nodes in
 * common/artifact/onnx_layers.c. */
#ifndef PS_COMMON_NN_LAYER_H
#define PS_COMMON_NN_LAYER_H

#include "common/base/param.h"
#include "common/base/rowset.h"
#include "common/base/status.h"
#include "common/nn/init.h"
#include "common/nn/team.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_SHAPE_MAX = 4,
    PS_LAYER_VARS_MAX = 4,
    PS_LAYER_INPUTS_MAX = 16,
    PS_TENSOR_MAX = 1 << 30, /* most values of one tensor (4 GiB), which BLAS can index */
};

typedef struct ps_shape {
    uint32_t rank;
    uint32_t dim[PS_SHAPE_MAX]; /* outermost first */
} ps_shape;

/* Returns the product of the dimensions; SIZE_MAX if it overflows. */
size_t ps_shape_size(const ps_shape *shape);
bool ps_shape_equal(const ps_shape *a, const ps_shape *b);

/* A variable that a layer asks for.
 *
 * A variable is trained, or it is *state*: values that the layer itself changes in training, such
 * as the running statistics of batch_norm. State lies in the same block of weights and is
 * exchanged, saved and checksummed like the rest. State has no gradient. In place of a gradient
 * backward adds a decrement, so that w -= merged decrements makes the state the mean over all
 * blocks. No optimizer may step state. docs/engine.md has the reasons. */
typedef struct ps_layer_var {
    const char *name; /* "weight", "bias" */
    ps_shape shape;
    ps_init init;   /* how the values begin; a zeroed struct: zeros */
    bool is_state;  /* changed by the layer, not by the optimizer */
    bool is_sparse; /* (rows, width): its gradient is 0 in all rows but those of `touch` */
} ps_layer_var;

/* What one forward and one backward of a batch are told. */
typedef struct ps_pass {
    bool is_training; /* false: no draws, and no statistics of the batch */
    uint64_t key;     /* key of the layer's draws; the same key gives the same draws */
    float scale;      /* dy is the gradient of scale * the summed loss; not used in forward */
    ps_team *team;    /* the threads that share the layer; NULL: the caller's thread alone */
    /* number in the batch of the call's first sample, on which the draws of the layer depend */
    size_t first;

    /* For a layer that ends with a relu (ps_layer.with_relu); both have y's shape. */
    const float *added; /* values to add before the relu; NULL: none */
    /* where backward writes the gradient of `added`; may be dy; NULL: not needed */
    float *dadded;
} ps_pass;

typedef struct ps_layer_plan {
    ps_shape in, out; /* shapes of one sample; `in` is that of the first input */
    uint32_t input_count;
    ps_shape ins[PS_LAYER_INPUTS_MAX]; /* shapes of all inputs, if inputs_max > 0 */
    size_t batch;                      /* B, the most samples of a call */
    ps_params params;
    unsigned var_count;
    ps_layer_var vars[PS_LAYER_VARS_MAX];
    size_t tape_floats; /* floats that forward leaves for backward, for a whole batch */
    /* The tape is used only within a call and not kept, so layers share its memory; each thread of
     * the team has as much of its own (ps_team_scratch). */
    bool tape_is_scratch;
} ps_layer_plan;

typedef struct ps_layer ps_layer;
struct ps_layer {
    const char *kind;
    const char *summary;    /* one line with the formula */
    const ps_param *params; /* (optional) */
    /* 0: the layer has exactly one input; else the most inputs that it may have */
    uint32_t inputs_max;
    bool passes_slope;   /* the gradient of every input equals dy; backward_many is NULL */
    bool slope_in_place; /* backward may write dx over dy */
    /* Each sample is computed by itself and has its own part of the tape, so that threads may call
     * forward, or backward, for different samples of a batch at once. */
    bool forward_by_sample, backward_by_sample;

    /* (optional) A layer that does what this layer does and then y = max(0, y + pass->added),
     * without further passes over memory. It has the plan, variables and tape of this layer. It is
     * in no list: a model uses it where a relu, or an addition and a relu, follow the layer. */
    const ps_layer *with_relu;

    /* Fills plan->out, vars, var_count, tape_floats and tape_is_scratch. Reads in (or ins and
     * input_count, if inputs_max > 0), batch and params. Returns INVALID_ARGUMENT if the input's
     * shape does not fit. */
    PS_MUST_USE ps_status (*plan)(ps_layer_plan *plan);

    /* Computes y (n, O) from x (n, I), n <= B. `w` has a pointer for each variable. NULL, and
     * backward too, for a view: a layer whose y is x in another shape. */
    void (*forward)(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                    const float *x, float *y, float *tape, size_t n);

    /* Computes dx (n, I) from dy (n, O); dx NULL: not needed. Adds to dw[v] the gradient of
     * variable v, summed over the n samples; for state, scale * n * its decrement. `pass`, x and y
     * are those of forward, in training. backward may overwrite the tape. dx must not overlap dy,
     * except with slope_in_place. The bits do not depend on the addresses of tensors. */
    void (*backward)(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                     const float *x, const float *y, float *tape, const float *dy, float *const *dw,
                     float *dx, size_t n);

    /* (optional) Adds to `rows` the rows of variable 0, which is sparse, that x (n, I) touches. */
    void (*touch)(const ps_layer_plan *plan, const float *x, size_t n, ps_rowset *rows);

    /* (optional) Looks in x (n, I) for values that the layer cannot take and that make forward's
     * output NaN. Returns INVALID_ARGUMENT with the sample, the value and what is allowed. Called
     * only after a loss was not finite. */
    PS_MUST_USE ps_status (*check)(const ps_layer_plan *plan, const float *x, size_t n);

    /* Used in place of forward and backward if inputs_max > 0. Such a layer has no variables and no
     * tape. x[k] and dx[k] are (n, ins[k]); dx[k] NULL: not needed. Two inputs may be the same
     * tensor; the dx are all different. */
    void (*forward_many)(const ps_layer_plan *plan, const float *const *x, float *y, size_t n);
    void (*backward_many)(const ps_layer_plan *plan, const float *const *x, const float *dy,
                          float *const *dx, size_t n);
};

/* Returns the layer of this kind, or NULL. */
const ps_layer *ps_layer_find(const char *kind);

/* Calls fn for each kind of layer, in the order of list.h. */
void ps_layer_each(void (*fn)(const ps_layer *layer, void *arg), void *arg);

/* Writes the shape of the input as channels, rows and columns of an image. Returns
 * INVALID_ARGUMENT, which names `kind`, if the input is no image. For layers in common/nn. */
PS_MUST_USE ps_status ps_layer_image(const ps_layer_plan *plan, const char *kind, uint32_t chw[3]);

#endif
