/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.c - see onednn.h; by the C API of oneDNN 2.6. */
#include "tests/bench/engine/onednn.h"

#include "common/base/xalloc.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>

/* Of OpenMP's runtime, which oneDNN brings. */
extern void omp_set_num_threads(int n);

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void must(dnnl_status_t st, const char *what)
{
    if (st != dnnl_success) {
        fprintf(stderr, "onednn: %s: status %d\n", what, (int)st);
        exit(1);
    }
}

bool onednn_init(ps_cpu level)
{
    static const dnnl_cpu_isa_t most[PS_CPU_END] = {[PS_CPU_BASELINE] = dnnl_cpu_isa_sse41,
                                                    [PS_CPU_AVX2] = dnnl_cpu_isa_avx2,
                                                    [PS_CPU_AVX512] = dnnl_cpu_isa_avx512_core};

    omp_set_num_threads(1);
    must(dnnl_set_max_cpu_isa(most[level]), "set_max_cpu_isa");
    must(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine_create");
    must(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "stream_create");
    return true;
}

void onednn_product(bool a_turned, bool b_turned, size_t m, size_t n, size_t k, const float *a,
                    const float *b, float *c)
{
    must(dnnl_sgemm(a_turned ? 'T' : 'N', b_turned ? 'T' : 'N', (dnnl_dim_t)m, (dnnl_dim_t)n,
                    (dnnl_dim_t)k, 1.0f, a, (dnnl_dim_t)(a_turned ? m : k), b,
                    (dnnl_dim_t)(b_turned ? k : n), 0.0f, c, (dnnl_dim_t)n),
         "sgemm");
}

typedef struct tensor {
    dnnl_memory_t memory;
    float *values;
} tensor;

static tensor tensor_of(const dnnl_memory_desc_t *desc)
{
    size_t bytes = dnnl_memory_desc_get_size(desc);
    tensor t = {.values = ps_xaligned_alloc(bytes)};

    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        t.values[i] = (float)(i % 7) - 3.0f;
    }
    must(dnnl_memory_create(&t.memory, desc, engine, t.values), "memory_create");
    return t;
}

static void tensor_fini(tensor *t)
{
    dnnl_memory_destroy(t->memory);
    free(t->values);
}

enum { FORWARD, WEIGHTS, DATA, CONVOLUTIONS };
enum { X_IN, DY_IN, Y_OUT, DX_OUT, TURNS };

struct onednn_conv {
    dnnl_primitive_t run[CONVOLUTIONS], turn[TURNS];
    tensor x[CONVOLUTIONS], w[CONVOLUTIONS], y[CONVOLUTIONS]; /* or their gradients */
    tensor from[TURNS];                                       /* as (n, channels, rows, columns) */
};

/* The sizes, any layout. */
typedef struct sizes {
    dnnl_memory_desc_t x, w, y;
    dnnl_dims_t strides, left, right;
} sizes;

static sizes sizes_of(const ps_window *at, size_t filters, size_t n)
{
    dnnl_dim_t k = (dnnl_dim_t)at->kernel, p = (dnnl_dim_t)at->padding;
    dnnl_dims_t x = {(dnnl_dim_t)n, (dnnl_dim_t)at->channels, (dnnl_dim_t)at->rows,
                     (dnnl_dim_t)at->columns};
    dnnl_dims_t w = {(dnnl_dim_t)filters, (dnnl_dim_t)at->channels, k, k};
    dnnl_dims_t y = {(dnnl_dim_t)n, (dnnl_dim_t)filters, (dnnl_dim_t)at->out_rows,
                     (dnnl_dim_t)at->out_columns};
    dnnl_dim_t outs[2] = {y[2], y[3]}, ins[2] = {x[2], x[3]};
    sizes of = {.strides = {(dnnl_dim_t)at->stride, (dnnl_dim_t)at->stride}, .left = {p, p}};

    for (size_t i = 0; i < 2; i++) {
        of.right[i] = (outs[i] - 1) * of.strides[i] + k - ins[i] - p;
    }
    must(dnnl_memory_desc_init_by_tag(&of.x, 4, x, dnnl_f32, dnnl_format_tag_any), "x");
    must(dnnl_memory_desc_init_by_tag(&of.w, 4, w, dnnl_f32, dnnl_format_tag_any), "w");
    must(dnnl_memory_desc_init_by_tag(&of.y, 4, y, dnnl_f32, dnnl_format_tag_any), "y");
    return of;
}

static dnnl_convolution_desc_t describe(int which, const sizes *of)
{
    dnnl_convolution_desc_t desc;
    dnnl_alg_kind_t kind = dnnl_convolution_direct;

    if (which == FORWARD) {
        must(dnnl_convolution_forward_desc_init(&desc, dnnl_forward_training, kind, &of->x, &of->w,
                                                NULL, &of->y, of->strides, of->left, of->right),
             "forward");
    } else if (which == WEIGHTS) {
        must(dnnl_convolution_backward_weights_desc_init(&desc, kind, &of->x, &of->w, NULL, &of->y,
                                                         of->strides, of->left, of->right),
             "backward_weights");
    } else {
        must(dnnl_convolution_backward_data_desc_init(&desc, kind, &of->x, &of->w, &of->y,
                                                      of->strides, of->left, of->right),
             "backward_data");
    }
    return desc;
}

