/* SPDX-License-Identifier: Apache-2.0 */
/* model_share.c - calls a layer's forward and backward. Layers that compute each sample by itself
 * are called once for each thread of the team, with a part of the samples. */
#include "common/nn/model_impl.h"

/* A call whose samples the threads share. */
typedef struct shared {
    const ps_layer_call *call;
    const ps_placed *at;
} shared;

static size_t in_of(const ps_placed *at, uint32_t k)
{
    return ps_shape_size(&at->plan.ins[k]);
}

static size_t out_of(const ps_placed *at)
{
    return ps_shape_size(&at->plan.out);
}

/* Returns the team, or NULL if the call has so few values that sharing it gains nothing. */
static ps_team *team_of(const ps_placed *at, const ps_layer_call *call)
{
    size_t values = out_of(at);

    for (uint32_t k = 0; k < at->plan.input_count; k++) {
        values = in_of(at, k) > values ? in_of(at, k) : values;
    }
    return ps_team_for(call->pass.team, call->n * values, PS_TEAM_VALUES);
}

/* Returns the call for samples [from, to). Shared tapes have the same number of values for each
 * sample. */
static ps_layer_call part_of(const shared *of, size_t from, size_t to)
{
    const ps_placed *at = of->at;
    ps_layer_call part = *of->call;

    for (uint32_t k = 0; k < at->plan.input_count; k++) {
        part.x[k] += from * in_of(at, k);
        part.dx[k] = part.dx[k] == NULL ? NULL : part.dx[k] + from * in_of(at, k);
    }
    part.y += from * out_of(at);
    part.dy = part.dy == NULL ? NULL : part.dy + from * out_of(at);
    part.tape += from * (at->plan.tape_floats / at->plan.batch);
    part.pass.first = from;
    part.n = to - from;
    return part;
}

static void forward(const ps_placed *at, const ps_layer_call *call)
{
    if (at->runs->forward_many != NULL) {
        at->runs->forward_many(&at->plan, call->x, call->y, call->n);
    } else {
        at->runs->forward(&at->plan, &call->pass, call->w, call->x[0], call->y, call->tape,
                          call->n);
    }
}

static void backward(const ps_placed *at, const ps_layer_call *call)
{
    if (at->runs->backward_many != NULL) {
        at->runs->backward_many(&at->plan, call->x, call->dy, call->dx, call->n);
    } else {
        at->runs->backward(&at->plan, &call->pass, call->w, call->x[0], call->y, call->tape,
                           call->dy, call->dw, call->dx[0], call->n);
    }
}

static void forward_part(void *arg, size_t from, size_t to)
{
    const shared *of = arg;
    ps_layer_call part = part_of(of, from, to);

    forward(of->at, &part);
}

static void backward_part(void *arg, size_t from, size_t to)
{
    const shared *of = arg;
    ps_layer_call part = part_of(of, from, to);

    backward(of->at, &part);
}

void ps_model_call_forward(const ps_placed *at, const ps_layer_call *call)
{
    shared of = {.call = call, .at = at};
    ps_team *team = at->runs->forward_by_sample ? team_of(at, call) : NULL;

    if (team == NULL) {
        forward(at, call);
    } else {
        ps_team_ranges(team, call->n, 1, forward_part, &of);
    }
}

void ps_model_call_backward(const ps_placed *at, const ps_layer_call *call)
{
    shared of = {.call = call, .at = at};
    ps_team *team = at->runs->backward_by_sample ? team_of(at, call) : NULL;

    if (team == NULL) {
        backward(at, call);
    } else {
        ps_team_ranges(team, call->n, 1, backward_part, &of);
    }
}
