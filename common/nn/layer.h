/* SPDX-License-Identifier: Apache-2.0 */
/* layer.h - one kind of layer: its shapes, its variables, forward and backward.
 *
 * Letters: B samples of a batch; I values of a sample at the input, O at the output; C channels,
 * H rows and W columns of an image (C, H, W). Tensors are float32, row-major; a sample is a row.
 * `plan` is called once; forward and backward never allocate. To add a layer: common/nn/NAME.c, a
 * line in list.h, a line in CMakeLists.txt, and its ONNX nodes in common/artifact/onnx_layers.c.
 */
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
 * as the running statistics of batch_norm. State lies in the same block and is exchanged, saved and
 * checksummed like all of it. It has no gradient; in its place backward adds a decrement, so that
 * w -= merged decrements makes the state the mean over all blocks. No optimizer may step state.
 * docs/engine.md has the reasons. */
typedef struct ps_layer_var {
    const char *name; /* "weight", "bias" */
    ps_shape shape;
    ps_init init;   /* initial values; zeroed: zeros */
    bool is_state;  /* changed by the layer, not by the optimizer */
    bool is_sparse; /* (rows, width): its gradient is 0 in all rows but those of `touch` */
} ps_layer_var;

/* One forward and backward of a batch. */
typedef struct ps_pass {
    bool is_training; /* false: no draws, and no statistics of the batch */
    uint64_t key;     /* key of the layer's draws; the same key gives the same draws */
    float scale;      /* dy is the gradient of scale * sum of losses; unused in forward */
    ps_team *team;    /* threads that share the layer; NULL: the caller's alone */
    size_t first;     /* number in the batch of the first sample: draws go by it */

    /* For a layer that ends with a relu (ps_layer.with_relu); both have y's shape. */
    const float *added; /* is added before the relu; NULL: nothing */
    float *dadded;      /* backward writes the gradient of `added`; may be dy; NULL: not wanted */
} ps_pass;

typedef struct ps_layer_plan {
    ps_shape in, out; /* of one sample; in is the first input's */
    uint32_t input_count;
    ps_shape ins[PS_LAYER_INPUTS_MAX]; /* all inputs, if inputs_max > 0 */
    size_t batch;                      /* B, the most samples of a call */
    ps_params params;
    unsigned var_count;
    ps_layer_var vars[PS_LAYER_VARS_MAX];
    size_t tape_floats; /* kept from forward to backward, for a batch */
    /* not kept: used only within a call, so that layers share it; each thread of the team has as
     * much (ps_team_scratch) */
    bool tape_is_scratch;
} ps_layer_plan;

typedef struct ps_layer ps_layer;
struct ps_layer {
    const char *kind;
    const char *summary;    /* one line with the formula */
    const ps_param *params; /* (optional) */
    uint32_t inputs_max;    /* 0: the layer has one input; else the most inputs */
    bool passes_slope;      /* the gradient of every input equals dy; backward_many is NULL */
    bool slope_in_place;    /* dx of backward may be dy */
    /* Each sample is computed by itself and has its own part of the tape, so that threads may call
     * forward, or backward, for different samples of a batch at once. */
    bool forward_by_sample, backward_by_sample;

    /* (optional) The same layer followed by y = max(0, y + pass->added), in the same passes over
     * memory. Plan, variables and tape are this layer's. It is in no list: a model uses it where a
     * relu, or an addition and a relu, follow the layer. */
    const ps_layer *with_relu;

    /* Fills plan->out, vars and tape_floats from in (or ins and input_count, if inputs_max > 0),
     * batch and params. Fails with INVALID_ARGUMENT if the input's shape does not fit. */
    PS_MUST_USE ps_status (*plan)(ps_layer_plan *plan);

    /* Computes y (n, O) from x (n, I), n <= B. w has a pointer for each variable. NULL, together
     * with backward, in a view: y is x in another shape. */
    void (*forward)(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                    const float *x, float *y, float *tape, size_t n);

    /* Computes dx (n, I) from dy (n, O); NULL: dx is not wanted. Adds to dw[v] the gradient of
     * variable v, summed over the n samples; of state scale * n * its decrement. `pass`, x and y
     * are those of forward, in training; backward may overwrite the tape. dx does not alias dy,
     * except with slope_in_place. The bits do not depend on the addresses of tensors. */
    void (*backward)(const ps_layer_plan *plan, const ps_pass *pass, const float *const *w,
                     const float *x, const float *y, float *tape, const float *dy, float *const *dw,
                     float *dx, size_t n);

    /* (optional) Adds to `rows` the rows of variable 0, which is sparse, that x (n, I) touches. */
    void (*touch)(const ps_layer_plan *plan, const float *x, size_t n, ps_rowset *rows);

    /* (optional) Checks x (n, I) for values that the layer cannot take and of which forward makes
     * NaN. Fails with INVALID_ARGUMENT: sample, value and what is allowed. Called after a failure.
     */
    PS_MUST_USE ps_status (*check)(const ps_layer_plan *plan, const float *x, size_t n);

    /* Replace forward and backward if inputs_max > 0. Such a layer has no variables and no tape.
     * x[k] and dx[k] are (n, ins[k]); dx[k] NULL: not wanted. Two inputs may be one tensor; all dx
     * differ. */
    void (*forward_many)(const ps_layer_plan *plan, const float *const *x, float *y, size_t n);
    void (*backward_many)(const ps_layer_plan *plan, const float *const *x, const float *dy,
                          float *const *dx, size_t n);
};

/* Returns the layer of this kind, or NULL. */
const ps_layer *ps_layer_find(const char *kind);

/* Calls fn for each kind of layer, in the order of list.h. */
void ps_layer_each(void (*fn)(const ps_layer *layer, void *arg), void *arg);

/* Writes the shape of the input as an image. Fails with INVALID_ARGUMENT, which names `kind`, if it
 * is none. For layers of this room. */
PS_MUST_USE ps_status ps_layer_image(const ps_layer_plan *plan, const char *kind, uint32_t chw[3]);

#endif
