/* SPDX-License-Identifier: Apache-2.0 */
/* delay.h - gradients corrected for what the weights went through while they were
 * computed (DC-ASGD, Zheng et al. 2017): with b the weights that the worker had,
 *     g + lambda g * g * (w - b)
 * stands for the gradient at w, g * g for the diagonal of the Hessian. Adaptive:
 *     m = decay m + (1 - decay) g * g, lambda / sqrt(m + 1e-7) in lambda's place.
 */
#ifndef PS_COMMON_STORE_DELAY_H
#define PS_COMMON_STORE_DELAY_H

#include <stddef.h>

typedef struct ps_delay {
    double lambda; /* 0: nothing is corrected */
    double decay;  /* of m; 0: lambda is constant, and m not used */
} ps_delay;

/* out (n) may be g; mean_square (n) is zeros at first, NULL when decay is 0. */
void ps_delay_correct(ps_delay delay, const float *g, const float *w, const float *had,
                      float *mean_square, float *out, size_t n);

#endif
