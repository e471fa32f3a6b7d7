/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_layers.c - writes each kind of layer as nodes of ONNX.
 *
 * A value of ONNX has the batch as its first dimension, then the shape of a sample. A layer that
 * takes a sample of any shape as a row gets a Flatten before it.
 */
#include "common/artifact/onnx_layers.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const char *ps_onnx_name(const ps_onnx_layer *layer, const char *suffix, char out[PS_ONNX_NAME_MAX])
{
    int n = snprintf(out, PS_ONNX_NAME_MAX, "%s.%s", layer->name, suffix);

    assert(n > 0 && n < PS_ONNX_NAME_MAX);
    return out;
}

/* Returns the layer's number `name`. */
static double number(const ps_onnx_layer *l, const char *name)
{
    int at = ps_param_find(l->layer->params, name);

    assert(at >= 0);
    return l->plan->params.v[at];
}

/* Returns the name of the layer's only input as (samples, values): the input itself, or the output
 * of a Flatten node, whose name is written to `room`. */
static const char *as_rows(ps_onnx_graph *g, const ps_onnx_layer *l, char room[PS_ONNX_NAME_MAX])
{
    if (l->plan->in.rank == 1) {
        return l->in[0];
    }
    ps_onnx_node(g, "Flatten", ps_onnx_name(l, "rows", room));
    ps_onnx_in(g, l->in[0]);
    ps_onnx_int(g, "axis", 1);
    return room;
}

/* Adds a node that reshapes `value` to the layer's output. The first dimension is 0, which to ONNX
 * means that the batch keeps its size. */
static void put_reshape(ps_onnx_graph *g, const ps_onnx_layer *l, const char *value)
{
    int64_t shape[PS_SHAPE_MAX + 1] = {0};
    char name[PS_ONNX_NAME_MAX];

    for (uint32_t d = 0; d < l->plan->out.rank; d++) {
        shape[d + 1] = l->plan->out.dim[d];
    }
    ps_onnx_const_ints(g, ps_onnx_name(l, "shape", name), shape, l->plan->out.rank + 1);
    ps_onnx_node(g, "Reshape", l->out);
    ps_onnx_in(g, value);
    ps_onnx_in(g, name);
}

static void put_variables(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    for (unsigned v = 0; v < l->plan->var_count; v++) {
        ps_onnx_in(g, l->variables[v].name);
    }
}

/* Adds an operator with one input and no attributes. */
static void put_plain(ps_onnx_graph *g, const ps_onnx_layer *l, const char *operator_name)
{
    ps_onnx_node(g, operator_name, l->out);
    ps_onnx_in(g, l->in[0]);
}

static void write_relu(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    put_plain(g, l, "Relu");
}

static void write_tanh(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    put_plain(g, l, "Tanh");
}

static void write_sigmoid(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    put_plain(g, l, "Sigmoid");
}

static void write_leaky_relu(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    ps_onnx_node(g, "LeakyRelu", l->out);
    ps_onnx_in(g, l->in[0]);
    ps_onnx_float(g, "alpha", (float)number(l, "slope"));
}

static void write_hard_tanh(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    char low[PS_ONNX_NAME_MAX], high[PS_ONNX_NAME_MAX];

    ps_onnx_const_float(g, ps_onnx_name(l, "low", low), -1.0f);
    ps_onnx_const_float(g, ps_onnx_name(l, "high", high), 1.0f);
    ps_onnx_node(g, "Clip", l->out);
    ps_onnx_in(g, l->in[0]);
    ps_onnx_in(g, low);
    ps_onnx_in(g, high);
}

/* Writes Softmax over all values of a sample. */
static void write_softmax(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    char rows[PS_ONNX_NAME_MAX], flat[PS_ONNX_NAME_MAX];
    bool is_row = l->plan->in.rank == 1;
    const char *in = as_rows(g, l, rows);

    ps_onnx_node(g, "Softmax", is_row ? l->out : ps_onnx_name(l, "flat", flat));
    ps_onnx_in(g, in);
    ps_onnx_int(g, "axis", 1);
    if (!is_row) {
        put_reshape(g, l, flat);
    }
}

static void write_flatten(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    ps_onnx_node(g, "Flatten", l->out);
    ps_onnx_in(g, l->in[0]);
    ps_onnx_int(g, "axis", 1);
}

static void write_reshape(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    put_reshape(g, l, l->in[0]);
}

