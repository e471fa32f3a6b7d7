/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_layers.h - writes layers as nodes of an ONNX graph.
 *
 * onnx_layers.c has a writer for each kind of layer; onnx.c has the functions with which writers
 * add nodes and constants. All texts and values are copied.
 *
 * Names: the output of layer NAME is "NAME.out", an intermediate value is "NAME.SUFFIX". Variables
 * keep their names in the model, so no two names are equal.
 */
#ifndef PS_COMMON_ARTIFACT_ONNX_LAYERS_H
#define PS_COMMON_ARTIFACT_ONNX_LAYERS_H

#include "common/nn/model.h"

#include "onnx/onnx.pb-c.h"

enum { PS_ONNX_NAME_MAX = 96 };

/* A graph that is being written. */
typedef Onnx__GraphProto ps_onnx_graph;

/* A layer that is being written. */
typedef struct ps_onnx_layer {
    const ps_layer *layer;
    const ps_layer_plan *plan;
    const char *name;
    const char *const *in;        /* names of its inputs */
    const ps_variable *variables; /* plan->var_count variables */
    const char *out;              /* name of its output */
} ps_onnx_layer;

/* The writer of a kind of layer. */
typedef struct ps_onnx_kind {
    const char *kind;
    /* Adds the layer's nodes. NULL: the layer's output is its input. */
    void (*write)(ps_onnx_graph *graph, const ps_onnx_layer *layer);
} ps_onnx_kind;

/* Returns the writer of this kind of layer, or NULL. */
const ps_onnx_kind *ps_onnx_kind_find(const char *kind);

/* Adds a node without inputs. Its name is that of its output. */
void ps_onnx_node(ps_onnx_graph *graph, const char *operator_name, const char *out);
/* Adds an input to the newest node. */
void ps_onnx_in(ps_onnx_graph *graph, const char *value);
/* Adds an integer attribute to the newest node. */
void ps_onnx_int(ps_onnx_graph *graph, const char *name, int64_t value);

/* Adds a float attribute to the newest node. */
void ps_onnx_float(ps_onnx_graph *graph, const char *name, float value);

/* Adds an attribute of n integers to the newest node. */
void ps_onnx_ints(ps_onnx_graph *graph, const char *name, const int64_t *values, size_t n);

/* Adds a constant: a vector of n integers. */
void ps_onnx_const_ints(ps_onnx_graph *graph, const char *name, const int64_t *values, size_t n);
/* Adds a constant: a scalar. */
void ps_onnx_const_float(ps_onnx_graph *graph, const char *name, float value);

/* Writes the name "layer.suffix" into `out` and returns `out`. */
const char *ps_onnx_name(const ps_onnx_layer *layer, const char *suffix,
                         char out[PS_ONNX_NAME_MAX]);

#endif
