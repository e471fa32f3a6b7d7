/* SPDX-License-Identifier: Apache-2.0 */
/* model_impl.h - what model.c, model_plan.c, model_slopes.c and model_finite.c share; for them
 * only.
 *
 * One block of memory has everything that a pass needs. Forward needs an output for each layer
 * that is no view, the tapes, and one scratch for all layers that need it only while they run.
 * Backward needs slots. A slot holds the gradient of one output at a time, or of several outputs
 * with the same gradient. In names, `slope` means the gradient of an output or input. Slots are
 * planned as a compiler plans registers: layers are visited in reverse; a gradient's life begins
 * at the last layer that reads the output and ends at the layer that computes the output. */
#ifndef PS_COMMON_NN_MODEL_IMPL_H
#define PS_COMMON_NN_MODEL_IMPL_H

#include "common/nn/model.h"

/* Stands for the model's input in place of a layer's index. */
#define PS_MODEL_INPUT UINT32_MAX

/* How the gradient of an input is computed. `to` and `old` are offsets in floats in the block. */
typedef enum ps_slope_way {
    PS_SLOPE_NONE,  /* the gradient is not needed */
    PS_SLOPE_WRITE, /* the layer writes it to `to` */
    PS_SLOPE_ADD,   /* the layer writes it to `to`; then the values at `old` are added */
    PS_SLOPE_SAME,  /* equal to the output's gradient, whose slot it shares */
    PS_SLOPE_OVER,  /* the layer overwrites the output's gradient with it */
    PS_SLOPE_SUM    /* `to` = the output's gradient + the values at `old` */
} ps_slope_way;

typedef struct ps_placed_input {
    uint32_t from; /* the layer whose output is read, never a view; or PS_MODEL_INPUT */
    ps_slope_way way;
    size_t to, old;
} ps_placed_input;

typedef struct ps_placed {
    const ps_layer *layer;
    /* the layer's kind; if a relu was merged into it, the kind's with_relu, and the relu is a view
     * of this layer */
    const ps_layer *runs;
    ps_layer_plan plan;
    char name[64];
    uint32_t first_variable;
    /* index of this layer; if it is a view, index of the layer whose output it shows, or
     * PS_MODEL_INPUT */
    uint32_t root;
    bool is_read; /* a later layer reads its output */
    /* the layer is not computed by itself, because it was merged into an earlier one, its `root` */
    bool is_done;
    /* a gradient of its output is needed, because the output depends on a variable; so it takes
     * part in backward */
    bool has_slope;
    uint32_t input_count; /* one more than in the plan if an addition was merged into the layer */
    /* inputs as in ps_layer_spec, before views and merges are resolved */
    uint32_t reads[PS_LAYER_INPUTS_MAX];
    ps_placed_input inputs[PS_LAYER_INPUTS_MAX];
    size_t y_at, tape_at; /* offsets in the block, in floats */
    /* offset of the gradient of the output when backward comes to the layer */
    size_t dy_at;
} ps_placed;

struct ps_model {
    ps_placed *layers;
    size_t layer_count;
    ps_variable *vars;
    size_t var_count;
    size_t param_count;
    const ps_loss *loss;
    size_t batch;
    ps_shape in;       /* shape of an input sample */
    uint64_t draws;    /* key of the draws of the next passes */
    size_t scratch_at; /* offset in the block of the tape that layers share whose tape is scratch */
    size_t dy_at;      /* where the loss writes its gradient */
    float *block;
    size_t block_floats;
    ps_rowset **rows; /* (var_count): of a sparse variable, else NULL */
    bool keeps_rows;  /* set by ps_model_keep_rows */
    bool is_ascent;   /* set by ps_model_set_ascent */
    ps_team *team;    /* NULL: one thread */
};

/* The arguments of a layer's forward or backward; letters as in layer.h. */
typedef struct ps_layer_call {
    ps_pass pass;
    const float *w[PS_LAYER_VARS_MAX], *x[PS_LAYER_INPUTS_MAX];
    float *y, *tape;
    float *dy, *dw[PS_LAYER_VARS_MAX], *dx[PS_LAYER_INPUTS_MAX]; /* for backward only */
    size_t n;
} ps_layer_call;

/* Call forward or backward of at->runs, on the threads of the pass's team. */
void ps_model_call_forward(const ps_placed *at, const ps_layer_call *call);
void ps_model_call_backward(const ps_placed *at, const ps_layer_call *call);

/* Returns the output of a layer that is no view, or the model's input. */
static inline const float *ps_model_output_of(const ps_model *model, uint32_t root, const float *x)
{
    return root == PS_MODEL_INPUT ? x : model->block + model->layers[root].y_at;
}

/* Reserves `floats` in the block being planned. Returns their offset. */
size_t ps_model_reserve(ps_model *model, size_t floats);

/* Fills the layers and variables of the model and computes the size of its block. Fails as
 * ps_model_create does. */
PS_MUST_USE ps_status ps_model_plan(ps_model *model, const ps_layer_spec *specs, ps_shape in);

/* Plans slots for the gradients of a planned model and writes their offsets. */
void ps_model_plan_slopes(ps_model *model);

#endif
