/* SPDX-License-Identifier: Apache-2.0 */
/* clip.h - gradients cut to a limit before they leave a worker.
 *
 * Clipping is the worker's: it alone has a whole gradient in float32, before
 * any codec, while servers have slices of different workers' gradients. So what
 * is limited is the mean gradient of what one contribution is made of (a block,
 * or the blocks of a worker), and the merged gradient, being a mean of clipped
 * ones, keeps to the limit too. With one worker and one block it is what
 * PyTorch's clip_grad_value_ and clip_grad_norm_ do (but for the 1e-6 that the
 * latter adds to the norm). Running statistics are no
 * gradients and are left alone. What holds a NaN keeps it, so that it is seen.
 */
#ifndef PS_COMMON_OPTIM_CLIP_H
#define PS_COMMON_OPTIM_CLIP_H

#include "common/base/param.h"

#include <stddef.h>

typedef enum ps_clip_unit {
    PS_CLIP_NOTHING,
    PS_CLIP_VALUE,    /* each value by itself */
    PS_CLIP_VARIABLE, /* the norm of each variable */
    PS_CLIP_ALL       /* the norm of all variables together: nothing can be sent before
                       * backward has come to the first layer */
} ps_clip_unit;

enum { PS_CLIP_LIMIT }; /* the one number, of all but `none` */

typedef struct ps_clip {
    const char *name;
    const char *summary;
    const ps_param *params;
    ps_clip_unit unit;
} ps_clip;

const ps_clip *ps_clip_find(const char *name); /* NULL if there is none */
void ps_clip_each(void (*fn)(const ps_clip *clip, void *arg), void *arg);

/* g[i] = max(-limit, min(limit, g[i])). */
void ps_clip_values(float *g, size_t n, float limit);

/* Sum of squares, in double and in a fixed order: the same bits on every host. */
double ps_clip_square_sum(const float *g, size_t n);

/* Multiplies by limit / sqrt(square_sum) when that norm is above the limit. */
void ps_clip_to_norm(float *g, size_t n, double square_sum, double limit);

#endif
