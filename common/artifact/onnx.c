/* SPDX-License-Identifier: Apache-2.0 */
/* onnx.c - see onnx.h. The messages of proto/onnx are built in memory, except for the weights:
 * those go from the model's block to the file directly. */
#include "common/artifact/onnx.h"

#include "common/artifact/onnx_layers.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw_data has our byte order");

enum { IR_VERSION = 7, OPSET = 13 };

static const uint64_t bytes_max = INT32_MAX; /* protobuf's limit for a message */

/* Returns an empty message, which is freed with the message that it is put into. */
static void *make(const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *message = ps_xmalloc(type->sizeof_message);

    protobuf_c_message_init(type, message);
    return message;
}

/* --- nodes ------------------------------------------------------------------- */

const char *ps_onnx_name(const ps_onnx_layer *layer, const char *suffix, char out[PS_ONNX_NAME_MAX])
{
    int n = snprintf(out, PS_ONNX_NAME_MAX, "%s.%s", layer->name, suffix);

    assert(n > 0 && n < PS_ONNX_NAME_MAX);
    return out;
}

void ps_onnx_node(ps_onnx_graph *graph, const char *operator_name, const char *out)
{
    Onnx__NodeProto *node = make(&onnx__node_proto__descriptor);

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
    Onnx__AttributeProto *attribute = make(&onnx__attribute_proto__descriptor);
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

/* --- constants --------------------------------------------------------------- */

/* Adds a constant of n_bytes bytes. Takes ownership of `dims` and `values`. */
static void add_tensor(ps_onnx_graph *graph, const char *name, Onnx__TensorProto__DataType type,
                       int64_t *dims, size_t n_dims, void *values, size_t n_bytes)
{
    Onnx__TensorProto *tensor = make(&onnx__tensor_proto__descriptor);

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

    add_tensor(graph, name, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, copy_of(&count, sizeof count), 1,
               copy_of(values, n * sizeof *values), n * sizeof *values);
}

void ps_onnx_const_float(ps_onnx_graph *graph, const char *name, float value)
{
    add_tensor(graph, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, NULL, 0,
               copy_of(&value, sizeof value), sizeof value);
}

/* Adds the model's variables. Their values stay in `block`. */
static void add_variables(ps_onnx_graph *graph, const ps_model *model, const float *block)
{
    for (size_t v = 0; v < ps_model_variable_count(model); v++) {
        const ps_variable *variable = ps_model_variable(model, v);
        int64_t *dims = ps_xcalloc(variable->shape.rank, sizeof *dims);

        for (uint32_t d = 0; d < variable->shape.rank; d++) {
            dims[d] = variable->shape.dim[d];
        }
        add_tensor(graph, variable->name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, dims,
                   variable->shape.rank, (void *)(block + variable->at),
                   variable->size * sizeof *block);
    }
}

/* Removes the values of the newest n constants, which the graph must not free. */
static void take_values_back(ps_onnx_graph *graph, size_t n)
{
    for (size_t i = graph->n_initializer - n; i < graph->n_initializer; i++) {
        graph->initializer[i]->raw_data = (ProtobufCBinaryData){.data = NULL};
    }
}

/* --- the graph --------------------------------------------------------------- */

/* Returns a list with one input or output: float32 of shape (N, shape). */
static Onnx__ValueInfoProto **make_value(const char *name, ps_shape of)
{
    Onnx__ValueInfoProto **list = ps_xmalloc(sizeof(Onnx__ValueInfoProto *));
    Onnx__TypeProto__Tensor *tensor = make(&onnx__type_proto__tensor__descriptor);
    Onnx__TensorShapeProto *shape = make(&onnx__tensor_shape_proto__descriptor);
    Onnx__ValueInfoProto *value = make(&onnx__value_info_proto__descriptor);

    shape->n_dim = of.rank + 1;
    shape->dim = ps_xcalloc(shape->n_dim, sizeof(Onnx__TensorShapeProto__Dimension *));
    for (uint32_t d = 0; d <= of.rank; d++) {
        shape->dim[d] = make(&onnx__tensor_shape_proto__dimension__descriptor);
        if (d == 0) {
            shape->dim[d]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            shape->dim[d]->dim_param = ps_xstrdup("N");
        } else {
            shape->dim[d]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            shape->dim[d]->dim_value = of.dim[d - 1];
        }
    }
    tensor->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    tensor->shape = shape;
    value->name = ps_xstrdup(name);
    value->type = make(&onnx__type_proto__descriptor);
    value->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    value->type->tensor_type = tensor;
    list[0] = value;
    return list;
}

bool ps_onnx_has_layer(const char *kind)
{
    return ps_onnx_kind_find(kind) != NULL;
}

/* Adds layer i. Sets values[i + 1] to the name of its output; values[0] is the input. */
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

/* Adds every layer, and names the output of the last one "logits". */
static ps_status put_layers(ps_onnx_graph *graph, const ps_model *model)
{
    size_t count = ps_model_layer_count(model);
    char(*values)[PS_ONNX_NAME_MAX] = ps_xcalloc(count + 1, sizeof *values);
    ps_status st = ps_ok();

    strcpy(values[0], "input");
    for (size_t i = 0; i < count && ps_is_ok(&st); i++) {
        st = put_layer(graph, model, i, values);
    }
    ps_onnx_node(graph, "Identity", "logits");
    ps_onnx_in(graph, values[count]);
    free(values);
    return st;
}

static ps_status make_graph(const ps_model *model, const char *title, ps_onnx_graph *graph)
{
    size_t last = ps_model_layer_count(model) - 1;

    graph->name = ps_xstrdup(title);
    graph->n_input = graph->n_output = 1;
    graph->input = make_value("input", ps_model_layer_at(model, 0).plan->in);
    graph->output = make_value("logits", ps_model_layer_at(model, last).plan->out);
    return put_layers(graph, model);
}

/* --- the file ---------------------------------------------------------------- */

/* Returns the message of a file whose graph is empty. */
static Onnx__ModelProto *make_file(const ps_meta *meta, size_t meta_count)
{
    Onnx__ModelProto *file = make(&onnx__model_proto__descriptor);
    Onnx__OperatorSetIdProto *opset = make(&onnx__operator_set_id_proto__descriptor);

    file->ir_version = IR_VERSION;
    file->producer_name = ps_xstrdup("psgd");
    file->producer_version = ps_xstrdup(PS_VERSION);
    file->graph = make(&onnx__graph_proto__descriptor);
    opset->domain = ps_xstrdup("");
    opset->version = OPSET;
    file->n_opset_import = 1;
    file->opset_import = ps_xmalloc(sizeof(Onnx__OperatorSetIdProto *));
    file->opset_import[0] = opset;
    file->n_metadata_props = meta_count;
    file->metadata_props = ps_xcalloc(meta_count, sizeof(Onnx__StringStringEntryProto *));
    for (size_t i = 0; i < meta_count; i++) {
        file->metadata_props[i] = make(&onnx__string_string_entry_proto__descriptor);
        file->metadata_props[i]->key = ps_xstrdup(meta[i].key);
        file->metadata_props[i]->value = ps_xstrdup(meta[i].value);
    }
    return file;
}

/* The target of protobuf-c's packing. Small pieces are gathered; large ones are written at once. */
typedef struct sink {
    ProtobufCBuffer base;
    ps_file_writer writer;
    ps_strbuf held;
    ps_status st; /* the first failure */
} sink;

enum { HELD_BYTES = 64 * 1024 };

static void sink_flush(sink *s)
{
    if (ps_is_ok(&s->st)) {
        s->st = ps_file_writer_add(&s->writer, ps_strbuf_text(&s->held), s->held.len);
    }
    ps_strbuf_clear(&s->held);
}

static void sink_append(ProtobufCBuffer *buffer, size_t n, const uint8_t *bytes)
{
    sink *s = PS_CONTAINER_OF(buffer, sink, base);

    if (s->held.len + n > HELD_BYTES) {
        sink_flush(s);
    }
    if (n <= HELD_BYTES) {
        ps_strbuf_append(&s->held, bytes, n);
    } else if (ps_is_ok(&s->st)) {
        s->st = ps_file_writer_add(&s->writer, bytes, n);
    }
}

static ps_status write_file(const char *path, const Onnx__ModelProto *file)
{
    size_t n_bytes = onnx__model_proto__get_packed_size(file);
    sink s = {.base = {.append = sink_append}};

    if (n_bytes > bytes_max) {
        return ps_fail(PS_OUT_OF_RANGE, "%zu bytes; ONNX files have at most %llu", n_bytes,
                       (unsigned long long)bytes_max);
    }
    s.st = ps_file_writer_open(&s.writer, path);
    if (!ps_is_ok(&s.st)) {
        return s.st;
    }
    onnx__model_proto__pack_to_buffer(file, &s.base);
    sink_flush(&s);
    ps_strbuf_fini(&s.held);
    if (!ps_is_ok(&s.st)) {
        ps_file_writer_abandon(&s.writer);
        return s.st;
    }
    return ps_file_writer_commit(&s.writer);
}

ps_status ps_onnx_write(const char *path, const ps_model *model, const float *block,
                        const char *title, const ps_meta *meta, size_t meta_count)
{
    Onnx__ModelProto *file = make_file(meta, meta_count);
    ps_status st = make_graph(model, title, file->graph);

    if (ps_is_ok(&st)) {
        add_variables(file->graph, model, block);
        st = write_file(path, file);
        take_values_back(file->graph, ps_model_variable_count(model));
    }
    onnx__model_proto__free_unpacked(file, NULL);
    return st;
}
