/* SPDX-License-Identifier: Apache-2.0 */
/* optim.h - from a gradient to an increment: w becomes w - step.
 *
 * An optimizer is a const table; its state is memory of the caller, `slots`
 * floats for each value, all zero at first. To add one: common/optim/NAME.c,
 * a line in list.h, a line in CMakeLists.txt.
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
    const ps_param *params; /* the first is the rate */
    unsigned slots;         /* floats of state for each value: sgd 0, adam 2 */

    /* A gradient of zero leaves weight and state as they are, so that the forms
     * for rows give what the dense ones would. Else they are lazy: see below. */
    bool rests_at_zero;

    /* d[i] = the increment for gradient g[i] at weight w[i]; d is g or overlaps
     * nothing. t counts steps from 1. state is (slots, n): slot k begins at
     * state + k * n. Elementwise, so any split of a vector gives the same bits. */
    void (*increment)(const ps_params *params, uint64_t t, const float *g, const float *w,
                      float *state, float *d, size_t n);
    /* w[i] -= increment: the same bits as increment followed by subtraction. */
    void (*step)(const ps_params *params, uint64_t t, const float *g, float *state, float *w,
                 size_t n);

    /* The same for touched rows alone, n being the values of the stretch that w
     * and state are of: state (slots, n) and w (n) as above, g and d the packed
     * rows (count, D). Nothing is read or written of other rows, so the cost is
     * that of the touched ones. t is the stretch's, not the row's.
     *
     * What a row that is not touched means: where rests_at_zero, a gradient of
     * zero. Else the rule is lazy, as TensorFlow's sparse and lazy forms and
     * PyTorch's SparseAdam are: means and sums of the row do not decay and its
     * weights do not move (nor shrink by adamw's decay) until it is touched;
     * adam's correction of bias goes by t. */
    void (*increment_rows)(const ps_params *params, uint64_t t, const ps_rows *rows, const float *g,
                           const float *w, float *state, float *d, size_t n);
    void (*step_rows)(const ps_params *params, uint64_t t, const ps_rows *rows, const float *g,
                      float *state, float *w, size_t n);
} ps_optim;

const ps_optim *ps_optim_find(const char *name); /* NULL if there is none */
void ps_optim_each(void (*fn)(const ps_optim *optim, void *arg), void *arg);

#endif
