/* SPDX-License-Identifier: Apache-2.0 */
/* loss.h - what training makes small. */
#ifndef PS_COMMON_NN_LOSS_H
#define PS_COMMON_NN_LOSS_H

#include "common/base/status.h"
#include "common/nn/targets.h"

#include <stddef.h>
#include <stdint.h>

/* Sums over samples in double, so that parts can be added exactly enough. */
typedef struct ps_score {
    double loss_sum;
    uint64_t correct; /* of samples with a class: the right answers */
    uint64_t samples;
} ps_score;

typedef struct ps_loss {
    const char *name;
    const char *summary;
    ps_output_link link;   /* what it reads outputs as */
    bool takes_values;     /* targets may be values, one for each output */
    bool takes_one_output; /* one output can stand for two classes */

    /* dy (n, O) = gradient of scale * sum of losses with respect to y (n, O);
     * NULL when only the score is wanted. The targets fit (ps_loss_fits) and
     * classes are within them. Adds to *score. */
    void (*eval)(const float *y, ps_targets targets, size_t n, size_t width, float scale, float *dy,
                 ps_score *score);
} ps_loss;

const ps_loss *ps_loss_find(const char *name); /* NULL if there is none */
void ps_loss_each(void (*fn)(const ps_loss *loss, void *arg), void *arg);

/* Whether a loss can compare so many outputs with such targets: one of `classes`
 * classes, or, if that is 0, `width` values. INVALID_ARGUMENT says what it needs. */
PS_MUST_USE ps_status ps_loss_fits(const ps_loss *loss, uint32_t classes, size_t width,
                                   size_t outputs);

#endif
