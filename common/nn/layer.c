/* SPDX-License-Identifier: Apache-2.0 */
/* layer.c - functions of shapes, and the registry: a const array made of common/nn/list.h. */
#include "common/nn/layer.h"

#include <assert.h>
#include <string.h>

#define PS_LAYER(kind) extern const ps_layer ps_layer_##kind;
#include "common/nn/list.h"
#undef PS_LAYER

static const ps_layer *const layers[] = {
#define PS_LAYER(kind) &ps_layer_##kind,
#include "common/nn/list.h"
#undef PS_LAYER
};

enum { LAYER_COUNT = sizeof layers / sizeof layers[0] };

size_t ps_shape_size(const ps_shape *shape)
{
    size_t size = 1;

    assert(shape->rank <= PS_SHAPE_MAX);
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (__builtin_mul_overflow(size, (size_t)shape->dim[i], &size)) {
            return SIZE_MAX;
        }
    }
    return size;
}

bool ps_shape_equal(const ps_shape *a, const ps_shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof a->dim[0]) == 0;
}

const ps_layer *ps_layer_find(const char *kind)
{
    for (size_t i = 0; i < LAYER_COUNT; i++) {
        if (strcmp(layers[i]->kind, kind) == 0) {
            return layers[i];
        }
    }
    return NULL;
}

void ps_layer_each(void (*fn)(const ps_layer *layer, void *arg), void *arg)
{
    for (size_t i = 0; i < LAYER_COUNT; i++) {
        fn(layers[i], arg);
    }
}

ps_status ps_layer_image(const ps_layer_plan *plan, const char *kind, uint32_t chw[3])
{
    if (plan->in.rank != 3) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "%s: the input has rank %u; images (channels, rows, columns) are allowed",
                       kind, plan->in.rank);
    }
    memcpy(chw, plan->in.dim, 3 * sizeof *chw);
    return ps_ok();
}
