/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_graph.c - see onnx_graph.h. */
#include "common/artifact/onnx_graph.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw_data has our byte order");

void *ps_onnx_make(const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *message = ps_xmalloc(type->sizeof_message);

    protobuf_c_message_init(type, message);
    return message;
}

void ps_onnx_node(ps_onnx_graph *graph, const char *operator_name, const char *out)
{
    Onnx__NodeProto *node = ps_onnx_make(&onnx__node_proto__descriptor);

    node->name = ps_xstrdup(out);
    node->op_type = ps_xstrdup(operator_name);
    node->n_output = 1;
    node->output = ps_xmalloc(sizeof *node->output);
    node->output[0] = ps_xstrdup(out);
    graph->node = ps_xrealloc(graph->node, (graph->n_node + 1) * sizeof(Onnx__NodeProto *));
    graph->node[graph->n_node++] = node;
}

static Onnx__NodeProto *newest_node(const ps_onnx_graph *graph)
{
    assert(graph->n_node > 0);
    return graph->node[graph->n_node - 1];
}

void ps_onnx_in(ps_onnx_graph *graph, const char *value)
{
    Onnx__NodeProto *node = newest_node(graph);

    node->input = ps_xrealloc(node->input, (node->n_input + 1) * sizeof(char *));
    node->input[node->n_input++] = ps_xstrdup(value);
}

static Onnx__AttributeProto *add_attribute(ps_onnx_graph *graph, const char *name,
                                           Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *attribute = ps_onnx_make(&onnx__attribute_proto__descriptor);
    Onnx__NodeProto *node = newest_node(graph);

    attribute->name = ps_xstrdup(name);
    attribute->type = type;
    node->attribute =
        ps_xrealloc(node->attribute, (node->n_attribute + 1) * sizeof(Onnx__AttributeProto *));
    node->attribute[node->n_attribute++] = attribute;
    return attribute;
}

void ps_onnx_int(ps_onnx_graph *graph, const char *name, int64_t value)
{
    Onnx__AttributeProto *attribute =
        add_attribute(graph, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);

    attribute->has_i = true;
    attribute->i = value;
}

void ps_onnx_float(ps_onnx_graph *graph, const char *name, float value)
{
    Onnx__AttributeProto *attribute =
        add_attribute(graph, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);

    attribute->has_f = true;
    attribute->f = value;
}

void ps_onnx_ints(ps_onnx_graph *graph, const char *name, const int64_t *values, size_t n)
{
    Onnx__AttributeProto *attribute =
        add_attribute(graph, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);

    attribute->n_ints = n;
    attribute->ints = ps_xmalloc(n * sizeof *values);
    memcpy(attribute->ints, values, n * sizeof *values);
}

void ps_onnx_const(ps_onnx_graph *graph, const char *name, Onnx__TensorProto__DataType type,
                   int64_t *dims, size_t n_dims, void *values, size_t n_bytes)
{
    Onnx__TensorProto *tensor = ps_onnx_make(&onnx__tensor_proto__descriptor);

    tensor->name = ps_xstrdup(name);
    tensor->data_type = (int32_t)type;
    tensor->dims = dims;
    tensor->n_dims = n_dims;
    tensor->raw_data = (ProtobufCBinaryData){.data = values, .len = n_bytes};
    graph->initializer =
        ps_xrealloc(graph->initializer, (graph->n_initializer + 1) * sizeof(Onnx__TensorProto *));
    graph->initializer[graph->n_initializer++] = tensor;
}

static void *copy_of(const void *bytes, size_t n)
{
    return memcpy(ps_xmalloc(n), bytes, n);
}

void ps_onnx_const_ints(ps_onnx_graph *graph, const char *name, const int64_t *values, size_t n)
{
    int64_t count = (int64_t)n;

    ps_onnx_const(graph, name, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, copy_of(&count, sizeof count),
                  1, copy_of(values, n * sizeof *values), n * sizeof *values);
}

void ps_onnx_const_float(ps_onnx_graph *graph, const char *name, float value)
{
    ps_onnx_const(graph, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, NULL, 0,
                  copy_of(&value, sizeof value), sizeof value);
}
