/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_graph.h - adds nodes and constants to an ONNX graph. Texts and values are copied, unless a
 * function takes ownership of them. */
#ifndef PS_COMMON_ARTIFACT_ONNX_GRAPH_H
#define PS_COMMON_ARTIFACT_ONNX_GRAPH_H

#include "onnx/onnx.pb-c.h"

#include <stddef.h>
#include <stdint.h>

/* A graph that is being written. */
typedef Onnx__GraphProto ps_onnx_graph;

/* Returns an empty message, which is freed with the message that it is put into. */
void *ps_onnx_make(const ProtobufCMessageDescriptor *type);

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

/* Adds a constant of n_bytes bytes. Takes ownership of `dims` and `values`. */
void ps_onnx_const(ps_onnx_graph *graph, const char *name, Onnx__TensorProto__DataType type,
                   int64_t *dims, size_t n_dims, void *values, size_t n_bytes);

/* Adds a constant: a vector of n integers. */
void ps_onnx_const_ints(ps_onnx_graph *graph, const char *name, const int64_t *values, size_t n);
/* Adds a constant: a scalar. */
void ps_onnx_const_float(ps_onnx_graph *graph, const char *name, float value);

#endif
