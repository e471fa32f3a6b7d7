/* SPDX-License-Identifier: Apache-2.0 */
/* loss.h - what training makes small. */
#ifndef PS_COMMON_NN_LOSS_H
#define PS_COMMON_NN_LOSS_H

#include <stddef.h>
#include <stdint.h>

/* Sums over samples in double, so that parts can be added exactly enough. */
typedef struct ps_score {
    double loss_sum;
    uint64_t correct;
    uint64_t samples;
} ps_score;

typedef struct ps_loss {
    const char *name;
    const char *summary;
    /* dy (n, O) = gradient of scale * sum of losses with respect to y (n, O);
     * NULL when only the score is wanted. label[i] < O. Adds to *score. */
    void (*eval)(const float *y, const uint32_t *label, size_t n, size_t width, float scale,
                 float *dy, ps_score *score);
} ps_loss;

const ps_loss *ps_loss_find(const char *name); /* NULL if there is none */
void ps_loss_each(void (*fn)(const ps_loss *loss, void *arg), void *arg);

#endif