static void write_dense(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    char rows[PS_ONNX_NAME_MAX];
    const char *in = as_rows(g, l, rows);

    ps_onnx_node(g, "Gemm", l->out);
    ps_onnx_in(g, in);
    put_variables(g, l);
    ps_onnx_int(g, "transB", 1);
}

static void put_inputs(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    for (uint32_t k = 0; k < l->plan->input_count; k++) {
        ps_onnx_in(g, l->in[k]);
    }
}

static void write_add(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    ps_onnx_node(g, "Sum", l->out);
    put_inputs(g, l);
}

/* Concatenates the first dimension of samples, which is the second one of a batch. */
static void write_concat(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    ps_onnx_node(g, "Concat", l->out);
    put_inputs(g, l);
    ps_onnx_int(g, "axis", 1);
}

static void write_slice(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    static const int64_t axis = 1;
    int64_t first = (int64_t)number(l, "first"), end = first + l->plan->out.dim[0];
    char from[PS_ONNX_NAME_MAX], to[PS_ONNX_NAME_MAX], along[PS_ONNX_NAME_MAX];

    ps_onnx_const_ints(g, ps_onnx_name(l, "from", from), &first, 1);
    ps_onnx_const_ints(g, ps_onnx_name(l, "to", to), &end, 1);
    ps_onnx_const_ints(g, ps_onnx_name(l, "along", along), &axis, 1);
    ps_onnx_node(g, "Slice", l->out);
    ps_onnx_in(g, l->in[0]);
    ps_onnx_in(g, from);
    ps_onnx_in(g, to);
    ps_onnx_in(g, along);
}

/* Takes every stride-th row and column, and adds channels of zeros after the input's channels. */
static void write_shortcut(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    int64_t stride = (int64_t)number(l, "stride");
    const int64_t from[2] = {0, 0}, to[2] = {l->plan->in.dim[1], l->plan->in.dim[2]};
    const int64_t along[2] = {2, 3}, steps[2] = {stride, stride};
    /* Zeros before batch, channels, rows and columns, then zeros behind each of the four. */
    const int64_t zeros[8] = {0, 0, 0, 0, 0, l->plan->out.dim[0] - (int64_t)l->plan->in.dim[0],
                              0, 0};
    char name[PS_ONNX_NAME_MAX], taken[PS_ONNX_NAME_MAX];

    ps_onnx_const_ints(g, ps_onnx_name(l, "from", name), from, 2);
    ps_onnx_const_ints(g, ps_onnx_name(l, "to", name), to, 2);
    ps_onnx_const_ints(g, ps_onnx_name(l, "along", name), along, 2);
    ps_onnx_const_ints(g, ps_onnx_name(l, "steps", name), steps, 2);
    ps_onnx_const_ints(g, ps_onnx_name(l, "zeros", name), zeros, 8);
    ps_onnx_node(g, "Slice", ps_onnx_name(l, "taken", taken));
    ps_onnx_in(g, l->in[0]);
    ps_onnx_in(g, ps_onnx_name(l, "from", name));
    ps_onnx_in(g, ps_onnx_name(l, "to", name));
    ps_onnx_in(g, ps_onnx_name(l, "along", name));
    ps_onnx_in(g, ps_onnx_name(l, "steps", name));
    ps_onnx_node(g, "Pad", l->out);
    ps_onnx_in(g, taken);
    ps_onnx_in(g, ps_onnx_name(l, "zeros", name));
}

/* Writes Gather of rows. Casts ids to integers first: they are float32 like all inputs. */
static void write_embedding(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    char ids[PS_ONNX_NAME_MAX], rows[PS_ONNX_NAME_MAX];
    const char *in = as_rows(g, l, rows);

    ps_onnx_node(g, "Cast", ps_onnx_name(l, "ids", ids));
    ps_onnx_in(g, in);
    ps_onnx_int(g, "to", ONNX__TENSOR_PROTO__DATA_TYPE__INT64);
    ps_onnx_node(g, "Gather", l->out);
    put_variables(g, l);
    ps_onnx_in(g, ids);
    ps_onnx_int(g, "axis", 0);
}

/* Writes the dot products of the one vector of the first input with the K vectors of the second:
 * the sums over E of (N, K, E) * (N, 1, E). */
