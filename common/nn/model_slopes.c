/* SPDX-License-Identifier: Apache-2.0 */
/* model_slopes.c - plans where gradients lie in memory during backward.
 *
 * The plan simulates backward with sizes alone. A slot is free while it holds no output's
 * gradient. A slot that holds the gradient of several outputs is never added to; the sum goes to
 * another slot. In a plain chain of layers two slots alternate.
 */
#include "common/nn/model_impl.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

typedef struct slot {
    size_t values; /* the most values of a sample that the slot has to hold */
    uint32_t users;
    size_t at; /* offset in the block, in floats; set by `place` */
} slot;

enum { NO_SLOT = -1 };

typedef struct planner {
    ps_model *model;
    slot *slots;
    size_t slot_count;
    int *of; /* of[i]: the slot of the gradient of layer i's output, or NO_SLOT */
} planner;

/* Takes a free slot: the smallest that is large enough, else the largest, which grows. Makes a new
 * slot if none is free. */
static int take(planner *p, size_t values)
{
    int best = NO_SLOT;

    for (size_t s = 0; s < p->slot_count; s++) {
        size_t held = p->slots[s].values, good = best == NO_SLOT ? 0 : p->slots[best].values;

        if (p->slots[s].users == 0 &&
            (best == NO_SLOT || (held >= values ? good < values || held < good : held > good))) {
            best = (int)s;
        }
    }
    if (best == NO_SLOT) {
        best = (int)p->slot_count++;
        p->slots[best] = (slot){0};
    }
    if (p->slots[best].values < values) {
        p->slots[best].values = values;
    }
    p->slots[best].users = 1;
    return best;
}

static void leave(planner *p, int held)
{
    assert(held != NO_SLOT && p->slots[held].users > 0);
    p->slots[held].users--;
}

/* Returns whether the gradient of input k can overwrite the gradient of the output. It can if the
 * layer allows this, nobody else uses the output's gradient, and k is the last input: with a merged
 * addition that is the added output, and the layer reads its gradient there. */
static bool goes_over(const planner *p, const ps_placed *at, uint32_t k, int dy)
{
    return at->runs->slope_in_place && p->slots[dy].users == 1 && k + 1 == at->input_count;
}

/* Plans the gradient of one input. input->to and input->old hold numbers of slots until `place`
 * turns them into offsets. */
static void plan_input(planner *p, const ps_placed *at, int dy, ps_placed_input *input)
{
    bool passes = at->runs->passes_slope;
    bool over = goes_over(p, at, (uint32_t)(input - at->inputs), dy);
    int held, next;

    input->way = PS_SLOPE_NONE;
    if (input->from == PS_MODEL_INPUT || !p->model->layers[input->from].has_slope) {
        return;
    }
    held = p->of[input->from];
    if (held == NO_SLOT && (passes || over)) {
        p->slots[dy].users++;
        p->of[input->from] = dy;
        input->way = passes ? PS_SLOPE_SAME : PS_SLOPE_OVER;
        return;
    }
    next = take(p, ps_shape_size(&p->model->layers[input->from].plan.out));
    input->to = (size_t)next;
    input->way = PS_SLOPE_WRITE;
    if (held != NO_SLOT) {
        input->old = (size_t)held;
        input->way = passes ? PS_SLOPE_SUM : PS_SLOPE_ADD;
    }
    p->of[input->from] = next;
}

static void plan_layer(planner *p, size_t index)
{
    ps_placed *at = &p->model->layers[index];
    int dy = p->of[index];

    if (at->root != index || !at->has_slope) {
        return;
    }
    assert(dy != NO_SLOT);
    at->dy_at = (size_t)dy;
    for (uint32_t k = 0; k < at->input_count; k++) {
        plan_input(p, at, dy, &at->inputs[k]);
    }
    /* The slots of old sums are freed only now: the layer still reads them when it has written
     * its gradients. */
    for (uint32_t k = 0; k < at->input_count; k++) {
        ps_slope_way way = at->inputs[k].way;

        if (way == PS_SLOPE_ADD || way == PS_SLOPE_SUM) {
            leave(p, (int)at->inputs[k].old);
        }
    }
    leave(p, dy);
}

/* Reserves memory in the block for each slot, and replaces numbers of slots by offsets. */
static void place(planner *p)
{
    ps_model *model = p->model;

    for (size_t s = 0; s < p->slot_count; s++) {
        p->slots[s].at = ps_model_reserve(model, model->batch * p->slots[s].values);
    }
    for (size_t i = 0; i < model->layer_count; i++) {
        ps_placed *at = &model->layers[i];

        if (at->root != i || !at->has_slope) {
            continue;
        }
        at->dy_at = p->slots[at->dy_at].at;
        for (uint32_t k = 0; k < at->input_count; k++) {
            at->inputs[k].to = p->slots[at->inputs[k].to].at;
            at->inputs[k].old = p->slots[at->inputs[k].old].at;
        }
    }
}

void ps_model_plan_slopes(ps_model *model)
{
    /* Each input of each layer takes at most one slot, and the loss takes one. */
    size_t most = 1, count = model->layer_count;
    uint32_t last = model->layers[count - 1].root;
    planner p = {.model = model};

    if (last == PS_MODEL_INPUT || !model->layers[last].has_slope) {
        /* Nothing is trained, but the loss still writes its gradient. */
        model->dy_at = ps_model_reserve(
            model, model->batch * ps_shape_size(&model->layers[count - 1].plan.out));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        most += model->layers[i].input_count;
    }
    p.slots = ps_xcalloc(most, sizeof *p.slots);
    p.of = ps_xcalloc(count, sizeof *p.of);
    for (size_t i = 0; i < count; i++) {
        p.of[i] = NO_SLOT;
    }
    p.of[last] = take(&p, ps_shape_size(&model->layers[last].plan.out));
    for (size_t i = count; i-- > 0;) {
        plan_layer(&p, i);
    }
    place(&p);
    model->dy_at = model->layers[last].dy_at;
    free(p.of);
    free(p.slots);
}
