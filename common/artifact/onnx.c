/* SPDX-License-Identifier: Apache-2.0 */
/* onnx.c - see onnx.h. The messages of proto/onnx are built in memory, except for the weights:
 * those go from the model's block to the file directly. */
#include "common/artifact/onnx.h"

#include "common/artifact/onnx_layers.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

enum { IR_VERSION = 7, OPSET = 13 };

static const uint64_t bytes_max = INT32_MAX; /* protobuf's limit for a message */

/* Adds the model's variables as constants. The constants point to the values in `block`. */
static void add_variables(ps_onnx_graph *graph, const ps_model *model, const float *block)
{
    for (size_t v = 0; v < ps_model_variable_count(model); v++) {
        const ps_variable *variable = ps_model_variable(model, v);
        int64_t *dims = ps_xcalloc(variable->shape.rank, sizeof *dims);

        for (uint32_t d = 0; d < variable->shape.rank; d++) {
            dims[d] = variable->shape.dim[d];
        }
        ps_onnx_const(graph, variable->name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, dims,
                      variable->shape.rank, (void *)(block + variable->at),
                      variable->size * sizeof *block);
    }
}

/* Removes the pointers of the newest n constants to their values, which are not the graph's to
 * free. */
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
    Onnx__TypeProto__Tensor *tensor = ps_onnx_make(&onnx__type_proto__tensor__descriptor);
    Onnx__TensorShapeProto *shape = ps_onnx_make(&onnx__tensor_shape_proto__descriptor);
    Onnx__ValueInfoProto *value = ps_onnx_make(&onnx__value_info_proto__descriptor);

    shape->n_dim = of.rank + 1;
    shape->dim = ps_xcalloc(shape->n_dim, sizeof(Onnx__TensorShapeProto__Dimension *));
    for (uint32_t d = 0; d <= of.rank; d++) {
        shape->dim[d] = ps_onnx_make(&onnx__tensor_shape_proto__dimension__descriptor);
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
    value->type = ps_onnx_make(&onnx__type_proto__descriptor);
    value->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    value->type->tensor_type = tensor;
    list[0] = value;
    return list;
}

bool ps_onnx_has_layer(const char *kind)
{
    return ps_onnx_kind_find(kind) != NULL;
}

/* Adds layer i. Sets values[i + 1] to the name of its output; values[0] is the model's input.
 * Returns FAILED_PRECONDITION if there is no writer for its kind. */
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
    Onnx__ModelProto *file = ps_onnx_make(&onnx__model_proto__descriptor);
    Onnx__OperatorSetIdProto *opset = ps_onnx_make(&onnx__operator_set_id_proto__descriptor);

    file->ir_version = IR_VERSION;
    file->producer_name = ps_xstrdup("psgd");
    file->producer_version = ps_xstrdup(PS_VERSION);
    file->graph = ps_onnx_make(&onnx__graph_proto__descriptor);
    opset->domain = ps_xstrdup("");
    opset->version = OPSET;
    file->n_opset_import = 1;
    file->opset_import = ps_xmalloc(sizeof(Onnx__OperatorSetIdProto *));
    file->opset_import[0] = opset;
    file->n_metadata_props = meta_count;
    file->metadata_props = ps_xcalloc(meta_count, sizeof(Onnx__StringStringEntryProto *));
    for (size_t i = 0; i < meta_count; i++) {
        file->metadata_props[i] = ps_onnx_make(&onnx__string_string_entry_proto__descriptor);
        file->metadata_props[i]->key = ps_xstrdup(meta[i].key);
        file->metadata_props[i]->value = ps_xstrdup(meta[i].value);
    }
    return file;
}

/* The target of protobuf-c's packing. Up to HELD_BYTES are gathered before they are written; a run
 * of more than HELD_BYTES is written at once. */
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