static const dnnl_query_t x_of[] = {dnnl_query_src_md, dnnl_query_src_md, dnnl_query_diff_src_md};
static const dnnl_query_t w_of[] = {dnnl_query_weights_md, dnnl_query_diff_weights_md,
                                    dnnl_query_weights_md};
static const dnnl_query_t y_of[] = {dnnl_query_dst_md, dnnl_query_diff_dst_md,
                                    dnnl_query_diff_dst_md};

/* From (n, channels, rows, columns) to `own`, or back. */
static void make_turn(onednn_conv *conv, int which, const tensor *own, bool is_back)
{
    const dnnl_memory_desc_t *blocked;
    dnnl_memory_desc_t plain;
    dnnl_primitive_desc_t made;

    must(dnnl_memory_get_memory_desc(own->memory, &blocked), "memory_desc");
    must(dnnl_memory_desc_init_by_tag(&plain, 4, blocked->dims, dnnl_f32, dnnl_nchw), "nchw");
    conv->from[which] = tensor_of(&plain);
    must(dnnl_reorder_primitive_desc_create(&made, is_back ? blocked : &plain, engine,
                                            is_back ? &plain : blocked, engine, NULL),
         "reorder");
    must(dnnl_primitive_create(&conv->turn[which], made), "reorder_create");
    dnnl_primitive_desc_destroy(made);
}

onednn_conv *onednn_conv_create(const ps_window *at, size_t filters, size_t n)
{
    onednn_conv *conv = ps_xcalloc(1, sizeof *conv);
    sizes of = sizes_of(at, filters, n);
    dnnl_primitive_desc_t made[CONVOLUTIONS];

    for (int i = 0; i < CONVOLUTIONS; i++) {
        dnnl_convolution_desc_t desc = describe(i, &of);

        must(dnnl_primitive_desc_create(&made[i], &desc, NULL, engine,
                                        i == FORWARD ? NULL : made[FORWARD]),
             "convolution");
        must(dnnl_primitive_create(&conv->run[i], made[i]), "convolution_create");
        conv->x[i] = tensor_of(dnnl_primitive_desc_query_md(made[i], x_of[i], 0));
        conv->w[i] = tensor_of(dnnl_primitive_desc_query_md(made[i], w_of[i], 0));
        conv->y[i] = tensor_of(dnnl_primitive_desc_query_md(made[i], y_of[i], 0));
    }
    for (int i = 0; i < CONVOLUTIONS; i++) {
        dnnl_primitive_desc_destroy(made[i]);
    }
    make_turn(conv, X_IN, &conv->x[FORWARD], false);
    make_turn(conv, DY_IN, &conv->y[WEIGHTS], false);
    make_turn(conv, Y_OUT, &conv->y[FORWARD], true);
    make_turn(conv, DX_OUT, &conv->x[DATA], true);
    return conv;
}

void onednn_conv_run(onednn_conv *conv, bool with_dx)
{
    static const int args[CONVOLUTIONS][3] = {
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
        {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
    };

    for (int i = 0; i < (with_dx ? CONVOLUTIONS : DATA); i++) {
        dnnl_exec_arg_t list[3] = {{args[i][0], conv->x[i].memory},
                                   {args[i][1], conv->w[i].memory},
                                   {args[i][2], conv->y[i].memory}};

        must(dnnl_primitive_execute(conv->run[i], stream, 3, list), "execute");
    }
    must(dnnl_stream_wait(stream), "wait");
}

void onednn_conv_turn(onednn_conv *conv, bool with_dx)
{
    tensor *own[TURNS] = {&conv->x[FORWARD], &conv->y[WEIGHTS], &conv->y[FORWARD], &conv->x[DATA]};

    for (int i = 0; i < (with_dx ? TURNS : DX_OUT); i++) {
        bool is_back = i >= Y_OUT;
        dnnl_exec_arg_t list[2] = {{DNNL_ARG_FROM, is_back ? own[i]->memory : conv->from[i].memory},
                                   {DNNL_ARG_TO, is_back ? conv->from[i].memory : own[i]->memory}};

        must(dnnl_primitive_execute(conv->turn[i], stream, 2, list), "turn");
    }
    must(dnnl_stream_wait(stream), "wait");
}

void onednn_conv_destroy(onednn_conv *conv)
{
    for (int i = 0; i < CONVOLUTIONS; i++) {
        dnnl_primitive_destroy(conv->run[i]);
        tensor_fini(&conv->x[i]);
        tensor_fini(&conv->w[i]);
        tensor_fini(&conv->y[i]);
    }
    for (int i = 0; i < TURNS; i++) {
        dnnl_primitive_destroy(conv->turn[i]);
        tensor_fini(&conv->from[i]);
    }
    free(conv);
}
