/* SPDX-License-Identifier: Apache-2.0 */
/* clip.h - limits gradients before they leave a worker.
 *
 * Workers clip, because only a worker has a whole gradient in float32, before any codec; servers
 * have slices of the gradients of different workers. So what is limited is the mean gradient of one
 * contribution (of a block, or of the blocks of a worker). The merged gradient is a mean of clipped
 * ones and stays within the limit too. With one worker and one block this equals PyTorch's
 * clip_grad_value_ and clip_grad_norm_ (except for the 1e-6 that the latter adds to the norm). The
 * state of layers, such as running statistics, is no gradient and is not clipped. A NaN stays a
 * NaN, so that it is noticed. */
#ifndef PS_COMMON_OPTIM_CLIP_H
#define PS_COMMON_OPTIM_CLIP_H

#include "common/base/param.h"

#include <stddef.h>

typedef enum ps_clip_unit {
    PS_CLIP_NOTHING,
    PS_CLIP_VALUE,    /* clips each value */
    PS_CLIP_VARIABLE, /* limits the norm of each variable */
    /* limits the norm of all variables together; no gradient can be sent before backward has
     * ended */
    PS_CLIP_ALL
} ps_clip_unit;

/* index of `limit` in the numbers of a clipping, the only number there is; `none` has no number */
enum { PS_CLIP_LIMIT };

typedef struct ps_clip {
    const char *name;
    const char *summary;
    const ps_param *params;
    ps_clip_unit unit;
} ps_clip;

/* Returns the clipping with this name, or NULL if there is none. */
const ps_clip *ps_clip_find(const char *name);
/* Calls `fn` for every clipping, in a fixed order. */
void ps_clip_each(void (*fn)(const ps_clip *clip, void *arg), void *arg);

/* Sets g[i] = max(-limit, min(limit, g[i])) for g (n). */
void ps_clip_values(float *g, size_t n, float limit);

/* Returns the sum of the squares of g (n), in double and in a fixed order: the same on every
 * host. */
double ps_clip_square_sum(const float *g, size_t n);

/* Multiplies g (n) by limit / sqrt(square_sum) if that root is above the limit. */
void ps_clip_to_norm(float *g, size_t n, double square_sum, double limit);

#endif
