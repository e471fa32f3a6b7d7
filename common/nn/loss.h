/* SPDX-License-Identifier: Apache-2.0 */
/* loss.h - the functions that training minimises. */
#ifndef PS_COMMON_NN_LOSS_H
#define PS_COMMON_NN_LOSS_H

#include "common/base/status.h"
#include "common/nn/targets.h"

#include <stddef.h>
#include <stdint.h>

/* Sums over samples. Doubles, so that scores of parts can be added with little rounding. */
typedef struct ps_score {
    double loss_sum;
    uint64_t correct; /* number of samples whose class was predicted; 0 if targets are values */
    uint64_t samples;
} ps_score;

typedef struct ps_loss {
    const char *name;
    const char *summary;
    ps_output_link link;   /* how the loss interprets outputs */
    bool takes_values;     /* targets may be values, one for each output */
    bool takes_one_output; /* a single output may stand for two classes */

    /* Writes into dy (n, O) the gradient of scale * sum of losses with respect to y (n, O); dy
     * NULL: only the score is wanted. Adds to *score. The targets must fit (ps_loss_fits). */
    void (*eval)(const float *y, ps_targets targets, size_t n, size_t width, float scale, float *dy,
                 ps_score *score);
} ps_loss;

/* Returns the loss of this name, or NULL. */
const ps_loss *ps_loss_find(const char *name);

/* Calls fn for each loss, in the order of list.h. */
void ps_loss_each(void (*fn)(const ps_loss *loss, void *arg), void *arg);

/* Checks that a loss can compare `outputs` outputs with targets of `classes` classes or, if that is
 * 0, of `width` values. Fails with INVALID_ARGUMENT and what the loss needs. */
PS_MUST_USE ps_status ps_loss_fits(const ps_loss *loss, uint32_t classes, size_t width,
                                   size_t outputs);

#endif
