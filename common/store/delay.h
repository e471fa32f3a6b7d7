/* SPDX-License-Identifier: Apache-2.0 */
/* delay.h - corrects a late gradient for the steps that the weights have made since the worker had
 * them (DC-ASGD, Zheng et al. 2017). Let b be the weights for which the worker computed g, and w
 * the present ones. The gradient at w is approximated by g + lambda g * g * (w - b), where g * g
 * approximates the diagonal of the Hessian. The adaptive form keeps the mean square m = decay m +
 * (1 - decay) g * g and replaces lambda by lambda / sqrt(m + 1e-7). */
#ifndef PS_COMMON_STORE_DELAY_H
#define PS_COMMON_STORE_DELAY_H

#include <stddef.h>

typedef struct ps_delay {
    double lambda; /* 0: gradients are not corrected */
    double decay;  /* factor of m in the mean square; 0: lambda is constant and m is not used */
} ps_delay;

/* Writes the corrected gradient to out (n), which may be g itself. w are the present weights, had
 * (n) those for which g was computed. mean_square (n) is m, zeros before the first call, and is
 * updated; NULL if decay is 0. */
void ps_delay_correct(ps_delay delay, const float *g, const float *w, const float *had,
                      float *mean_square, float *out, size_t n);

#endif
