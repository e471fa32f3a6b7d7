/* SPDX-License-Identifier: Apache-2.0 */
/* optim.h - optimizers: rules that make an increment of a gradient. A step does w -= increment.
 *
 * An optimizer is a const table. Its state is memory of the caller: `slots` floats per value,
 * all zero at first. To add one: write common/optim/NAME.c, add a line to list.h and one to
 * CMakeLists.txt.
 */
#ifndef PS_COMMON_OPTIM_OPTIM_H
#define PS_COMMON_OPTIM_OPTIM_H

#include "common/base/param.h"
#include "common/optim/rows.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ps_optim {
    const char *name;
    const char *summary;    /* one line with the formula and its source */
    const ps_param *params; /* the first is `lr`, the learning rate */
    unsigned slots;         /* floats of state per value: sgd 0, adam 2 */

    /* A gradient of zero leaves weight and state unchanged, so increment_rows and step_rows give
     * what `increment` and `step` would. If false, the functions for rows are lazy (see
     * increment_rows). */
    bool rests_at_zero;

    /* Sets d[i] to the increment for gradient g[i] at weight w[i], and updates the state. d is
     * g or overlaps nothing. t counts steps from 1. state is (slots, n): slot k begins at state
     * + k * n. Elementwise, so any split of a vector gives the same bits. */
    void (*increment)(const ps_params *params, uint64_t t, const float *g, const float *w,
                      float *state, float *d, size_t n);
    /* Sets to[i] = w[i] - increment, with the same bits as `increment` and a subtraction. `to` is
     * w, g, or overlaps nothing. */
    void (*step)(const ps_params *params, uint64_t t, const float *g, const float *w, float *state,
                 float *to, size_t n);

    /* Does what `increment` does, for touched rows only (rows.h). w (n) and state (slots, n) are
     * those of the whole variable; g and d have the touched rows one after the other (count, D).
     * Other rows are neither read nor written, so the cost depends on the touched rows only. t is
     * the step count of the variable, not of a row.
     *
     * If rests_at_zero, leaving a row out has the same result as a gradient of zero. Else the rule
     * is lazy, like TensorFlow's sparse and lazy optimizers and PyTorch's SparseAdam: until a row
     * is touched, its means and sums do not decay and its weights do not move (adamw's decay does
     * not shrink them either). Adam's correction of bias uses t. */
    void (*increment_rows)(const ps_params *params, uint64_t t, const ps_rows *rows, const float *g,
                           const float *w, float *state, float *d, size_t n);
    /* Does what `step` does, for touched rows only. */
    void (*step_rows)(const ps_params *params, uint64_t t, const ps_rows *rows, const float *g,
                      float *state, float *w, size_t n);
} ps_optim;

/* Returns the optimizer with this name, or NULL if there is none. */
const ps_optim *ps_optim_find(const char *name);
/* Calls `fn` for every optimizer, in the order of list.h. */
void ps_optim_each(void (*fn)(const ps_optim *optim, void *arg), void *arg);

#endif
