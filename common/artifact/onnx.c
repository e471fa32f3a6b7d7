/* SPDX-License-Identifier: Apache-2.0 */
/* onnx.c - see onnx.h. The graph without its weights is made in memory; they go
 * from the block to the file behind it, so lengths are added up first. */
#include "common/artifact/onnx.h"

#include "common/artifact/fields.h"
#include "common/artifact/onnx_impl.h"
#include "common/base/files.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw_data has our byte order");

/* Numbers of fields, by message, and values of enums. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER_NAME = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSET_IMPORT = 8,
    MODEL_METADATA_PROPS = 14,
    OPSET_DOMAIN = 1,
    OPSET_VERSION = 2,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP_TYPE = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20,
    TYPE_FLOAT = 1,
    TYPE_INT = 2,
    TYPE_INTS = 7,
    TENSOR_DIMS = 1,
    TENSOR_DATA_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW_DATA = 9,
    DATA_FLOAT = 1,
    DATA_INT64 = 7,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TYPE_ELEM = 1,
    TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_PARAM = 2,
};
enum { IR_VERSION = 7, OPSET = 13 };

static const uint64_t bytes_max = INT32_MAX; /* of any protobuf message */

/* --- nodes ------------------------------------------------------------------- */

const char *ps_onnx_name(const ps_onnx_layer *layer, const char *suffix, char out[PS_ONNX_NAME_MAX])
{
    int n = snprintf(out, PS_ONNX_NAME_MAX, "%s.%s", layer->name, suffix);

    assert(n > 0 && n < PS_ONNX_NAME_MAX);
    return out;
}

void ps_onnx_begin(ps_onnx_graph *graph, const char *operator_name, const char *out)
{
    assert(graph->node.len == 0);
    ps_field_text(&graph->node, NODE_OUTPUT, out);
    ps_field_text(&graph->node, NODE_NAME, out);
    ps_field_text(&graph->node, NODE_OP_TYPE, operator_name);
}

void ps_onnx_in(ps_onnx_graph *graph, const char *value)
{
    ps_field_text(&graph->node, NODE_INPUT, value);
}

void ps_onnx_int(ps_onnx_graph *graph, const char *attribute, int64_t value)
{
    ps_field_text(&graph->inner, ATTRIBUTE_NAME, attribute);
    ps_field_u64(&graph->inner, ATTRIBUTE_I, (uint64_t)value);
    ps_field_u64(&graph->inner, ATTRIBUTE_TYPE, TYPE_INT);
    ps_field_message(&graph->node, NODE_ATTRIBUTE, &graph->inner);
}

void ps_onnx_float(ps_onnx_graph *graph, const char *attribute, float value)
{
    ps_field_text(&graph->inner, ATTRIBUTE_NAME, attribute);
    ps_field_f32(&graph->inner, ATTRIBUTE_F, value);
    ps_field_u64(&graph->inner, ATTRIBUTE_TYPE, TYPE_FLOAT);
    ps_field_message(&graph->node, NODE_ATTRIBUTE, &graph->inner);
}

void ps_onnx_ints(ps_onnx_graph *graph, const char *attribute, const int64_t *values, size_t n)
{
    ps_field_text(&graph->inner, ATTRIBUTE_NAME, attribute);
    for (size_t i = 0; i < n; i++) {
        ps_field_u64(&graph->inner, ATTRIBUTE_INTS, (uint64_t)values[i]);
    }
    ps_field_u64(&graph->inner, ATTRIBUTE_TYPE, TYPE_INTS);
    ps_field_message(&graph->node, NODE_ATTRIBUTE, &graph->inner);
}

void ps_onnx_end(ps_onnx_graph *graph)
{
    ps_field_message(&graph->fields, GRAPH_NODE, &graph->node);
}

/* --- constants --------------------------------------------------------------- */

/* All of a TensorProto but its values. */
static void put_tensor_head(ps_strbuf *tensor, const char *name, unsigned data_type)
{
    ps_field_u64(tensor, TENSOR_DATA_TYPE, data_type);
    ps_field_text(tensor, TENSOR_NAME, name);
}

void ps_onnx_const_ints(ps_onnx_graph *graph, const char *name, const int64_t *values, size_t n)
{
    ps_field_u64(&graph->inner, TENSOR_DIMS, n);
    put_tensor_head(&graph->inner, name, DATA_INT64);
    ps_field_bytes(&graph->inner, TENSOR_RAW_DATA, values, n * sizeof *values);
    ps_field_message(&graph->fields, GRAPH_INITIALIZER, &graph->inner);
}

