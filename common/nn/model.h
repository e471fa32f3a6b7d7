/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - a graph of layers over one block of parameters.
 *
 * Layers form a list. Each reads the outputs of earlier layers, by default of the one before it;
 * the output of the last layer is the model's.
 *
 * All variables lie in one contiguous float32 block, in the order of layers. The model knows their
 * places and owns the activations; weights and gradients are the caller's. One thread at a time.
 */
#ifndef PS_COMMON_NN_MODEL_H
#define PS_COMMON_NN_MODEL_H

#include "common/nn/layer.h"
#include "common/nn/loss.h"

enum { PS_MODEL_LAYERS_MAX = 256, PS_VAR_NAME_MAX = 80 };

typedef struct ps_layer_spec {
    const ps_layer *layer;
    ps_params params;
    char name[64]; /* "dense0" */
    /* Numbers of the layers whose outputs the layer reads: earlier layers in the list, from 1; 0 is
     * the model's input. input_count 0: it reads the layer before it, or the model's input. */
    uint32_t input_count;
    uint32_t inputs[PS_LAYER_INPUTS_MAX];
} ps_layer_spec;

typedef struct ps_variable {
    char name[PS_VAR_NAME_MAX]; /* "dense0.weight" */
    ps_shape shape;
    size_t at, size; /* at: index of its first value in the block; size: number of values */
    uint32_t layer;  /* index of its layer */
    ps_init init;
    bool is_state;  /* state of its layer: it has a decrement in place of a gradient (layer.h) */
    bool is_sparse; /* (rows, width): ps_model_rows says which rows of its gradient are not 0 */
} ps_variable;

typedef struct ps_model ps_model;

/* Creates a model. `in` is the shape of one sample, `batch` the most samples of a call. Copies the
 * specs, keeps `loss`. Sets the threads of OpenBLAS to one, for the whole process.
 *
 * INVALID_ARGUMENT    a layer does not fit, or nothing reads its output; names the layer
 * RESOURCE_EXHAUSTED  no memory for the activations
 */
PS_MUST_USE ps_status ps_model_create(const ps_layer_spec *layers, size_t count, ps_shape in,
                                      const ps_loss *loss, size_t batch, ps_model **out);
/* Creates a model that has variables and no layers, because a program computes it elsewhere. Copies
 * vars (count) and sets their places in the block. Functions that compute must not be called.
 * Returns INVALID_ARGUMENT if the variables have more than PS_TENSOR_MAX values. */
PS_MUST_USE ps_status ps_model_of_variables(const ps_variable *vars, size_t count, ps_model **out);
void ps_model_destroy(ps_model *model);

size_t ps_model_param_count(const ps_model *model); /* values in the block */
size_t ps_model_variable_count(const ps_model *model);
const ps_variable *ps_model_variable(const ps_model *model, size_t index);
size_t ps_model_output_width(const ps_model *model);

/* A planned layer, for code that writes the model in another format. */
typedef struct ps_model_layer {
    const ps_layer *layer;
    const ps_layer_plan *plan;
    const char *name;
    const ps_variable *variables; /* (plan->var_count) */
    const uint32_t *inputs; /* (plan->input_count) earlier layers, from 1; 0: the model's input */
} ps_model_layer;

size_t ps_model_layer_count(const ps_model *model);
ps_model_layer ps_model_layer_at(const ps_model *model, size_t index);

/* Returns the bytes of all memory that the model owns. */
size_t ps_model_memory(const ps_model *model);

/* Returns the bytes of activations and scratch, a part of ps_model_memory that grows with the
 * batch. */
size_t ps_model_activations(const ps_model *model);

/* Writes initial weights into block (param_count), each by the ps_init of its variable. */
void ps_model_init(const ps_model *model, uint64_t seed, float *block);

/* Called before the weights of variables [first, first + count) are read. May block until they have
 * arrived. */
typedef void ps_model_need_fn(void *arg, uint32_t first_variable, uint32_t count);

/* Called when the gradients of variables [first, first + count) are final, the last layer first.
 * The weights of these variables are no longer read in this step. */
typedef void ps_model_ready_fn(void *arg, uint32_t first_variable, uint32_t count);

/* Called with the outputs y (n, O) of the forward pass, before the backward pass. */
typedef void ps_model_outputs_fn(void *arg, const float *y, size_t n);

typedef struct ps_model_hooks {
    ps_model_need_fn *need;       /* (optional) */
    ps_model_outputs_fn *outputs; /* (optional) */
    ps_model_ready_fn *ready;     /* (optional) */
    void *arg;
} ps_model_hooks;

/* Sets the number of threads (1 to PS_TEAM_MAX) that compute each layer together. The bits do not
 * depend on it. Call it once, before the first pass. Without this call, or if the system gives no
 * more threads or no scratch memory for them, the model has one thread. */
void ps_model_set_threads(ps_model *model, uint32_t threads);

/* Sets the key of the draws (dropout) in later calls of ps_model_train; 0 at first. The same key
 * gives the same draws. Derive it from what identifies the block, so that every holder of the block
 * has the same: ps_draw_key(seed, PS_DRAW_DROPOUT, clock, block, 0). */
void ps_model_set_draws(ps_model *model, uint64_t key);

/* is_ascent: from now on gradients are those of -loss, so that steps against them raise the loss;
 * false at first. Scores and the state of layers do not change. */
void ps_model_set_ascent(ps_model *model, bool is_ascent);

/* Computes forward and backward for n <= batch samples x (n, I) with their targets. Writes into
 * grad (param_count), or adds to it if `accumulate`, scale * the gradient of the summed loss; for
 * state scale * n * its decrement. Adds to *score. */
void ps_model_train(ps_model *model, const float *weights, const float *x, ps_targets targets,
                    size_t n, float scale, bool accumulate, float *grad,
                    const ps_model_hooks *hooks, ps_score *score);

/* Returns the touched rows of a sparse variable, ascending, each once; NULL: it is not sparse. A
 * batch touches few rows of an embedding's table; all other rows of its gradient are 0, so that
 * only the touched ones need be cleared, stepped and sent.
 *
 * The rows are those of the last ps_model_train without `accumulate` and of all later ones. They
 * are complete from `ready` of the variable on, and valid until the next ps_model_train. */
const uint32_t *ps_model_rows(ps_model *model, size_t variable, size_t *count);

/* Sets whether ps_model_train may clear only touched rows of the gradients of sparse variables;
 * false at first. If it may, the caller promises that `grad` is always the same block, is 0 at
 * first, and that nobody changes rows of it which ps_model_rows does not return. */
void ps_model_keep_rows(ps_model *model, bool is_kept);

/* Finds the first value of the last forward pass, over x (n, I), that is not finite. Returns OK if
 * there is none. If `weights` is NULL, because they may have changed since, weights are not checked
 * and the first output is named instead.
 *
 * INTERNAL          names the sample of the input, the variable, or the layer with this output (for
 *                   a relu that was merged into the norm before it, the norm)
 * INVALID_ARGUMENT  an id is outside an embedding's table
 */
PS_MUST_USE ps_status ps_model_find_nonfinite(const ps_model *model, const float *weights,
                                              const float *x, size_t n);

/* Computes forward as for evaluation (no draws, no statistics of the batch), and adds to *score. */
void ps_model_eval(ps_model *model, const float *weights, const float *x, ps_targets targets,
                   size_t n, ps_score *score);

/* Computes forward as for evaluation. Returns the outputs before the loss's link, that is the
 * logits if the loss has one: (n, outputs), valid until the next call. */
const float *ps_model_predict(ps_model *model, const float *weights, const float *x, size_t n);

#endif
