/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - the window of maxpool2d and avgpool2d, and its plan. For common/nn only. */
#ifndef PS_COMMON_NN_POOL_H
#define PS_COMMON_NN_POOL_H

#include "common/nn/layer.h"

enum { PS_POOL_KERNEL, PS_POOL_STRIDE, PS_POOL_PADDING };

#define PS_POOL_PARAM_LINES                                                                        \
    {.name = "kernel",                                                                             \
     .value = 2,                                                                                   \
     .min = 1,                                                                                     \
     .max = 255,                                                                                   \
     .is_integer = true,                                                                           \
     .help = "rows and columns of the window"},                                                    \
        {.name = "stride",                                                                         \
         .value = 0,                                                                               \
         .min = 0,                                                                                 \
         .max = 255,                                                                               \
         .is_integer = true,                                                                       \
         .help = "values from one place of the window to the next; 0: as kernel"},                 \
    {                                                                                              \
        .name = "padding", .value = 0, .min = 0, .max = 127, .is_integer = true,                   \
        .help = "values around the image that no window's value is taken from; at most half a "    \
                "window"                                                                           \
    }

typedef struct ps_pool {
    size_t rows, columns, out_rows, out_columns;
    size_t kernel, stride, padding;
} ps_pool;

/* Return the bounds of the window at row or column `place` of the output: it covers [from, to) of
 * the image's `size` rows or columns, and is never empty. */
static inline size_t ps_pool_from(const ps_pool *at, size_t place)
{
    return place * at->stride > at->padding ? place * at->stride - at->padding : 0;
}
static inline size_t ps_pool_to(const ps_pool *at, size_t place, size_t size)
{
    size_t to = place * at->stride + at->kernel - at->padding;

    return to < size ? to : size;
}

/* Fills plan->out. Fails with INVALID_ARGUMENT, which names `kind`, if the input does not fit. */
PS_MUST_USE ps_status ps_pool_plan(ps_layer_plan *plan, const char *kind);
ps_pool ps_pool_of(const ps_layer_plan *plan);

#endif
