/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_impl.h - what the files of the ONNX writer share: how nodes and constants are
 * added to a graph. All texts and values are copied.
 *
 * Names: a value that layer NAME makes is "NAME.out", one on the way to it
 * "NAME.SUFFIX"; variables are called as in the model, so none of these meet.
 */
#ifndef PS_COMMON_ARTIFACT_ONNX_IMPL_H
#define PS_COMMON_ARTIFACT_ONNX_IMPL_H

#include "common/nn/model.h"

#include "onnx/onnx.pb-c.h"

enum { PS_ONNX_NAME_MAX = 96 };

/* A graph that is being written. */
typedef Onnx__GraphProto ps_onnx_graph;

/* One layer to be written. */
typedef struct ps_onnx_layer {
    const ps_layer *layer;
    const ps_layer_plan *plan;
    const char *name;
    const char *const *in;        /* names of the values that it reads */
    const ps_variable *variables; /* (plan->var_count) */
    const char *out;              /* name of the value that it makes */
} ps_onnx_layer;

typedef struct ps_onnx_kind {
    const char *kind;
    /* NULL: the layer's output is its input. */
    void (*write)(ps_onnx_graph *graph, const ps_onnx_layer *layer);
} ps_onnx_kind;

/* NULL if there is none. */
const ps_onnx_kind *ps_onnx_kind_find(const char *kind);

/* Adds a node without inputs. Its name is that of the value that it makes. */
void ps_onnx_node(ps_onnx_graph *graph, const char *operator_name, const char *out);
/* Adds an input to the newest node. */
void ps_onnx_in(ps_onnx_graph *graph, const char *value);
/* Adds an attribute to the newest node. */
void ps_onnx_int(ps_onnx_graph *graph, const char *name, int64_t value);
void ps_onnx_float(ps_onnx_graph *graph, const char *name, float value);
void ps_onnx_ints(ps_onnx_graph *graph, const char *name, const int64_t *values, size_t n);

/* Adds a constant: a vector of n values. */
void ps_onnx_const_ints(ps_onnx_graph *graph, const char *name, const int64_t *values, size_t n);
/* Adds a constant: a scalar. */
void ps_onnx_const_float(ps_onnx_graph *graph, const char *name, float value);

/* Writes the name "layer.suffix" into `out` and returns `out`. */
const char *ps_onnx_name(const ps_onnx_layer *layer, const char *suffix,
                         char out[PS_ONNX_NAME_MAX]);

#endif
