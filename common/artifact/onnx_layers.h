/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_layers.h - writes layers as nodes of an ONNX graph.
 *
 * There is a writer for each kind of layer.
 *
 * Names: the output of layer NAME is "NAME.out", an intermediate value is "NAME.SUFFIX". The output
 * of a layer without nodes has the name of its input. Variables keep their names in the model, so
 * no two names are equal.
 */
#ifndef PS_COMMON_ARTIFACT_ONNX_LAYERS_H
#define PS_COMMON_ARTIFACT_ONNX_LAYERS_H

#include "common/artifact/onnx_graph.h"
#include "common/nn/model.h"

enum { PS_ONNX_NAME_MAX = 96 };

/* A layer that is being written. */
typedef struct ps_onnx_layer {
    const ps_layer *layer;
    const ps_layer_plan *plan;
    const char *name;
    const char *const *in;        /* (plan->input_count) names of its inputs in the graph */
    const ps_variable *variables; /* plan->var_count variables */
    const char *out;              /* name of its output */
} ps_onnx_layer;

/* The writer of a kind of layer. */
typedef struct ps_onnx_kind {
    const char *kind;
    /* Adds the layer's nodes. NULL: the layer's output is its input. */
    void (*write)(ps_onnx_graph *graph, const ps_onnx_layer *layer);
} ps_onnx_kind;

/* Returns the writer of this kind of layer, or NULL if there is none. */
const ps_onnx_kind *ps_onnx_kind_find(const char *kind);

/* Writes the name "layer.suffix" into `out` and returns `out`. */
const char *ps_onnx_name(const ps_onnx_layer *layer, const char *suffix,
                         char out[PS_ONNX_NAME_MAX]);

#endif