void ps_onnx_const_float(ps_onnx_graph *graph, const char *name, float value)
{
    put_tensor_head(&graph->inner, name, DATA_FLOAT);
    ps_field_bytes(&graph->inner, TENSOR_RAW_DATA, &value, sizeof value);
    ps_field_message(&graph->fields, GRAPH_INITIALIZER, &graph->inner);
}

/* --- the graph --------------------------------------------------------------- */

/* A value that goes in or out: float32 (N, shape). */
static void put_value(ps_onnx_graph *graph, uint32_t field, const char *name, ps_shape of)
{
    ps_strbuf dim = {0}, shape = {0}, tensor = {0}, type = {0};

    ps_field_text(&dim, DIM_PARAM, "N");
    ps_field_message(&shape, SHAPE_DIM, &dim);
    for (uint32_t d = 0; d < of.rank; d++) {
        ps_field_u64(&dim, DIM_VALUE, of.dim[d]);
        ps_field_message(&shape, SHAPE_DIM, &dim);
    }
    ps_field_u64(&tensor, TYPE_ELEM, DATA_FLOAT);
    ps_field_message(&tensor, TYPE_SHAPE, &shape);
    ps_field_message(&type, TYPE_TENSOR, &tensor);
    ps_field_text(&graph->inner, VALUE_NAME, name);
    ps_field_message(&graph->inner, VALUE_TYPE, &type);
    ps_field_message(&graph->fields, field, &graph->inner);
    ps_strbuf_fini(&dim);
    ps_strbuf_fini(&shape);
    ps_strbuf_fini(&tensor);
    ps_strbuf_fini(&type);
}

bool ps_onnx_has_layer(const char *kind)
{
    return ps_onnx_kind_find(kind) != NULL;
}

/* values[i + 1] becomes the name of what layer i makes, values[0] is the input's. */
static ps_status put_layer(ps_onnx_graph *graph, const ps_model *model, size_t i,
                           char (*values)[PS_ONNX_NAME_MAX])
{
    ps_model_layer at = ps_model_layer_at(model, i);
    const ps_onnx_kind *kind = ps_onnx_kind_find(at.layer->kind);
    const char *in[PS_LAYER_INPUTS_MAX];
    ps_onnx_layer layer = {.layer = at.layer,
                           .plan = at.plan,
                           .name = at.name,
                           .in = in,
                           .variables = at.variables,
                           .out = values[i + 1]};

    if (kind == NULL) {
        return ps_fail(PS_FAILED_PRECONDITION, "layer %s: no ONNX for layers of kind %s", at.name,
                       at.layer->kind);
    }
    for (uint32_t k = 0; k < at.plan->input_count; k++) {
        in[k] = values[at.inputs[k]];
    }
    if (kind->write != NULL) {
        ps_onnx_name(&layer, "out", values[i + 1]);
        kind->write(graph, &layer);
    } else {
        memcpy(values[i + 1], in[0], PS_ONNX_NAME_MAX);
    }
    return ps_ok();
}

/* Every layer, and at the end the name "logits" for what the last one makes. */
static ps_status put_layers(ps_onnx_graph *graph, const ps_model *model)
{
    size_t count = ps_model_layer_count(model);
    char(*values)[PS_ONNX_NAME_MAX] = ps_xcalloc(count + 1, sizeof *values);
    ps_status st = ps_ok();

    strcpy(values[0], "input");
    for (size_t i = 0; i < count && ps_is_ok(&st); i++) {
        st = put_layer(graph, model, i, values);
    }
    ps_onnx_begin(graph, "Identity", "logits");
    ps_onnx_in(graph, values[count]);
    ps_onnx_end(graph);
    free(values);
    return st;
}

static ps_status make_graph(ps_onnx_graph *graph, const ps_model *model, const char *title)
{
    size_t last = ps_model_layer_count(model) - 1;
    ps_status st = put_layers(graph, model);

    if (ps_is_ok(&st)) {
        ps_field_text(&graph->fields, GRAPH_NAME, title);
        put_value(graph, GRAPH_INPUT, "input", ps_model_layer_at(model, 0).plan->in);
        put_value(graph, GRAPH_OUTPUT, "logits", ps_model_layer_at(model, last).plan->out);
    }
    return st;
}

/* --- the file ---------------------------------------------------------------- */

