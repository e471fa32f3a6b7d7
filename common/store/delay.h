/* SPDX-License-Identifier: Apache-2.0 */
/* delay.h - corrects late gradients for the steps that the weights have made since (DC-ASGD, Zheng
 * et al. 2017). With b the weights for which a worker computed g, and w those of now, the gradient
 * at w is approximated by g + lambda g * g * (w - b) where g * g approximates the diagonal of the
 * Hessian. The adaptive form keeps the mean square m = decay m + (1 - decay) g * g and replaces
 * lambda by lambda / sqrt(m + 1e-7).
 */
#ifndef PS_COMMON_STORE_DELAY_H
#define PS_COMMON_STORE_DELAY_H

#include <stddef.h>

typedef struct ps_delay {
    double lambda; /* 0: nothing is corrected */
    double decay;  /* of m; 0: lambda is constant and m is not used */
} ps_delay;

/* Writes the corrected gradient to out (n), which may be g. `had` (n) is b. mean_square (n) is m:
 * zeros at first, NULL if decay is 0. */
void ps_delay_correct(ps_delay delay, const float *g, const float *w, const float *had,
                      float *mean_square, float *out, size_t n);

#endif
