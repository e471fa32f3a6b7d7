/* SPDX-License-Identifier: Apache-2.0 */
/* layer_rig.h - a layer with all its tensors, for tests of layers by iteration. */
#ifndef PS_TESTS_SUPPORT_LAYER_RIG_H
#define PS_TESTS_SUPPORT_LAYER_RIG_H

#include "common/nn/layer.h"

static const uint64_t rig_seed = 20240602;

enum {
    RIG_GUARD = 16, /* guard floats before and behind each tensor */
    RIG_MORE = 2    /* inputs beside the first one, of a layer that takes several */
};

typedef struct tensor {
    float *block; /* the allocated memory: guard, shift, values, guard */
    float *v;
    size_t n;
} tensor;

/* A layer with its tensors, filled with draws of magnitude 0.2 to 1.2: away from 0, so that a step
 * of finite differences crosses no kink. */
typedef struct rig {
    const ps_layer *layer;
    ps_layer_plan plan;
    size_t n, in, out; /* number of samples; values of a sample of the input and of the output */
    tensor x, y, dx, dy, tape;
    tensor more_x[RIG_MORE], more_dx[RIG_MORE];
    tensor w[PS_LAYER_VARS_MAX], dw[PS_LAYER_VARS_MAX];
    ps_pass pass;
} rig;

/* Returns a rig for n of `batch` samples of this shape, for each input. Every tensor begins `shift`
 * floats behind an aligned address. */
rig rig_of(const ps_layer *layer, size_t n, size_t batch, ps_shape in, const ps_params *params,
           size_t shift);

/* Returns a rig for the layer with default numbers and `units` units or filters. A sample is a row
 * of `in` values or, if the layer takes only images, an image of 3 channels, 3 + in / 3 rows and 5
 * columns. A layer that takes several inputs has three. */
rig rig_make(const ps_layer *layer, size_t n, size_t batch, uint32_t in, uint32_t units,
             size_t shift);
void rig_drop(rig *at); /* asserts that nobody wrote beside a tensor */

void rig_clear(rig *at); /* gradients of variables become 0 */
void rig_forward(rig *at);
void rig_backward(rig *at, float *dx);

/* Asserts that backward agrees with finite differences of forward; drops the rig. */
void rig_check(rig *at);

#endif
