/* SPDX-License-Identifier: Apache-2.0 */
/* answer.h - which class a row of outputs predicts. For the losses of common/nn alone. */
#ifndef PS_COMMON_NN_ANSWER_H
#define PS_COMMON_NN_ANSWER_H

#include "common/nn/argmax.h"
#include "common/nn/targets.h"

/* Returns whether a row of outputs predicts the class of sample i. The predicted class is the first
 * of the greatest outputs; with a single output it is 1 if the output is above `middle`, else 0.
 * Returns false if targets are values. */
static inline bool ps_answers(const float *row, size_t width, float middle,
                              const ps_targets *targets, size_t i)
{
    if (!targets->is_class) {
        return false;
    }
    if (width == 1) {
        return (row[0] > middle) == (ps_targets_class(targets, i, 2) == 1);
    }
    return ps_index_of_max(row, width) == ps_targets_class(targets, i, width);
}

#endif
