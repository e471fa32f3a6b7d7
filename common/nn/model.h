/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - layers over one block of parameters.
 *
 * Layers are a list; each reads the outputs of earlier ones, by default of the one
 * before it, and the last one's output is the model's.
 *
 * All variables lie in one contiguous float32 block in layer order; the model
 * knows their places and owns activations, nothing else: weights and gradients
 * are the caller's. One model is used by one thread at a time.
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
    /* Whose outputs it reads: the number of an earlier layer in the list, from 1; 0 is the
     * model's input. None: the layer before, or the input. */
    uint32_t input_count;
    uint32_t inputs[PS_LAYER_INPUTS_MAX];
} ps_layer_spec;

typedef struct ps_variable {
    char name[PS_VAR_NAME_MAX]; /* "dense0.weight" */
    ps_shape shape;
    size_t at, size; /* values, in the block */
    uint32_t layer;  /* whose it is */
    ps_init init;
    bool is_state;  /* of its layer: what stands for its gradient is a decrement */
    bool is_sparse; /* (rows, width): ps_model_rows tells which of its gradient are not 0 */
} ps_variable;

typedef struct ps_model ps_model;

/* `in` is the shape of one sample, batch the most samples at once. The specs
 * are copied, loss is kept. INVALID_ARGUMENT names the layer that does not fit,
 * or whose output nobody reads;
 * RESOURCE_EXHAUSTED when there is no memory for the activations. Sets the
 * threads of BLAS to one, for the whole process. */
PS_MUST_USE ps_status ps_model_create(const ps_layer_spec *layers, size_t count, ps_shape in,
                                      const ps_loss *loss, size_t batch, ps_model **out);
void ps_model_destroy(ps_model *model);

size_t ps_model_param_count(const ps_model *model); /* values in the block */
size_t ps_model_variable_count(const ps_model *model);
const ps_variable *ps_model_variable(const ps_model *model, size_t index);
ps_shape ps_model_in(const ps_model *model); /* of a sample */
size_t ps_model_output_width(const ps_model *model);
size_t ps_model_batch(const ps_model *model);

/* A layer as it was planned, for who writes the model down in another form. */
typedef struct ps_model_layer {
    const ps_layer *layer;
    const ps_layer_plan *plan;
    const char *name;
    const ps_variable *variables; /* (plan->var_count) */
    const uint32_t *inputs; /* (plan->input_count) earlier layers, from 1; 0: the model's input */
} ps_model_layer;

size_t ps_model_layer_count(const ps_model *model);
ps_model_layer ps_model_layer_at(const ps_model *model, size_t index);

/* Bytes of all that the model owns, and of them those of activations and scratch, which
 * grow with the batch. */
size_t ps_model_memory(const ps_model *model);
size_t ps_model_activations(const ps_model *model);

/* Initial weights, each by the ps_init of its variable. */
void ps_model_init(const ps_model *model, uint64_t seed, float *block);

/* Asked before a layer's weights are read; may block until they are there.
 * Variables are [first, first + count). */
typedef void ps_model_need_fn(void *arg, uint32_t first_variable, uint32_t count);
/* Told when the gradients of these variables are final, last layer first, the
 * layer's weights no longer being needed in this step. */
typedef void ps_model_ready_fn(void *arg, uint32_t first_variable, uint32_t count);

typedef struct ps_model_hooks {
    ps_model_need_fn *need;   /* (optional) */
    ps_model_ready_fn *ready; /* (optional) */
    void *arg;
} ps_model_hooks;

/* Names the draws (dropout) of the ps_model_train that follow; 0 at first. The
 * same key draws the same, so whoever trains a block derives it from what names
 * the block: ps_draw_key(seed, PS_DRAW_DROPOUT, clock, block, 0). */
void ps_model_set_draws(ps_model *model, uint64_t key);

/* Forward and backward over n <= batch samples: x (n, I), targets of each. grad
 * (param_count) is overwritten if accumulate is false, else added to, with
 * scale * the gradient of the summed loss; in place of state's gradient is
 * scale * n * the decrement of it. Adds to *score. */
void ps_model_train(ps_model *model, const float *weights, const float *x, ps_targets targets,
                    size_t n, float scale, bool accumulate, float *grad,
                    const ps_model_hooks *hooks, ps_score *score);

/* Sparse gradients, as of an embedding: a batch touches few rows of a large table, and
 * only they need be cleared, stepped and sent. Whoever ignores it has a dense gradient,
 * zero in the other rows.
 *
 * Rows of a sparse variable that were touched since the last ps_model_train that did not
 * accumulate, with it: ascending, each once; complete from `ready` of the variable on and
 * valid until the next train. NULL: the variable is not sparse. */
const uint32_t *ps_model_rows(ps_model *model, size_t variable, size_t *count);

/* The caller promises that between calls of ps_model_train nobody changes rows of `grad`
 * that ps_model_rows does not tell, that it is the same `grad`, and that it is 0 at first.
 * Then only touched rows of sparse variables are cleared. Not at first. */
void ps_model_keep_rows(ps_model *model, bool is_kept);

/* Where in the last forward pass, over x (n, I), something was first no finite number:
 * INTERNAL names the sample of the input, the variable or the layer whose output it is (of a
 * relu that the norm before it does, the norm);
 * INVALID_ARGUMENT an id that is none of an embedding's. OK: everything was finite.
 * weights NULL: they are somebody else's by now; the first output they spoiled is named. */
PS_MUST_USE ps_status ps_model_find_nonfinite(const ps_model *model, const float *weights,
                                              const float *x, size_t n);

/* Forward only, not in training; adds to *score. */
void ps_model_eval(ps_model *model, const float *weights, const float *x, ps_targets targets,
                   size_t n, ps_score *score);

/* Forward only, not in training; logits (n, outputs) stay valid until the next call. */
const float *ps_model_predict(ps_model *model, const float *weights, const float *x, size_t n);

#endif