/* Everything of a variable's field in the graph but its values. */
static void put_variable_head(ps_strbuf *out, const ps_variable *variable)
{
    uint64_t bytes = (uint64_t)variable->size * sizeof(float);
    ps_strbuf tensor = {0};

    for (uint32_t d = 0; d < variable->shape.rank; d++) {
        ps_field_u64(&tensor, TENSOR_DIMS, variable->shape.dim[d]);
    }
    put_tensor_head(&tensor, variable->name, DATA_FLOAT);
    ps_field_head(&tensor, TENSOR_RAW_DATA, bytes);
    ps_field_head(out, GRAPH_INITIALIZER, tensor.len + bytes);
    ps_strbuf_append(out, tensor.data, tensor.len);
    ps_strbuf_fini(&tensor);
}

/* What stands before the graph's fields. */
static void make_head(ps_strbuf *out, const ps_meta *meta, size_t meta_count, uint64_t graph_bytes)
{
    ps_strbuf inner = {0};

    ps_field_u64(out, MODEL_IR_VERSION, IR_VERSION);
    ps_field_text(out, MODEL_PRODUCER_NAME, "psgd");
    ps_field_text(out, MODEL_PRODUCER_VERSION, PS_VERSION);
    ps_field_text(&inner, OPSET_DOMAIN, "");
    ps_field_u64(&inner, OPSET_VERSION, OPSET);
    ps_field_message(out, MODEL_OPSET_IMPORT, &inner);
    for (size_t i = 0; i < meta_count; i++) {
        ps_field_text(&inner, ENTRY_KEY, meta[i].key);
        ps_field_text(&inner, ENTRY_VALUE, meta[i].value);
        ps_field_message(out, MODEL_METADATA_PROPS, &inner);
    }
    ps_field_head(out, MODEL_GRAPH, graph_bytes);
    ps_strbuf_fini(&inner);
}

static uint64_t count_weights(const ps_model *model)
{
    ps_strbuf head = {0};
    uint64_t bytes = 0;

    for (size_t v = 0; v < ps_model_variable_count(model); v++) {
        const ps_variable *variable = ps_model_variable(model, v);

        ps_strbuf_clear(&head);
        put_variable_head(&head, variable);
        bytes += head.len + (uint64_t)variable->size * sizeof(float);
    }
    ps_strbuf_fini(&head);
    return bytes;
}

static ps_status write_fields(ps_file_writer *writer, const ps_strbuf *head, const ps_strbuf *graph,
                              const ps_model *model, const float *block)
{
    ps_strbuf field = {0};
    ps_status st = ps_file_writer_add(writer, head->data, head->len);

    if (ps_is_ok(&st)) {
        st = ps_file_writer_add(writer, graph->data, graph->len);
    }
    for (size_t v = 0; v < ps_model_variable_count(model) && ps_is_ok(&st); v++) {
        const ps_variable *variable = ps_model_variable(model, v);

        ps_strbuf_clear(&field);
        put_variable_head(&field, variable);
        st = ps_file_writer_add(writer, field.data, field.len);
        if (ps_is_ok(&st)) {
            st = ps_file_writer_add(writer, block + variable->at, variable->size * sizeof *block);
        }
    }
    ps_strbuf_fini(&field);
    return st;
}

static ps_status write_file(const char *path, const ps_strbuf *head, const ps_strbuf *graph,
                            const ps_model *model, const float *block)
{
    ps_file_writer writer;
    ps_status st = ps_file_writer_open(&writer, path);

    if (!ps_is_ok(&st)) {
        return st;
    }
    st = write_fields(&writer, head, graph, model, block);
    if (!ps_is_ok(&st)) {
        ps_file_writer_abandon(&writer);
        return st;
    }
    return ps_file_writer_commit(&writer);
}

ps_status ps_onnx_write(const char *path, const ps_model *model, const float *block,
                        const char *title, const ps_meta *meta, size_t meta_count)
{
    ps_onnx_graph graph = {0};
    ps_strbuf head = {0};
    uint64_t graph_bytes;
    ps_status st = make_graph(&graph, model, title);

    graph_bytes = graph.fields.len + count_weights(model);
    make_head(&head, meta, meta_count, graph_bytes);
    if (ps_is_ok(&st) && head.len + graph_bytes > bytes_max) {
        st = ps_fail(PS_OUT_OF_RANGE, "%llu bytes; ONNX files have at most %llu",
                     (unsigned long long)(head.len + graph_bytes), (unsigned long long)bytes_max);
    }
    if (ps_is_ok(&st)) {
        st = write_file(path, &head, &graph.fields, model, block);
    }
    ps_strbuf_fini(&graph.fields);
    ps_strbuf_fini(&graph.node);
    ps_strbuf_fini(&graph.inner);
    ps_strbuf_fini(&head);
    return st;
}