static void write_dots(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    static const int64_t last = 2;
    const int64_t shape[3] = {0, 1, l->plan->ins[1].dim[1]};
    char one[PS_ONNX_NAME_MAX], products[PS_ONNX_NAME_MAX], name[PS_ONNX_NAME_MAX];

    ps_onnx_const_ints(g, ps_onnx_name(l, "shape", name), shape, 3);
    ps_onnx_node(g, "Reshape", ps_onnx_name(l, "one", one));
    ps_onnx_in(g, l->in[0]);
    ps_onnx_in(g, name);
    ps_onnx_node(g, "Mul", ps_onnx_name(l, "products", products));
    ps_onnx_in(g, l->in[1]);
    ps_onnx_in(g, one);
    ps_onnx_const_ints(g, ps_onnx_name(l, "along", name), &last, 1);
    ps_onnx_node(g, "ReduceSum", l->out);
    ps_onnx_in(g, products);
    ps_onnx_in(g, name);
    ps_onnx_int(g, "keepdims", 0);
}

static void put_window(ps_onnx_graph *g, int64_t kernel, int64_t stride, int64_t padding)
{
    ps_onnx_ints(g, "kernel_shape", (const int64_t[]){kernel, kernel}, 2);
    ps_onnx_ints(g, "strides", (const int64_t[]){stride, stride}, 2);
    ps_onnx_ints(g, "pads", (const int64_t[]){padding, padding, padding, padding}, 4);
}

/* Writes Conv. W (F, C, K, K) has ONNX's layout already. Without a bias there is one variable
 * less. */
static void write_conv2d(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    ps_onnx_node(g, "Conv", l->out);
    ps_onnx_in(g, l->in[0]);
    put_variables(g, l);
    put_window(g, (int64_t)number(l, "kernel"), (int64_t)number(l, "stride"),
               (int64_t)number(l, "padding"));
}

/* Adds a pooling node; the caller may add attributes. */
static void put_pool(ps_onnx_graph *g, const ps_onnx_layer *l, const char *operator_name)
{
    int64_t kernel = (int64_t)number(l, "kernel");
    int64_t stride = (int64_t)number(l, "stride");

    ps_onnx_node(g, operator_name, l->out);
    ps_onnx_in(g, l->in[0]);
    put_window(g, kernel, stride == 0 ? kernel : stride, (int64_t)number(l, "padding"));
}

static void write_maxpool2d(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    put_pool(g, l, "MaxPool");
}

static void write_avgpool2d(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    put_pool(g, l, "AveragePool");
    ps_onnx_int(g, "count_include_pad", 1);
}

/* Writes the mean of each channel. ONNX leaves rows and columns with size 1; Flatten drops them. */
static void write_global_avgpool(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    char means[PS_ONNX_NAME_MAX];

    ps_onnx_node(g, "GlobalAveragePool", ps_onnx_name(l, "means", means));
    ps_onnx_in(g, l->in[0]);
    ps_onnx_node(g, "Flatten", l->out);
    ps_onnx_in(g, means);
    ps_onnx_int(g, "axis", 1);
}

/* Writes BatchNormalization. The variables are in ONNX's order: scale, shift, running mean and
 * variance. */
static void write_batch_norm(ps_onnx_graph *g, const ps_onnx_layer *l)
{
    ps_onnx_node(g, "BatchNormalization", l->out);
    ps_onnx_in(g, l->in[0]);
    put_variables(g, l);
    ps_onnx_float(g, "epsilon", (float)number(l, "epsilon"));
}

static const ps_onnx_kind kinds[] = {
    {"add", write_add},
    {"avgpool2d", write_avgpool2d},
    {"batch_norm", write_batch_norm},
    {"channel_dropout", NULL},
    {"concat", write_concat},
    {"conv2d", write_conv2d},
    {"dense", write_dense},
    {"dots", write_dots},
    {"dropout", NULL},
    {"embedding", write_embedding},
    {"flatten", write_flatten},
    {"global_avgpool", write_global_avgpool},
    {"hard_tanh", write_hard_tanh},
    {"leaky_relu", write_leaky_relu},
    {"linear", NULL},
    {"maxpool2d", write_maxpool2d},
    {"relu", write_relu},
    {"reshape", write_reshape},
    {"shortcut", write_shortcut},
    {"sigmoid", write_sigmoid},
    {"slice", write_slice},
    {"softmax", write_softmax},
    {"tanh", write_tanh},
};

const ps_onnx_kind *ps_onnx_kind_find(const char *kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].kind, kind) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}
